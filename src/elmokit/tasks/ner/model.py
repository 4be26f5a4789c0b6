"""A biLSTM-CRF over words, characters and ELMo (Peters et al. 2018, §5).

Notation: B sentences, T tokens, E width of the inputs, K tags.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.config import Config, Positive
from elmokit.tasks.base import Scored, TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Crf, InputDropout
from elmokit.tasks.spans import to_spans
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
