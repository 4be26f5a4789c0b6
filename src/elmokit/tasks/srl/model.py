"""Who did what to whom: interleaved highway LSTMs over a sentence and a mark on its predicate (He et al. 2017).

An example is a sentence with one of its predicates, which are given in the files; the figures are about its arguments.
For raw text, a small biLSTM over the same inputs learns to find predicates. Its gradient does not reach the inputs,
which learn from arguments alone.

Notation: B examples, T tokens, E width of the inputs, D of ELMo at the output, H of a layer, K tags.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from elmokit.config import Config, Positive
from elmokit.tasks.base import Scored, TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.highway_lstm import InterleavedLstm
from elmokit.tasks.inputs import Inputs, TokenInputs
from elmokit.tasks.layers import BiRnn, InputDropout, TagRules
from elmokit.tasks.posteriors import Posteriors
from elmokit.tasks.spans import Span, to_spans
from elmokit.tasks.srl.files import Format
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
