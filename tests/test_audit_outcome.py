"""True outcomes beside scores: error rates of both groups, and the audit of one of them."""

import json

import jsonschema
import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, roc_auc_score
from tests.command import invoked
from tests.people import ONE_OF_EACH_KIND, assert_same_numbers, audited, lending, note_codes, people
from tests.render.summaries import typed
from tests.schemas import SCHEMA, strict

import tiltlens as tl
from tiltlens._documents.sentences import RATES_DO_NOT_SHOW
from tiltlens._formats import points
from tiltlens._render.page import page
from tiltlens._render.terminal import result_text
from tiltlens._results.codec import to_plain
from tiltlens.errors import DataError

QUANTITIES = ("fpr", "fnr", "calibration", "auc")


def borrowers(rows=400, seed=5):
    """Return people who repaid or did not, more often than their score says among the audited."""
    frame = people(rows)
    chance = 0.1 + 0.75 * frame["score"].to_numpy() + 0.1 * (frame["group"] == "A").to_numpy()
    repaid = (np.random.default_rng(seed).random(rows) < chance).astype(int)
    return frame.with_columns(repaid=pl.Series(repaid))


def rates(data, **options):
    """Return the error rates of an audit of outputs alone."""
    return audited(data, **{"features": [], "outcome": "repaid"} | options)["A"].error_rates


def values(found):
    return {
        name: [getattr(getattr(found, name), part).value for part in ("audited", "reference", "difference")]
        for name in QUANTITIES
    }


def assert_same_rates(found, expected):
    assert_same_numbers(to_plain(found), to_plain(expected))


@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize("threshold", [None, 0.6])
def test_numbers_are_those_of_scikit_learn(weights, threshold):
    frame = borrowers()
    found = values(rates(frame, sample_weight=weights, threshold=threshold))
    expected = {name: [] for name in QUANTITIES}
    for group in ("A", "B"):
        mine = frame.filter(group=group)
        y, score = mine["repaid"].to_numpy(), mine["score"].to_numpy()
        w = np.ones(len(y)) if weights is None else mine["weight"].to_numpy()
        output = score if threshold is None else (score >= threshold).astype(float)
        if threshold is None:
            pairs = ((score[y == k], w[y == k]) for k in (0, 1))
            fpr, tpr = (np.average(one, weights=weight) for one, weight in pairs)
        else:
            (tn, fp), (fn, tp) = confusion_matrix(y, output, sample_weight=w)
            fpr, tpr = fp / (fp + tn), tp / (fn + tp)
        mean = np.average(y - output, weights=w)
        area = roc_auc_score(y, output, sample_weight=w)
        for name, value in zip(QUANTITIES, (fpr, 1 - tpr, mean, area), strict=True):
            expected[name].append(value)
    for name, (one, other) in expected.items():
        assert found[name] == pytest.approx([one, other, one - other], abs=1e-12)


def test_the_false_positive_rate_has_the_interval_of_people_without_the_outcome():
    frame, found = borrowers(), rates(borrowers())
    for name, value, sign in (("fpr", 0, 1), ("fnr", 1, -1)):
        given = audited(frame, features=[], where={"repaid": value})["A"].gap
        ends = sorted((sign * given.low, sign * given.high))
        expected = [sign * given.value, *ends]
        difference = getattr(found, name).difference
        assert [difference.value, difference.low, difference.high] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["fpr", "fnr"])
