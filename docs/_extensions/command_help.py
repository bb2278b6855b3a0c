"""The directive `command-help`: what `tiltlens COMMAND --help` prints."""

from click.testing import CliRunner
from docutils import nodes
from docutils.parsers.rst import Directive

from tiltlens._cli import main


class CommandHelp(Directive):
    """The help of one command, or of `tiltlens` itself."""

    optional_arguments = 1

    def run(self):
        """Return one literal block."""
        printed = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*self.arguments, "--help"], prog_name="tiltlens")
        return [nodes.literal_block(printed.output, printed.output, language="text")]


def setup(app):
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
