"""Figures show what the summary says, whatever it says, and say it in files that need nothing else."""

import builtins
import json
import os
import re
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import polars as pl
import pytest
import vl_convert
from tests.people import audited, people
from tests.render.summaries import (
    HOSTILE,
    SUMMARIES,
    amounts,
    cross_fitted,
    cross_fitted_audit,
    decisions_audit,
    hostile,
    many,
    of_summaries,
    plug_in,
    typed,
    with_outcome,
)

import tiltlens as tl
from tiltlens import _formats as formats
from tiltlens import figures as typed_figures
from tiltlens._documents.document import labels
from tiltlens._rows.wording import measure_for
from tiltlens.errors import NothingToDrawError
from tiltlens.figures._distributions import HIDDEN
from tiltlens.figures._marks import placed, spread, tick_format
from tiltlens.paper.examples import simplex_paths

figures = SimpleNamespace(**{name: of_summaries(getattr(typed_figures, name)) for name in typed_figures.__all__[2:]})
WORLD = tl.World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], channel=[0.8, 0.5, 0.1])
PNG = b"\x89PNG\r\n\x1a\n"


def plain_estimate(value):
    return {"value": value, "low": None, "high": None}


def drawn_from(c):
    """Return every figure that a comparison has."""
    draws = dict(typed_figures.COMPARISON_FIGURES)
    for feature in list(c["bins"]["profiles"])[:1]:
        draws["profile"] = partial(typed_figures.profile, feature=feature)
        draws["correction_by_value"] = partial(typed_figures.correction_by_value, feature=feature)
    comparison, found = typed(c), {}
    for name, draw in draws.items():
        with suppress(NothingToDrawError):
            found[name] = draw(comparison)
    return found


@cache
def drawn(name):
    c = SUMMARIES[name]()
    found = drawn_from(c)
    audit = cross_fitted_audit()
    audit["comparisons"] = {"only": c}
    found["rates"] = figures.rates(audit)
    found["simplex"] = figures.simplex(simplex_paths(WORLD).to_dict())
    return {key: (figure, figure.spec()) for key, figure in found.items()}


