"""`tiltlens run`: a file says what is audited, checked before it starts; the same bytes every time."""

import json
import re
import sys
from dataclasses import replace

import polars as pl
import pytest
from junitparser import Error, Failure, JUnitXml, Skipped
from tests.command import invoked

import tiltlens as tl
from tiltlens._cli import main
from tiltlens._commands.audit import OUTPUTS
from tiltlens._commands.audit_file import read_audit_file
from tiltlens._estimators.verdicts import Verdict
from tiltlens._gates import gate, junit
from tiltlens.errors import DataError, MissingExtraError, TiltlensError

YAML = """
data: people.csv
group: sex
reference: no        # a group of this name, not a boolean
scores: score
threshold: 5e-1      # no text
features: [income, "a, b"]
confidence: 0.9
gates: [adverse_impact_ratio<0.8, "gap>0.9"]
provenance: {model: 3.10, data window: 2024-01-01}
outputs: {json: out/audit.json, junit: out/gates.xml, tables: out/tables.xlsx}
"""
TOML = """
data = "people.csv"
group = "sex"
reference = "no"
scores = "score"
threshold = 0.5
features = ["income", "a, b"]
confidence = 0.9
gates = ["adverse_impact_ratio<0.8", "gap>0.9"]
[provenance]
model = "3.10"
"data window" = "2024-01-01"
[outputs]
json = "out/audit.json"
junit = "out/gates.xml"
tables = "out/tables.xlsx"
"""
ROWS = [("no" if i % 2 else "yes", i % 7, i % 3, ((i % 7) + (i % 2)) / 9) for i in range(120)]
PEOPLE = pl.DataFrame(ROWS, schema=["sex", "income", "a, b", "score"], orient="row")


@pytest.fixture
def folder(tmp_path):
    """A folder with data, and one beside it to run from."""
    PEOPLE.write_csv(tmp_path / "people.csv")
    (tmp_path / "out").mkdir()
    return tmp_path


def write(folder, text, name="audit.yaml"):
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_the_same_file_gives_the_same_bytes_twice(folder):
    outputs = []
    for _ in range(2):
        done = invoked("run", write(folder, YAML), cwd="/")  # names are relative to the file
        assert done.returncode == 1, done.stderr
        assert "Gate failed: adverse_impact_ratio<0.8" in done.stderr
        outputs.append([(folder / "out" / one).read_bytes() for one in ("audit.json", "gates.xml", "tables.xlsx")])
    assert outputs[0] == outputs[1]
    found = json.loads(outputs[0][0])
    assert (found["reference"], found["settings"]["confidence"], found["provenance"]["created"]) == ("no", 0.9, None)
    assert found["provenance"]["stated"] == {"model": "3.10", "data window": "2024-01-01"}
    assert found["provenance"]["features"] == ["income", "a, b"]
    assert tl.read_audit(folder / "out" / "audit.json")["yes"].gap.value == found["comparisons"]["yes"]["gap"]["value"]


def test_yaml_toml_and_the_command_line_ask_for_the_same(folder):
    yaml, toml = (read_audit_file(write(folder, *one)) for one in ((YAML, "a.yaml"), (TOML, "a.toml")))
    assert replace(yaml, file=None) == replace(toml, file=None)
    options = ["--group", "sex", "--reference", "no", "--scores", "score", "--threshold", "0.5", "--confidence", "0.9"]
    stated = ("--provenance", "model=3.10", "--provenance", "data window=2024-01-01")
    params = main.commands["audit"].make_context("audit", ["people.csv", *options, *stated]).params
    names = set(yaml.options) - {"features"}  # a name with a comma cannot be written there
    assert {name: yaml.options[name] for name in names} == {name: params[name] for name in names}
    assert yaml.data == params["data"] == ("people.csv",)


