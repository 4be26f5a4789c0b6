"""A biLSTM-CRF over words, characters and ELMo (Peters et al. 2018, §5).

Notation: B sentences, T tokens, E width of the inputs, K tags.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from elmokit.config import Config, Positive
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Crf, InputDropout
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.ner.metric import score_spans
from elmokit.tasks.ner.reader import read_entities
from elmokit.tasks.ner.record import NerRecord
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.spans import SpanCounts, read_spans, to_bioul, to_spans, types_of
from elmokit.training.config import Share


class NerSettings(Config):
    """The encoder's sizes."""

    hidden_dim: Positive = 200
    """Width of one direction of the biLSTM."""
    num_layers: Positive = 2
    """Number of layers of the biLSTM."""
    dropout: Share = 0.5
    """Dropout on the inputs and between layers."""
    char_dim: Positive = 16
    """Width of a character's vector."""
    num_filters: Positive = 128
    """Filters of the task's own character features."""
    filter_width: Positive = 3
    """Width of a filter in characters."""


class NerModel(TaskModel):
    """Inputs → biLSTM → tag scores → CRF over BIOUL tags."""

    def __init__(self, settings: NerSettings, inputs: TokenInputs, tags: Sequence[str]) -> None:
        super().__init__()
        self.inputs = inputs
        self.tags = tuple(tags)
        self.dropout = InputDropout(settings.dropout)
        self.encoder = BiRnn(inputs.dim, settings.hidden_dim, num_layers=settings.num_layers, dropout=settings.dropout)
        self.scores = nn.Linear(self.encoder.dim + inputs.extra_dim, len(tags))
        self.crf = Crf(len(tags), **self.rules())

    def rules(self) -> dict[str, Tensor]:
        """Which tags may follow each other, begin and end, as arguments of `Crf`."""
        return _allowed(self.tags)

    def _run(self, batch: TokenBatch) -> Tensor:
        tokens, extra, mask = self.inputs(batch)  # (B, T, E), (B, T, D)
        x = self.encoder(tokens, mask)  # (B, T, 2H)
        x = x if extra is None else torch.cat([x, extra], 2)
        scores: Tensor = self.scores(self.dropout(x))  # (B, T, K)
        return scores

    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """−log p of the gold tags, per sentence."""
        (batch,) = texts
        return self.crf.loss(self._run(batch), gold, batch.mask) / len(batch.mask)

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """Spans as (start, end, type) of each sentence."""
        (batch,) = texts
        return [self._spans(tags) for tags in self.crf.decode(self._run(batch), batch.mask)]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The spans, and the marginal probability of each."""
        (batch,) = texts
        scores = self._run(batch)
        posteriors = self.crf.posteriors(scores, batch.mask)
        found: list[Scored] = []
        for row, tags in enumerate(self.crf.decode(scores, batch.mask)):
            spans = self._spans(tags)
            found.append((spans, [posteriors.segment(row, start, tags[start:end]) for start, end, _ in spans]))
        return found

    def _spans(self, tags: Sequence[int]) -> list[list[Any]]:
        return [list(span) for span in to_spans([self.tags[tag] for tag in tags])]


def _allowed(tags: Sequence[str]) -> dict[str, Tensor]:
    """Which BIOUL tags may follow each other, begin and end: after B- and I- comes only I- or L- of the same type."""

    def goes_on(tag: str) -> bool:
        return tag[0] in "BI"

    def continues(tag: str) -> bool:
        return tag[0] in "IL"

    allowed = [
        [second[2:] == first[2:] and continues(second) if goes_on(first) else not continues(second) for second in tags]
        for first in tags
    ]
    return {
        "allowed": torch.tensor(allowed),
        "may_start": torch.tensor([not continues(tag) for tag in tags]),
        "may_end": torch.tensor([not goes_on(tag) for tag in tags]),
    }


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
