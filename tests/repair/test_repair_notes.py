"""The wording of every note of repairs, evaluations, prices and alternatives."""

import pytest

from tiltlens import _notes as notes
from tiltlens._notes import EQUAL_DECISIONS, OUT_OF_REACH, Note

FACTORS = {"factors": "'skill'"}
AREA = {"auc": 0.5, "low": 0.48, "high": 0.52}
EXAMPLES = {
    "group needed": ({}, "the group of every new row is needed, and its use at prediction time may be regulated"),
    "group used to fit": ({}, "the group was used to fit the adjustment; new rows are adjusted without it"),
    "nothing to adjust": (
        {"gap": "the largest of 2 gaps", "size": -0.01},
        "nothing to adjust: the largest of 2 gaps is -0.0100, within the limit",
    ),
    "some outcomes": (
        {"known": 1200, "rows": 2000},
        "1200 of 2000 rows have an outcome; error rates use these only",
    ),
    "some costs": (
        {"known": 1000, "rows": 3000},
        "1,000 of 3,000 rows have an observed cost; models of costs use these only",
    ),
    "few people in a group": (
        {"people": 19.6, "error": 0.0512},
        "one group has only 20 people: on new data the gap may miss the limit by 0.051 or more",
    ),
    "fitted on a condition": (
        {"conditions": "'kind' = 'car'"},
        "fitted only on rows with 'kind' = 'car'; other rows are neither adjusted nor evaluated",
    ),
    "exempt factors held equal": (
        FACTORS,
        "the gap is closed among people with the same 'skill'; the part that these exempt factors explain stays",
    ),
    "exempt factors not held equal": (
        FACTORS,
        "error rates are compared among all people, not among people with the same values of the exempt factors "
        "'skill'",
    ),
    "duplicate counts once": (
        {},
        "1 row is a duplicate in every feature; rows with equal features count as one person",
    ),
    "duplicates count once": (
        {"rows": 1200},
        "1,200 rows are duplicates in every feature; rows with equal features count as one person",
    ),
    "nearly constant rule": (
        {"people": "fewer than 1% of people", "share": 0.3},
        "the new rule selects fewer than 1% of people (the audited one 30.0%)",
    ),
    "closed further": (
        {"gap": "the gap of 'a' against 'b'", "size": -1.04, "limit": 2.5},
        "the gap of 'a' against 'b' is closed further than the limit requires, to -1.0 points (limit 2.5): people "
        "with equal features get equal decisions, so the gap can change only in steps",
    ),
    "limit missed": (
        {"over": 0.00123, "error": 0.01, "reason": f"{EQUAL_DECISIONS}; or {OUT_OF_REACH}"},
        "the largest gap after the adjustment is 0.0012 beyond the limit on the audited rows (standard error 0.0100): "
        "people with equal features get equal decisions, so the gap can change only in steps; or closing it exactly "
        "would take more than twice the change, or is impossible",
    ),
    "gap not significant": (
        {"gap": 1.25, "error": 0.98},
        "the gap before, +1.2 points (standard error 1.0), is not significantly beyond the limit, so the adjustment "
        "may follow chance",
    ),
    "useless decisions": (
        AREA,
        "after the adjustment the AUC is 0.500 (95% CI 0.480 to 0.520). A constant score also meets this limit, and "
        "predicts no worse",
    ),
    "useless scores": (
        AREA | {"loss": 0.7, "constant": 0.69312},
        "after the adjustment the AUC is 0.500 (95% CI 0.480 to 0.520) and the log loss 0.7000 (a constant score: "
        "0.6931). A constant score also meets this limit, and predicts no worse",
    ),
    "not calibrated": (
        {"score": 0.256, "observed": 0.4},
        "the scores are not calibrated: where they average 0.26, 40% have the outcome. Recalibrate them first, or a "
        "more accurate rule may exist",
    ),
    "condition not met": (
        {"outside": 1300, "rows": 2000, "conditions": "'kind' = 'car'", "treatment": "they keep their scores"},
        "1,300 of 2,000 rows do not meet the condition 'kind' = 'car'; they keep their scores",
    ),
    "condition not checked": (
        {"conditions": "'kind' = 'car'"},
        "the condition 'kind' = 'car' cannot be checked because the column is missing; all rows are assumed to meet it",
    ),
    "gap regained": (
        {"gap": "the gap of 'a' against 'b'", "new": -7.25, "old": 0.04},
        "by the group-membership model, the gap of 'a' against 'b' after adjustment is -7.2 points on these rows and "
        "+0.0 on the audited ones. Check units, missing-value codes, and that scores are probabilities of the same "
        "outcome",
    ),
    "beyond the audited range": (
        {"count": 1100, "rows": 2000, "feature": "'income'", "low": 10.5, "high": 90.0},
        "1,100 of 2,000 rows have a value of 'income' beyond the audited range, 10.5 to 90. Check its unit and its "
        "codes for missing values",
    ),
    "unseen values": (
        {"count": 18, "rows": 200, "feature": "'area'", "model": "model of costs"},
        "18 of 200 rows have a value of 'area' that the model of costs has not learnt (new, rare, missing or "
        "infinite); they are adjusted like the most common value, or like other rare ones",
    ),
    "rows not checked": (
        {"column": "'income'"},
        "cannot check whether rows were audited without the column 'income'",
    ),
    "repeated held-out rows": (
        {"rows": 1600},
        "1,600 rows equal another one in every feature and count as separate people. If they are not, pass "
        "`clusters`; otherwise intervals are too narrow",
    ),
    "audited row": ({}, "1 held-out row duplicates audited rows; check for leakage"),
    "audited rows": ({"rows": 1030}, "1,030 held-out rows duplicate audited rows; check for leakage"),
    "rows without outcome": (
        {"missing": 100, "rows": 1600},
        "100 of 1,600 rows have no outcome: only quantities that need no outcome use them",
    ),
    "few people with an outcome": (
        {"minimum": 10},
        "in one group fewer than 10 people have one of the outcomes: error rates and the area under the curve are "
        "suppressed for so few",
    ),
    "scores are decisions": (
        {},
        "the scores are decisions, so both kinds of error cost the same unless you pass `threshold`",
    ),
    "alternatives ignore exempt factors": ({}, "the exempt factors of the audit are not held equal"),
    "what-ifs need the model": (
        {},
        "what-ifs for single features need the model: pass it as model= (--model) instead of scores",
    ),
    "what-if refused": (
        {"feature": "town", "what_if": "neutralised", "error": "nobody lives there"},
        "town could not be neutralised: nobody lives there",
    ),
    "sampled what-ifs": ({"rows": 20_000}, "what-ifs are evaluated on 20,000 of the rows"),
    "no what-if": ({}, "no what-if of a single feature significantly reduces the gap of decisions"),
    "strongest what-if": (
        {"feature": "z", "what_if": "coarsened", "low": 1.04, "high": 2.5, "least": -0.31, "most": 0.2},
        "with z coarsened, the gap in decision rates is 1.0 to 2.5 points smaller, and the change in accuracy is -0.3 "
        "to 0.2 points",
    ),
}


@pytest.mark.parametrize("code", EXAMPLES)
def test_a_note_has_its_wording(code):
    values, sentence = EXAMPLES[code]
    assert Note(code, **values) == sentence


def test_every_note_has_an_example():
    assert EXAMPLES.keys() == (notes._REPAIRS | notes._NEW_ROWS | notes._ALTERNATIVES).keys()