def test_a_criterion_is_the_audit_of_the_people_it_is_about(name):
    frame = borrowers()
    value, mirrored = (0, {}) if name == "fpr" else (1, {"favourable": "low"})
    score = pl.col("score") if name == "fpr" else 1 - pl.col("score")
    whole = audited(frame, outcome="repaid", metric=name, propensity="chance")
    given = audited(frame.with_columns(score=score), where={"repaid": value}, propensity="chance", **mirrored)
    words = json.dumps(whole["A"].to_dict()).replace(
        f"false {'positive' if name == 'fpr' else 'negative'} rate", "score"
    )
    found, expected = json.loads(words), json.loads(json.dumps(given["A"].to_dict()))
    outputs = found["outputs"]
    rates = {who: outputs["metric_rates"][who]["value"] for who in ("audited", "reference")}
    assert rates == pytest.approx(outputs["means"], abs=1e-12)
    expected["outputs"]["metric_rates"], expected["scale"]["metric"] = outputs["metric_rates"], name
    assert_same_numbers(found, expected, 1e-12)
    assert whole["A"].estimate(f"{name}_difference") == whole["A"].gap
    assert whole["A"].error_rates is None
    assert whole.rows["other_outcome"] == (frame["repaid"] != value).sum() == given.rows["not_given_repaid"]
    assert whole.favourable == "1"


def test_a_criterion_of_decisions_is_the_rate_of_wrong_ones():
    c = audited(borrowers(), threshold=0.6, outcome="repaid", metric="fnr", features=[])["A"]
    assert c.gap.value == pytest.approx(rates(borrowers(), threshold=0.6).fnr.difference.value, abs=1e-12)
    assert c.adverse_impact_ratio is not None


def test_an_outcome_changes_no_other_number():
    plain, found = (
        audited(borrowers(), propensity="chance", **options)["A"].to_dict() for options in ({}, {"outcome": "repaid"})
    )
    assert_same_numbers(found, plain | {name: found[name] for name in ("error_rates", "splitting")})


def test_scores_in_deciles_add_up_to_the_group():
    found = rates(borrowers(2_000), sample_weight=None).by_decile
    for group, name in (("audited", "A"), ("reference", "B")):
        cells, mine = found.filter(group=group), borrowers(2_000).filter(group=name)
        assert cells["n"].sum() == mine.height
        assert (cells["n"] * cells["observed"]).sum() == pytest.approx(mine["repaid"].sum())
        assert (cells["n"] * cells["mean_score"]).sum() == pytest.approx(mine["score"].sum())
        assert (cells["observed_low"] < cells["observed"]).all()
    pooled = found.group_by("decile").agg(pl.col("n").sum())
    assert pooled["n"].to_list() == [200] * 10


def test_cells_of_few_people_are_withheld_and_decisions_have_two():
    frame = borrowers(400)
    few = rates(frame).by_decile["n"].drop_nulls()
    assert few.min() >= 10
    assert rates(frame, threshold=0.5).by_decile["decile"].to_list() == [1, 2, 1, 2]


FORMS = {
    "booleans": lambda frame: frame["repaid"].cast(pl.Boolean),
    "floats": lambda frame: frame["repaid"].cast(pl.Float64),
    "texts of numbers": lambda frame: frame["repaid"].cast(pl.String),
    "texts of booleans": lambda frame: frame["repaid"].cast(pl.Boolean).cast(pl.String),
}


@pytest.mark.parametrize("form", FORMS)
def test_two_values_may_be_written_in_many_ways(form):
    column = FORMS[form](borrowers())
    expected = rates(borrowers())
    assert_same_rates(rates(borrowers().with_columns(repaid=column)), expected)
    assert_same_rates(rates(borrowers(), outcome=column), expected)


@pytest.mark.parametrize("favourable", ["repaid", "default"])
def test_words_are_matched_with_the_classes_of_a_model(favourable):
    frame = borrowers()
    words = pl.Series(np.where(frame["repaid"] == 1, "repaid", "default"))
    features = frame.select("income", "owner").fill_null(50).to_numpy().astype(float)
    model = LogisticRegression().fit(features, words)
    data = frame.with_columns(income=pl.col("income").fill_null(50), repaid=words)
    options = {"group": "group", "reference": "B", "features": ["income", "owner"], "folds": None}
    found = tl.audit(data, **options, model=model, outcome="repaid", favourable=favourable)["A"].error_rates
    one = model.predict_proba(features)[:, list(model.classes_).index(favourable)]
    y = (words == favourable).to_numpy()
    mine = (frame["group"] == "A").to_numpy()
    assert found.fpr.audited.value == pytest.approx(one[mine & ~y].mean(), abs=1e-12)
    assert found.auc.audited.value == pytest.approx(roc_auc_score(y[mine], one[mine]), abs=1e-12)


