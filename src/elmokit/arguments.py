"""Checks of function arguments: each error names the argument, what was given and what is accepted.

Settings in files are checked by `elmokit.config`; this module is for plain keyword values.
"""

import math
import numbers
import operator
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, TypeGuard

from elmokit.errors import ConfigError


def shown(value: Any) -> str:
    """A value as shown in messages: its type and the beginning of its content."""
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    text = " ".join(repr(value).split())
    text = f"{text[:60]}{'…' if len(text) > 60 else ''}"
    return text if isinstance(value, str) else f"{text} ({type(value).__name__})"


def check_integer(name: str, value: Any, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Check for an integer between two bounds; numpy's integers are accepted, True and 2.0 are not."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    low, high = -math.inf if at_least is None else at_least, math.inf if at_most is None else at_most
    if number is None or isinstance(value, bool) or not low <= number <= high:
        bounds = [f"at least {at_least}"] if at_least is not None else []
        bounds += [f"at most {at_most}"] if at_most is not None else []
        raise ConfigError(
            f"{name} ({shown(value)}) must be an integer{' of ' if bounds else ''}{' and '.join(bounds)}."
        )
    return number


def check_number(name: str, value: Any, *, at_least: float, below: float = math.inf) -> float:
    """Check for a finite number between two bounds."""
    right = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not right or not math.isfinite(value) or not at_least <= value < below:
        bounds = f"at least {at_least:g}" + ("" if below == math.inf else f" and below {below:g}")
        raise ConfigError(f"{name} ({shown(value)}) must be a number of {bounds}.")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Check for True or False; other values are refused because "no", for example, would count as True."""
    if type(value).__name__ != "bool":  # numpy's has this name too
        raise ConfigError(f"{name} ({shown(value)}) must be True or False.")
    return bool(value)


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Check for one of a few words."""
    if not isinstance(value, str) or value not in choices:
        *others, last = choices
        listed = f"{', '.join(others)} or {last}" if others else last
        raise ConfigError(f"{name} {shown(value)} is unknown: choose {listed}.")


def check_kind(name: str, value: Any, kind: type) -> None:
    """An object of one of our own classes."""
    if not isinstance(value, kind):
        raise ConfigError(f"{name} is {shown(value)}: give an object of {kind.__module__}.{kind.__qualname__}.")


def check_path(name: str, value: Any) -> Path:
    """Check for a path, as str or `Path`."""
    if not is_path(value):
        raise ConfigError(f"{name} ({shown(value)}) must be a path: give a str or a pathlib.Path.")
    if not str(value):
        raise ConfigError(f"{name} is empty: give a path.")
    return Path(value)


def check_paths(name: str, values: Any) -> list[Path]:
    """Check for a list of paths, each a `Path`."""
    if is_path(values) or isinstance(values, bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"{name} is {shown(values)}: give a list of paths, e.g. [path].")
    found = list(values)
    for value in found:
        if not isinstance(value, Path):
            raise ConfigError(f"{name} holds {shown(value)}: give each file as a pathlib.Path, e.g. by find_files.")
    return found


def is_path(value: Any) -> TypeGuard[str | Path]:
    """Whether a value can be a path."""
    return isinstance(value, str | Path)
