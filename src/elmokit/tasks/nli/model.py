"""ESIM (Chen et al. 2017): does a premise entail a hypothesis, contradict it, or neither?

Notation: B pairs, T and U tokens of premise and hypothesis, E width of the inputs, H of one direction, D of ELMo at the
output, Y labels.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from elmokit.config import Config, Positive
from elmokit.tasks.base import Scored, TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, Dropout, InputDropout, attend, pool_mean_max
from elmokit.tasks.nli.reader import LABELS
from elmokit.text.input_kind import InputKind
from elmokit.training.config import Share


class NliSettings(Config):
    """Input kind and sizes."""

    input: InputKind = "text"
    """Whether sentences are raw text or space-separated tokens."""
    hidden_dim: Positive = 300
    """Width of one direction of both biLSTMs, and of the layers between."""
    dropout: Share = 0.5
    """Dropout on the inputs and between layers."""


class NliModel(TaskModel):
    """Inputs → biLSTM → soft alignment → comparison → biLSTM → pools → feed-forward."""

    def __init__(self, settings: NliSettings, inputs: TokenInputs) -> None:
        super().__init__()
        self.inputs = inputs
        hidden = settings.hidden_dim
        self.input_dropout = InputDropout(settings.dropout)
        self.encoder = BiRnn(inputs.dim, hidden)
        self.compare = nn.Linear(4 * (self.encoder.dim + inputs.extra_dim), hidden)
        self.compose = BiRnn(hidden, hidden, dropout=settings.dropout)
        self.classify = nn.Sequential(
            Dropout(settings.dropout),
            nn.Linear(4 * self.compose.dim, hidden),
            nn.Tanh(),
            Dropout(settings.dropout),
            nn.Linear(hidden, len(LABELS)),
        )

    def _encode(self, batch: TokenBatch) -> Tensor:
        tokens, extra, mask = self.inputs(batch)  # (B, T, E), (B, T, D)
        x = self.encoder(self.input_dropout(tokens), mask)  # (B, T, 2H)
        return x if extra is None else torch.cat([x, extra], 2)  # (B, T, 2H + D)

    def _compose(self, x: Tensor, aligned: Tensor, mask: Tensor) -> Tensor:
        return pool_mean_max(self.compose(self._compare(x, aligned).relu(), mask), mask)  # (B, 4H)

    def _compare(self, x: Tensor, aligned: Tensor) -> Tensor:
        """`compare` of [x; aligned; x − aligned; x · aligned], without a separate product for the difference."""
        own, other, difference, product = self.compare.weight.chunk(4, 1)  # (H, 2H + D) each
        compared = linear(x, own + difference, self.compare.bias)  # (B, T, H)
        return compared + linear(aligned, other - difference) + linear(x * aligned, product)

    def _run(self, texts: Sequence[TokenBatch]) -> Tensor:
        first, second = texts
        a, b = self._encode(first), self._encode(second)  # (B, T, 2H + D), (B, U, 2H + D)
        pooled = torch.cat(
            [
                self._compose(a, attend(a, b, second.mask), first.mask),
                self._compose(b, attend(b, a, first.mask), second.mask),
            ],
            1,
        )  # (B, 8H)
        scores: Tensor = self.classify(pooled)  # (B, Y)
        return scores

    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> Tensor:
        """Cross entropy."""
        return cross_entropy(self._run(texts), gold)

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        """The label of each pair."""
        return [LABELS[number] for number in self._run(texts).argmax(1).tolist()]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: Any, *, num_best: int = 1) -> list[Scored]:
        """The label of each pair, and the probability of every label."""
        scores = self._run(texts)  # (B, Y)
        labels = (LABELS[number] for number in scores.argmax(1).tolist())
        return list(zip(labels, scores.softmax(1).tolist(), strict=True))
