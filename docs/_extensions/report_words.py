"""The directive `report-words`: the report's glossary as a definition list."""

from docutils import nodes
from docutils.parsers.rst import Directive, directives

from tiltlens.documents import glossary

LISTS = {
    "scores": glossary.GLOSSARY,
    "amounts": dict(entry for entry in glossary.OF_AMOUNTS.values() if entry is not None),
    "chances": glossary.OF_CHANCES,
    "statisticians": glossary.with_plain_words(glossary.FOR_STATISTICIANS),
    "plain": glossary.PLAIN_WORDS,
}


class ReportWords(Directive):
    """Each word with what it means."""

    option_spec = {"of": lambda name: directives.choice(name, tuple(LISTS))}  # noqa: RUF012

    def run(self):
        """Return one definition list; of plain words, a table."""
        of = self.options.get("of", "scores")
        if of == "plain":
            return [_table(LISTS[of])]
        words = nodes.definition_list()
        for name, text in LISTS[of].items():
            meaning = nodes.definition("", nodes.paragraph("", text))
            words += nodes.definition_list_item("", nodes.term("", name), meaning)
        return [words]


def _table(entries):
    rows = [nodes.row("", *(_cell(text) for text in entry)) for entry in entries.items()]
    head = nodes.thead("", nodes.row("", _cell("term"), _cell("in plain words")))
    columns = [nodes.colspec(colwidth=width) for width in (35, 65)]
    return nodes.table("", nodes.tgroup("", *columns, head, nodes.tbody("", *rows), cols=2))


def _cell(text):
    return nodes.entry("", nodes.paragraph("", text))


def setup(app):
    """Register the directive."""
    app.add_directive("report-words", ReportWords)
    return {"parallel_read_safe": True}
