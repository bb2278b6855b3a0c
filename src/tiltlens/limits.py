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
USE_TREE_ROWS = 8_000  # of four folds, at most, that trees without some features learn from
USE_TREES = {
    "max_iter": 200,
    "learning_rate": 0.15,
    "max_leaf_nodes": 16,
    "min_samples_leaf": 5,
    "max_bins": 255,
}
<<<<<<< HEAD
=======
# models.outcomes
FEW_LISTED = 6  # values of an outcome in a message: more tell nothing more

# models.periods
MOST_PERIODS = 60  # five years of months: more cannot be told apart in a picture

# models.asked
ASKED_AGAIN = 500  # rows that a model is asked about twice: a term of the group in one row of a hundred shows
SAME_ANSWERS = 1e-3  # mean difference, in points or sd, below which answers are equal: rounding may turn a decision
# models.roles
MOST_FEATURES = 500  # of an audit: with 20,000 rows minutes and 3 GiB; the regressions have room for a column of each
# models.scores
TENTHS, PER_CENT = 10.0, 100.0  # the largest score out of ten, and in per cent
SCORE_ROUNDING = 1e-5  # single-precision probabilities miss 0, 1 and a sum of 1 by less

# models.screening
SURVIVAL = 4.0  # standard deviations by which n·R² of a feature must exceed what chance gives

# models.smooth
SMOOTH_ROWS = 50_000  # at most, for one fit
SMOOTH_RIDGE = 1e-6  # of a column's variance: the splines stay defined where they are collinear

# models.values
MOST_PLACES = 1 << 20  # of values in groups that are counted by their place

# models.soft_groups
SMALLEST_CHANCE = 1e-6  # of a group: below it a row counts as none of it
CHANCE_ROUNDING = 0.01  # by which rounded probabilities of groups may exceed a sum of 1

# models.weights
MOST_UNEQUAL = 1e9  # weights: beyond this the smaller ones are lost in the rounding of the sums

# passes.compared
CONTINUOUS = 0.5  # distinct numbers for each distinct row, from which equal rows are no accident

# passes.fitting
SHOWN_ROWS = 20_000  # whose influence tells a standard error: its spread is then known to one per cent
WIDE_FEATURES = 50  # for each so many features, fewer rows are shown: there are so many more sets
FEWEST_SHOWN = 5_000  # rows: a standard error is then known to two per cent
MOST_CELL_FEATURES = 10  # whose every set is looked at by joint values: 2^10
CELL_SET_ROWS = 5  # of the smaller group, on average, for joint values to be regressed on by their means
GRAM_WORK = 4e10  # products that Gram matrices may take: rows × columns²

# passes.survey
FEW_COPIES = 1e-4  # of a batch's rows: with more, rows that occur once in it will occur in others too
LISTED_VALUES = 30  # values of a `where` column that a message may list

# repair.membership
LOOKED_UP = 1 << 15  # rows whose log-odds are made at a time: what they need stays in the cache

# repair.alternatives
FEWEST_KNOWN = 50  # people of each group whose outcome is known: rules are fitted on four fifths of them
TRADED_RULES = 41  # from one end of the trade between accuracy and gap to the other

# repair.what_ifs
WHAT_IF_ROWS = 20_000  # that the model is asked about: a standard error is then a point at most
WHAT_IF_VALUES = 32  # of a feature that outputs are averaged over: each is a prediction of all those rows
WHAT_IF_BINS = 4  # of a coarsened number: quartiles
RARE_LEVEL = 0.05  # of the people, below which a level of a coarsened category is rare

# repair.evaluation
EVALUATION_STEPS = 11  # from no repair to the whole of it

# repair.solve and repair.notes
MIN_IDENTICAL_PEOPLE = 10  # with equal features: a membership model of so many hardly depends on one of them
FEW_DECIDED = 0.01  # share of people: a rule that decides fewer otherwise than the rest hardly decides
FEW_REPAIRED = 100  # people of a group that a difference is of: of fewer, chance moves it by points

# repair.row_checks, of new rows
UNLIKE = 0.5  # of the gap that a repair closed: where so much of it is back, rows are unlike the audited ones
LOOKED_ROWS = 10_000  # of a Spark table that are looked at before it is repaired: the rest is computed later

# repair.notes
SURELY_OFF = 0.9999  # confidence of each of ten intervals of outcomes: together 0.999

