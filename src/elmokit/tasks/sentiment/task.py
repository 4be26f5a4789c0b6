"""Text classification as a task: its files, labels, figures and records."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from elmokit.config import Config
from elmokit.errors import InputError
from elmokit.tasks.accuracy import ClassTask
from elmokit.tasks.base import Labels, Scored, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.sentiment.labeled import is_json_lines, is_labeled
from elmokit.tasks.sentiment.model import NAMES, SentimentModel, SentimentSettings
from elmokit.tasks.sentiment.reader import TREE_LABELS, SentimentExample, read_sentiment_labels, read_sst
from elmokit.tasks.sentiment.record import SentimentRecord
from elmokit.text.input_kind import InputKind


class Sentiment(ClassTask[SentimentExample]):
    """Sentiment, or any other classification of texts."""

    name: ClassVar[str] = "sentiment"
    settings: ClassVar[type[Config]] = SentimentSettings
    splits_sentences: ClassVar[bool] = False

    def read(self, paths: Iterable[Path], settings: SentimentSettings, *, training: bool) -> Iterator[SentimentExample]:
        """Read SST trees, or texts with labels; phrases are used in training only."""
        classes, phrases = settings.num_classes, settings.phrases and training
        return chain.from_iterable(
            read_sentiment_labels(path, input=_input_of(path, settings), num_classes=classes)
            if is_labeled(path)
            else read_sst(path, phrases=phrases, num_classes=classes)
            for path in paths
        )

    def texts(self, example: SentimentExample) -> tuple[Text, ...]:
        """The sentence."""
        return ((example.tokens,),)

    def find_labels(self, examples: Sequence[SentimentExample]) -> Labels:
        """The labels, unless all are numbers of classes, which need no names."""
        found = {example.label for example in examples}
        if all(isinstance(label, int) for label in found):
            return {}
        if len(found) == 1:
            raise InputError(f"the training files have one label, {found.pop()!r}: give texts of two labels or more.")
        return {"classes": sorted(map(str, found))}

    def gold_labels(self, example: SentimentExample) -> Iterable[str]:
        """Its label."""
        return (str(example.label),)

    def known_labels(self, labels: Labels) -> Collection[str]:
        """The classes."""
        return _classes(labels)

    def counts(self, example: SentimentExample, prediction: Any) -> Sequence[float]:
        """1 if the prediction is correct, else 0; then 1 for the example."""
        return float(str(example.label) == str(prediction)), 1.0

    def build(self, settings: SentimentSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A biattentive classification network."""
        return SentimentModel(settings, inputs, labels.get("classes", ()))

    def collate(self, examples: Sequence[SentimentExample], labels: Labels, texts: Sequence[TokenBatch]) -> Tensor:
        """Gold classes (B,); a label that training never saw is the first one."""
        numbers = {name: number for number, name in enumerate(_classes(labels))}
        return torch.tensor([numbers.get(str(example.label), 0) for example in examples])

    def to_examples(self, texts: Sequence[TaskText]) -> list[SentimentExample]:
        """A text as one token sequence, like the sentences of SST."""
        return [SentimentExample(texts[0].tokens, 0)] if texts[0].tokens else []

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[SentimentExample, Scored]],
        settings: SentimentSettings,
    ) -> Record:
        """The class and the probabilities of all classes."""
        if not found:
            return SentimentRecord(index, id, texts[0], None, None, None, {})
        label, scores = found[0][1]
        name = label if isinstance(label, str) else NAMES[settings.num_classes][label]
        return SentimentRecord(index, id, texts[0], label, name, scores[name], scores)


def _input_of(path: Path, settings: SentimentSettings) -> InputKind:
    if settings.input != "auto":
        return settings.input
    return "text" if is_json_lines(path) else "tokens"


def _classes(labels: Labels) -> Sequence[str]:
    """The labels of a model, in the order of its scores."""
    return labels.get("classes") or [str(number) for number in range(TREE_LABELS)]
