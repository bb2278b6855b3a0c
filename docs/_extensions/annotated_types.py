"""Types, defaults and returned types of the reference, from annotations, wherever a docstring does not give them."""

import inspect
import re

from numpydoc.docscrape_sphinx import SphinxDocString
from related import error_text, related_names

SECTION = re.compile(r"^-{3,}$")
WORDS = {
    " | ": " or ",
    "Floats": "array of float",
    "NDArray": "array",
    "Record": "dict",
    "pl.DataFrame": "polars DataFrame",
}


def _in_words(annotation):
    """Return an annotation as numpydoc writes types; nothing for `Any`."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    if text.startswith("Annotated["):
        text = text.removeprefix("Annotated[").partition(",")[0]
    for code, words in WORDS.items():
        text = text.replace(code, words)
    return "" if text in ("Any", "_empty") else text


def _parameters(function):
    """Return type and default of each parameter."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return {}, ""
    found = {}
    for name, parameter in signature.parameters.items():
        if name in ("self", "cls") or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        default = "" if parameter.default is inspect.Parameter.empty else f"default={parameter.default!r}"
        found[name] = ", ".join(filter(None, (_in_words(parameter.annotation), default)))
    returned = _in_words(signature.return_annotation)
    return found, "" if returned == "None" else returned


def _sections(lines):
    """Return the line below the underline of each section, by its name."""
    return {lines[i - 1].strip(): i + 1 for i in range(1, len(lines)) if SECTION.match(lines[i].strip())}


def _add_types(lines, start, types):
    """Write a type behind names that have none, up to the next section."""
    for i in range(start, len(lines)):
        if SECTION.match(lines[min(i + 1, len(lines) - 1)].strip()):
            return
        line = lines[i]
        if line and not line[0].isspace() and " : " not in line:
            names = [name.strip().lstrip("*") for name in line.split(",")]
            known = dict.fromkeys(types[name] for name in names if types.get(name))
            if known:
                lines[i] = f"{line} : {'; '.join(known)}"


def relate(_app, what, name, _documented, _options, lines):
    """Add related names and errors to a docstring without them; all figures raise the same error."""
    if "See Also" not in _sections(lines) and (related := related_names(name)):
        lines += ["", "See Also", "--------", *(f"tiltlens.{entry}" for entry in related)]
    if "Raises" not in _sections(lines) and (text := error_text(name)):
        lines += ["", "Raises", "------", "TiltlensError", f"    {text}"]
    if name.startswith("tiltlens.figures.") and what in ("function", "data"):
        lines += ["", "Raises", "------", "NothingToDrawError", "    If the result has nothing to draw."]


def complete(_app, what, _name, documented, _options, lines):
    """Add what annotations say to a docstring that does not."""
    if what == "class":
        sections = _sections(lines)
        if "Attributes" in sections:
            fields = {}
            for parent in reversed(documented.__mro__):
                fields |= {name: _in_words(text) for name, text in vars(parent).get("__annotations__", {}).items()}
            _add_types(lines, sections["Attributes"], fields)
        if "Parameters" in sections:
            _add_types(lines, sections["Parameters"], _parameters(documented.__init__)[0])
    if what in ("function", "method"):
        parameters, returned = _parameters(documented)
        sections = _sections(lines)
        if "Parameters" in sections:
            _add_types(lines, sections["Parameters"], parameters)
        elif parameters:
            listed = [f"{name} : {kind}" if kind else name for name, kind in parameters.items()]
            lines += ["", "Parameters", "----------", *listed]
        if returned and "Returns" not in sections and "Yields" not in sections:
            lines += ["", "Returns", "-------", returned]


def _field_as_written(process):
    """Return numpydoc's format of an attribute, except that a field keeps its text.

    numpydoc would take the text of a base class's property of that name, and link to it.
    """

    def processed(docstring, name, text, fake_autosummary):
        is_field = inspect.ismemberdescriptor(getattr(docstring._obj, name, None))
        return process(docstring, name, text, fake_autosummary and not is_field)

    return processed


def setup(app):
    """Run before numpydoc reads a docstring."""
    SphinxDocString._process_param = _field_as_written(SphinxDocString._process_param)
    app.connect("autodoc-process-docstring", complete, priority=400)
    app.connect("autodoc-process-docstring", relate, priority=400)
    return {"parallel_read_safe": True}
