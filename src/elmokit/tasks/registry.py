"""All tasks by name."""

from typing import Any

from elmokit.arguments import shown
from elmokit.errors import ConfigError
from elmokit.tasks.base import Task
from elmokit.tasks.coref.task import Coref
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.nli.task import Nli
from elmokit.tasks.qa.task import Qa
from elmokit.tasks.sentiment.task import Sentiment
from elmokit.tasks.srl.task import Srl
from elmokit.tasks.tag.task import Tag

_ALL: tuple[Task[Any], ...] = (Ner(), Sentiment(), Nli(), Qa(), Srl(), Coref(), Tag())
TASKS: dict[str, Task[Any]] = {task.name: task for task in _ALL}


def find_task(name: str) -> Task[Any]:
    """A task by its name."""
    if not isinstance(name, str) or name not in TASKS:
        raise ConfigError(f"there is no task named {shown(name)}: choose one of {', '.join(TASKS)}.")
    return TASKS[name]
