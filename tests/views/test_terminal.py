"""The terminal says what the summary says, and marks verdicts by what they are."""

import io

from rich.console import Console
from tests.views.summaries import cross_fitted_audit

from tiltlens.views.terminal import print_audit
from tiltlens.views.verdicts import EVIDENCE, VERDICTS


def printed(audit, **options):
    console = Console(file=io.StringIO(), width=160, **options)
    print_audit(audit, console)
    return console.file.getvalue()


def test_directions_are_those_of_evidence_whatever_it_is_called():
    for text, verdict in VERDICTS.items():
        audit = cross_fitted_audit()
        rows = next(iter(audit["comparisons"].values()))["proxies"]
        for row in rows:
            row |= {"verdict": text, "direction": f"towards {row['feature']}"}
        assert (f"• towards {rows[0]['feature']}" in printed(audit)) == (verdict.kind == EVIDENCE)


def test_a_verdict_that_only_sounds_like_evidence_is_not_marked():
    audit = cross_fitted_audit()
    c = next(iter(audit["comparisons"].values()))
    c["proxies"] = [c["proxies"][0] | {"verdict": "no proxy evidence", "direction": "nowhere"}]
    shown = printed(audit, force_terminal=True, color_system="standard")
    assert "no proxy evidence" in shown
    assert "\x1b[1mno proxy evidence" not in shown
    assert "• nowhere" not in printed(audit)
