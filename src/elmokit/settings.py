"""The names of settings: which ones a config tree accepts, what they mean, and suggestions for mistyped ones."""

import difflib
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from elmokit.config import Config
from elmokit.errors import ConfigError

Groups = Mapping[str, type[Config]]
"""Config classes of the fields that are declared as plain dicts, by field name."""


class Setting(NamedTuple):
    """One setting of a config."""

    name: str
    """Dotted name: optimizer.learning_rate."""
    explanation: str
    """One line, from the docstring of the field."""
    optional: bool = False
    """Whether the value may be none."""


def list_settings(kind: type[Config], groups: Groups | None = None) -> dict[str, Setting]:
    """Every setting of a config class by dotted name, in order of declaration."""
    return {setting.name: setting for setting in _walk(kind, "", groups or {})}


def read_nones(values: dict[str, Any], kind: type[Config], groups: Groups | None = None) -> None:
    """Replace the word "none" (or "null") by None in optional settings, because TOML has no null value."""
    for setting in list_settings(kind, groups).values():
        *parents, last = setting.name.split(".")
        place: Any = values
        for parent in parents:
            place = place.get(parent) if isinstance(place, dict) else None
        value = place.get(last) if isinstance(place, dict) else None
        if setting.optional and isinstance(value, str) and value.lower() in ("none", "null"):
            place[last] = None


def check_names(values: Mapping[str, Any], kind: type[Config], groups: Groups | None = None, *, origin: str) -> None:
    """Refuse unknown names of settings, and suggest similar ones.

    A dict that `groups` does not name is not checked; `origin` is where the settings come from, for messages.
    """
    inner_groups = {name.rpartition(".")[0] for name in list_settings(kind, groups)}
    for name in _dotted(values, inner_groups):
        check_name(name, kind, groups, origin=origin)


def check_name(name: str, kind: type[Config], groups: Groups | None = None, *, origin: str) -> None:
    """Refuse a dotted name that is neither a setting nor a group of settings; see `check_names`."""
    known = set(list_settings(kind, groups))
    for setting in list(known):
        parts = setting.split(".")
        known |= {".".join(parts[:length]) for length in range(1, len(parts))}
    first = name.partition(".")[0]
    is_open = first in kind.model_fields and first not in (groups or {}) and _is_dict(kind, first)
    if name not in known and not is_open:
        raise _unknown_setting(name, known, origin=origin)


def _unknown_setting(name: str, known: set[str], *, origin: str) -> ConfigError:
    near = _near(name, sorted(known))
    hint = f" (did you mean {' or '.join(near[:3])}?)" if near else ""
    return ConfigError(f"{origin}: there is no setting {name[:80]!r}{hint}; `elmokit presets NAME` lists them all.")


def _near(name: str, known: list[str]) -> list[str]:
    """Settings that a name may have meant: by its last part, same group first, then by the full name."""
    group, _, last = name.rpartition(".")
    same = [one for one in known if one.rpartition(".")[2] == last]
    if same:
        return same
    tails = {one.rpartition(".")[2]: one for one in known if one.rpartition(".")[0] == group}
    near = difflib.get_close_matches(last, tails, n=3, cutoff=0.6)
    near += [tail for tail in tails if len(last) > 2 and last in tail and tail not in near]
    return [tails[tail] for tail in near] or difflib.get_close_matches(name, known, n=3, cutoff=0.6)


def _walk(kind: type[Config], prefix: str, groups: Groups) -> Iterator[Setting]:
    for name, kinds, explanation in _fields(kind, groups):
        if not kinds:
            optional = NoneType in get_args(kind.model_fields[name].annotation)
            yield Setting(prefix + name, explanation, optional)
        seen: set[str] = set()
        for inner in kinds:
            for setting in _walk(inner, f"{prefix}{name}.", {}):
                if setting.name not in seen:  # members of a union share some settings
                    seen.add(setting.name)
                    yield setting


def _fields(kind: type[Config], groups: Groups) -> Iterator[tuple[str, list[type[Config]], str]]:
    """Name, nested config classes, and explanation of each field."""
    for name, field in kind.model_fields.items():
        inner = [groups[name]] if name in groups else _configs(field.annotation)
        yield name, inner, " ".join((field.description or "").split())


def _configs(annotation: Any) -> list[type[Config]]:
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType, Annotated):
        return [kind for part in get_args(annotation) for kind in _configs(part)]
    return []


def _is_dict(kind: type[Config], name: str) -> bool:
    return get_origin(kind.model_fields[name].annotation) is dict


def _dotted(values: Mapping[str, Any], groups: set[str], prefix: str = "") -> Iterator[str]:
    """The dotted names of values; a table is a group of settings only if its name is in `groups`."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and name in groups:
            yield from _dotted(value, groups, f"{name}.")
        else:
            yield name
