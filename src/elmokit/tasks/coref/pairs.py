"""The antecedent of each span: scores of pairs, their loss, and the resulting clusters.

The first layer over [gᵢ; gⱼ; gᵢ∘gⱼ; features] is split into its four parts: those of gᵢ and gⱼ are computed once per
span, those of features once per value, and only the product once per pair. The score does not change.
Products are computed distance by distance: both sides are then slices of one matrix, small enough for the cache.

Notation: M kept spans, A antecedents of each, P pairs, G width of a span's vector, F of a hidden layer.
"""

from bisect import bisect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from elmokit.tasks.coref.spans import FeedForward
from elmokit.tasks.layers import Dropout

BUCKETS = (1, 2, 3, 4, 5, 8, 16, 32, 64)
"""The minimum distance of each bucket, in kept spans."""


class PairScorer(nn.Module):
    """Scores how likely two spans refer to the same entity.

    Args:
        span_dim: G.
        hidden_dim: F.
        feature_dim: width of each feature.
        num_genres: number of genres in training; 0 leaves this feature out.
        speakers: whether the speaker is a feature.
        dropout: dropout on hidden layers and features.
    """

    def __init__(
        self, span_dim: int, *, hidden_dim: int, feature_dim: int, num_genres: int, speakers: bool, dropout: float
    ) -> None:
        super().__init__()
        self.distances = nn.Embedding(len(BUCKETS), feature_dim)
        self.speakers = nn.Embedding(3, feature_dim) if speakers else None  # unknown, the same, another
        self.genres = nn.Embedding(num_genres + 1, feature_dim) if num_genres else None  # the first: any unknown genre
        num_features = 1 + (self.speakers is not None) + (self.genres is not None)
        self.parts = (span_dim, span_dim, span_dim, *[feature_dim] * num_features)
        self.ffn = FeedForward(sum(self.parts), hidden_dim, dropout=dropout)
        self.dropout = Dropout(dropout)

    def forward(self, spans: Tensor, num_antecedents: int, *, speakers: Tensor, genre: int) -> Tensor:
        """Scores (M, A) of spans (M, G) with the previous span, the one before that, …; −∞ where there is none.

        Args:
            spans: vectors of the spans.
            num_antecedents: A.
            speakers: (M,) the speaker of each span, 0 if unknown.
            genre: the genre of the document, 0 if it did not occur in training.
        """
        if not num_antecedents:
            return spans.new_empty(len(spans), 0)
        first = self.ffn.first
        own, other, product, *features = first.weight.split(self.parts, 1)  # (F, G) three times, (F, features)
        near = self.dropout(self.distances.weight) @ features.pop(0).T + first.bias  # (buckets, F)
        voices = None if self.speakers is None else self.dropout(self.speakers.weight) @ features.pop(0).T  # (3, F)
        left, right, product = spans @ own.T, spans @ other.T, product.T  # (M, F), (M, F), (G, F)
        if self.genres is not None:
            left = left + self.dropout(self.genres.weight[genre]) @ features.pop(0).T
        distances = range(1, num_antecedents + 1)
        away = near[[bisect(BUCKETS, distance) - 1 for distance in distances]]  # (A, F)
        hidden: Tensor = _AddPairs.apply(spans, left, right, away, product)  # (P, F)
        if voices is not None:
            kinds = torch.cat([_compare(speakers[distance:], speakers[:-distance]) for distance in distances])  # (P,)
            hidden = hidden + embedding(kinds, voices)  # (P, F)
        columns = _by_distance(self.ffn.finish(hidden), len(spans), num_antecedents)  # A × (M − distance,)
        return torch.stack([pad(x, (len(spans) - len(x), 0), value=-torch.inf) for x in columns], 1)  # (M, A)


