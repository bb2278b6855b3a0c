"""MathJax without a network: one file of the package sphinx-mathjax-offline, copied when the site is built."""

from importlib.util import find_spec
from pathlib import Path

from sphinx.errors import ExtensionError
from sphinx.util.fileutil import copy_asset_file

SCRIPT = "tex-svg.js"  # draws equations as SVG: it needs no fonts, so no further file


def _packaged_script() -> Path:
    package = find_spec("sphinx-mathjax-offline")
    if package is None or package.origin is None:
        raise ExtensionError("The site needs the package sphinx-mathjax-offline: pip install '.[docs]'")
    return Path(package.origin).parent / "static" / "mathjax" / SCRIPT


def copy_script(app, error):
    """Copy MathJax beside the built pages."""
    if error is None and app.builder.format == "html":
        copy_asset_file(_packaged_script(), Path(app.outdir, "_static", SCRIPT))


def setup(app):
    """Let sphinx.ext.mathjax load the copy."""
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = SCRIPT
    app.connect("build-finished", copy_script)
    return {"parallel_read_safe": True}
