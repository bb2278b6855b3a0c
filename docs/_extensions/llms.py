"""`llms.txt` beside the built pages: what they are, and where, for programs that read."""

from pathlib import Path


def write(app, error):
    """Write one line a page, in the order of the site."""
    if error is not None or app.builder.name != "html":
        return
    order = list(dict.fromkeys(app.env.toctree_includes.get(app.config.root_doc, [])))
    for name in order:
        order[order.index(name) + 1 : order.index(name) + 1] = app.env.toctree_includes.get(name, [])
    lines = [
        f"- [{app.env.titles[name].astext()}]({app.builder.get_target_uri(name)})" for name in dict.fromkeys(order)
    ]
    about = (
        "> Gaps between groups in scores, decisions and prices, and the features that account for them. Python library "
        "and command line."
    )
    Path(app.outdir, "llms.txt").write_text("\n".join(["# tiltlens", "", about, "", *lines, ""]), encoding="utf-8")


def setup(app):
    """Run when the pages are written."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
