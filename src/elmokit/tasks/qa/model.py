"""BiDAF with self-attention (Clark & Gardner 2018): which words of a paragraph answer a question?

Notation: B questions, T tokens of the paragraph, U of the question, E width of the inputs, H of one direction, D of
ELMo at the output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.config import Config, Positive
from elmokit.tasks.base import Scored, TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.inputs import TokenInputs
from elmokit.tasks.layers import BiRnn, InputDropout
from elmokit.training.config import Share


class QaSettings(Config):
    """Sizes, and how long an answer may be."""

    hidden_dim: Positive = 90
    """Width of one direction of every biGRU."""
    dropout: Share = 0.2
    """Dropout on the input of every layer, with one mask per text."""
    char_dim: Positive = 20
    """Width of a character's vector."""
    num_filters: Positive = 100
    """Filters of the task's own character features."""
    filter_width: Positive = 5
    """Width of a filter in characters."""
    max_answer: Positive = 17
    """Maximum number of tokens of an answer."""


class TriAttention(nn.Module):
    """Similarity w₁·x + w₂·y + w₃·(x∘y) of every pair of tokens."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(dim, 1, bias=False)
        self.second = nn.Linear(dim, 1, bias=False)
        self.product = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """From (B, T, E) and (B, U, E) to (B, T, U)."""
        similarity: Tensor = self.first(x) + self.second(y).transpose(1, 2)  # (B, T, U)
        return similarity + (x * self.product) @ y.transpose(1, 2)


@dataclass(frozen=True)
class QaGold:
    """The gold answers of a batch: whether a token begins one, and whether it ends one."""

    starts: Tensor  # (B, T)
    ends: Tensor  # (B, T)


class QaModel(TaskModel):
    """Inputs → biGRU → attention to the question → biGRU → attention to itself → biGRUs → first and last token."""

    def __init__(self, settings: QaSettings, inputs: TokenInputs) -> None:
        super().__init__()
        self.inputs = inputs
        self.max_answer = settings.max_answer
        hidden, rate = settings.hidden_dim, settings.dropout

        def read(in_dim: int) -> BiRnn:
            return BiRnn(in_dim, hidden, dropout=rate, kind="gru")

        self.dropout = InputDropout(rate)
        self.encoder = read(inputs.dim)
        width, merged = self.encoder.dim + inputs.extra_dim, 2 * hidden
        self.to_question = TriAttention(width)
        self.merge = nn.Sequential(nn.Linear(4 * width, merged), nn.ReLU())
        self.reader = read(merged)
        self.to_itself = TriAttention(merged)
        self.merge_itself = nn.Sequential(nn.Linear(3 * merged, merged), nn.ReLU())
        self.start_reader, self.start = read(merged), nn.Linear(merged, 1)
        self.end_reader, self.end = read(2 * merged), nn.Linear(merged, 1)

    def _encode(self, batch: TokenBatch) -> Tensor:
        tokens, extra, mask = self.inputs(batch)  # (B, T, E), (B, T, D)
        x = self.encoder(tokens, mask)  # (B, T, 2H)
        return x if extra is None else torch.cat([x, extra], 2)  # (B, T, 2H + D)

    def _run(self, texts: Sequence[TokenBatch]) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, T) of the answer's first and last token."""
        paragraph, question = texts
        mask = paragraph.mask
        x, y = self.dropout(self._encode(paragraph)), self.dropout(self._encode(question))  # (B, T, …), (B, U, …)
        similarity = self.to_question(x, y).masked_fill(~question.mask[:, None], -torch.inf)  # (B, T, U)
        asked = similarity.softmax(2) @ y  # (B, T, …)
        relevance = similarity.amax(2).masked_fill(~mask, -torch.inf).softmax(1)  # (B, T)
        summary = relevance[:, None] @ x  # (B, 1, …)
        x = self.merge(self.dropout(torch.cat([x, asked, x * asked, summary * asked], 2)))  # (B, T, 2H)
        x = x + self._attend_itself(self.reader(x, mask), mask)  # (B, T, 2H)
        starts = self.start_reader(x, mask)  # (B, T, 2H)
        ends = self.end_reader(torch.cat([x, starts], 2), mask)  # (B, T, 2H)
        scores = [self.start(starts)[:, :, 0], self.end(ends)[:, :, 0]]  # 2 × (B, T)
        first, last = (score.masked_fill(~mask, -torch.inf).log_softmax(1) for score in scores)
        return first, last

    def _attend_itself(self, x: Tensor, mask: Tensor) -> Tensor:
        own = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)  # (T, T)
        allowed = mask[:, None] & ~own  # (B, T, T)
        similarity = self.to_itself(x, x).masked_fill(~allowed, -1e30)  # finite: for a single token
        around = similarity.softmax(2) @ x  # (B, T, 2H)
        merged: Tensor = self.merge_itself(self.dropout(torch.cat([x, around, x * around], 2)))
        return merged

    def loss(self, texts: Sequence[TokenBatch], gold: QaGold) -> Tensor:
        """−log of the total probability of gold first tokens, plus that of gold last tokens."""
        first, last = self._run(texts)
        likelihoods = [
            torch.where(is_gold, log_probs, -torch.inf).logsumexp(1)
            for log_probs, is_gold in ((first, gold.starts), (last, gold.ends))
        ]  # 2 × (B,)
        return -(likelihoods[0] + likelihoods[1]).mean()

    def predict(self, texts: Sequence[TokenBatch], gold: QaGold) -> list[Any]:
        """The most likely span of at most `max_answer` tokens, as [start, end) offsets."""
        pairs = self._score_spans(texts)
        length = pairs.shape[2]
        return [[place // length, place % length + 1] for place in pairs.flatten(1).argmax(1).tolist()]

    def predict_scored(self, texts: Sequence[TokenBatch], gold: QaGold, *, num_best: int = 1) -> list[Scored]:
        """The most likely span, and the `num_best` most likely ones as (start, end, probability)."""
        pairs = self._score_spans(texts)
        length = pairs.shape[2]
        best = pairs.flatten(1).topk(min(num_best, length * length), 1)  # (B, num_best)
        found: list[Scored] = []
        for places, scores in zip(best.indices.tolist(), best.values.exp().tolist(), strict=True):
            spans = [
                (place // length, place % length + 1, score)
                for place, score in zip(places, scores, strict=True)
                if score
            ]
            found.append(([places[0] // length, places[0] % length + 1], spans))
        return found

    def _score_spans(self, texts: Sequence[TokenBatch]) -> Tensor:
        """Log-probabilities (B, T, T) of spans by first and last token; −∞ for those that are too long."""
        first, last = self._run(texts)
        pairs = first[:, :, None] + last[:, None]  # (B, T, T)
        ones = torch.ones(pairs.shape[1:], dtype=torch.bool, device=pairs.device)
        short = ones.triu() & ones.tril(self.max_answer - 1)  # (T, T)
        return pairs.masked_fill(~short, -torch.inf)
