"""What can be said of paths and names before torch is loaded, which takes seconds: most of them are typing errors."""

from collections.abc import Sequence
from pathlib import Path


def check_files(*patterns: Sequence[str] | None) -> None:
    """Refuse paths and globs that name no file."""
    from elmokit.text.files import find_files

    for own in patterns:
        find_files(own or [])


def check_model(source: str | None) -> None:
    """Refuse a name that no model has; whether the Hub has it is found out later."""
    if source is not None:
        from elmokit.formats import check_source

        check_source(source)


def check_exists(path: Path, remedy: str) -> None:
    """Refuse a path that is not there.

    Args:
        path: which.
        remedy: what to give instead, as the end of the sentence.
    """
    from elmokit.errors import InputError
    from elmokit.recognize import did_you_mean

    if not path.exists():
        raise InputError(f"{path} does not exist{did_you_mean(path)}: {remedy}.")