def test_a_date_is_in_the_bytes_where_it_is_told(refused, folder, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    asked = read_audit_file(write(folder, "data: people.csv\ngroup: sex\nscores: score\nfolds: 0\nfeatures: []"))
    assert asked.run().provenance.created == "1970-01-02T00:00:00+00:00"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with refused(DataError, "'yesterday'", "1970"):
        asked.run()


def test_every_option_of_the_command_line_is_a_key(folder):
    keys = {"gates", "outputs"} | {param.name for param in main.commands["audit"].params} - {"fail_if", *OUTPUTS}
    with pytest.raises(DataError, match="Unknown key `x`") as caught:
        read_audit_file(write(folder, "x: 1"))
    assert keys == set(str(caught.value).rpartition("keys are ")[2].rstrip(".").split(", "))


BASE = "data: people.csv\ngroup: sex\nscores: score\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE + "scorse: a", r"Unknown key `scorse`.*\n.*did you mean scores\?"),
        (BASE + "outputs: {jsn: a}", r"`outputs.jsn`.*\n.*did you mean outputs.json\? The keys are json, report"),
        (BASE + "outputs: a.json", "`outputs` in .* must be file names by key, got 'a.json'"),
        (BASE + "threshold: high", "`threshold` in .* must be a number, got 'high'"),
        (BASE + "random_state: 1.5", "`random_state` in .* must be a whole number, got '1.5'"),
        (BASE + "metric: fpp", "`metric` in .* must be one of fpr, fnr, fdr, for, got 'fpp'"),
        (BASE + "threshold: [1, 2]", "`threshold` in .* must be one value, got a list"),
        (BASE + "reference:", "`reference` in .* has no value"),
        (BASE + "where: repaid", "`where` in .* must be texts by name, got 'repaid'"),
        (BASE + "group: race", "the key 'group' twice .line 4"),
        (BASE + "where: {a: 1, a: 2}", "the key 'a' twice .line 4"),
        (BASE + "? [a]\n: 1", "a key that is not a text"),
        (BASE + "gates: [gap=3]", "In .*audit.yaml': 'gap=3' is not a gate"),
        (BASE + "gates: [gap<-10]", "In .*audit.yaml': .*gap needs a number between -1 and 1, got 'gap<-10'"),
        (BASE + "confidence: 95", "In .*audit.yaml': `confidence` must be between 0 and 1, got 95"),
        (BASE + "materiality: 3", "In .*audit.yaml': `materiality` must be at least 0 and below 1"),
        (BASE + "threshold: 7", "In .*audit.yaml': .*threshold"),
        (BASE + "metric: fpr", "In .*audit.yaml': `metric` fpr needs `outcome`"),
        (BASE + "group_probability: {a: b}", "In .*audit.yaml': `group` and `group_probability`"),
        (BASE + "outputs: {json: nowhere/a.json}", "cannot be written"),
        (BASE + "outputs: {junit: a.xml}", r"`junit` needs a gate.\n.*`gates`"),
        (BASE + "a: &a [x]\nb: [*a, *a]", "Line 4 of .* has an anchor"),
        (BASE + "a: !!python/object/apply:os.system [echo]", "Line 4 of .* has a tag"),
        (BASE + "a: [", "is not valid YAML: .* in line"),
        ("- a\n- b", "has no keys with values"),
        ("", "has no keys with values"),
        ("group: sex", "has no `data`"),
        (BASE + "a: b\n---\nc: d", "is not valid YAML"),
        ("[" * 30_000, "Line 1 of .* has too many levels"),
        ("# " + "x" * 1_000_001, "is larger than 1,000,000 bytes"),
    ],
)
def test_a_mistake_in_a_file_is_told_before_the_audit_starts(folder, text, message, monkeypatch):
    monkeypatch.setattr("tiltlens._commands.audit.audit_files", None)  # nothing is audited
    with pytest.raises(TiltlensError, match=message):
        read_audit_file(write(folder, text))
    done = invoked("run", "--check", "audit.yaml", cwd=folder)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group = true", "`group` in .* must be a text or a number, got True.*\n.*put it in quotes"),
        ("group = 2024-01-01", "must be a text or a number"),
        ("group = 1\ngroup = 2", "is not valid TOML"),
        ("group = ", "is not valid TOML"),
    ],
)
def test_a_mistake_in_toml(folder, text, message):
    with pytest.raises(DataError, match=message):
        read_audit_file(write(folder, f'data = "a.csv"\n{text}', "audit.toml"))


