"""What classification tasks share: their figure is the share of correct answers."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from elmokit.tasks.base import Labels, Task


class Labeled(Protocol):
    """An example with its class."""

    @property
    def label(self) -> str | int:
        """The class, in the form that the task predicts."""


Example = TypeVar("Example", bound=Labeled)


class ClassTask(Task[Example]):
    """A task whose classes are known before training."""

    metric: ClassVar[str] = "accuracy"

    def find_labels(self, examples: Sequence[Example]) -> Labels:
        """Nothing: the classes are known."""
        return {}

    def counts(self, example: Example, prediction: Any) -> Sequence[float]:
        """1 if the prediction is correct, else 0; then 1 for the example."""
        return float(example.label == prediction), 1.0

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """Accuracy."""
        return {"accuracy": 100 * sums[0] / sums[1]}
