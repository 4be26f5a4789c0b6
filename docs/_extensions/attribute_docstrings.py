"""Docstrings of attributes are plain sentences: napoleon would read the words before a colon as a type."""

from typing import Any

from sphinx.application import Sphinx

ATTRIBUTES = ("attribute", "data", "property")
_kept: dict[str, list[str]] = {}


def keep(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Before napoleon: remember the sentences."""
    if what in ATTRIBUTES:
        _kept[name] = list(lines)


def restore(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """After napoleon: put them back."""
    if what in ATTRIBUTES:
        lines[:] = _kept.pop(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("autodoc-process-docstring", keep, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
