"""Who did what to whom: interleaved highway LSTMs over a sentence and a mark on its predicate (He et al. 2017).

An example is a sentence with one of its predicates, which are given in the files; the figures are about its arguments.
For raw text, a small biLSTM over the same inputs learns to find predicates. Its gradient does not reach the inputs,
which learn from arguments alone.

Notation: B examples, T tokens, E width of the inputs, D of ELMo at the output, H of a layer, K tags.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from elmokit.config import Config, Positive
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import Text, TokenBatch
from elmokit.tasks.highway_lstm import InterleavedLstm
from elmokit.tasks.inputs import Inputs, TokenInputs
from elmokit.tasks.layers import BiRnn, InputDropout, TagRules
from elmokit.tasks.posteriors import Posteriors
from elmokit.tasks.records import Id, Record, TaskText
from elmokit.tasks.spans import Span, SpanCounts, read_spans, to_spans, types_of
from elmokit.tasks.srl.files import Format, read_sentences
from elmokit.tasks.srl.metric import score_arguments
from elmokit.tasks.srl.reader import VERB, SrlExample
from elmokit.tasks.srl.record import Frame, SrlRecord
from elmokit.training.config import Share

NO_PREDICATE = -1


class SrlSettings(Config):
    """File format and sizes."""

    format: Format = "auto"
    """Format of the files; auto recognizes it by their first line."""
    hidden_dim: Positive = 300
    """Width of each highway LSTM."""
    num_layers: Positive = 8
    """Number of highway LSTMs, in alternating directions."""
    indicator_dim: Positive = 100
    """Width of the embedding that marks the predicate."""
    dropout: Share = 0.1
    """Dropout on each layer's output, for the next layer and the recurrence, with one mask per sentence."""
    input_dropout: Share = 0.0
    """Dropout on the inputs, with one mask per sentence."""
    tagger_dim: Positive = 64
    """Width of one direction of the biLSTM that finds predicates."""


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


class Gold(NamedTuple):
    """The labels and predicates of a batch."""

    predicates: Tensor  # (B,): `NO_PREDICATE` if there is none
    tags: Tensor  # (B, T)
    all_predicates: Tensor  # (B, T): whether a token is one
    is_first: Tensor  # (B,)


class PredicateTagger(nn.Module):
    """Predicts for each token whether it is a predicate."""

    def __init__(self, in_dim: int, hidden_dim: int, dropout: float) -> None:
        super().__init__()
        self.encoder = BiRnn(in_dim, hidden_dim, dropout=dropout)
        self.scores = nn.Linear(self.encoder.dim, 1)

    def forward(self, inputs: Inputs) -> Tensor:
        """Log odds (B, T); no gradient reaches the inputs."""
        scores: Tensor = self.scores(self.encoder(inputs.tokens.detach(), inputs.mask))  # (B, T, 1)
        return scores[:, :, 0]


