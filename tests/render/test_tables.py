"""Tables to hand on, read back by other readers: every number, names as text, small counts withheld."""

import csv
import re
from functools import cache

import polars as pl
import pytest
from markdown_it import MarkdownIt
from tests.command import invoked
from tests.people import audited as audited_people
from tests.people import lending, people

import tiltlens as tl
from tiltlens._documents.sentences import IS_NO_FINDING
from tiltlens._render import table_files
from tiltlens._render.table_files import export_tables, latex, markdown, texts, write_tables
from tiltlens.errors import DataError, MissingExtraError

HOSTILE = [
    '=HYPERLINK("http://x","y")',
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    " =1+1",
    "a|b",
    "<b>&amp;\\textbf{x}",
    "[5pt] *",
]


@cache
def result():
    """Return an audit of decisions by names that could be formulas, links and commands."""
    frame = lending(800).filter(pl.col("group") != "c").rename({"region": HOSTILE[3], "job": HOSTILE[8]})
    frame = frame.with_columns(pl.col("group").replace({"a": HOSTILE[0], "b": HOSTILE[7]}))
    few = frame.head(7).with_columns(group=pl.lit("-few"))
    options = {"threshold": 0.5, "features": [HOSTILE[3], HOSTILE[8]], "reference": HOSTILE[7], "propensity": "chance"}
    return tl.audit(pl.concat([frame, few]), "group", scores="score", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    result().to_tables(place / "tables")
    result().to_tables(place / "tables.xlsx")
    return place


def test_a_workbook_holds_every_number_and_no_formula(folder):
    import openpyxl

    book = openpyxl.load_workbook(folder / "tables.xlsx")
    assert book.sheetnames == ["rates", "contributions", "about"]
    head, *rows = book["contributions"].values
    for c in result().comparisons.values():
        for expected in c.contributions_full.to_dicts():
            found = next(
                dict(zip(head, row, strict=True))
                for row in rows
                if row[0] == c.audited and row[2] == expected["feature"]
            )
            assert found == {"audited": c.audited, "reference": c.reference} | {
                name: value if value is None or isinstance(value, str) else pytest.approx(value)
                for name, value in expected.items()
            }
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row]
    assert not [cell for cell in cells if cell.data_type == "f"]
    quoted = [cell.value for cell in cells if cell.quotePrefix]
    assert {HOSTILE[0], HOSTILE[3], "-few"} <= set(quoted)
    about = dict(list(book["about"].values)[1:])
    assert about["reference"] == HOSTILE[7]
    assert about["data, SHA-256"] == result().provenance.data_sha256


def test_csv_holds_every_number_and_an_apostrophe_before_what_could_be_a_formula(folder):
    with (folder / "tables" / "rates.csv").open(newline="", encoding="utf-8") as stream:
        rows = {row["group"]: row for row in csv.DictReader(stream)}
    assert list(rows) == [f"'{HOSTILE[0]}", HOSTILE[7], "'-few"]
    c = result()[HOSTILE[0]]
    row = rows[f"'{HOSTILE[0]}"]
    assert (row["role"], int(row["people"])) == ("audited", c.rows["audited"])
    assert float(row["gap"]) == c.gap.value
    assert float(row["adverse_impact_ratio_low"]) == c.adverse_impact_ratio.low
    assert float(row["favourable_rate"]) == c.rates.audited.value
    assert float(rows[HOSTILE[7]]["favourable_rate_high"]) == c.rates.reference.high
    assert rows[HOSTILE[7]]["gap"] == ""
    with (folder / "tables" / "contributions.csv").open(newline="", encoding="utf-8") as stream:
        features = [row["feature"] for row in csv.DictReader(stream)]
    assert set(features) == {f"'{HOSTILE[3]}", HOSTILE[8]}


def test_a_count_below_ten_is_withheld_everywhere(folder):
    import openpyxl

    with (folder / "tables" / "rates.csv").open(newline="", encoding="utf-8") as stream:
        few = next(row for row in csv.DictReader(stream) if row["role"] == "too small")
    assert few.pop("group") == "'-few"
    assert {few.pop("role"), *few.values()} == {"too small", ""}
    sheet = openpyxl.load_workbook(folder / "tables.xlsx")["rates"]
    assert [row[2:] for row in sheet.values if row[1] == "too small"] == [(None,) * (sheet.max_column - 2)]
    for name in ("rates.md", "rates.tex"):
        text = (folder / "tables" / name).read_text()
        assert re.search(r"-few (\||&) fewer than 10 (\||&) –", text)
        assert not re.search(r"-few.*\b7\b", text)


def rendered(text):
    """Return the cells of Markdown tables as a browser would show them."""
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert not re.search(r"<(?!/?(p|strong|table|thead|tbody|tr|th|td)\b)", html), html
    cells = re.findall(r"<t[hd]\b[^>]*>(.*?)</t[hd]>", html, re.DOTALL)
    return [
        cell.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&") for cell in cells
    ]


