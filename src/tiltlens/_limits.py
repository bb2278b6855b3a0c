"""Constants that several modules share, each with its unit and reason; others are defined next to their use.

Users choose settings by the arguments of `tiltlens.audit`; these are numbers that they need not know.
"""

from __future__ import annotations

# Reporting
SUPPRESSED_BELOW = 10  # people: smaller cells have no count, rate or mean, since they could identify a person
MINIMUM_ROWS = 10  # minimum number of rows of a group that is compared
MATERIALITY = 0.005  # default materiality threshold of probabilities: half a point
FOUR_FIFTHS = 0.8  # of the higher rate: a lower rate below it is flagged, 29 CFR 1607.4(D)
SMALLEST_EXPECTED = 5  # people expected in a cell of a 2×2 table, for a normal approximation: Cochran's rule
LISTED_VALUES = 30  # maximum number of values of a column in a message
DIAL_POSITIONS = 21  # on the weighting slider, from "align inputs" (0) to "align outputs" (1)
DISTRIBUTION_BINS = 40  # default number of bins for f~
SCORE_TENTHS = 10  # deciles of all scores in which outcomes are counted, as in the usual calibration table
FINE = 600  # bins of f~ for computing quantiles
FINE_REACH = 6.0  # |f~| at which these bins end

# Numerical tolerances
LARGEST = 1e100  # squares and products of larger numbers may overflow
EQUAL = 1e-13  # relative difference of probabilities that is due to rounding
SUM_ROUNDING = 1e-13  # relative difference of two sums that is due to rounding
NOISE = 1e-12  # absolute difference of probabilities or log-odds that is due to rounding
SMALLEST_SHARE = 1e-12  # outcome probabilities below this are set to 0
SCORE_ROUNDING = 1e-5  # allowed deviation of single-precision probabilities from 0, 1 and a sum of 1
EDGE_ROUNDING = 1e-9  # values this close below an edge are counted above it, so that rounding does not matter
EXACT_WHOLE = 2.0**53  # integers below this are exact as floats
SMALLEST_SE = 1e-9  # smaller standard errors are left out of the largest |t|
DAMPED_STEPS = 200  # maximum number of Newton steps on a convex dual, which takes about twenty

# Sizes of chunks
BATCH_ROWS = 1 << 18  # approximate number of rows of a batch
MOMENTS_CHUNK = 1 << 17  # rows per chunk, so that their columns stay in the cache while moments are computed
MODEL_CHUNK = 20_000  # rows for which model columns are computed at a time
FIRST_LOOK_ROWS = 100  # rows used to detect the separator of a CSV file and the forms of text columns
MOST_COUNTED = 32_768  # distinct values of a feature that are counted individually

# Estimates
FEWEST_KNOWN = 50  # people of each group with an outcome: models of it are fitted on four fifths of them
FOLDS = 5  # the four other folds form three pairings of two disjoint halves
OF_PAIRINGS = 15 / 4  # times the variance between the pairings of five folds is the variance of their mean
CLIP = 4.0  # upper bound on |ℓ|, by clipping
SEPARATED = 1e-9  # E[(S̄ − e)²] below which the features identify the group
HIDDEN = 0.05  # share of weight in values with too few rows, above which a feature is not estimated
CALIBRATED = 0.15  # tolerance for the slope of groups on their probabilities, and for the rarer group's share
WIDE_USE = 2.0  # materiality thresholds below which use along all columns must be, for a feature to be unused

# Encodings and learners
BASIS_KNOTS = 7  # of a cubic spline in the basis, enough for the usual curvature of a score
BASIS_LEVELS = 450  # columns of one categorical feature; rarer levels share the baseline
MULTIPLIED = 14  # maximum number of features with products as columns: 91 pairs
FEW_COLUMNS = 400  # of an encoding, beyond which only screened features bend, and few parts compare the candidates
REACH = 3.0  # standard deviations at which a standardised feature is clipped
KNOT_VALUES = 10  # up to this many distinct values of a number, each is a knot
MOST_TREE_LEVELS = 60  # more would not fit the trees' bins
MOST_PRODUCTS = 100  # products of two features, beyond which only squares become columns
FEWEST_ROWS = 10  # of a level with its own column
WEAK_RIDGE = 1e-4  # penalty: almost none, but enough for the fit to be defined
RIDGE = 1.0  # penalty: worth one row per column
START_PENALTY = 100.0  # rows: the ridge penalty to start with
ROWS_A_CELL = 5  # on average, for the values of a number to be treated as cells

# Score adjustments
FEW_REPAIRED = 100  # people of a group; with fewer, its gap varies by points from sample to sample
REPAIRED = 1e-10  # gap of scores that is treated as closed
SURELY_BEYOND = 3.0  # standard errors beyond the limit from which a gap is not due to chance

# learners.blocks
PAIR_CELLS, TRIPLE_CELLS = 8, 4  # per feature, when pairs and triples are screened
TRIPLED = 12  # maximum number of features whose triples are screened: 220 triples
HIDDEN_SPREAD = 0.002  # minimum effect of a block, in standard deviations of the score's residuals
TAIL = 2.5  # normal score beyond which splines of blocks are constant
FINE_CELLS, FINE_KNOTS = 32, 25  # of a single number: cells for screening, and knots of its spline
MOST_BLOCKS = 12  # maximum number of blocks that join a basis
BLOCK_COLUMNS = 450  # maximum number of columns of all blocks
PAIR_COLUMNS = 256  # maximum number of columns of one product of two features
LEAVES = 64  # of a tree on two numbers
LEAF_ROWS = 15  # minimum rows per leaf
NEAREST_ROWS = 8  # rows per cell of the finest grid on the features of a block

# learners.score_use
LARGEST_LOG_ODDS = 9.0  # of scores whose log-odds are regressed: 0.9999
CLEAR_USE = 0.9999  # confidence level at which ridge residuals suffice to show use; otherwise trees are fitted
JOINT_LOSS = 1.1  # times the mean square residual of ridges on all features, up to which features are left out together
LOST_FIT = 4.0  # times the same, beyond which the losses of ridges with and without a set decide on its use
SMALL_RESIDUAL = 3.0  # materiality thresholds: a ridge regression with a smaller residual needs no rival
MODIFIED_LINES = 3  # columns of a feature, with the largest variance, whose slopes may vary with other features
MODIFIERS = 12  # other features, the most used, with which the slopes may vary
VALUED_COLUMNS = 50  # of the modified columns, the first ones, along which the size of use is measured
MODIFIER_LEVELS = 5  # of a modifying feature that is a category, the most frequent ones
USE_TREE_ROWS = 8_000  # maximum number of rows of four folds for trees without some features
USE_TREES = {
    "max_iter": 200,
    "learning_rate": 0.15,
    "max_leaf_nodes": 16,
    "min_samples_leaf": 5,
    "max_bins": 255,
}
