"""What a task is: files → examples → batches → a model with a loss and predictions → a score.

A task knows its own files, model and metric; reading epochs, training, evaluating, saving and predicting are the
runner's (`elmokit.tasks.runner`), the same for all.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from rich.text import Text as RichText
from torch import Tensor, nn

from elmokit.config import Config, describe_faults
from elmokit.errors import ConfigError
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs

Example = TypeVar("Example")
Labels = dict[str, Any]
"""What a task learned of its labels from the training examples; JSON values."""


class Predictor(Protocol):
    """What a task needs of a trained model to predict; `elmokit.tasks.trained.TrainedTask` is one."""

    def check_tokenizer(self) -> None:
        """Report a biLM that was trained with another tokenizer than raw text is tokenized with here."""

    def prepare(self, examples: Sequence[Any]) -> None:
        """Look up what can be looked up for all of them."""

    def predict(self, examples: Sequence[Any]) -> list[Any]:
        """A prediction for each."""


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
    fields: ClassVar[tuple[str, ...]] = ("text",)
    """What a user gives for a prediction, by name."""
    whole_files: ClassVar[bool] = False
    """Whether a file that a user gives for a prediction is one text, not one a line."""
    settings: ClassVar[type[Config]]
    """Of the task's model."""
    needs: ClassVar[str] = ""
    """What single examples may lack, in a word, but not all examples of a file: without it nothing can be scored."""

    @abstractmethod
    def read(self, paths: Iterable[Path], settings: Any, *, training: bool) -> Iterator[Example]:
        """The examples of files, as a model of these settings wants them."""

    @abstractmethod
    def texts(self, example: Example) -> tuple[Text, ...]:
        """Its token sequences, as many for every example of a task."""

    @abstractmethod
    def find_labels(self, examples: Sequence[Example]) -> Labels:
        """What the model must know of the labels in training."""

    def reads_raw_text(self, settings: Any) -> bool:
        """Whether `read` tokenizes raw text; the files of most tasks hold tokens."""
        return False

    def has_gold(self, example: Example) -> bool:
        """Whether an example has what the task `needs`."""
        return True

    def gold_labels(self, example: Example) -> Iterable[str]:
        """The tags of an example, of a task whose models know those of training only."""
        return ()

    @abstractmethod
    def build(self, settings: Any, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A new model."""

    @abstractmethod
    def collate(self, examples: Sequence[Example], labels: Labels, texts: Sequence[TokenBatch]) -> Any:
        """What a model needs of a batch beside the tokens: gold labels, and whatever an example comes with."""

    @abstractmethod
    def counts(self, example: Example, prediction: Any) -> Sequence[float]:
        """What one example adds to the sums that the figures are made of, as many numbers for every example."""

    @abstractmethod
    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """Figures of the summed counts, in percent; the one named `metric` is among them."""

    @abstractmethod
    def from_raw(self, *fields: str) -> list[Example]:
        """Examples without gold labels of what a user gave, one text for each of `fields`."""

    def predict_raw(self, trained: Predictor, rows: Iterable[Sequence[str]]) -> list[tuple[Example, Any]]:
        """Examples with predictions of what a user gave, a text for each of `fields` in a row.

        A task that needs several passes, because one prediction asks for the next, has its own.
        """
        trained.check_tokenizer()
        examples = [example for row in rows for example in self.from_raw(*row)]
        trained.prepare(examples)
        return list(zip(examples, trained.predict(examples), strict=True))

    @abstractmethod
    def to_json(self, example: Example, prediction: Any, settings: Any) -> dict[str, Any]:
        """A prediction for a program to read."""

    @abstractmethod
    def to_text(self, example: Example, prediction: Any, settings: Any) -> RichText:
        """A prediction for a person to read."""

    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Mapping[str, float]:
        """Figures of predictions."""
        return self.figures(self.count_all(examples, predictions).sum(0).tolist())

    def count_all(self, examples: Sequence[Example], predictions: Sequence[Any]) -> NDArray[np.float64]:
        """The counts of every example, a row each."""
        pairs = zip(examples, predictions, strict=True)
        return np.array([self.counts(example, prediction) for example, prediction in pairs], dtype=np.float64)

    def read_settings(self, values: Mapping[str, Any]) -> Any:
        """Validate settings of the task's model."""
        try:
            return self.settings.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"[model] has no valid settings for {self.name}: {describe_faults(error)}.") from None

    def sentences(self, examples: Iterable[Example]) -> Iterator[tuple[str, ...]]:
        """What a biLM reads of examples: the sentences of all their texts, without empty ones."""
        texts = (text for example in examples for text in self.texts(example))
        return (sentence for text in texts for sentence in text if sentence)

    def size(self, example: Example) -> int:
        """How long an example is, to batch similar ones."""
        return sum(map(len, self.sentences([example])))

    def num_char_filters(self, settings: Any) -> tuple[int, int, int] | None:
        """Width of characters, number and width of filters of the task's own character features; None for none."""
        return None
