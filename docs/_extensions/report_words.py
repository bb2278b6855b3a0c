"""The directive `report-words`: the report's glossary as a definition list."""

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from tiltlens._documents import glossary

LISTS = {
    "scores": glossary.GLOSSARY,
    "amounts": dict(entry for entry in glossary.OF_AMOUNTS.values() if entry is not None),
    "chances": glossary.OF_CHANCES,
    "costs": glossary.OF_COSTS,
    "statisticians": glossary.FOR_STATISTICIANS,
}


class ReportWords(Directive):
    """Each word with what it means."""

    option_spec = {"of": lambda name: directives.choice(name, tuple(LISTS))}  # noqa: RUF012

    def run(self):
        """Return one definition list."""
        of = self.options.get("of", "scores")
        words = nodes.definition_list()
        for name, text in LISTS[of].items():
            meaning = nodes.definition("", nodes.paragraph("", text))
            words += nodes.definition_list_item("", nodes.term("", name), meaning)
        return [words]


def setup(app):
    """Register the directive."""
    app.add_directive("report-words", ReportWords)
    return {"parallel_read_safe": True}
