"""The spans of a document: all are scored as mentions, and the best are kept.

A mention scorer's first layer is linear in the parts of a span's vector, so each part is multiplied by its weights once
per token (also for the head words, a weighted sum), and a span only adds the results of its tokens. The result equals
that of the layer over the whole vector, which is built for kept spans only.

Notation: N tokens of a document, J spans, M of them kept, W tokens of the widest; E width of the inputs, C of what the
encoder gives, F of a hidden layer, G = 2C + E + features of a span's vector.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from elmokit.tasks.layers import Dropout

_SPANS_AT_ONCE = 2**15
Rows = tuple[Tensor, Tensor, Tensor, Tensor]
"""The tables from which spans take their first tokens, last tokens, head words and widths."""


class Spans(NamedTuple):
    """Tokens `starts` to `ends` (exclusive) of a document, from left to right, short ones first."""

    starts: Tensor  # (J,)
    ends: Tensor  # (J,)

    def select(self, which: Tensor | slice) -> "Spans":
        """A subset of the spans."""
        return Spans(self.starts[which], self.ends[which])


class Kept(NamedTuple):
    """Spans that are kept as mentions."""

    spans: Spans
    scores: Tensor  # (M,)
    vectors: Tensor  # (M, G)


def list_spans(lengths: Sequence[int], max_width: int, device: torch.device | None = None) -> Spans:
    """All spans of at most `max_width` tokens inside sentences of these lengths."""
    sizes = torch.tensor(lengths, device=device)
    bounds = sizes.cumsum(0).repeat_interleave(sizes)  # (N,): where each token's sentence ends
    starts = torch.arange(len(bounds), device=device)[:, None]  # (N, 1)
    ends = starts + torch.arange(1, max_width + 1, device=device)  # (N, W)
    inside = ends <= bounds[:, None]  # (N, W)
    return Spans(starts.expand_as(ends)[inside], ends[inside])


def keep_best(spans: Spans, scores: Tensor, limit: int) -> Tensor:
    """Indices (M,) of at most `limit` spans, in order: the best by score, no two of which cross.

    A span that crosses a better kept span is skipped; nested spans are allowed.
    """
    starts, ends = spans.starts.tolist(), spans.ends.tolist()
    last: dict[int, int] = {}  # the largest end of kept spans by start
    first: dict[int, int] = {}  # the smallest start of kept spans by end
    kept: list[int] = []
    for number in scores.argsort(descending=True, stable=True).tolist():
        if len(kept) == limit:
            break
        start, end = starts[number], ends[number]
        inner = range(start + 1, end)
        if any(last.get(place, end) > end or first.get(place, start) < start for place in inner):
            continue
        kept.append(number)
        last[start], first[end] = max(end, last.get(start, end)), min(start, first.get(end, start))
    return torch.tensor(sorted(kept), device=scores.device)


class FeedForward(nn.Module):
    """Two hidden layers and a score."""

    def __init__(self, in_dim: int, hidden_dim: int, *, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(in_dim, hidden_dim)
        self.second = nn.Linear(hidden_dim, hidden_dim)
        self.last = nn.Linear(hidden_dim, 1)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """From (…, in_dim) to (…)."""
        return self.finish(self.first(x))

    def finish(self, x: Tensor) -> Tensor:
        """From the first layer's output (…, F), before its ReLU, to (…)."""
        x = self.second(self.dropout(x.relu()))  # (…, F)
        scores: Tensor = self.last(self.dropout(x.relu()))  # (…, 1)
        return scores[..., 0]


class SpanScorer(nn.Module):
    """Vectors of spans [first token; last token; head words; width], and their scores as mentions.

    The dimensions are E, C and F; `feature_dim` is that of the feature for a span's width. Dropout is on hidden layers
    and features.
    """

    def __init__(
        self, in_dim: int, encoded_dim: int, *, hidden_dim: int, feature_dim: int, max_width: int, dropout: float
    ) -> None:
        super().__init__()
        self.max_width = max_width
        self.parts = (encoded_dim, encoded_dim, in_dim, feature_dim)
        self.dim = sum(self.parts)
        """G."""
        self.heads = FeedForward(encoded_dim, hidden_dim, dropout=dropout)
        self.widths = nn.Embedding(max_width, feature_dim)
        self.mentions = FeedForward(self.dim, hidden_dim, dropout=dropout)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, encoded: Tensor, spans: Spans, limit: int) -> Kept:
        """The best spans, from inputs (N, E) and the encoder's output (N, C)."""
        attention = self.heads(encoded)  # (N,)
        rows = (encoded, encoded, x, self.dropout(self.widths.weight))  # (N, C), (N, C), (N, E), (W, features)
        scores = self._score(rows, attention, spans)  # (J,)
        kept = keep_best(spans, scores.detach(), limit)  # (M,)
        best = spans.select(kept)
        return Kept(best, scores[kept], torch.cat(self._gather(rows, attention, best), 1))

    def _score(self, rows: Rows, attention: Tensor, spans: Spans) -> Tensor:
        first = self.mentions.first
        weights = first.weight.split(self.parts, 1)  # (F, C), (F, C), (F, E), (F, features)
        starts, ends, heads, widths = (part @ weight.T for part, weight in zip(rows, weights, strict=True))  # (…, F)
        scores = []
        for begin in range(0, len(spans.starts), _SPANS_AT_ONCE):
            some = spans.select(slice(begin, begin + _SPANS_AT_ONCE))
            parts = self._gather((starts, ends, heads, widths), attention, some)  # (J, F) each
            scores.append(self.mentions.finish(sum(parts, first.bias)))
        return torch.cat(scores)  # (J,)

    def _gather(self, rows: Rows, attention: Tensor, spans: Spans) -> list[Tensor]:
        """The parts of each span, from rows of tokens and, last, of widths."""
        starts, ends, heads, widths = rows
        places = spans.starts[:, None] + torch.arange(self.max_width, device=attention.device)  # (J, W)
        outside = places >= spans.ends[:, None]  # (J, W)
        places = places.clamp(max=len(attention) - 1)
        logits = embedding(places, attention[:, None])[..., 0]  # (J, W)
        weights = logits.masked_fill(outside, -torch.inf).softmax(1)  # (J, W)
        return [
            embedding(spans.starts, starts),
            embedding(spans.ends - 1, ends),
            embedding_bag(places, heads, mode="sum", per_sample_weights=weights),
            embedding(spans.ends - spans.starts - 1, widths),
        ]