def test_words_are_matched_with_decisions_in_words():
    frame = borrowers().with_columns(score=pl.when(pl.col("score") > 0.5).then(pl.lit("good")).otherwise(pl.lit("bad")))
    words = frame.with_columns(repaid=pl.when(pl.col("repaid") == 1).then(pl.lit("good")).otherwise(pl.lit("poor")))
    assert_same_rates(rates(words, favourable="good"), rates(frame, favourable="good"))


@pytest.mark.parametrize("held", ONE_OF_EACH_KIND, indirect=True)
def test_every_engine_has_the_same_error_rates(held):
    frame = borrowers().with_columns(repaid=pl.when(pl.col("income") < 60).then("repaid"))
    options = {"outcome": "repaid", "features": [], "sample_weight": "weight"}
    assert_same_numbers(audited(held(frame), **options).to_dict(), audited(frame, **options).to_dict())


def test_whole_weights_are_repeated_rows():
    frame = borrowers()
    repeated = frame.select(pl.all().repeat_by("weight")).explode(pl.all())
    weighted, found = values(rates(frame, sample_weight="weight")), values(rates(repeated))
    assert_same_numbers(weighted, found, 1e-12)


def test_clusters_of_one_row_are_none():
    frame = borrowers().with_row_index("person")
    assert_same_rates(rates(frame, clusters="person"), rates(frame))


def test_probabilities_of_0_and_1_are_groups():
    sure = borrowers().with_columns(a=(pl.col("group") == "A").cast(float), b=(pl.col("group") == "B").cast(float))
    soft = tl.audit(sure, {"A": "a", "B": "b"}, reference="B", scores="score", features=[], outcome="repaid")
    assert_same_rates(soft["A"].error_rates, rates(borrowers()))


def test_rates_of_a_sample_are_those_of_all_rows():
    frame = lending(9_000).with_columns(repaid=pl.Series(np.random.default_rng(1).random(9_000) < 0.5))
    options = {"group": "group", "audited": "a", "scores": "score", "features": [], "outcome": "repaid"}
    whole, few = (tl.audit(frame, **options, sample_rows=size)["a"].error_rates for size in (500_000, 2_000))
    for name in ("fpr", "fnr", "calibration"):
        one, other = (getattr(found, name).difference for found in (few, whole))
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=0.1)
    assert few.auc.difference.low < whole.auc.difference.value < few.auc.difference.high
    assert few.people == whole.people


def test_people_of_unknown_outcome_stay_in_the_rest():
    frame = borrowers().with_columns(repaid=pl.when(pl.col("income") < 60).then("repaid"))
    c = audited(frame, features=[], outcome="repaid")["A"]
    known = audited(frame.filter(pl.col("repaid").is_not_null()), features=[], outcome="repaid")["A"]
    assert c.gap == audited(frame, features=[])["A"].gap
    assert_same_numbers(values(c.error_rates), values(known.error_rates), 1e-12)
    unknown = frame.filter(pl.col("repaid").is_null(), group="A").height
    assert c.error_rates.people["audited"]["unknown"] == unknown
    assert "unknown outcomes" in note_codes(c)
    counted = audited(frame, features=[], outcome="repaid", metric="fpr").rows
    assert counted["missing_outcome"] == frame["repaid"].null_count()
    assert counted["read"] == sum(count for reason, count in counted.items() if reason != "read")


def test_of_few_people_nothing_is_measured_and_the_reason_is_told(worded):
    frame = borrowers().with_row_index("row")
    few = frame.with_columns(repaid=((pl.col("group") == "B") | (pl.col("row") < 12)).cast(int))
    found = rates(few)
    assert found.fpr is None
    assert found.fnr is None
    worded([found.reasons["fpr"], found.reasons["fnr"]])
    assert found.reasons.keys() == {*QUANTITIES, "log_loss"}
    assert found.people["audited"] == {"without": None, "with": None, "unknown": 0}
    c = audited(few, features=[], outcome="repaid")["A"]
    assert c.estimate("fpr_difference") is c.estimate("auc_difference") is None


