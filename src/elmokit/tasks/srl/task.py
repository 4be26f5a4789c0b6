"""Semantic role labeling as a task: its files, labels, figures and records."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from elmokit.config import Config
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.spans import SpanCounts, read_spans, to_spans, types_of
from elmokit.tasks.srl.files import read_sentences
from elmokit.tasks.srl.metric import score_arguments
from elmokit.tasks.srl.model import NO_PREDICATE, Gold, SrlModel, SrlSettings
from elmokit.tasks.srl.reader import VERB, SrlExample
from elmokit.tasks.srl.record import Frame, SrlRecord


@dataclass(frozen=True)
class RoleExample:
    """A sentence with one of its predicates, or without a predicate: it has none, or it is raw text."""

    tokens: tuple[str, ...]
    pair: SrlExample | None = None
    predicates: tuple[int, ...] = ()
    """Positions of all predicates of the sentence."""
    is_first: bool = True
    """Whether it is the first example of its sentence: predicates are learned and counted there, once per sentence."""

    @property
    def predicate(self) -> int:
        """Position of its token, or `NO_PREDICATE`."""
        return NO_PREDICATE if self.pair is None else self.pair.predicate


class Srl(Task[RoleExample]):
    """Semantic role labeling: the arguments of predicates."""

    name: ClassVar[str] = "srl"
    metric: ClassVar[str] = "f1"
    settings: ClassVar[type[Config]] = SrlSettings
    needs: ClassVar[str] = "predicate"

    def read(self, paths: Iterable[Path], settings: SrlSettings, *, training: bool) -> Iterator[RoleExample]:
        """Read files of PropBank on EWT, CoNLL-2012 and CoNLL-2005; sentences without predicates are included."""
        for path in paths:
            for sentence in read_sentences(path, settings.format):
                places = tuple(predicate.index for predicate in sentence.predicates)
                for number, pair in enumerate(sentence.examples() or (None,)):
                    yield RoleExample(sentence.tokens, pair, places, number == 0)

    def texts(self, example: RoleExample) -> tuple[Text, ...]:
        """The sentence."""
        return ((example.tokens,),)

    def find_labels(self, examples: Sequence[RoleExample]) -> Labels:
        """All IOB2 tags of the labels."""
        labels = sorted({label for example in examples for label in self.gold_labels(example)})
        return {"tags": ["O", *(f"{letter}-{label}" for label in labels for letter in "BI")]}

    def has_gold(self, example: RoleExample) -> bool:
        """Whether the example has a predicate."""
        return example.pair is not None

    def gold_labels(self, example: RoleExample) -> Iterable[str]:
        """The labels of its spans; none without a predicate."""
        return () if example.pair is None else types_of(example.pair.tags)

    def known_labels(self, labels: Labels) -> Collection[str]:
        """The labels of spans."""
        return types_of(labels["tags"])

    def build(self, settings: SrlSettings, inputs: TokenInputs, labels: Labels) -> TaskModel:
        """Interleaved highway LSTMs."""
        return SrlModel(settings, inputs, labels["tags"])

    def collate(self, examples: Sequence[RoleExample], labels: Labels, texts: Sequence[TokenBatch]) -> Gold:
        """Gold tags and predicates; a label that did not occur in training is O."""
        numbers = {tag: number for number, tag in enumerate(labels["tags"])}
        shape = texts[0].mask.shape
        tags, everywhere = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)  # 2 × (B, T)
        for row, example in enumerate(examples):
            everywhere[row, list(example.predicates)] = True
            if example.pair is not None:
                tags[row, : len(example.tokens)] = torch.tensor([numbers.get(tag, 0) for tag in example.pair.tags])
        predicates = torch.tensor([example.predicate for example in examples])  # (B,)
        return Gold(predicates, tags, everywhere, torch.tensor([example.is_first for example in examples]))

    def counts(self, example: RoleExample, prediction: Any) -> Sequence[float]:
        """Numbers of gold, predicted and correct arguments, then of predicates."""
        found = SpanCounts()
        if example.pair is not None:
            (frame,) = prediction["frames"]
            found = score_arguments([to_spans(example.pair.tags)], [read_spans(frame["spans"])]).overall
        own, other = (set(example.predicates), set(prediction["predicates"])) if example.is_first else (set(), set())
        return found.gold, found.predicted, found.correct, len(own), len(other), len(own & other)

    def figures(self, sums: Sequence[float]) -> Mapping[str, float]:
        """F1, precision and recall of arguments of given predicates; F1 of predicates."""
        numbers = [int(number) for number in sums]
        found, predicates = SpanCounts(*numbers[:3]), SpanCounts(*numbers[3:])
        return {**found.figures(), "predicate_f1": 100 * predicates.f1}

    def to_examples(self, texts: Sequence[TaskText]) -> list[RoleExample]:
        """The sentences of a text; their predicates are found first."""
        return [RoleExample(tokens) for tokens in texts[0].sentences]

    def further_examples(self, example: RoleExample, prediction: Any) -> list[RoleExample]:
        """The sentence with each predicate that was found in it."""
        outside = ("O",) * len(example.tokens)
        places = prediction["predicates"]
        return [RoleExample(example.tokens, SrlExample(example.tokens, place, outside)) for place in places]

    def to_record(
        self,
        index: int,
        id: Id,
        texts: Sequence[TaskText],
        found: Sequence[tuple[RoleExample, Scored]],
        settings: SrlSettings,
    ) -> Record:
        """The predicates of all sentences, each with its arguments."""
        (text,) = texts
        frames = iter(
            [(one["frames"][0], scores[1][0]) for example, (one, scores) in found if example.pair is not None]
        )
        predicates = []
        first = 0
        for example, (one, scores) in found:
            if example.pair is not None:
                continue
            for place, chance in zip(one["predicates"], scores[0], strict=True):
                frame, chances = next(frames)
                spans = zip(read_spans(frame["spans"]), chances, strict=True)
                arguments = tuple(
                    text.span(first + span.start, first + span.end, span.type, score)
                    for span, score in spans
                    if span.type.removeprefix("C-") != VERB
                )
                predicates.append(Frame(text.span(first + place, first + place + 1, score=chance), arguments))
            first += len(example.tokens)
        return SrlRecord(index, id, text, tuple(predicates))
