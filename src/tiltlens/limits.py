"""Every threshold once, with its unit and the reason for it.

What users may choose is an argument of `tiltlens.audit`; these are the numbers they need not know.
"""

from __future__ import annotations

# threads
MOST_THREADS = 8  # a hundred cores would hold a hundred batches of rows
THREADED_ROWS = 20_000  # below which threads wait for the interpreter more than they work

# paper.checks
SUM_TOLERANCE = 1e-8  # by which probabilities may miss a sum of 1
SINGLE_TOLERANCE = 1e-5  # for numbers that came in single precision
LARGEST = 1e100  # squares and products of anything larger may overflow
SMALLEST_PROBABILITY = 1e-300  # anything smaller overflows in a ratio and counts as zero

# paper.conjugate
NEWTON_STEPS = 100  # of a one-dimensional root, which takes ten
# paper.divergence
EQUAL = 1e-13  # probabilities this close, relatively, differ by rounding only

# paper.exponents
LARGEST_SAMPLE = 1_000_000  # decisions: more than anybody can wait for
# paper.moments
MOMENTS_CHUNK = 1 << 17  # rows whose columns stay in the cache while they are centred and multiplied
FAR = 100.0  # squared distance of pivot and mean, in variances, beyond which digits are lost

# paper.newton
DAMPED_STEPS = 200  # of Newton on a convex dual, which takes twenty
HALVINGS = 60  # of a step: 2^-60 of it is no step
ARMIJO = 1e-4  # part of the expected fall that a step must bring
# paper.path
OPTIMALITY = 1e-7  # largest gap to the dual bound that counts as solved, relative to the sum of the weights
NO_MASS = 1e-7  # of an atom outside every weighted distribution, that is only its floor

# paper.world
MEAN_TOLERANCE = 1e-9  # by which the mean of a perturbation may miss 0
# estimators.cells
CODES_A_ROW = 8  # values that may be counted for each row, rather than sorted
COUNTED_CODES = 1 << 16  # values that may be counted however few rows have them

# estimators.crossfit
CLIP = 4.0  # |ℓ| beyond this is set to it
DISAGREEMENT_ROWS = 50_000  # audited rows, at most, at which models are compared

# estimators.estimate
NOISE = 1e-12  # what is smaller, of probabilities and log-odds, is rounding
ROUNDED_SQUARE = 1e-16  # and of their squares, which are differences of sums

# estimators.feature_gap
SUM_ROUNDING = 1e-13  # of a sum, below which a difference of sums is no difference
SEPARATED = 1e-9  # of E[(S̄ − e)²]: below it the features tell the group completely
SEEN_ROWS = 3.0  # effective rows of a value, below which the difference within it cannot be seen
REPEATED_ROWS = 10.0  # effective rows of a number, below which curves know more of it than its own rows
HIDDEN = 0.05  # of all weight in such values, from which a feature has too many of them

# estimators.influence
FEWEST_DEGREES = 4.0  # of freedom that a standard error is taken to have

# estimators.outputs
SMALLEST_SHARE = 1e-12  # outcome probabilities below this are taken as 0
PERMUTED_ROWS = 5_000  # beyond this many rows the permutation law is its normal limit to three digits

# estimators.penalties
START_PENALTY = 100.0  # rows: a ridge penalty to begin with
LEAST_PENALTY = 0.1  # rows: the regression stays defined
MOST_PENALTY = 1e6  # variances of a column: it is as good as left out
ALONE_ROUNDS = 10  # steps of the fixed point of one block
TOGETHER_ROUNDS = 3  # of all blocks: what moves later is below what is seen
UNDERSMOOTHED = 0.25  # of the penalty with the largest evidence: cross-fitting forgives variance, not bias

# estimators.ridges
FOLDS = 5  # the other four make three pairings of two disjoint halves
# estimators.sets
OF_PAIRINGS = 15 / 4  # times the variance between the pairings of five folds is that of their mean
SET_BLOCK = 32  # sets whose rows are looked at together

# estimators.shapley
EXACT_SHAPLEY_FEATURES = 8  # features: 2^8 sets
ORDERS = 24  # of the features, where they are more
MANY_SHARING = 40  # features, beyond which the influence of rows is worked out along fewer orders
FEWEST_ORDERS = 8  # of those
SHAPLEY_ROWS = 4_000  # whose influence is worked out in every order: a standard error is then known to two per cent

# estimators.decision_table
SMALLEST_EXPECTED = 5  # people in a cell of a 2×2 table, below which a normal law is not relied on: Cochran's rule
# estimators.soft_groups
CALIBRATED = 0.15  # of the slope of groups on their probabilities, and of the rarer group's share, that they may be off
CHANCE_BINS = 20  # of probabilities that are taken for equal
CHANCE_BIN_ROWS = 100  # of each, at least: a quantile is found in it
LEAST_SEEN = 0.1  # of a difference between people alike in all features, that probabilities of groups must show of it