def test_plug_in_values_have_no_intervals():
    found = rates(borrowers(), folds=None)
    assert found.auc.difference.low is found.fpr.audited.high is None
    assert found.by_decile["observed_low"].null_count() == found.by_decile.height


THREE = borrowers().with_columns(repaid=pl.Series(np.arange(400) % 3))
WORDS = borrowers().with_columns(repaid=pl.Series(np.where(np.arange(400) % 2, "yes", "no")))
MISTAKES = {
    "three values": (THREE, {}, "`outcome` must have two values, got '0', '1', '2'.", "column of 0 and 1"),
    "numbers": (borrowers(), {"outcome": "income"}, "`outcome` must have two values", "column of 0 and 1"),
    "words": (
        WORDS,
        {},
        "`outcome` must be 0 and 1, or name what the score is",
        "0 and 1",
    ),
    "one and two": (  # nobody knows which of them is the outcome
        borrowers().with_columns(pl.col("repaid") + 1),
        {},
        "`outcome` must be 0 and 1, or name what the score is the probability of, got '1', '2'.",
        "1 is what a score of 1 predicts",
    ),
    "nothing": (borrowers().with_columns(repaid=pl.lit(None)), {}, "got only missing values", "write it as 0 and 1"),
    "no column": (borrowers(), {"outcome": "repayed"}, "not found (`outcome`)", "did you mean 'repaid'"),
    "no outcome": (
        borrowers(),
        {"outcome": None, "metric": "fpr"},
        "`metric` must come with `outcome`",
        "outcome=",
    ),
    "metric": (
        borrowers(),
        {"metric": "tpr"},
        "`metric` must be one of 'fpr', 'fnr', 'fdr', 'for', got 'tpr'.",
        "leave it out",
    ),
    "classes": (
        borrowers(),
        {"scores": np.full((400, 3), 1 / 3), "favourable": "2"},
        "`outcome` must be left out for scores of 3 classes",
        "probability of one class",
    ),
    "length": (borrowers(), {"outcome": np.ones(3)}, "`outcome` must have one value per row", ""),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
    data, options, rule, hint = MISTAKES[name]
    with pytest.raises(DataError) as raised:
        rates(data, **options)
    assert rule in str(raised.value)
    assert hint in str(raised.value)


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}, {"metric": "fnr"}, {"folds": None}])
def test_a_summary_follows_the_schema(options):
    asked = {"outcome": "repaid", "features": ["city", "owner"], "propensity": "chance"}
    summary = audited(borrowers(), **asked | options).to_dict()
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(json.loads(json.dumps(summary, allow_nan=False)))
    assert summary["provenance"]["question"]["outcome"] == "repaid"
    assert summary["provenance"]["question"]["metric"] == options.get("metric")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("outcome")
    borrowers().write_csv(path / "t.csv")
    return path


def command(folder, *arguments):
    options = ("--group", "group", "--reference", "B", "--features", "", *arguments)
    return invoked("audit", "t.csv", *options, cwd=folder)


def test_on_the_command_line_an_outcome_beside_scores_adds_error_rates(worded, folder):
    result = command(folder, "--scores", "score", "--outcome", "repaid", "--json", "-")
    worded(result.stderr)
    found = json.loads(result.stdout)["comparisons"]["A"]
    assert_same_numbers(found["error_rates"], to_plain(rates(borrowers())))


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("fpr_difference>0.5", 0),
        ("fpr_difference<0.5", 1),
        ("auc_difference.low>-0.99", 1),
        ("calibration_difference>0", 1),
    ],
)
def test_error_rates_have_gates(folder, condition, code):
    result = command(folder, "--scores", "score", "--outcome", "repaid", "--fail-if", condition)
    assert result.returncode == code, result.stderr


