"""The directive `json-fields`: names, types and descriptions of an object of a JSON schema, as a table."""

import json
from importlib.resources import files

from docutils import nodes
from docutils.parsers.rst import Directive, directives

HEAD = ("field", "type", "description")


def _type_of(schema):
    """Return the type of a value in words."""
    for part in ("anyOf", "oneOf"):
        if part in schema:
            return " or ".join(dict.fromkeys(_type_of(option) for option in schema[part]))
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {_type_of(schema['items'])}"
    return kind if isinstance(kind, str) else " or ".join(kind)


def _inline(text):
    """Return a text with what stands between backticks as code."""
    parts = enumerate(text.split("`"))
    return [nodes.literal("", part) if index % 2 else nodes.Text(part) for index, part in parts]


def _row(*cells):
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *_inline(cell))) for cell in cells))


class JsonFields(Directive):
    """The fields of a schema's top level, or of the definition that `object` names."""

    required_arguments = 1
    option_spec = {"object": directives.unchanged}  # noqa: RUF012

    def run(self):
        """Return one table."""
        schema = json.loads(files("tiltlens._results").joinpath(f"{self.arguments[0]}.schema.json").read_text("utf-8"))
        name = self.options.get("object")
        properties = (schema["$defs"][name] if name else schema)["properties"]
        group = nodes.tgroup("", cols=len(HEAD))
        group += [nodes.colspec(colwidth=width) for width in (25, 25, 50)]
        rows = [
            _row(f"`{field}`", _type_of(value), value.get("description", "")) for field, value in properties.items()
        ]
        group += [nodes.thead("", _row(*HEAD)), nodes.tbody("", *rows)]
        return [nodes.table("", group)]


def setup(app):
    """Register the directive."""
    app.add_directive("json-fields", JsonFields)
    return {"parallel_read_safe": True}
