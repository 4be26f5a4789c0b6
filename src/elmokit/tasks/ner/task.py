"""Named entity recognition as a task: its files, labels, figures and records."""

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
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.ner.metric import score_spans
from elmokit.tasks.ner.model import NerModel, NerSettings
from elmokit.tasks.ner.reader import read_entities
from elmokit.tasks.ner.record import NerRecord
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.spans import SpanCounts, read_spans, to_bioul, types_of


class Ner(Task[NerExample]):
    """Named entity recognition in sentences."""

    name: ClassVar[str] = "ner"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[Config]] = NerSettings
    needs: ClassVar[str] = "entity"

    def read(self, paths: Iterable[Path], settings: NerSettings, *, training: bool) -> Iterator[NerExample]:
        """Read column files or JSON lines, recognized by their content."""
        return chain.from_iterable(map(read_entities, paths))

    def texts(self, example: NerExample) -> tuple[Text, ...]:
        """The sentence."""
        return ((example.tokens,),)

    def find_labels(self, examples: Sequence[NerExample]) -> Labels:
        """All BIOUL tags of the entity types."""
        types = sorted({span.type for example in examples for span in example.spans})
        return {"tags": ["O", *(f"{letter}-{kind}" for kind in types for letter in "BILU")]}

    def has_gold(self, example: NerExample) -> bool:
        """Whether the sentence has an entity."""
        return bool(example.spans)

    def gold_labels(self, example: NerExample) -> Iterable[str]:
        """The types of its entities."""
        return {span.type for span in example.spans}

    def known_labels(self, labels: Labels) -> Collection[str]:
        """The types of entities."""
        return types_of(labels["tags"])

    def build(self, settings: NerSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """A biLSTM-CRF."""
        return NerModel(settings, inputs, labels["tags"])

    def collate(self, examples: Sequence[NerExample], labels: Labels, texts: Sequence[TokenBatch]) -> Tensor:
        """Gold tags (B, T); a type that did not occur in training is O."""
        numbers = {tag: number for number, tag in enumerate(labels["tags"])}
        gold = torch.zeros(texts[0].mask.shape, dtype=torch.long)
        for row, example in enumerate(examples):
            tags = to_bioul(example.spans, len(example.tokens))
            gold[row, : len(tags)] = torch.tensor([numbers.get(tag, 0) for tag in tags])
        return gold

    def counts(self, example: NerExample, prediction: Any) -> Sequence[float]:
        """Numbers of gold, predicted and correct entities."""
        found = score_spans([example.spans], [read_spans(prediction)]).overall
        return found.gold, found.predicted, found.correct

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """Exact span F1, precision and recall."""
        return SpanCounts(*map(int, sums)).figures()

    def to_examples(self, texts: Sequence[TaskText]) -> list[NerExample]:
        """The sentences of a text."""
        return [NerExample(tokens, ("O",) * len(tokens)) for tokens in texts[0].sentences]

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[NerExample, Scored]],
        settings: NerSettings,
    ) -> Record:
        """The entities of all sentences."""
        (text,) = texts
        entities = []
        first = 0
        for example, (spans, scores) in found:
            for span, score in zip(read_spans(spans), scores, strict=True):
                entities.append(text.span(first + span.start, first + span.end, span.type, score))
            first += len(example.tokens)
        return NerRecord(index, id, text, tuple(entities))