def test_markdown_shows_names_as_they_are():
    for table in export_tables(result()):
        expected = [cell for row in texts(table) for cell in row]
        assert rendered(markdown(table)) == [cell.strip() for cell in expected]


def unescaped(text):
    """Return what LaTeX would print, where nothing but known escapes is left."""
    words = {"textbackslash": "\\", "textless": "<", "textgreater": ">", "textbar": "|", "char34": '"'}
    plain = re.sub(r"\\(\w+)\{\}", lambda found: words[found[1]], text.replace("-{}-", "--"))
    marks = re.sub(r"\{([\[\]*`])\}", r"\1", plain)
    return re.sub(r"\\([&%$#_{}])", r"\1", marks)


def test_latex_prints_names_as_they_are():
    for table in export_tables(result()):
        text = latex(table)
        rows = [line.removesuffix(r" \\") for line in text.splitlines() if line.endswith(r" \\")]
        found = [[unescaped(cell) for cell in re.split(r"(?<!\\) & ", row)] for row in rows]
        assert found == [[cell.replace("−", "-") for cell in row] for row in texts(table)]
        assert not [row for row in rows if row.startswith(("[", "*"))]
        assert text.count(r"\begin") == text.count(r"\end") == 2


KNOWN = {"propensity": "chance"}


@pytest.mark.parametrize(
    "options",
    [
        {"folds": None},
        {"score_type": "amount", **KNOWN},
        {"features": []},
        {"threshold": 0.5, "outcome": "owner", **KNOWN},
    ],
    ids=["plug-in", "amounts", "outputs only", "error rates"],
)
def test_tables_of_every_kind_of_audit(tmp_path, options):
    import openpyxl

    found = audited_people(people(), **{"features": ["income", "city"]} | options)
    assert [path.name for path in write_tables(found, tmp_path / "all.xlsx")] == ["all.xlsx"]
    names = ["rates"] if options.get("features") == [] else ["rates", "contributions"]
    assert openpyxl.load_workbook(tmp_path / "all.xlsx").sheetnames == [*names, "about"]
    written = write_tables(found, tmp_path / "folder")
    assert {path.name for path in written} == {f"{name}{end}" for name in names for end in (".csv", ".md", ".tex")}
    head, *rows = openpyxl.load_workbook(tmp_path / "all.xlsx")["rates"].values
    audited = dict(zip(head, rows[0], strict=True))
    assert audited["gap"] == pytest.approx(found["A"].gap.value)
    if "outcome" in options:
        assert audited["fpr"] == pytest.approx(found["A"].error_rates.fpr.audited.value)


def test_several_audited_groups_are_told_apart():
    options = {"scores": "score", "reference": "b", "features": ["region"], "folds": None}
    rates, proxies = export_tables(tl.audit(lending(), "group", **options))
    assert [row[:2] for row in rates.records] == [["a", "audited"], ["c", "audited"], ["b", "reference"]]
    head, *lines = texts(proxies)
    assert [row[:2] for row in lines] == [["group = a", "region"], ["group = c", "region"]]
    assert (head[0], proxies.notes) == ("audited", (IS_NO_FINDING,))  # plug-in values have no bands


def test_the_same_audit_has_the_same_bytes_from_a_saved_one_too(tmp_path, folder):
    result().to_json(tmp_path / "audit.json")
    tl.read_audit(tmp_path / "audit.json").to_tables(tmp_path / "again.xlsx")
    assert (tmp_path / "again.xlsx").read_bytes() == (folder / "tables.xlsx").read_bytes()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "tables.csv",
            r"`tables` must be a folder, or a file that ends in \.xlsx, \.md or \.tex, got .*\nHint: a folder",
        ),
        ("file", r"`tables` must be a folder, got the file"),
        ("nowhere/tables.xlsx", r"cannot be written because the folder"),
        ("nowhere/tables", r"cannot be written because the folder"),
    ],
)
def test_a_place_that_cannot_be_written_is_refused(tmp_path, target, message):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match=message):
        result().to_tables(tmp_path / target)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_xlsx_without_its_package_names_what_to_install(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "find_spec", lambda name: None)
    with refused(MissingExtraError, "'.[tables]'"):
        result().to_tables(tmp_path / "tables.xlsx")


def test_the_command_line_writes_tables_and_says_where(worded, tmp_path):
    people().write_csv(tmp_path / "people.csv")
    options = ["--group", "group", "--scores", "score", "--features", "city", "--folds", "0"]
    found = invoked("audit", "people.csv", *options, "--tables", "out", cwd=tmp_path)
    assert found.returncode == 0
    worded(found.stderr)
    assert len(list((tmp_path / "out").iterdir())) == 6
    refused = invoked("audit", "people.csv", *options, "--tables", "out.csv", cwd=tmp_path)
    assert refused.returncode == 2
    worded(refused.stderr)
