"""The task models inside the package, and the names of the tasks; loads neither torch nor a model."""

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "models" / "tasks"
"""The folder of the packaged task models, one folder per name."""
_PRESETS, _SUFFIX = Path(__file__).parents[1] / "presets" / "tasks", "-small.toml"


def packaged_tasks() -> list[str]:
    """The names of the packaged task models."""
    return sorted(path.parent.name for path in FOLDER.glob("*/task.json"))


def task_names() -> list[str]:
    """The names of the tasks, each of which has presets."""
    return sorted(path.name.removesuffix(_SUFFIX) for path in _PRESETS.glob(f"*{_SUFFIX}"))