def everywhere(value, path=()):
    """Yield every key and text of a specification outside its data, with where it stands."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield (*path, "key"), key
            if not (key == "values" and "name" in value):
                yield from everywhere(entry, (*path, key))
    elif isinstance(value, list):
        for entry in value:
            yield from everywhere(entry, path)
    elif isinstance(value, str):
        yield path, value


def datasets(spec):
    if isinstance(spec, dict):
        if "values" in spec and "name" in spec:
            yield spec
        for entry in spec.values():
            yield from datasets(entry)
    elif isinstance(spec, list):
        for entry in spec:
            yield from datasets(entry)


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_figure_draws_every_summary(name):
    for figure, spec in drawn(name).values():
        assert figure.title
        assert figure.description
        assert spec["description"].startswith(figure.title)
        assert spec["data"]["name"] == "table"
        assert isinstance(figure.table, pl.DataFrame)
        assert len(spec["data"]["values"]) == len(figure.table) > 0
        json.dumps(spec, allow_nan=False)


@pytest.mark.parametrize("name", SUMMARIES)
def test_specifications_compile_without_complaint(name):
    for figure, spec in drawn(name).values():
        assert vl_convert.vegalite_to_vega(spec)["marks"], figure.title


@pytest.mark.parametrize("name", ["cross_fitted", "undefined"])
def test_specifications_validate(name):
    for figure, spec in drawn(name).values():
        assert figure.chart.to_dict(validate=True) == spec


@pytest.mark.parametrize("name", SUMMARIES)
def test_datasets_have_names_of_their_own(name):
    for figure, spec in drawn(name).values():
        names = [dataset["name"] for dataset in datasets(spec)]
        assert names.count("table") == 1, figure.title
        contents = {}
        for dataset in datasets(spec):
            assert contents.setdefault(dataset["name"], dataset["values"]) == dataset["values"], figure.title


def holds_user_text(text):
    return any(piece in text for piece in ("script>", "xxx", "מספר", "['d']"))


def test_user_text_is_never_a_field_a_key_or_an_expression():
    for figure, spec in drawn("hostile").values():
        for path, text in everywhere(spec):
            is_words = path[-1] in ("description", "text", "subtitle", "title") and path[-2:-1] != ("key",)
            assert is_words or not holds_user_text(text), (figure.title, path)


def test_user_text_is_never_compiled_into_an_expression():
    for figure, spec in drawn("hostile").values():
        for path, text in everywhere(vl_convert.vegalite_to_vega(spec)):
            if path[-1] in ("key", "signal", "expr", "test", "update", "events", "field"):
                assert not holds_user_text(text), (figure.title, path)


def test_fields_are_plain_names():
    for figure, spec in drawn("hostile").values():
        fields = [text for path, text in everywhere(spec) if path[-1] == "field"]
        assert fields, figure.title
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", field) for field in fields), figure.title


def test_labels_are_short_and_differ():
    for figure, _ in drawn("hostile").values():
        if "label" in figure.table.columns:
            assert all(len(label) < 80 for label in figure.table["label"].unique())
    rows = drawn("hostile")["correction_shares"][0].table
    assert rows["label"].n_unique() == rows["feature"].n_unique() == len(HOSTILE)


@pytest.mark.parametrize(
    "names", [["a\x00", "a\x01", "a� (2)"], ["a� (2)", "a\x00", "a\x01"], ["a", "a", "a (2)", "a (2)"]]
)
def test_labels_that_look_alike_are_told_apart(names):
    assert len(set(labels(names))) == len(names)


def test_the_words_are_the_house_s():
    for name in ("plug_in", "cross_fitted"):
        for figure, spec in drawn(name).values():
            text = json.dumps(spec).lower()
            assert not re.search(r"\b(un)?fair|complian|minorit|majorit", text), figure.title


def test_nothing_is_written_smaller_than_eleven():
    for figure, spec in drawn("cross_fitted").values():
        sizes = [size for path, size in numbers(spec) if path == "fontSize" or path.endswith("FontSize")]
        crosses = spec_text(spec).count("✕")
        assert sum(size < 11 for size in sizes) <= crosses, figure.title


def numbers(value, key=""):
    if isinstance(value, dict):
        for name, entry in value.items():
            yield from numbers(entry, name)
    elif isinstance(value, list):
        for entry in value:
            yield from numbers(entry, key)
    elif isinstance(value, int | float):
        yield key, value


def spec_text(spec):
    return json.dumps(spec, ensure_ascii=False)


# What is drawn equals the summary.


@pytest.mark.parametrize("make", [plug_in, cross_fitted])
def test_distributions_equal_the_bins(make):
    c = make()
    for name, draw in (("score", figures.score_distribution), ("overlap", figures.overlap)):
        table = draw(c).table
        for group in ("audited", "reference"):
            mine = table.filter(pl.col("group") == group)
            assert mine["share"].to_list() == [one[group] for one in c["bins"][name]]
            assert mine["from"].to_list() == [one["from"] for one in c["bins"][name]]
            assert mine["withheld"].to_list() == [one[group] is None for one in c["bins"][name]]


def test_the_means_are_marked_where_they_are():
    c = cross_fitted()
    marks = next(one for one in datasets(figures.score_distribution(c).spec()) if one["name"] == "means")["values"]
    assert {mark["group"]: mark["mean"] for mark in marks} == c["outputs"]["means"]


@pytest.mark.parametrize("position", [0, 10, 20, 99])
def test_the_correction_s_distribution_is_that_of_the_position(position):
    c = cross_fitted()
    table = figures.correction_distribution(c, position).table
    assert table["share"].to_list() == c["bins"]["correction"][min(position, 20)]
    assert table["from"].to_list() == pytest.approx([-4 + 0.2 * place for place in range(40)])


def test_axes_stay_where_they_are_when_the_dial_turns():
    c = cross_fitted()
    for draw in (figures.correction_distribution, lambda c, place: figures.profile(c, "Age", place)):
        turned = [draw(c, place).spec() for place in (0, 20)]
        for spec in turned:
            del spec["data"], spec["title"], spec["description"]
        assert turned[0] == turned[1]


@pytest.mark.parametrize(
    ("weights", "place"),
    [((1.0, 1.0), 10), ((0.0, 2.0), 20), ((3.0, 1.0), 5), ((1.0, 1e-300), 0), ((1e308, 1e308), 10)],
)
def test_the_dial_stands_where_the_audit_has_it(weights, place):
    c = cross_fitted()
    c["correction"]["numbers"] |= dict(zip(("input_weight", "output_weight"), weights, strict=True))
    drawn = figures.correction_distribution(c)
    assert drawn.table["share"].to_list() == c["bins"]["correction"][place]
    profile = figures.profile(c, "Age")
    medians = [value["quantiles"][place][2] for value in c["bins"]["profiles"]["Age"]["values"]]
    assert profile.table["q50"].to_list() == medians
    for found in (drawn, profile):
        assert f"weighting slider at {place / 20:.2f} (" in found.note
        assert f"weighting slider at {place / 20:.2f}" in found.description


def test_a_plot_stands_where_the_audit_has_the_dial():
    c = audited(people(), folds=None, input_weight=0.0, output_weight=3.0)["A"]
    assert (
        c.to_dict()["correction"]["numbers"]["input_weight"],
        c.to_dict()["correction"]["numbers"]["output_weight"],
    ) == (0.0, 3.0)
    for found in (c.plot("correction_distribution"), c.plot("profile", "city")):
        assert "weighting slider at 1.00" in found.note


def test_a_withheld_bin_is_not_said_to_be_small():
    c = cross_fitted()
    c["bins"]["score"][3]["audited"] = c["bins"]["correction"][10][9] = None
    c["bins"]["profiles"]["Age"]["values"][0] |= {"n": None, "correction": None}
    c["bins"]["profiles"]["Sex"]["values"][0]["correction"][20] = None
    drawn = [figures.score_distribution(c), figures.correction_distribution(c), figures.profile(c, "Age")]
    for found in (*drawn, figures.correction_by_value(c, "Sex")):
        assert HIDDEN in found.note
        if "shown" in found.table.columns:
            assert HIDDEN in found.table["shown"].to_list()


@pytest.mark.parametrize("make", [plug_in, cross_fitted])
def test_corrections_by_value_equal_the_profile(make):
    c = make()
    for feature, found in c["bins"]["profiles"].items():
        table = figures.correction_by_value(c, feature).table
        for value in found["values"]:
            mine = table.filter(pl.col("value") == value["value"])
            found_in = {round(-4 + 0.1 * place, 9): n for place, n in enumerate(value["correction"]) if n != 0}
            assert dict(zip(mine["from"], mine["count"], strict=True)) == found_in
            shown = mine.filter(pl.col("count") > 0)
            heights = (shown["top"] - shown["bottom"]) / shown["share"]
            assert heights.min() == pytest.approx(heights.max())


def test_peaks_of_many_priors_against_paper():
    """Fig. 2, PriorCounts >3: peaks at about −2.10, −0.94, −0.58 and +0.25."""
    table = figures.correction_by_value(plug_in(), "PriorCounts").table.filter(pl.col("value") == ">3")
    width = 0.1
    counts = {round(middle / width - 0.5): count or 0 for middle, count in table.select("middle", "count").iter_rows()}
    peaks = {
        width * (place + 0.5): count
        for place, count in counts.items()
        if count >= 30 and count > max(counts.get(place - 1, 0), counts.get(place + 1, 0))
    }
    for expected in (-2.10, -0.94, -0.58, 0.25):
        assert min(abs(peak - expected) for peak in peaks) <= width
    strongest = sorted(sorted(peaks, key=lambda peak: -peaks[peak])[:3])
    assert strongest == pytest.approx([-0.94, -0.58, 0.25], abs=width)


@pytest.mark.parametrize("make", [plug_in, cross_fitted, many])
def test_the_map_equals_the_table_of_proxy_evidence(make):
    c = make()
    figure = figures.proxy_map(c)
    has_use = any(row["use"] is not None for row in c["contributions"])
    assert has_use is (make is not plug_in)
    drawn = [row for row in c["contributions"] if row["use"] is not None or not has_use]
    fields = ("reveals", "drives", "use", "alone", "alignment")
    for name in ("feature", *(f"{name}{end}" for name in fields for end in ("", "_low", "_high"))):
        assert figure.table[name].to_list() == [row[name] for row in drawn]
    up = "use" if has_use else "drives"
    assert figure.table["height"].to_list() == figure.table[up].to_list()
    named = {one["name"]: one["values"] for one in datasets(figure.spec())}
    if has_use:
        assert named["threshold"] == [{"at": 0.005}]
    else:
        assert all(point["reveals"] * point["height"] == pytest.approx(point["level"]) for point in named["curves"])
        assert 0.005 in {point["level"] for point in named["curves"]}


def test_a_stand_in_lies_in_the_lower_right_of_the_map(worded):
    c = cross_fitted()
    first, second = c["contributions"][:2]
    unused = second | {"use": 0.0, "use_low": 0.0, "use_high": 0.001, "verdict": "stand-in"}
    table = figures.proxy_map(c | {"contributions": [first, unused]}).table
    assert table["height"].to_list() == [first["use"], 0.0]
    corners = json.dumps(figures.proxy_map(c).spec())
    assert "stand-in: " in corners
    worded(sorted(set(re.findall(r'"([^"]*\bcontributes\b[^"]*)"', corners))))


def test_numbers_are_written_in_figures_as_on_the_page():
    c = many(6)
    rows = figures.proxy_map(c).table.select("alone", "alone_low", "alone_high", "alone_text").to_dicts()
    assert any(row["alone"] < 0 for row in rows)
    for row in rows:
        gap, ends = formats.points(row["alone"]), formats.interval(row["alone_low"], row["alone_high"], formats.points)
        assert row["alone_text"] == f"{gap} ({ends})"
    rate = figures.rates(cross_fitted_audit()).table.row(1, named=True)
    numbers = (rate["rate"], rate["rate_low"], rate["rate_high"])
    assert rate["rate_text"] == formats.with_interval(*numbers, formats.percent)


def test_the_map_draws_another_materiality():
    curves = next(one for one in datasets(figures.proxy_map(plug_in(), 0.013).spec()) if one["name"] == "curves")
    assert {p["level"] for p in curves["values"] if p["is_material"]} == {0.013}


def test_names_on_the_map_do_not_overlap():
    c = many(8)
    table = figures.proxy_map(c).table.to_dicts()
    rooms = {"reveals": 1.08, "height": 1.15}
    right, top = (room * max(row[f"{name}_high"] for row in table) for name, room in rooms.items())
    boxes = []
    for row in (row for row in table if row["name"] is not None):
        x, y = 620 * row["reveals"] / right + row["dx"], 400 - 400 * row["height"] / top + row["dy"]
        wide = 6.8 * len(row["label"])
        left = {"left": x, "right": x - wide, "center": x - wide / 2}[row["align"]]
        boxes.append((left, y - 6, left + wide, y + 6))
    for place, a in enumerate(boxes):
        for b in boxes[:place]:
            assert min(a[2], b[2]) <= max(a[0], b[0]) or min(a[3], b[3]) <= max(a[1], b[1])


def test_the_waterfall_ends_at_the_audited_mean():
    c = cross_fitted()
    table = figures.waterfall(c).table
    assert table["start"][0] == c["outputs"]["means"]["reference"]
    assert table["end"][-1] == c["outputs"]["means"]["audited"]
    assert table["end"][-2] == pytest.approx(c["outputs"]["means"]["audited"], abs=1e-9)
    assert table["start"].to_list()[2:] == pytest.approx(table["end"].to_list()[1:-1], abs=1e-9)
    shown = dict(zip(table["feature"], table["contribution"], strict=True))
    for row in c["contributions"]:
        assert shown[row["feature"]] == row["shapley"]
    assert shown["adjusted gap"] == c["gap_parts"]["shapley_remainder"]


def test_the_waterfall_joins_the_weak():
    c = many()
    table = figures.waterfall(c).table
    assert len(table) == 12 + 4
    assert table["contribution"].sum() == pytest.approx(c["gap"]["value"], abs=1e-9)


def test_bars_of_the_waterfall_have_their_intervals():
    c = cross_fitted()
    table = figures.waterfall(c).table.filter(pl.col("role") == "feature")
    rows = {row["feature"]: row for row in c["contributions"]}
    for step in table.to_dicts():
        ends = [rows[step["feature"]][f"shapley{end}"] for end in ("_low", "_high")]
        assert [step["reach_low"], step["reach_high"]] == pytest.approx([step["start"] + end for end in ends])
    for names, make in ((0, plug_in), (len(table) + 1, cross_fitted)):  # the adjusted gap has one too
        assert figures.waterfall(make()).table["reach_low"].drop_nulls().len() == names


def test_without_shapley_values_there_is_no_waterfall():
    with pytest.raises(NothingToDrawError, match="no Shapley contributions"):
        figures.waterfall(SUMMARIES["undefined"]())


@pytest.mark.parametrize("make", [plug_in, cross_fitted, many])
def test_bars_of_features_are_the_points_of_the_table_with_its_band(make):
    c = make()
    figure = figures.features(c)
    rows = c["contributions"][:20]
    assert figure.table["feature"].to_list() == [row["feature"] for row in rows]
    for name in (f"{name}{end}" for name in ("alone", "beyond_others") for end in ("", "_low", "_high")):
        expected = [None if row[name] is None else 100 * row[name] for row in rows]
        assert figure.table[name].to_list() == pytest.approx(expected)
    lines = next(one for one in datasets(figures.features(c, 0.02, 3).spec()) if one["name"] == "lines")["values"]
    assert [line["at"] for line in lines] == [-2.0, 0.0, 2.0]
    assert len(figures.features(c, shown=3).table) == 3


def test_a_feature_without_a_number_is_named_with_its_verdict():
    c = cross_fitted()
    c["contributions"][4] |= {"alone": None, "alone_low": None, "alone_high": None, "verdict": "not assessed"}
    assert figures.features(c).table["missing"].to_list() == [None, None, None, None, "not assessed"]


def test_shares_equal_the_table_of_proxy_evidence():
    c = cross_fitted()
    table = figures.correction_shares(c).table
    for name in ("share", "share_low", "share_high"):
        assert table[name].to_list() == [row[name] for row in c["contributions"]]


def test_the_map_ends_where_reveals_does():
    c = cross_fitted()
    c["contributions"][0] |= {"reveals": 0.99, "reveals_high": 1.0}
    assert [0, 1.04] in list(numbers_of(figures.proxy_map(c).spec(), "domain"))


def numbers_of(value, key):
    """Yield every list under a key."""
    if isinstance(value, dict):
        for name, entry in value.items():
            if name == key and isinstance(entry, list):
                yield entry
            yield from numbers_of(entry, key)
    elif isinstance(value, list):
        for entry in value:
            yield from numbers_of(entry, key)


def test_names_at_the_origin_do_not_collide():
    c = cross_fitted()
    first = c["contributions"][0]
    near = [first | {"feature": f"feature {i}"} | {f"{n}{e}": 0.002 + 1e-5 * i for n in ("reveals", "use")
            for e in ("", "_low", "_high")} for i in range(9)]  # fmt: skip
    table = figures.proxy_map(c | {"contributions": [first, *near]}).table
    assert table["name"][0] == first["feature"]
    assert table["name"].drop_nulls().len() < 10


def test_figures_say_whom_a_difference_disadvantages():
    """COMPAS scores are better when low, so positive contributions disadvantage; approvals are the other way round."""
    c = cross_fitted()
    assert "African-American defendants →" in spec_text(figures.features(c).spec())
    favourable = c | {
        "outputs": c["outputs"] | {"rates": {g: plain_estimate(v) for g, v in c["outputs"]["means"].items()}}
    }
    assert "← disadvantage of" in spec_text(figures.features(favourable).spec())
    assert figures.features(c).table["is_disadvantage"][0]
    assert not figures.features(favourable).table["is_disadvantage"][0]


@pytest.mark.parametrize("wants_less", [True, False])
def test_higher_prices_disadvantage_the_group_that_pays_them_and_lower_salaries_the_one_that_earns_them(wants_less):
    """Of unobserved groups, which have no shortfall, too."""
    c = amounts() | {"gap": plain_estimate(9.0), "shortfall": None}
    c["scale"] |= {"wants_less": wants_less}
    for row in c["contributions"]:
        row |= {"alone": 3.0, "alone_low": 2.0, "alone_high": 4.0}
    assert set(figures.features(c).table["is_disadvantage"]) == {wants_less}


@pytest.mark.parametrize("name", ["cross_fitted", "many"])
def test_a_figure_says_its_groups_its_people_and_its_unit(name):
    for key, (figure, spec) in drawn(name).items():
        if key not in ("simplex", "rates", "correction_distribution", "correction_by_value"):
            assert "African-American (audited) vs" in figure.subtitle
        if key != "simplex":
            assert figure.note.startswith("n = ")
        assert set(figure.reading) <= set(figure.table.columns)
        assert spec["config"]["aria"] is False


def test_a_reader_s_table_has_no_internal_columns():
    for figure, _ in drawn("cross_fitted").values():
        assert not {"role", "kind", "zero", "side", "middle", "height", "withheld", "label"} & set(
            figure.reading.values()
        )


def test_no_number_of_an_amount_has_an_exponent():
    c = amounts()
    for figure in drawn_from(c).values():
        svg = vl_convert.vegalite_to_svg(figure.spec())
        assert not [text for text, *_ in texts_of(svg) if re.search(r"\de[+−-]?\d", text)], figure.title


def test_decisions_are_drawn_as_shares_of_groups():
    c = next(iter(decisions_audit()["comparisons"].values()))
    table = figures.score_distribution(c).table
    assert table["rate"].to_list() == pytest.approx([c["outputs"]["means"][role] for role in table["role"]])
    with pytest.raises(NothingToDrawError):
        figures.score_calibration(c | {"error_rates": with_outcome()["error_rates"]})


def test_four_fifths_are_drawn_for_decisions_only():
    def lines(audit):
        drawn = figures.rates(audit)
        return [one["at"] for one in next(d for d in datasets(drawn.spec()) if d["name"] == "lines")["values"]]

    assert lines(cross_fitted_audit()) == [1.0]
    assert lines(decisions_audit()) == [1.0, 0.8]
    assert "impact ratio" in spec_text(figures.rates(cross_fitted_audit()).spec())
    assert 'four fifths"' not in spec_text(figures.rates(cross_fitted_audit()).spec()).split("lines")[0]
    audit = decisions_audit()
    next(iter(audit["comparisons"].values()))["impact_ratio"] = {"value": 1.3, "low": 1.1, "high": 1.5}
    assert lines(audit) == [1.0, 0.8, 1.25]


def test_figures_write_one_minus_sign():
    for figure, _ in drawn("many").values():
        texts = [text for row in figure.table.to_dicts() for text in row.values() if isinstance(text, str)]
        assert not [text for text in (*texts, figure.title, figure.description) if re.search(r"(^|[ (])-\d", text)]


@pytest.mark.parametrize(("reach", "ticks"), [(0.002, [49.85, 49.9, 49.95]), (0.1, [50.0, 52.0])])
def test_neighbouring_ticks_differ(reach, ticks):
    """A gap of 0.1 points had the ticks 49.8, 49.8, 49.9, 49.9."""
    digits = re.fullmatch(r"\.(\d)~f", tick_format(measure_for("probability"), reach))[1]
    assert len({f"{tick:.{digits}f}" for tick in ticks}) == len(ticks)


def test_of_many_features_weak_ones_are_not_drawn():
    c = many(60)
    for row in c["contributions"][3:]:
        row |= {"verdict": "no material contribution"}
    assert len(figures.features(c).table) == 8
    assert "8 strongest of 60" in figures.features(c).note
    c["contributions"][11]["verdict"] = "inconclusive"
    assert len(figures.features(c).table) == 12


def test_of_two_hundred_features_the_strongest_are_shown_and_it_says_so():
    figure = figures.correction_shares(many())
    assert figure.table["feature"].n_unique() == 20
    assert "20 strongest of 200" in figure.note
    along = figures.shares_along_tradeoff(many())
    assert "8 strongest of 200" in along.note
    mapped = figures.proxy_map(many())
    assert len(mapped.table) == 200
    assert 1 <= mapped.table["name"].drop_nulls().len() <= 10


def test_lines_along_the_dial_equal_the_table():
    c = cross_fitted()
    for rows, table in (
        (c["correction"]["tradeoff_table"], None),
        (c["correction"]["tradeoff_table"][::2], pl.DataFrame(c["correction"]["tradeoff_table"][::2])),
    ):
        found = figures.shares_along_tradeoff(c, table).table
        assert found.select("position", "feature", "share", "low", "high").to_dicts() == rows


def test_without_a_dial_the_lines_say_so():
    with pytest.raises(NothingToDrawError, match="no share"):
        figures.shares_along_tradeoff(SUMMARIES["undefined"]())


def test_a_profile_equals_the_summary():
    c = cross_fitted()
    for feature, found in c["bins"]["profiles"].items():
        table = figures.profile(c, feature, position_index=3).table
        for name in ("value", "share_audited", "share_reference", "score", "n", "n_reference"):
            assert table[name].to_list() == [value[name] for value in found["values"]]
        for place, end in enumerate(("q05", "q25", "q50", "q75", "q95")):
            assert table[end].to_list() == [value["quantiles"][3][place] for value in found["values"]]


def test_ways_equal_the_path():
    c = plug_in()
    table = figures.paths(c).table
    green = table.filter(pl.col("way") == "align outputs only")
    assert green["output_divergence"][0] == c["correction"]["output_divergence"]["value"]
    assert (green["input_change"][-1], green["output_divergence"][-1]) == (c["bins"]["least_change"]["cost"], 0.0)
    assert green["input_change"].to_list()[1:-1] == [stop["input_change"] for stop in c["bins"]["path"]["green"]]
    assert green["left"].to_list() == pytest.approx(
        (green["output_divergence"] / green["output_divergence"][0]).to_list()
    )
    assert "0.161" in figures.paths(c).note


def test_the_words_of_the_ways_say_what_they_leave(worded):
    c = plug_in()
    start = c["correction"]["output_divergence"]["value"]
    c["bins"]["path"]["red"][-1]["output_divergence"] = start / 4
    words = figures.paths(c).description
    assert ("leaves 0%" in words, "leaves 25%" in words) == (True, True)
    c["bins"]["least_change"] = None
    c["bins"]["path"]["green"][-1]["output_divergence"] = start / 2
    assert "leaves 50%" in figures.paths(c).description
    worded([words, figures.paths(c).description])


def test_the_simplex_equals_its_ways():
    summary = simplex_paths(WORLD).to_dict()
    figure = figures.simplex(summary)
    for way, name in (("green", "align outputs only"), ("red", "align inputs and outputs")):
        mine = figure.table.filter(pl.col("way") == name)
        assert mine["x"].to_list() == [stop["x"] for stop in summary[way]]
        assert mine["q2"].to_list() == [stop["q"][1] for stop in summary[way]]
    level = next(one for one in datasets(figure.spec()) if one["name"] == "level")["values"]
    assert [(end["x"], end["y"]) for end in level] == [(end["x"], end["y"]) for end in summary["level"]]


def test_trust_equals_the_summary():
    c = cross_fitted()
    bins = c["bins"]["calibration"]
    assert figures.calibration(c).table.select(*bins[0]).to_dicts() == bins
    table = figures.balance(c).table
    for name in ("name", "difference", "se"):
        assert table[name].to_list() == [one[name] for one in c["checks"]["balance"]["mismatches"]]


def test_names_of_groups_are_whole_in_the_rates():
    """They were cut in the middle, while a third of the width was empty."""
    audit = decisions_audit()
    name = "Native American or Alaska Native"
    (c,) = audit["comparisons"].values()
    audit["comparisons"] = {name: c | {"audited": name}}
    assert name in figures.rates(audit).table["label"].to_list()


def test_rates_equal_the_audit():
    audit = cross_fitted_audit()
    table = figures.rates(audit).table
    c = cross_fitted()
    assert table["rate"].to_list() == [c["outputs"]["rates"][who]["value"] for who in ("reference", "audited")]
    assert table["ratio"].to_list() == [None, c["impact_ratio"]["value"]]
    only = next(iter(audit["comparisons"].values()))
    only["impact_ratio"] = {"value": 0.0, "low": None, "high": None}
    assert figures.rates(audit).table["ratio_text"].to_list() == ["–", "0.00"]
    audit["comparisons"] = {}
    with pytest.raises(NothingToDrawError, match="no group"):
        figures.rates(audit)


def test_an_unknown_feature_is_an_error_that_names_the_others():
    with pytest.raises(tl.TiltlensError, match="PriorCounts"):
        figures.profile(plug_in(), "Shoe size")
    with pytest.raises(tl.TiltlensError, match="position_index"):
        figures.correction_distribution(plug_in(), -1)


# Files.


def test_saving_works_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    figure = figures.waterfall(hostile())
    for ending in (".png", ".svg", ".html"):
        figure.save(tmp_path / f"figure{ending}")
    assert (tmp_path / "figure.png").read_bytes().startswith(PNG)
    assert ET.parse(tmp_path / "figure.svg").getroot().tag.endswith("svg")
    page = (tmp_path / "figure.html").read_text()
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"src=|href=|https?:", outside)
    assert page.count("<script") == page.count("</script>") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["figure.html", "figure.png", "figure.svg"]


def test_figures_of_hostile_names_are_well_formed():
    for figure, spec in list(drawn("hostile").values())[::3]:
        assert ET.fromstring(vl_convert.vegalite_to_svg(spec)), figure.title


def test_names_of_the_language_are_names():
    c = cross_fitted()
    names = ["constructor", "__proto__", "toString", "null", ""]
    for row, name in zip(c["contributions"], names, strict=True):
        row["feature"] = name
    svg = vl_convert.vegalite_to_svg(figures.correction_shares(c).spec())
    for name in (*names[:4], "(empty)"):
        assert f">{name}<" in svg


def test_a_failed_save_keeps_the_old_figure(tmp_path, monkeypatch):
    target = tmp_path / "figure.svg"
    target.write_text("old")

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(tl.TiltlensError, match="No space left"):
        figures.calibration(cross_fitted()).save(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["figure", "figure.gif", "figure.PDF"])
def test_an_unknown_ending_is_an_error(name, tmp_path):
    with pytest.raises(tl.TiltlensError, match=r"\.png, \.svg, \.html"):
        figures.calibration(cross_fitted()).save(tmp_path / name)


def test_a_missing_extra_names_itself(refused, monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.split(".")[0] in ("altair", "vl_convert"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    figure = figures.calibration(cross_fitted())
    monkeypatch.setattr(builtins, "__import__", without)
    with refused(tl.TiltlensError, "pip install altair"):
        figures.calibration(cross_fitted())
    with refused(tl.TiltlensError, "pip install altair"):
        figure.save("never.png")


def test_importing_figures_does_not_import_altair():
    import subprocess
    import sys

    code = "import sys, tiltlens.figures as f; sys.exit('altair' in sys.modules or 'vl_convert' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_width_can_be_given():
    c = cross_fitted()
    single, panels = figures.proxy_map(c), figures.profile(c, "Age")
    assert single.spec("container")["width"] == "container"
    assert single.spec("container")["autosize"] == {"type": "fit-x", "contains": "padding"}
    assert single.spec(500)["width"] == 500
    assert sum(panel["width"] for panel in panels.spec(400)["hconcat"]) == pytest.approx(400, abs=2)
    assert panels.spec("container") == panels.spec()
    with pytest.raises(tl.TiltlensError, match="width"):
        single.spec("wide")


def texts_of(svg):
    """Yield each text of a picture, where it ends on the right, about, and how much of it is seen."""
    waiting = [(ET.fromstring(svg), 0.0)]
    while waiting:
        part, left = waiting.pop()
        move = re.match(r"translate\(([-\d.e]+)", part.get("transform", ""))
        left += float(move[1]) if move else 0.0
        if part.tag.endswith("}text") and part.text:
            reach = {"start": 1.0, "middle": 0.5, "end": 0.0}[part.get("text-anchor", "start")]
            yield part.text, left + reach * 7.4 * len(part.text), float(part.get("opacity", 1.0))
        waiting += [(child, left) for child in part]


NARROW = 358  # what a page leaves of 390 pixels


def test_on_a_narrow_page_no_text_is_cut_and_none_lies_on_another():
    c = plug_in()
    steps = figures.waterfall(c)
    ends = {text: end for text, end, _ in texts_of(vl_convert.vegalite_to_svg(steps.spec(NARROW)))}
    assert max(ends[text] for text in steps.table["text"]) <= NARROW
    ends = {text: end for text, end, _ in texts_of(vl_convert.vegalite_to_svg(figures.paths(c).spec(NARROW)))}
    assert ends["least change 0.161"] <= NARROW
    for width, is_seen in ((NARROW, False), (620, True)):
        texts = texts_of(vl_convert.vegalite_to_svg(figures.proxy_map(c).spec(width)))
        assert {seen > 0 for text, _, seen in texts if text == "reveals the group only"} == {is_seen}


def test_the_same_summary_gives_the_same_specification():
    c = cross_fitted()
    again = drawn_from(c)
    for name, figure in drawn_from(c).items():
        assert figure.spec() == again[name].spec()


def test_drawing_leaves_the_summary_alone():
    c, untouched = cross_fitted(), cross_fitted()
    drawn_from(c)
    assert c == untouched


def test_a_notebook_shows_the_chart_without_a_network():
    figure = figures.calibration(cross_fitted())
    bundle = figure._repr_mimebundle_()
    assert bundle["application/vnd.vegalite.v6+json"] == figure.spec()
    assert bundle["image/svg+xml"].startswith("<svg")
    assert not any("html" in kind for kind in bundle)


def test_a_notebook_with_a_figure_can_be_saved():
    """A notebook file holds texts, and other JSON only under names of nbformat's pattern (schema 4.5, mimebundle)."""
    for kind, content in figures.calibration(cross_fitted())._repr_mimebundle_().items():
        assert isinstance(content, str) or re.search(r"^application/(.*\+)?json$", kind), kind


def test_places_are_spread_and_keep_their_order():
    found = spread([0.5, 0.1, 0.11, 0.12, 0.9], 0.05)
    assert found[0] == 0.5
    assert found[4] == 0.9
    assert found[1:4] == pytest.approx([0.06, 0.11, 0.16])
    assert placed([], 1.0, 1.0, 620, 400, []) == []


def test_the_gallery_shows_every_figure():
    root = Path(__file__).parents[2] / "docs"
    text = (root / "gallery.md").read_text()
    shown = set(re.findall(r"`figures\.(\w+)\(", text))
    assert shown == {name for name in typed_figures.__all__ if name.islower() and name != "comparison_figure"}
    pictures = re.findall(r"\((img/[\w-]+\.svg)\)", text)
    assert len(pictures) == len(shown)
    assert all((root / name).exists() for name in pictures)
