"""Groups of task runs that differ only in their seed, and how a group differs from the others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from elmokit.arguments import check_path, is_path, shown
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.config import TaskConfig

_ELMO = "elmo."


@dataclass(frozen=True)
class TrainedRun:
    """The settings of a run."""

    path: Path
    config: TaskConfig
    bilm: str
    """The biLM's fingerprint; empty without a biLM."""

    @cached_property
    def settings(self) -> dict[str, str]:
        """By dotted name, as JSON: all settings that may differ between groups; without a biLM, none of ELMo."""
        flat = dict(_flatten(self.config.model_dump(mode="json", exclude={"seed"})))
        return {name: value for name, value in flat.items() if self.bilm or not name.startswith(_ELMO)}


_Run = TypeVar("_Run", bound=TrainedRun)


def check_runs(runs: Sequence[str | Path]) -> list[Path]:
    """Check for a list of at least one folder."""
    if is_path(runs):
        raise ConfigError(f"runs is {shown(runs)}: give a list of folders, e.g. [path].")
    found = [check_path("a run", path) for path in runs]
    if not found:
        raise InputError("there is no run to analyze: give the folder of at least one.")
    return found


def read_settings(content: Mapping[str, Any]) -> tuple[TaskConfig, str]:
    """Settings and biLM from the JSON of a task model or a result; newer settings have their defaults."""
    return TaskConfig.model_validate(content["config"]), content["bilm"]["fingerprint"] if content["bilm"] else ""


def _flatten(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _flatten(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, json.dumps(value)))
    return found


def group_runs(runs: Sequence[_Run]) -> list[tuple[str, list[_Run]]]:
    """Groups with their labels, in the given order; a group has each seed at most once."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[_Run]] = {}
    for run in runs:
        own = groups.setdefault((run.bilm, tuple(run.settings.items())), [])
        if any(other.config.seed == run.config.seed for other in own):
            raise InputError(
                f"{run.path} and another run of {run.config.task} have the same settings and the seed "
                f"{run.config.seed}: give each run once."
            )
        own.append(run)
    firsts = [own[0] for own in groups.values()]
    same_task = {first.config.task: [run for run in firsts if run.config.task == first.config.task] for first in firsts}
    return [(_label(own[0], same_task[own[0].config.task]), own) for own in groups.values()]


def _label(run: TrainedRun, same_task: Sequence[TrainedRun]) -> str:
    """The task, and how this run differs from other runs of it."""
    unlike = []
    with_elmo = [other for other in same_task if other.bilm]
    if 0 < len(with_elmo) < len(same_task):
        unlike.append("with ELMo" if run.bilm else "without ELMo")
    for name in dict.fromkeys(name for other in same_task for name in other.settings):
        others = with_elmo if name.startswith(_ELMO) else same_task
        if run in others and len({other.settings.get(name) for other in others}) > 1:
            unlike.append(f"{name} = {run.settings.get(name, 'default')}".replace('"', ""))
    if run.bilm and len({other.bilm for other in with_elmo}) > 1:
        unlike.append(f"biLM {run.bilm[:8]}")
    return f"{run.config.task} ({', '.join(unlike)})" if unlike else run.config.task