# estimators.use
DISTINCT_VARIANCE = 1e-3  # of a standardised column given all other features, below which it is taken for a copy
FEWEST_PROJECTED = 50  # effective rows that a column must rest on for its covariance with residuals to be normal
WIDE_USE = 2.0  # thresholds: the upper end of use along all columns must not exceed it for a feature to be unused

# estimators.verdicts
DRAWS = 40_000  # of the largest |t|: its quantile is then known to about 0.01
SMALLEST_SE = 1e-9  # points: what is surer than this has no part in the largest |t|
SETTLED = 1.28  # standard errors that four of five estimates are within
MOST_TIMES = 100  # the rows that there are: more will hardly be brought to settle a verdict

# engines.arrays
MOST_COUNTED_EDGES = 64  # that are counted one by one, faster than any search
COUNTED_ROWS = 1 << 14  # for which edges are counted at a time
PIVOT_STRIDE = 64  # every 64th row of a chunk is enough to know about where it lies

# engines.batches
BATCH_ROWS = 1 << 18  # rows of a batch, about

# engines.factorize
MOST_COUNTED = 32_768  # distinct values of a feature that are counted one by one
EXACT_WHOLE = 2.0**53  # whole numbers that a float can tell apart
MOST_BITS = 16  # of a hash that make its slot: the table stays in the cache
FIRST_ROWS = 1 << 14  # rows in which most texts are found
FACTORIZE_CHUNK = 1 << 15  # rows whose codes are found at a time

# commands.audit_file
AUDIT_FILE_BYTES = 1_000_000  # of a file of keys and values: a larger one is data by mistake
AUDIT_FILE_DEPTH = 10  # lists and keys within each other: audits need three, and parsers take long for thousands

# engines.csv_text
FIRST_LOOK_ROWS = 100  # rows that show the separator of a CSV file, and the forms that text columns may have
COPIED_CHARACTERS = 1 << 20  # of a text in another encoding, that are copied at a time

# engines.text_columns
MOSTLY_NUMBERS = 0.9  # share of a text column's values from which it was meant to be numbers, or dates

# engines.hashing
CACHE_CHUNK = 1 << 16  # rows that are hashed at a time: they stay in the cache

# engines.messages
SHOWN_CHARACTERS = 60  # of a value in a message: it stays on its line
SHOWN_NAMES = 20  # in a message, before "and 12 more"
# engines.spark
MERGERS = 4  # workers that add up the sums of all partitions

# models.amounts
AMOUNT_BINS = 10  # of the pooled amounts, equally full: the channel of what is said of distributions
AMOUNT_ROUNDING = 4 * 2.0**-52  # of an amount: four steps of the last digit that a float has
CENTRED = 1024.0  # scales from 0, within which the mean of amounts needs no centre: squares keep ten digits

# models.balance
BALANCE_MATERIAL = 0.1  # standard deviations, the usual bound of a covariate balance
BALANCE_SURE = 3.0  # standard errors; many means are compared
PARTS_DISAGREE = 0.2  # of the parts of the data, that want another kind of model
CLEAR_LEAD = 0.005  # nats a row; smaller leads change hands by chance

# models.basis
BASIS_KNOTS = 7  # of a cubic spline in the basis: bends that a score usually has
MOST_COLUMNS = 600  # of the basis: a Gram matrix takes their square for each row
BASIS_LEVELS = 450  # columns of one categorical feature; rarer levels share the baseline
MULTIPLIED = 14  # features whose products are columns, at most: 91 pairs
POOLED_SHARE = 0.05  # of the people, whose values share the baseline, from which a regression does not know the feature
ROWS_A_VALUE = 10  # of a part, on average, for a ridge regression to know the mean of each value of a feature
FEW_VALUED = 20  # values, up to which a feature is known however few rows there are
MODEL_CHUNK = 20_000  # rows whose columns are made at a time

FEW_COLUMNS = 400  # of an encoding, beyond which only screened features bend, and few parts try the candidates
SMOOTH_FEATURES = 25  # of many, that bend in a regression of the score, or are given to its trees

# models.binning
EDGE_ERROR = 0.05  # of the narrower bin beside it, by which an edge may be rounded
WEIGHT_ROUNDING = 1e-9  # of a sum of weights

# models.blocks
PAIR_CELLS, TRIPLE_CELLS = 8, 4  # of each feature, in which pairs and triples are looked at
TRIPLED = 12  # features, at most, of which three are looked at together: 220 triples
ROWS_A_CELL = 5  # on average, for the values of a number to be looked at one by one
BLOCK_SURE = 4.0  # standard errors by which cells must hide something to become columns; hundreds are looked at
HIDDEN_SPREAD = 0.002  # standard deviations of the score's residuals, that they must hide
TAIL = 2.5  # in normal scores, beyond which splines of blocks are level
FINE_CELLS, FINE_KNOTS = 32, 25  # of a single number, in which it is looked at, and of the spline that it then has
MOST_BLOCKS = 12  # that join a basis
BLOCK_COLUMNS = 450  # of all of them
PAIR_COLUMNS = 256  # of one product of two features
LEAVES = 64  # of a tree on two numbers
LEAF_ROWS = 15  # of each, at least
NEAREST_ROWS = 8  # of a cell, in which features that have a block are looked at together

