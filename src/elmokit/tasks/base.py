"""What a task is: files → examples → batches → a model with a loss and predictions → a score.

A task knows its own files, model and metric; reading epochs, training, evaluating, saving and predicting are the
runner's (`elmokit.tasks.runner`), the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from elmokit.config import Config
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs

Example = TypeVar("Example")
Labels = dict[str, Any]
"""What a task learned of its labels from the training examples; JSON values."""


class TaskModel(nn.Module, ABC):
    """A task's own network on top of its inputs."""

    inputs: TokenInputs

    @abstractmethod
    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """The mean loss of a batch; `gold` is what `Task.collate` made."""

    @abstractmethod
    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """A prediction for each example, as JSON values; of `gold` only what is no answer may be used."""


class Task(ABC, Generic[Example]):
    """One of the six tasks."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """The figure of `score` that decides what is best."""
    settings: ClassVar[type[Config]]
    """Of the task's model."""

    @abstractmethod
    def read(self, paths: Iterable[Path], *, training: bool) -> Iterator[Example]:
        """The examples of files."""

    @abstractmethod
    def texts(self, example: Example) -> tuple[Text, ...]:
        """Its token sequences, as many for every example of a task."""

    @abstractmethod
    def find_labels(self, examples: Sequence[Example]) -> Labels:
        """What the model must know of the labels in training."""

    @abstractmethod
    def build(self, settings: Any, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A new model."""

    @abstractmethod
    def collate(self, examples: Sequence[Example], labels: Labels, texts: Sequence[TokenBatch]) -> Any:
        """What a model needs of a batch beside the tokens: gold labels, and whatever an example comes with."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Mapping[str, float]:
        """Figures of predictions; the one named `metric` is among them."""

    def size(self, example: Example) -> int:
        """How long an example is, to batch similar ones."""
        return sum(len(sentence) for text in self.texts(example) for sentence in text)

    def num_char_filters(self, settings: Any) -> tuple[int, int, int] | None:
        """Width of characters, number and width of filters of the task's own character features; None for none."""
        return None