class SrlModel(TaskModel):
    """Inputs and the mark of the predicate → interleaved highway LSTMs → a softmax over IOB2 tags per token."""

    def __init__(self, settings: SrlSettings, inputs: TokenInputs, tags: Sequence[str]) -> None:
        super().__init__()
        self.inputs = inputs
        self.tags = tuple(tags)
        self.dropout = InputDropout(settings.input_dropout)
        self.indicator = nn.Embedding(2, settings.indicator_dim)
        self.encoder = InterleavedLstm(
            inputs.dim + settings.indicator_dim,
            settings.hidden_dim,
            num_layers=settings.num_layers,
            dropout=settings.dropout,
        )
        self.scores = nn.Linear(self.encoder.dim + inputs.extra_dim, len(tags))
        nn.init.orthogonal_(self.scores.weight)
        nn.init.zeros_(self.scores.bias)
        self.rules = TagRules(**_rules(self.tags))
        self.tagger = PredicateTagger(inputs.dim, settings.tagger_dim, settings.input_dropout)

    def _score_tags(self, inputs: Inputs, predicates: Tensor) -> Tensor:
        tokens, extra, mask = inputs  # (B, T, E), (B, T, D)
        marks = torch.arange(mask.shape[1], device=mask.device) == predicates[:, None]  # (B, T)
        x = torch.cat([self.dropout(tokens), self.indicator(marks.long())], 2)  # (B, T, E + indicator)
        x = self.encoder(x, mask)  # (B, T, H)
        x = x if extra is None else torch.cat([x, extra], 2)
        scores: Tensor = self.scores(x)  # (B, T, K)
        return scores

    def loss(self, texts: Sequence[TokenBatch], gold: Gold) -> Tensor:
        """−log p of the gold tags and predicates, summed over tokens and divided by the number of examples."""
        inputs: Inputs = self.inputs(texts[0])
        total = inputs.tokens.new_zeros(())
        with_predicate = gold.predicates != NO_PREDICATE  # (B,)
        if with_predicate.any():
            own = _choose(inputs, with_predicate)
            scores = self._score_tags(own, gold.predicates[with_predicate])  # (B, T, K)
            total = total + cross_entropy(scores[own.mask], gold.tags[with_predicate][own.mask], reduction="sum")
        if gold.is_first.any():
            own = _choose(inputs, gold.is_first)
            found, wanted = self.tagger(own)[own.mask], gold.all_predicates[gold.is_first][own.mask]  # 2 × (N,)
            total = total + binary_cross_entropy_with_logits(found, wanted.to(found.dtype), reduction="sum")
        return total / len(inputs.mask)

    def predict(self, texts: Sequence[TokenBatch], gold: Gold) -> list[Any]:
        """The predicates found, and frames: the spans of the given predicate, including V."""
        return [prediction for prediction, _ in self._decode(texts, gold, scored=False)]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Gold, *, num_best: int = 1) -> list[Scored]:
        """The same with the probability of every found predicate, and of each span of the frames."""
        return self._decode(texts, gold, scored=True)

    def _decode(self, texts: Sequence[TokenBatch], gold: Gold, *, scored: bool) -> list[Scored]:
        inputs: Inputs = self.inputs(texts[0])
        odds = self.tagger(inputs)  # (B, T)
        found: list[Scored] = []
        for own, chances in zip(((odds > 0) & inputs.mask), odds.sigmoid(), strict=True):
            places = own.nonzero()[:, 0]
            found.append(({"predicates": places.tolist(), "frames": []}, (chances[places].tolist(), [])))
        rows = (gold.predicates != NO_PREDICATE).nonzero()[:, 0]
        if not len(rows):
            return found
        chosen, predicates = _choose(inputs, rows), gold.predicates[rows]
        scores = self._score_tags(chosen, predicates)  # (B, T, K)
        posteriors = self.rules.posteriors(scores, chosen.mask) if scored else None
        decoded = self.rules.decode(scores, chosen.mask)
        for number, (row, predicate, tags) in enumerate(zip(rows.tolist(), predicates.tolist(), decoded, strict=True)):
            spans = to_spans([self.tags[tag] for tag in tags])
            found[row][0]["frames"].append({"predicate": predicate, "spans": [list(span) for span in spans]})
            if posteriors is not None:
                found[row][1][1].append([self._score_span(posteriors, number, span, tags) for span in spans])
        return found

    def _score_span(self, posteriors: Posteriors, row: int, span: Span, tags: Sequence[int]) -> float:
        """The probability that a span begins and ends exactly here."""
        own = tags[span.start : span.end]
        score = posteriors.segment(row, span.start, own)
        if span.end < len(tags):
            score -= posteriors.segment(row, span.start, [*own, self.tags.index(f"I-{span.type}")])
        return max(score, 0.0)


def _choose(inputs: Inputs, rows: Tensor) -> Inputs:
    return Inputs(inputs.tokens[rows], None if inputs.extra is None else inputs.extra[rows], inputs.mask[rows])


def _rules(tags: Sequence[str]) -> dict[str, Tensor]:
    """Which IOB2 tags may follow each other and begin: I- only continues a span of its type."""
    allowed = [[second[0] != "I" or (first != "O" and first[2:] == second[2:]) for second in tags] for first in tags]
    return {"allowed": torch.tensor(allowed), "may_start": torch.tensor([tag[0] != "I" for tag in tags])}


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
