"""Tagging as a task: its files, labels, figures and records."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from elmokit.config import Config
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.spans import SpanCounts, to_spans
from elmokit.tasks.tag.model import TagModel, TagSettings
from elmokit.tasks.tag.reader import TagExample, read_tags
from elmokit.tasks.tag.record import TagRecord


class Tag(Task[TagExample]):
    """Tagging: a label for each token, such as its part of speech."""

    name: ClassVar[str] = "tag"
    metric: ClassVar[str] = "accuracy"
    settings: ClassVar[type[Config]] = TagSettings

    def read(self, paths: Iterable[Path], settings: TagSettings, *, training: bool) -> Iterator[TagExample]:
        """Read CoNLL-U or columns, recognized by their first token."""
        return chain.from_iterable(read_tags(path, settings.column, chunks=settings.chunks) for path in paths)

    def texts(self, example: TagExample) -> tuple[Text, ...]:
        """The sentence."""
        return ((example.tokens,),)

    def find_labels(self, examples: Sequence[TagExample]) -> Labels:
        """All labels."""
        return {"tags": sorted({tag for example in examples for tag in example.tags})}

    def gold_labels(self, example: TagExample) -> Iterable[str]:
        """Its labels."""
        return set(example.tags)

    def known_labels(self, labels: Labels) -> Collection[str]:
        """All labels."""
        known: list[str] = labels["tags"]
        return known

    def build(self, settings: TagSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A biLSTM-CRF."""
        return TagModel(settings, inputs, labels["tags"])

    def collate(self, examples: Sequence[TagExample], labels: Labels, texts: Sequence[TokenBatch]) -> Tensor:
        """Gold labels (B, T); one that did not occur in training is the first."""
        numbers = {tag: number for number, tag in enumerate(labels["tags"])}
        gold = torch.zeros(texts[0].mask.shape, dtype=torch.long)
        for row, example in enumerate(examples):
            gold[row, : len(example.tags)] = torch.tensor([numbers.get(tag, 0) for tag in example.tags])
        return gold

    def counts(self, example: TagExample, prediction: Any) -> Sequence[float]:
        """Numbers of correct labels and of tokens, then of gold, predicted and correct chunks, if they are scored."""
        correct = sum(wanted == found for wanted, found in zip(example.tags, prediction, strict=True))
        wanted, found = (set(to_spans(tags)) if example.chunks else set() for tags in (example.tags, prediction))
        return correct, len(example.tags), len(wanted), len(found), len(wanted & found)

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """Accuracy per token; F1, precision and recall of chunks, if there are any."""
        correct, tokens, *chunks = map(int, sums)
        found = SpanCounts(*chunks)
        return {"accuracy": 100 * correct / tokens, **(found.figures() if found.gold or found.predicted else {})}

    def to_examples(self, texts: Sequence[TaskText]) -> list[TagExample]:
        """The sentences of a text."""
        return [TagExample(tokens, ("",) * len(tokens)) for tokens in texts[0].sentences]

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[TagExample, Scored]],
        settings: TagSettings,
    ) -> Record:
        """The labels of all sentences."""
        tags = tuple(tag for _, (own, _) in found for tag in own)
        scores = tuple(score for _, (_, own) in found for score in own)
        return TagRecord(index, id, texts[0], tags, scores)