# models.candidates
WEAK_RIDGE = 1e-4  # penalty: as good as none, but the fit stays defined
RIDGE = 1.0  # penalty: worth one row a column
CHOICE_SPLITS = 3  # of a part, two to fit and one to test
CHOICE_ROWS = 40_000  # of a part, at most, that the choice looks at
SPLIT_ONCE = 20_000  # rows from which one split of them is enough
TREE_OPTIMISM = 10.0  # measured on known truths: see `trial`
ROWS_PER_DEGREE = 5  # of the smaller group, for each coefficient left unpenalised

# models.design
REACH = 3.0  # standard deviations after which a numeric feature is held
KNOTS = 5  # of a cubic spline in a membership model
KNOT_VALUES = 10  # of a numeric feature, each of which is a knot
KNOT_ROWS = 100  # that are no spike, for each knot of a spline beside a spike
GRID = 128  # steps between two knots at which the splines are tabulated
MODEL_LEVELS = 300  # columns of one categorical feature; rarer levels share the baseline
MOST_TREE_LEVELS = 60  # more would not fit into the trees' bins
MOST_PRODUCTS = 100  # of two features, beyond which only squares are columns
ENCODED_ROWS = 50_000  # from which means, knots and levels are learnt to three digits
FEWEST_ROWS = 10  # of a level that has its own column
SPIKE_SHARE = 0.05  # of the rows that have one and the same number, from which it has an indicator of its own

# models.features
FEWEST_AUDITED = 5  # audited rows of a level in each fold; singletons vanish from the leave-one-out sums

FIRST_LOOK = 2_000  # rows that usually show that the groups share the values of a feature
MOST_TURNS = 4  # of the groups along the values of a feature, for it to be bands of them

# models.groups
MINIMUM_ROWS = 10  # of a group: of fewer nothing is said
# models.leakage
RANKED_ROWS = 5_000  # that tell whether a feature repeats the score: ranks of more take longer and say the same
REPEATED_R2 = 0.99  # of the score by one feature, above which it is the score or what was made from it
REPEATED_RANKS = 0.999  # the same of the rank correlation
REPEATED_IDS = 0.95  # distinct values a row, below which an identifier repeats by no accident
FEWEST_APART = 10  # rows that differ from the most frequent value: the order of fewer is chance

# models.levels
FEATURE_BINS = 10  # of a numeric feature, in pictures
LEVELLED_NUMBERS = 20  # distinct numbers that stay levels of their own
SHOWN_LEVELS = 50  # of a category that have a name of their own in pictures and models
LONGEST_LABEL = 80  # characters
IDENTIFIER_SHARE = 0.95  # distinct texts per known row
FEWEST_TEXTS = 20  # rows below which distinct texts prove nothing
MANY_NUMBERS = 1000  # rows at which distinct whole numbers are no accident

# models.logit
LOGIT_ITERATIONS = 60  # of Newton, which takes ten
LOGIT_DECREMENT = 1e-7  # of the mean log-loss

# learners.propensity
SEVERAL_PAIRINGS = 20_000  # rows up to which three pairings are averaged
FITTED_ROWS = 15_000  # of each fold, at most, that a model is fitted on
TRIED_PARTS = 2  # parts that try the candidates where rows are many, and one part is as good as another

# models.paper_fit
POLISHING_STEPS = 4  # of Newton after a solver that stops at five digits
LARGEST_STEP = 0.1  # of a coefficient while polishing: beyond it there is no point to polish
# models.regressions
REGRESSED_ROWS = 30_000  # at most, for one fit
SMALLEST_SHRINKAGE = 0.01  # rows' worth of doubt about a cell's mean, at least
LARGEST_SHRINKAGE = 1e6  # and at most
FEW_JOINT_VALUES = 64  # of a feature, for its joint cells to be few
TREE_BINS = 62  # of a numeric feature, for trees on what a ridge regression leaves
PEEKED_ROWS = 5_000  # that tell whether a feature has few values
CELL_MEAN_ROWS = 10  # for each joint cell, on average, for cell means to be used
# models.use
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

# repair.additive
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

# repair.problem and repair.notes
MIN_IDENTICAL_PEOPLE = 10  # with equal features: a membership model of so many hardly depends on one of them
FEW_DECIDED = 0.01  # share of people: a rule that decides fewer otherwise than the rest hardly decides
FEW_REPAIRED = 100  # people of a group that a difference is of: of fewer, chance moves it by points

# repair.new_rows
UNLIKE = 0.5  # of the gap that a repair closed: where so much of it is back, rows are unlike the audited ones
LOOKED_ROWS = 10_000  # of a Spark table that are looked at before it is repaired: the rest is computed later

# repair.notes
SURELY_OFF = 0.9999  # confidence of each of ten intervals of outcomes: together 0.999

# repair.duplicates
MIXED_DUPLICATES = 0.1  # of the disagreement of different people: with more, rows with equal features are no duplicates
MORE_ALIKE = 2.0  # times as many matches with audited rows as expected by chance: these people were audited

# repair.multipliers
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
