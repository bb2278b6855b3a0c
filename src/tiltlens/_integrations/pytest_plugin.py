"""pytest plugin: audits as fixtures, and gates that fail with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tiltlens._results.audit import Audit


@pytest.fixture(scope="session")
def tiltlens_audit(pytestconfig: pytest.Config) -> Callable[..., Audit]:
    """Return a function that audits data, runs an audit file, or reads a saved audit.

    `tiltlens_audit("audit.yaml")` runs the file and fails if one of its gates fires; `tiltlens_audit("audit.json")`
    reads a saved audit. Each is done once per session; names are relative to pytest's root. Other arguments are those
    of `tl.audit`.
    """
    audits: dict[Path, Audit] = {}

    def audited(data: Any, *arguments: Any, **options: Any) -> Audit:
        from tiltlens._pipeline import audit

        __tracebackhide__ = True
        is_path = isinstance(data, str | Path) and not arguments and not options
        if not is_path or Path(data).suffix.lower() not in READERS:
            return audit(data, *arguments, **options)
        path = (pytestconfig.rootpath / data).resolve()
        if path not in audits:
            audits[path] = READERS[path.suffix.lower()](path)
        return audits[path]

    return audited


@pytest.fixture(scope="session")
def assert_gate() -> Callable[..., None]:
    """Return `assert_gate(audit, "gap.low>0.05", …)`, which fails if a condition holds, and names the group."""
    from tiltlens._gates import assert_gate as check

    return check


def _run(path: Path) -> Audit:
    from tiltlens._commands.audit_file import read_audit_file
    from tiltlens._gates import assert_gate

    __tracebackhide__ = True
    request = read_audit_file(path)
    result = request.run()
    if request.gates:
        assert_gate(result, *(gate.text for gate in request.gates))
    return result


def _read(path: Path) -> Audit:
    from tiltlens._results.saved_audits import read_audit

    return read_audit(path)


READERS: dict[str, Callable[[Path], Audit]] = {".yaml": _run, ".yml": _run, ".toml": _run, ".json": _read}
