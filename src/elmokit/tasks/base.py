"""What a task is: files → examples → batches → a model with a loss and predictions → a score.

A task knows its own files, model and metric. Epochs, training, evaluation, saving and prediction are the same for all
tasks, in `elmokit.tasks.runner`.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor, nn

from elmokit.config import Config, describe_faults
from elmokit.errors import ConfigError
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.records import Id, Record, TaskText

Example = TypeVar("Example")
Scored = tuple[Any, Any]
"""A prediction, and its scores in a form that the task knows."""
Labels = dict[str, Any]
"""What a task learned about its labels from the training examples, as JSON values."""


class TaskModel(nn.Module, ABC):
    """A task's own network on top of its inputs."""

    inputs: TokenInputs

    @abstractmethod
    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """The mean loss of a batch; `gold` is what `Task.collate` made."""

    @abstractmethod
    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """One prediction per example, as JSON values. Must not use the labels in `gold`."""

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The same predictions with scores; `num_best` is the number of candidates, if the task has several."""
        return [(prediction, None) for prediction in self.predict(texts, gold)]

    def trainable_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """The parameters that training changes, by name."""
        return [(name, parameter) for name, parameter in self.named_parameters() if parameter.requires_grad]


class Task(ABC, Generic[Example]):
    """One of the seven tasks."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """The figure of `score` by which the best model is selected."""
    fields: ClassVar[tuple[str, ...]] = ("text",)
    """The names of the inputs that a user gives for a prediction."""
    whole_files: ClassVar[bool] = False
    """Whether an input file for predictions is one text, instead of one text per line."""
    splits_sentences: ClassVar[bool] = True
    """Whether raw text for predictions is split into sentences."""
    has_candidates: ClassVar[bool] = False
    """Whether several candidates can be predicted for an input."""
    settings: ClassVar[type[Config]]
    """The settings class of the task's model."""
    needs: ClassVar[str] = ""
    """What single examples may lack, but not all examples of a file, because then nothing could be scored; one word."""

    @abstractmethod
    def read(self, paths: Iterable[Path], settings: Any, *, training: bool) -> Iterator[Example]:
        """The examples of files, as a model with these settings expects them."""

    @abstractmethod
    def texts(self, example: Example) -> tuple[Text, ...]:
        """The token sequences of an example; the same number for every example of a task."""

    @abstractmethod
    def find_labels(self, examples: Sequence[Example]) -> Labels:
        """What the model must know about the labels of the training examples."""

    def reads_raw_text(self, settings: Any) -> bool:
        """Whether `read` tokenizes raw text; the files of most tasks contain tokens."""
        return False

    def has_gold(self, example: Example) -> bool:
        """Whether an example has what the task `needs`."""
        return True

    def gold_labels(self, example: Example) -> Iterable[str]:
        """The labels of an example, for tasks whose models know only the labels seen in training."""
        return ()

    def known_labels(self, labels: Labels) -> Collection[str]:
        """The labels that a model with these labels can predict, for the same tasks."""
        return ()

    @abstractmethod
    def build(self, settings: Any, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A new model."""

    @abstractmethod
    def collate(self, examples: Sequence[Example], labels: Labels, texts: Sequence[TokenBatch]) -> Any:
        """What a model needs for a batch besides the tokens: gold labels and other properties of the examples."""

    @abstractmethod
    def counts(self, example: Example, prediction: Any) -> Sequence[float]:
        """What one example adds to the sums from which the figures are computed; the same length for every example."""

    @abstractmethod
    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """Figures from the summed counts, in percent, including the one named `metric`."""

    @abstractmethod
    def to_examples(self, texts: Sequence[TaskText]) -> list[Example]:
        """Examples without gold labels from user input, one text per entry of `fields`; none if a text is blank."""

    def further_examples(self, example: Example, prediction: Any) -> list[Example]:
        """Examples that depend on a first prediction; their predictions follow it in `to_record`."""
        return []

    @abstractmethod
    def to_record(
        self, index: int, id: Id, texts: Sequence[TaskText], found: Sequence[tuple[Example, Scored]], settings: Any
    ) -> Record:
        """The record of an input, from its examples and their predictions; there are none if a text is blank."""

    def score(self, examples: Sequence[Example], predictions: Sequence[Any]) -> Mapping[str, float]:
        """The figures of predictions."""
        return self.figures(self.count_all(examples, predictions).sum(0).tolist())

    def count_all(self, examples: Sequence[Example], predictions: Sequence[Any]) -> NDArray[np.float64]:
        """The counts of all examples, one row per example."""
        pairs = zip(examples, predictions, strict=True)
        return np.array([self.counts(example, prediction) for example, prediction in pairs], dtype=np.float64)

    def read_settings(self, values: Mapping[str, Any]) -> Any:
        """Validate settings of the task's model."""
        try:
            return self.settings.model_validate(values)
        except ValidationError as error:
            raise ConfigError(f"[model] has no valid settings for {self.name}: {describe_faults(error)}.") from None

    def sentences(self, examples: Iterable[Example]) -> Iterator[tuple[str, ...]]:
        """The sentences that a biLM reads for examples: those of all their texts, without empty ones."""
        texts = (text for example in examples for text in self.texts(example))
        return (sentence for text in texts for sentence in text if sentence)

    def size(self, example: Example) -> int:
        """The length of an example, to batch similar ones."""
        return sum(map(len, self.sentences([example])))

    def char_cnn_shape(self, settings: Any) -> tuple[int, int, int] | None:
        """Width of characters, number and width of filters of the task's own character features; None without them."""
        has_filters = "char_dim" in self.settings.model_fields
        return (settings.char_dim, settings.num_filters, settings.filter_width) if has_filters else None
