"""Checks of paths and names that run before torch is loaded, which takes seconds; they catch most typing errors."""

from collections.abc import Sequence
from pathlib import Path


def check_files(*patterns: Sequence[str] | None) -> None:
    """Refuse paths and globs that match no file."""
    from elmokit.text.files import find_files

    for own in patterns:
        find_files(own or [])


def check_model(source: str | None) -> None:
    """Refuse a name that no model has; whether the Hub has it is checked later."""
    if source is not None:
        from elmokit.formats import check_source

        check_source(source)


def check_exists(path: Path, remedy: str) -> None:
    """Refuse a path that does not exist.

    Args:
        path: the path to check.
        remedy: the end of the error message: what to give instead.
    """
    from elmokit.errors import InputError
    from elmokit.recognize import did_you_mean

    if not path.exists():
        raise InputError(f"{path} does not exist{did_you_mean(path)}: {remedy}.")
