"""Dotted names that pages give in backticks, and the objects of tiltlens that they name."""

import importlib
import re
from functools import reduce

SUFFIXES = ("css", "html", "json", "md", "py", "toml", "txt")


def module_of(name):
    """Return the module that is the longest part of a dotted name, and the rest."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(parts[:cut])), parts[cut:]
        except ModuleNotFoundError:
            continue
    raise AttributeError(name)


def is_there(name):
    """Return whether a dotted name is that of a module or an object in one."""
    try:
        module, parts = module_of(name)
        reduce(getattr, parts, module)
    except AttributeError:
        return False
    return True


def full_names(text, package_of):
    """Yield the full names of the dotted names in a text; `.name` is in the module of the name before it.

    `package_of` returns the package of a name's first part, or None if the name is not of tiltlens.
    """
    module = None
    for name in re.findall(r"`([\w.]+)[`(]", text):
        first, dot, last = name.partition(".")
        if not dot or last in SUFFIXES:
            continue
        package = package_of(first) if first else module
        if package is not None:
            full = f"{package}.{name.removeprefix('.')}"
            module = module_of(full)[0].__name__ if first and is_there(full) else module
            yield full
