"""What the commands that use a trained task model share: its argument and options, and loading it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from elmokit.tasks.pipeline import TaskPipeline

OwnModelOption = Annotated[
    str | None, typer.Option("--model", help="The biLM, if it is no longer where it was in training.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Cores to use.")]
TRAINED_REMEDY = "give what `elmokit task train` wrote as model/"
TrainedArgument = Annotated[Path, typer.Argument(metavar="TRAINED", help="A run's folder, or the model/ in it.")]


def load_task_model(
    name: str | None, source: str | Path, model: str | None, threads: int | None, precision: str | None = None
) -> "TaskPipeline":
    """A task model, of the named task if there is a name; a model of another task is refused."""
    from elmokit.errors import ConfigError
    from elmokit.tasks.registry import find_task
    from elmokit.tasks.saved import load_task

    if name is not None:
        find_task(name)

    loaded = load_task(source, bilm=model, threads=threads, precision=precision)
    if name is not None and loaded.task.name != name:
        raise ConfigError(f"{source} is a model of {loaded.task.name}, not of {name}: give that task's name.")
    return loaded