class _AddPairs(torch.autograd.Function):
    """The input of a hidden layer from pairs: products with its weights, both spans, and their distance.

    The backward pass is written by hand: for slices, autograd creates a full matrix of zeros per distance.
    """

    @staticmethod
    def forward(ctx: Any, spans: Tensor, left: Tensor, right: Tensor, away: Tensor, weight: Tensor) -> Tensor:
        """(P, F), adjacent pairs first, from (M, G), (M, F), (M, F), (A, F), (G, F)."""
        sums = spans.new_empty(sum(_num_pairs(len(spans), len(away))), left.shape[1])  # (P, F)
        for number, part in enumerate(_by_distance(sums, len(spans), len(away)), 1):
            torch.addmm(left[number:] + away[number - 1], spans[number:] * spans[:-number], weight, out=part)
            part += right[:-number]
        ctx.save_for_backward(spans, weight)
        ctx.num_antecedents = len(away)
        return sums

    @staticmethod
    def backward(ctx: Any, dsums: Tensor) -> tuple[Tensor, ...]:
        """Gradients of the inputs."""
        spans, weight = ctx.saved_tensors
        dspans, dweight = torch.zeros_like(spans), torch.zeros_like(weight)
        dleft, dright = (dsums.new_zeros(len(spans), dsums.shape[1]) for _ in range(2))
        daway = dsums.new_empty(ctx.num_antecedents, dsums.shape[1])
        for number, d in enumerate(_by_distance(dsums, len(spans), ctx.num_antecedents), 1):
            later, earlier = spans[number:], spans[:-number]  # (M − number, G) each
            dleft[number:] += d
            dright[:-number] += d
            daway[number - 1] = d.sum(0)
            dweight.addmm_((later * earlier).T, d)
            dproduct = d @ weight.T  # (M − number, G)
            dspans[number:].addcmul_(dproduct, earlier)
            dspans[:-number].addcmul_(dproduct, later)
        return dspans, dleft, dright, daway, dweight


def _num_pairs(num_spans: int, num_antecedents: int) -> list[int]:
    """Number of pairs at each distance from 1 on."""
    return [num_spans - distance for distance in range(1, num_antecedents + 1)]


def _by_distance(pairs: Tensor, num_spans: int, num_antecedents: int) -> tuple[Tensor, ...]:
    """Slices of (P, …), one per distance from 1 on."""
    slices: tuple[Tensor, ...] = pairs.split(_num_pairs(num_spans, num_antecedents))
    return slices


def _compare(first: Tensor, second: Tensor) -> Tensor:
    """0 if a speaker is unknown, 1 if both are the same, 2 if they differ."""
    return torch.where((first == 0) | (second == 0), 0, torch.where(first == second, 1, 2))


def join_scores(pairs: Tensor, mentions: Tensor) -> Tensor:
    """Scores (M, 1 + A) of a span's options: no antecedent, with score 0, or one of its antecedents.

    Args:
        pairs: (M, A) scores of pairs.
        mentions: (M,) scores of the spans as mentions.
    """
    before = _antecedents(len(pairs), pairs.shape[1], pairs.device)  # (M, A)
    joined = pairs + mentions[:, None] + embedding(before.clamp(min=0), mentions[:, None])[..., 0]  # (M, A)
    return torch.cat([torch.zeros_like(mentions)[:, None], joined], 1)


def link_loss(scores: Tensor, clusters: Tensor) -> Tensor:
    """−log p of choosing any antecedent in the span's own cluster, or none if there is none; summed over spans.

    Args:
        scores: (M, 1 + A), from `join_scores`.
        clusters: (M,) the gold cluster of each span, 0 if it is not a mention.
    """
    before = _antecedents(len(scores), scores.shape[1] - 1, scores.device)  # (M, A)
    own = clusters[:, None]  # (M, 1)
    gold = (clusters[before.clamp(min=0)] == own) & (own > 0) & (before >= 0)  # (M, A)
    gold = torch.cat([~gold.any(1, keepdim=True), gold], 1)  # (M, 1 + A)
    return (scores.logsumexp(1) - scores.masked_fill(~gold, -torch.inf).logsumexp(1)).sum()


def _antecedents(num_spans: int, limit: int, device: torch.device) -> Tensor:
    """Indices (M, A) of the spans before each span, nearest first; negative where there is none."""
    return torch.arange(num_spans, device=device)[:, None] - torch.arange(1, limit + 1, device=device)


def make_clusters(choices: Sequence[int]) -> list[list[int]]:
    """Clusters as lists of span indices, from the antecedent of each span; −1 means none.

    A span without antecedent that is not the antecedent of another span is a cluster of its own.
    """
    clusters: list[list[int]] = []
    place: list[int] = []
    for number, choice in enumerate(choices):
        if choice < 0:
            place.append(len(clusters))
            clusters.append([number])
        else:
            place.append(place[choice])
            clusters[place[choice]].append(number)
    return clusters