# repair.row_checks, of duplicates
MIXED_DUPLICATES = 0.1  # of the disagreement of different people: with more, rows with equal features are no duplicates
MORE_ALIKE = 2.0  # times as many matches with audited rows as expected by chance: these people were audited

# repair.least_change
LARGEST_MULTIPLIER = 50.0  # of a tilt: beyond it no score is left between 0 and 1
ONE_JUMP = 1e-9  # relative: multipliers at which people change over together, but for rounding
REPAIRED = 1e-10  # of a score: a gap no larger is closed
MOST_CHANGE = 2.0  # times the change that would do if chances were right: beyond it own groups' means chase chance
SURELY_BEYOND = 3.0  # standard errors by which a difference is beyond its limit, not by chance
SWEEPS = 20  # of all constraints, one by one: two or three do, unless no tilt meets them all
WIDEST_DECISION = 0.1  # of a score: over how much of it decisions are blurred at first
DECISION_WIDTHS = 12  # each a third of the one before: less than a score is told apart by at the end
FEW_UNDECIDED = 2.0  # Σ of W'(1 − W'): blurred decisions of so few rows are decisions

# results.bins
DIAL_POSITIONS = 21  # of the dial, from "align inputs" (0) to "align outputs" (1)
CALIBRATION_BINS = 10  # of the log-ratio, equally full
VALUE_BINS = 80  # of f~ from −4 to 4 for one value of a feature

# results.carried
SHAPLEY_AGREED = 3.0  # standard errors within which Shapley values must add up to the gap minus the adjusted gap
WIDE_BANDS = 10.0  # times what counts: bands that reach further say nothing

# results.correction_shares
POOLED_AUDITED = 0.1  # of the audited people, whose values were joined, from which a feature has no share

# results.compare
FEW_PEOPLE = 30  # that weights are worth, below which no interval can be relied on
# results.comparison
MISMATCHES = 20  # of the balance, that a summary lists

# results.counting
SCORE_BINS = 20  # from 0 to 1; of amounts at most, from one per cent of people to the last
FINE = 600  # bins of f~ that quantiles are read from
FINE_REACH = 6.0  # of f~, where these bins end
CORRECTION_BINS = 40  # of f~ from −4 to 4, the ends open
RATIO_BINS = 32  # of log-ratios from −4 to 4
MOVING_VALUES = 600  # feature values with distributions of their own, which follow the dial: the page must stay small
EDGE_ROUNDING = 1e-9  # values no further below an edge than this are above it: rounding decides nothing

# results.disclosure
SUPPRESSED_BELOW = 10  # people: of fewer, nothing is told that could pick one out
# results.error_rates
SCORE_TENTHS = 10  # deciles of all scores, in which outcomes are counted: the usual table of calibration
# results.partners
SYNERGY = 0.02  # of the correction, that two features carry together and not alone
PARTNER_SURE = 4.0  # standard errors; many pairs are looked at
REDUNDANT = 1.02  # times what one of two copies carries, at most, is what both carry

# results.profiles
DISTRIBUTION_BINS = 40  # of f~, by default
TIED = 1e-9  # corrections, and shares of people, no further apart are equal up to rounding

# analysis.contributions
MOST_CROSSED = 40  # features whose pairs are all looked at
PARTNER_ROWS = 20_000  # from which partners are found

# results.saved
SAVED_SLACK = 1e-6  # of a number, up to which two that should be equal are: an edited file differs by more

# results.settings
MATERIALITY = 0.005  # points of probabilities that matter, unless the user says otherwise
AMOUNT_MATERIALITY = 0.02  # standard deviations of amounts: a tenth of what is called a small effect (Cohen's d of 0.2)
LARGEST_SEED = 2**32 - 1  # of scikit-learn's
FEWEST_SAMPLED = 1_000  # rows: models are fitted on two fifths of them
# results.use
MOST_USES = 20  # features whose use is measured, the strongest first: each may need fits of its own
MOST_STOOD_FOR = 3  # features that a stand-in is said to stand for
SAME_OUTPUT = 1e-6  # of a score, within which a model's outputs are equal: single precision
# analysis.decision_table
FOUR_FIFTHS = 0.8  # of the higher rate, below which the lower is pointed out: 29 CFR 1607.4(D)
# analysis.adjusted_gap
CHECK_SURE = 3.0  # standard errors

# rules.tally
MOST_TALLIED = 2_000_000  # kinds of people that are counted: more are keys, and fill the memory
>>>>>>> compact2
