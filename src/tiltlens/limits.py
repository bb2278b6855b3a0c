"""Thresholds that several modules share, each with its unit and reason; the others are defined beside their use.

What users may choose is an argument of `tiltlens.audit`; these are the numbers they need not know.
"""

from __future__ import annotations

# What is reported
SUPPRESSED_BELOW = 10  # people: smaller cells have no count, rate or mean, since they could identify a person
MINIMUM_ROWS = 10  # rows of a group that is compared
MATERIALITY = 0.005  # materiality threshold of probabilities by default: half a point
FOUR_FIFTHS = 0.8  # of the higher rate: a lower rate below it is pointed out, 29 CFR 1607.4(D)
SMALLEST_EXPECTED = 5  # people expected in a cell of a 2×2 table, for a normal approximation: Cochran's rule
LISTED_VALUES = 30  # values of a column that a message lists at most
DIAL_POSITIONS = 21  # of the dial, from "align inputs" (0) to "align outputs" (1)
DISTRIBUTION_BINS = 40  # of f~ by default
SCORE_TENTHS = 10  # deciles of all scores, in which outcomes are counted: the usual table of calibration
FINE = 600  # bins of f~ that quantiles are read from
FINE_REACH = 6.0  # |f~| at which these bins end

# Numerical tolerances
LARGEST = 1e100  # squares and products of larger numbers may overflow
EQUAL = 1e-13  # relative difference of probabilities that is rounding
SUM_ROUNDING = 1e-13  # relative difference of two sums that is rounding
NOISE = 1e-12  # absolute difference of probabilities or log-odds that is rounding
SMALLEST_SHARE = 1e-12  # outcome probabilities below this are taken as 0
SCORE_ROUNDING = 1e-5  # by which single-precision probabilities may miss 0, 1 and a sum of 1
EDGE_ROUNDING = 1e-9  # values this close below an edge of a bin are above it, so that rounding decides nothing
EXACT_WHOLE = 2.0**53  # integers below this are exact as floats
SMALLEST_SE = 1e-9  # standard errors, in points, below this have no part in the largest |t|
DAMPED_STEPS = 200  # of Newton on a convex dual, which takes twenty

# Sizes of pieces of work
BATCH_ROWS = 1 << 18  # rows of a batch, about
MOMENTS_CHUNK = 1 << 17  # rows whose columns stay in the cache while they are centred and multiplied
MODEL_CHUNK = 20_000  # rows whose model columns are made at a time
FIRST_LOOK_ROWS = 100  # rows that show the separator of a CSV file, and the forms that text columns may have
MOST_COUNTED = 32_768  # distinct values of a feature that are counted one by one

# Estimates
FEWEST_KNOWN = 50  # people of each group whose outcome is known: models of it are fitted on four fifths of them
FOLDS = 5  # the other four make three pairings of two disjoint halves
OF_PAIRINGS = 15 / 4  # times the variance between the pairings of five folds is the variance of their mean
CLIP = 4.0  # |ℓ| is at most this
SEPARATED = 1e-9  # E[(S̄ − e)²] below which the features identify the group
HIDDEN = 0.05  # share of weight in values with too few rows, from which a feature cannot be estimated
CALIBRATED = 0.15  # by which the slope of groups on their probabilities, and the rarer group's share, may be off
WIDE_USE = 2.0  # materiality thresholds: use along all columns must stay below for a feature to be unused

# Encodings and learners
BASIS_KNOTS = 7  # of a cubic spline in the basis: bends that a score usually has
BASIS_LEVELS = 450  # columns of one categorical feature; rarer levels share the baseline
MULTIPLIED = 14  # features whose products are columns, at most: 91 pairs
FEW_COLUMNS = 400  # of an encoding, beyond which only screened features bend, and few parts try the candidates
REACH = 3.0  # standard deviations at which a standardised feature is clipped
KNOT_VALUES = 10  # distinct values of a number up to which each is a knot
MOST_TREE_LEVELS = 60  # more would not fit into the trees' bins
MOST_PRODUCTS = 100  # of two features, beyond which only squares are columns
FEWEST_ROWS = 10  # of a level that has its own column
WEAK_RIDGE = 1e-4  # penalty: almost none, but the fit stays defined
RIDGE = 1.0  # penalty: worth one row per column
START_PENALTY = 100.0  # rows: a ridge penalty to begin with
ROWS_A_CELL = 5  # on average, for the values of a number to be looked at one by one

# Score adjustments
FEW_REPAIRED = 100  # people of a group: with fewer, chance moves its gap by points
REPAIRED = 1e-10  # gap of scores that counts as closed
SURELY_BEYOND = 3.0  # standard errors by which a gap is beyond its limit, not by chance

# learners.blocks
PAIR_CELLS, TRIPLE_CELLS = 8, 4  # of each feature, in which pairs and triples are looked at
TRIPLED = 12  # features, at most, of which three are looked at together: 220 triples
HIDDEN_SPREAD = 0.002  # standard deviations of the score's residuals, that they must hide
TAIL = 2.5  # in normal scores, beyond which splines of blocks are level
FINE_CELLS, FINE_KNOTS = 32, 25  # of a single number, in which it is looked at, and of the spline that it then has
MOST_BLOCKS = 12  # that join a basis
BLOCK_COLUMNS = 450  # of all of them
PAIR_COLUMNS = 256  # of one product of two features
LEAVES = 64  # of a tree on two numbers
LEAF_ROWS = 15  # of each, at least
NEAREST_ROWS = 8  # of a cell, in which features that have a block are looked at together

# learners.score_use
LARGEST_LOG_ODDS = 9.0  # of a score whose log-odds are regressed: 0.9999
CLEAR_USE = 0.9999  # confidence at which ridge residuals alone show use: others are looked at with trees
JOINT_LOSS = 1.1  # of the mean square that ridge regressions leave, up to which features are left out together
LOST_FIT = 4.0  # times what ridges on all features leave: a set is used if every regression without it leaves more
SMALL_RESIDUAL = 3.0  # thresholds: a ridge regression that leaves no more of the score needs no rival
MODIFIED_LINES = 3  # columns of a feature, those that vary most, whose slopes may differ with other features
MODIFIERS = 12  # other features, the most used, with which they may differ
VALUED_COLUMNS = 50  # of these, with the most used features, along which the value of use is measured
MODIFIER_LEVELS = 5  # of such a feature that is a category, the most frequent
USE_TREE_ROWS = 8_000  # of four folds, at most, that trees without some features learn from
USE_TREES = {
    "max_iter": 200,
    "learning_rate": 0.15,
    "max_leaf_nodes": 16,
    "min_samples_leaf": 5,
    "max_bins": 255,
}
