"""The report as PDF: few pages, running heads, nothing split; and what is said where no browser is."""

import re
import shutil
import subprocess
from copy import deepcopy

import pytest
from click.testing import CliRunner
from tests.documents.test_first_screen import several
from tests.people import audited, people
from tests.render.summaries import cross_fitted_audit, many, typed

from tiltlens._cli import main
from tiltlens._render import page as pages
from tiltlens._render.page import check_name, css_text, page, write_report
from tiltlens.errors import DataError, MissingExtraError

needs_browser = pytest.mark.browser


def immaterial(count):
    """Return an audit of many features, most of which contribute nothing."""
    c = many(count)
    for row in c["contributions"][6:]:
        row |= {"verdict": "no material contribution", "reason": "less than 0.50 points, alone and beyond the others"}
    return cross_fitted_audit() | {"comparisons": {"many": c}}


@needs_browser
@pytest.mark.parametrize(
    ("make", "most"),
    [(cross_fitted_audit, 6), (lambda: immaterial(60), 9), (several, 12)],
    ids=["five features", "sixty features", "nine groups"],
)
def test_a_pdf_has_few_pages(make, most, tmp_path):
    write_report(typed(make()), tmp_path / "audit.pdf")
    content = (tmp_path / "audit.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= most
    assert [path.name for path in tmp_path.iterdir()] == ["audit.pdf"]


@needs_browser
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="needs pdftotext of poppler-utils")
def test_every_page_has_model_data_date_and_number(tmp_path):
    audit = cross_fitted_audit()
    write_report(typed(audit), tmp_path / "audit.pdf")
    command = ["pdftotext", "-layout", str(tmp_path / "audit.pdf"), "-"]
    pages = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\f")[:-1]
    for number, text in enumerate(pages, 1):
        assert f"Page {number} of {len(pages)}" in text
        assert f"Data SHA-256 {audit['provenance']['data_sha256'][:16]}" in text
        assert "Model: logistic regression" in text
        assert audit["provenance"]["created"][:10] in text
        assert "African-American vs Caucasian" in text
    assert "Next steps" in pages[0]
    (signed,) = [number for number, text in enumerate(pages) if "Prepared by" in text]
    assert "Statistical appendix" in "".join(pages[:signed])  # the evidence comes first
    assert "Numbers behind this" not in "".join(pages)
    assert any("Statistical appendix" in text for text in pages[2:])


def test_without_a_browser_it_says_how_to_print(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "which", lambda name: None)
    monkeypatch.setattr(pages, "APPLICATIONS", ())
    with refused(MissingExtraError, "needs Chromium"):
        write_report(typed(cross_fitted_audit()), tmp_path / "audit.pdf")
    people().write_csv(tmp_path / "data.csv")
    options = ["--group", "group", "--scores", "score", "--features", "", "--report", str(tmp_path / "audit.pdf")]
    result = CliRunner().invoke(main, ["audit", str(tmp_path / "data.csv"), *options])
    assert result.exit_code == 2
    assert "needs Chromium" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


def test_a_browser_that_fails_leaves_the_old_file(refused, tmp_path, monkeypatch):
    target = tmp_path / "audit.pdf"
    target.write_text("the old one")
    monkeypatch.setattr(pages, "find_browser", lambda: shutil.which("false"))
    with refused(DataError, "did not print"):
        write_report(typed(cross_fitted_audit()), target)
    assert target.read_text() == "the old one"


def test_the_sandbox_is_left_only_as_root(monkeypatch):
    for user, flags in ((0, ["--no-sandbox"]), (1000, [])):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        assert pages._sandbox() == flags


@pytest.mark.parametrize("name", ["report.txt", "report.docx", "report"])
def test_a_report_has_the_name_of_a_page_or_a_pdf(refused, name, tmp_path):
    """D12: `--report out.txt` was accepted."""
    with refused(DataError):
        check_name(tmp_path / name)
    for good in ("a.html", "a.HTM", "a.pdf"):
        check_name(tmp_path / good)


def test_names_cannot_leave_the_running_head():
    assert str(css_text('a" } </style><script>')) == "a\\22  \\7d  \\3c \\2f style\\3e \\3c script\\3e "
    audit = deepcopy(cross_fitted_audit())
    audit["provenance"]["stated"]["model"] = '"; } </style><script>alert(1)</script>'
    assert "<script>alert" not in page(typed(audit))


@needs_browser
def test_the_audit_itself_writes_a_pdf(tmp_path):
    audited(people(), features=[]).report(tmp_path / "audit.pdf")
    assert (tmp_path / "audit.pdf").read_bytes().startswith(b"%PDF")
