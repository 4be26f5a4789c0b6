"""What the commands that use a trained task model share: its argument and options, and loading it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from elmokit.tasks.trained import TrainedTask

OwnModelOption = Annotated[
    str | None, typer.Option("--model", help="The biLM, if it is no longer where it was in training.")
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Cores to use.")]
TRAINED_REMEDY = "give what `elmokit task train` wrote as model/"
TrainedArgument = Annotated[Path, typer.Argument(metavar="TRAINED", help="A run's folder, or the model/ in it.")]


def load_task_model(
    name: str, path: Path, model: str | None, threads: int | None, precision: str | None = None
) -> "TrainedTask":
    """A trained model of the task `name`; a model of another task is refused."""
    from elmokit.errors import ConfigError
    from elmokit.tasks.trained import load_trained

    loaded = load_trained(path, bilm=model, threads=threads, precision=precision)
    if loaded.task.name != name:
        raise ConfigError(f"{path} is a model of {loaded.task.name}, not of {name}: give that task's name.")
    return loaded