def test_on_the_command_line_a_criterion_is_the_gap(folder):
    result = command(folder, "--scores", "score", "--outcome", "repaid", "--metric", "fnr", "--json", "-")
    found = json.loads(result.stdout)["comparisons"]["A"]
    assert found["gap"]["value"] == pytest.approx(rates(borrowers()).fnr.difference.value, abs=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scores", "score", "--metric", "fpr"), "--outcome"),
        (("--outcome", "repaid", "--metric", "fpr"), "--scores"),
        (("--scores", "score", "--outcome", "city"), "must have two values, got 'East', 'North', 'Süd'."),
    ],
)
def test_mistakes_on_the_command_line_are_named(folder, options, message):
    result = command(folder, *options)
    assert result.returncode == 2
    assert message in result.stderr


def joined(text):
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "high"),
    [
        ({}, "high scores"),
        ({"threshold": 0.5}, "the favourable decision"),
        ({"threshold": 0.5, "favourable": "low"}, "the unfavourable decision"),
    ],
)
def test_an_outcome_that_high_scores_make_rarer_is_noted(worded, options, high):
    table = borrowers()
    swapped = table.with_columns(repaid=1 - pl.col("repaid"))
    code = "outcome against the scores"
    assert code not in note_codes(audited(table, features=[], outcome="repaid", **options)["A"])
    c = audited(swapped, features=[], outcome="repaid", **options)["A"]
    note = next(note for note in c.checks.notes if note.code == code)
    assert note.values["high"] == high
    worded(note)


def test_terminal_and_report_show_error_rates_of_scores_and_of_decisions():
    for options, meaning in (({}, "mean score"), ({"threshold": 0.5}, "share given the favourable decision")):
        found = audited(borrowers(), features=[], outcome="repaid", **options)
        difference = points(found["A"].error_rates.fpr.difference.value)
        text, html = joined(str(found)), page(found)
        assert f"False positive rate: {meaning} among" in text
        assert difference in text
        assert f"{meaning} among" in html
        assert difference in html
        assert RATES_DO_NOT_SHOW in text
        assert RATES_DO_NOT_SHOW in html


@pytest.mark.parametrize(("favourable", "wrongly"), [("high", "approved"), ("low", "not approved")])
def test_error_rates_of_decisions_are_defined_in_the_words_of_the_user(favourable, wrongly):
    options = {"wording": {"people": "borrowers", "favourable": "approved"}, "favourable": favourable}
    text = joined(str(audited(borrowers(), features=[], outcome="repaid", threshold=0.5, **options)))
    assert f"share {wrongly} among borrowers" in text
    assert "decision 1" not in text


def test_what_was_not_measured_is_said_so():
    summary = audited(borrowers(), features=[], outcome="repaid").to_dict()
    summary["comparisons"]["A"]["error_rates"] |= {"auc": None, "reasons": {"auc": "too few people"}}
    for text in (joined(result_text(typed(summary))), page(typed(summary))):
        assert "AUC" in text.partition("too few people")[0][-25:]


def test_no_error_rate_is_cut_on_a_narrow_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    found = str(audited(borrowers(), threshold=0.6, features=[], outcome="repaid"))
    assert "…" not in found


@pytest.mark.parametrize(("name", "words"), [("fpr", "false positive rate"), ("fnr", "false negative rate")])
def test_a_criterion_is_named_wherever_the_mean_score_was(name, words):
    asked = {"features": ["city", "owner"], "outcome": "repaid", "metric": name}
    found = audited(borrowers(), **asked)
    text, html = joined(str(found)), page(found)
    assert f"{words}s of scores" in text
    assert f"{words}, audited" in text
    for figure in ("features", "waterfall", "proxy_map"):
        chart = found["A"].plot(figure)
        assert words in json.dumps(chart.spec())
        assert "score" not in chart.title + chart.description
    assert "score" not in found["A"].plot("profile", "city").description
    assert f"{100 * found['A'].outputs.means.audited:.1f}%" in html
    assert words in html
    assert f"compares the {words}" in html
    assert any(words in row["direction"] for row in found["A"].contributions_full.to_dicts())
