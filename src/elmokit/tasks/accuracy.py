"""What tasks share whose answer is one of a few classes: their figure is the share of right answers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from elmokit.tasks.base import Labels, Task


class Labelled(Protocol):
    """An example with its class."""

    @property
    def label(self) -> str | int:
        """As the task predicts it."""


Example = TypeVar("Example", bound=Labelled)


class ClassTask(Task[Example]):
    """A task with classes that are known before training."""

    metric: ClassVar[str] = "accuracy"

    def find_labels(self, examples: Sequence[Example]) -> Labels:
        """Nothing: the classes are known."""
        return {}

    def counts(self, example: Example, prediction: Any) -> Sequence[float]:
        """Whether it is right."""
        return float(example.label == prediction), 1.0

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """Accuracy."""
        return {"accuracy": 100 * sums[0] / sums[1]}
