"""`elmokit presets`: the presets of the package, and the settings of one with what each means."""

import json
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from elmokit.cli import options

if TYPE_CHECKING:
    from elmokit.training.config import PresetConfig

_USE = {
    "pretrain": "elmokit pretrain {name} --train … --output …",
    "finetune": "elmokit finetune MODEL --config {name} --train … --output …",
    "tasks": "elmokit task train {task} --preset {preset} --train … --dev … --output …",
}
_FILLED_IN = ("model.vocab_size", "model.softmax", "model.foreign")
"""Model settings that the run determines itself."""


class _Row(NamedTuple):
    name: str
    value: Any
    explanation: str


def presets(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show the settings of this preset.")] = None,
    as_json: options.Json = False,
) -> None:
    """List the presets, or the settings of one preset with their values and meanings.

    Change any setting with --set NAME=VALUE in the command that uses the preset.

    \b
    Examples:
      elmokit presets
      elmokit presets mini
      elmokit presets ner-small --json
    """  # noqa: D301
    if name is None:
        _print_list(as_json=as_json)
    else:
        _print_settings(name, as_json=as_json)


def _kinds() -> "dict[str, type[PresetConfig]]":
    from elmokit.tasks.config import TaskConfig
    from elmokit.training.config import FinetuneConfig, PretrainConfig

    return {kind.preset_folder: kind for kind in (PretrainConfig, FinetuneConfig, TaskConfig)}


def _print_list(*, as_json: bool) -> None:
    from elmokit.training.config import preset_names, preset_summary

    found = {
        folder: {name: preset_summary(kind, name) for name in preset_names(kind)} for folder, kind in _kinds().items()
    }
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False, indent=2))
        return
    width = max(len(name) for names in found.values() for name in names)
    for folder, names in found.items():
        typer.echo(f"{folder}:")
        for name, summary in names.items():
            typer.echo(f"  {name:<{width}}  {summary}")
    typer.echo("\n`elmokit presets NAME` shows the settings of one preset.")


def _print_settings(name: str, *, as_json: bool) -> None:
    from elmokit.training.config import preset_summary

    folder = _find(name)
    rows = _rows(folder, name)
    summary = preset_summary(_kinds()[folder], name)
    task, _, preset = name.rpartition("-")
    use = _USE[folder].format(name=name, task=task, preset=preset)
    if as_json:
        content = {"name": name, "kind": folder, "explanation": summary, "use": use}
        typer.echo(json.dumps(content | {"settings": [row._asdict() for row in rows]}, ensure_ascii=False, indent=2))
        return
    typer.echo(f"{name} ({folder}): {summary}\n{use}\n")
    for row in rows:
        value = "none" if row.value is None else json.dumps(row.value, ensure_ascii=False)
        typer.echo(f"{row.name} = {value}")
        typer.echo(f"    {row.explanation}")


def _find(name: str) -> str:
    """The kind of a preset."""
    import difflib

    from elmokit.errors import ConfigError
    from elmokit.training.config import preset_names

    known = {preset: folder for folder, kind in _kinds().items() for preset in preset_names(kind)}
    if name in known:
        return known[name]
    low = name.lower()
    near = [one for one in known if one == low or one.startswith(f"{low}-")]
    near = near or difflib.get_close_matches(low, known, cutoff=0.5)
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    raise ConfigError(f"there is no preset named {name[:100]!r}{hint}: choose one of {', '.join(known)}.")


def _rows(folder: str, name: str) -> list[_Row]:
    """Every setting of a preset in config order, including defaults that its file omits."""
    from elmokit.settings import list_settings
    from elmokit.tasks.config import TaskConfig
    from elmokit.tasks.registry import TASKS
    from elmokit.training.config import PretrainConfig, read_run

    kind = _kinds()[folder]
    config = read_run(kind, name)
    groups, values = kind.groups, config.model_dump(mode="json")
    if isinstance(config, PretrainConfig):
        values["model"] = config.model_settings().model_dump(mode="json")
    elif isinstance(config, TaskConfig):
        task = TASKS[config.task]
        groups, values["model"] = {"model": task.settings}, task.read_settings(config.model).model_dump(mode="json")
    flat = _flatten(values)
    settings = list_settings(kind, groups)
    return [
        _Row(own, flat[own], setting.explanation)
        for own, setting in settings.items()
        if own in flat and own not in _FILLED_IN
    ]


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            found |= _flatten(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found
