"""skops files: scikit-learn models as data. Types that skops does not know are built only where they are named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiltlens.errors import DataError, MissingExtraError
from tiltlens.sources.messages import first_line, listed, shown


def open_skops(name: str, content: bytes, trusted: Sequence[str]) -> Any:
    """Return the scikit-learn model of a skops file, all of whose types must be known to skops or trusted."""
    try:
        import skops.io as sio
    except ImportError:
        raise MissingExtraError("skops files must be read by skops, which is not installed.", extra="models") from None
    try:
        unknown = [type_name for type_name in sio.get_untrusted_types(data=content) if type_name not in trusted]
    except Exception as error:  # a ZIP of another kind, or one cut short
        raise _broken(name, error) from None
    if unknown:
        flags = " ".join(f"--trusted {type_name}" for type_name in unknown)
        raise DataError(
            f"{shown(name)} must hold types that skops knows or that are named as trusted, got {listed(unknown)}.",
            f"building them runs their code. If you know whose they are: trusted={unknown} ({flags}).",
        )
    try:
        model = sio.loads(content, trusted=list(trusted))
    except Exception as error:  # a type of another version, or a package that is not installed
        raise _broken(name, error) from None
    if not any(hasattr(model, method) for method in ("predict_proba", "predict")):
        raise DataError(
            f"{shown(name)} must hold a model that predicts, got {type(model).__name__}.", "save the whole pipeline."
        )
    return model


def _broken(name: str, error: Exception) -> DataError:
    return DataError(
        f"{shown(name)} must be a complete skops file, got {type(error).__name__}: {first_line(error)}",
        "save the model again, with the versions of scikit-learn and skops that are installed here.",
    )
