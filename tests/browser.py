"""A real browser for the tests: Debian's chromium, without a network."""

import contextlib
from collections.abc import Iterator

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DRAWN = "[...document.querySelectorAll('.drawing')].every(one => one.dataset.drawn === 'done')"


@contextlib.contextmanager
def opened(browser, path, width=1440, height=900, scheme="light") -> Iterator:
    """Yield a tab with the file open, every picture drawn; `tab.seen` lists requests, errors and dialogs."""
    viewport = {"width": width, "height": height}
    context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
    tab = context.new_page()
    tab.seen = []
    tab.on("console", lambda message: tab.seen.append(f"{message.type}: {message.text}"))
    tab.on("pageerror", lambda error: tab.seen.append(str(error)))
    tab.on("dialog", lambda dialog: (tab.seen.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    tab.on("request", lambda request: None if request.url == path.as_uri() else tab.seen.append(request.url[:200]))
    tab.goto(path.as_uri())
    tab.wait_for_function(DRAWN, timeout=60_000)
    try:
        yield tab
    finally:
        context.close()
