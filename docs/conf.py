"""How Sphinx builds the site: `make docs`. Nothing is fetched, neither while building nor by the built pages."""

import sys
from pathlib import Path

from tiltlens import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "tiltlens"
author = "The tiltlens developers"
version = release = __version__
language = "en"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "annotated_types",
    "command_help",
    "json_fields",
    "llms",
    "local_mathjax",
    "report_words",
]
default_role = "py:obj"  # `name` in a docstring is a link where that is a public name
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
mathjax3_config = {"tex": {"macros": {name: rf"\operatorname{{{name}}}" for name in ("Var", "Cov", "logit")}}}

autodoc_typehints = "none"  # the numpydoc sections say the types in words
INTERNAL = (  # methods between modules of the package
    *("bins", "check_group_given", "disclosed", "exempt_columns", "in_units", "parts", "repair_batch", "shift"),
    *("undated", "unseen_levels", "without_rows", "JSON_KEYS", "check_score_columns", "check_whole", "count_batch"),
    *("displayed", "doubt", "from_columns", "from_sums", "left_alone", "mapped", "read_outcome", "read_scores"),
    *("row_notes", "summary", "unadjusted", "well_centred"),
)
autodoc_default_options = {
    "exclude-members": ", ".join(("set_fit_request", "set_score_request", "set_partial_fit_request", *INTERNAL))
}
autosummary_generate = True
autosummary_filename_map = {"tiltlens.audit": "tiltlens.audit_function"}  # beside Audit on any file system
numpydoc_show_class_members = False  # the templates list them
numpydoc_class_members_toctree = False
add_module_names = False

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "tiltlens"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_context = {"default_mode": "auto"}
html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sourcelink = False
viewcode_line_numbers = True
html_show_copyright = False
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "logo": {"text": "tiltlens", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["sphinx-version"],
    "footer_end": [],
}
html_sidebars = {"index": [], "changelog": [], "cite": []}

RESULTS = ("Audit", "Change", "Comparison", "CorrectionFunction", "RuleTables", "ScoreTilt")


def _signature(_app, _what, name, *_):
    """Return no signature for results: tiltlens makes them, users do not."""
    return ("", None) if name.rpartition(".")[2] in RESULTS else None


def setup(app):
    """Register what is said of signatures."""
    app.connect("autodoc-process-signature", _signature)