def test_files_that_cannot_be_read(refused, folder, monkeypatch):
    for name, message in (("none.yaml", "Cannot read"), ("people.csv", "must end in .yaml, .yml or .toml")):
        with pytest.raises(DataError, match=message):
            read_audit_file(folder / name)
    (folder / "latin.toml").write_bytes(b'group = "\xe9"')
    with pytest.raises(DataError, match="is not UTF-8"):
        read_audit_file(folder / "latin.toml")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with refused(MissingExtraError, "'.[yaml]'"):
        read_audit_file(write(folder, YAML))


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (
            "{json: people.csv}",
            r"`outputs.json` in 'audit.yaml' cannot be written to .* because it is part of the input 'people.csv'",
        ),
        ("{json: audit.yaml}", "it is part of the input .*audit.yaml"),
        ("{json: a.json, junit: out/../a.json}\ngates: [gap>0.9]", "`outputs.json` in 'audit.yaml' is written there"),
    ],
)
def test_nothing_is_written_over_data_or_another_file(folder, outputs, message):
    write(folder, f"{BASE}outputs: {outputs}")
    done = invoked("run", "audit.yaml", cwd=folder)
    assert (done.returncode, bool(re.search(message, done.stderr))) == (2, True), done.stderr


@pytest.mark.parametrize("package", ["altair", "vl_convert", "jinja2"])
def test_a_check_needs_none_of_the_packages_that_draw(worded, folder, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    write(folder, BASE + "outputs: {report: a.html}")
    assert invoked("run", "--check", "audit.yaml", cwd=folder).returncode == 0
    done = invoked("run", "audit.yaml", cwd=folder)
    assert (done.returncode, "pip install altair" in done.stderr) == (2, True)
    write(folder, BASE + "outputs: {report: a.docx}")
    worded(invoked("run", "--check", "audit.yaml", cwd=folder).stderr)


def test_features_that_are_undecided_are_no_pass(worded, folder):
    frame = pl.DataFrame({"feature": ["a", "b"], "verdict": [Verdict.INCONCLUSIVE, "no material contribution"]})
    c = replace(tl.audit(PEOPLE, "sex", scores="score", folds=None)["yes"], contributions_full=frame)
    audit = replace(tl.audit(PEOPLE, "sex", scores="score", folds=None), comparisons={"yes": c})
    (said,) = gate("potential_proxies>0").judge(audit)
    assert (said.status, said.fails) == ("undecided", False)
    worded(str(said))
    assert [gate(text).judge(audit)[0].status for text in ("potential_proxies>1", "potential_proxies<1")] == [
        "passed",
        "fired",
    ]
    suite = next(iter(JUnitXml.fromstring(junit(audit, [said]))))
    assert [type(one) for one in next(iter(suite)).result] == [Skipped]


def test_gates_are_read_by_a_parser_of_junit_and_what_is_not_known_is_no_pass(worded, folder):
    table = pl.read_csv(folder / "people.csv").with_columns(
        sex=pl.when(pl.int_range(pl.len()) < 3).then(pl.lit('<x & "y">\x01')).otherwise("sex")
    )
    table.write_csv(folder / "people.csv")
    gates = ("gap>0.9", "gap<0.9", "adjusted_gap>0.5", "too_small>5")
    options = ("--group", "sex", "--reference", "no", "--scores", "score", "--features", "", "--folds", "0")
    fail_if = [part for one in gates for part in ("--fail-if", one)]
    done = invoked("audit", "people.csv", *options, *fail_if, "--junit", "gates.xml", cwd=folder)
    assert done.returncode == 1, done.stderr
    suite = next(iter(JUnitXml.fromfile(str(folder / "gates.xml"))))
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 1, 1, 3)
    found = {(case.name, case.classname): [type(one) for one in case.result] for case in suite}
    assert found["gap>0.9", "yes against no"] == []
    assert found["gap<0.9", "yes against no"] == [Failure]
    assert found["adjusted_gap>0.5", "yes against no"] == [Error]
    assert found["gap>0.9", '<x & "y">\N{REPLACEMENT CHARACTER} against no'] == [Skipped]
    assert found["too_small>5", "all groups"] == []
    messages = [one.message for case in suite for one in case.result]
    assert len(messages) == 5
    worded(sorted(re.sub(r"[−-]?\d\.\d+", "…", message) for message in messages))
