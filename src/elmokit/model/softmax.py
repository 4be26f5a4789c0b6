"""The softmax over words, shared by both directions."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax


class Softmax(nn.Module):
    """A row and a bias for each of V words; a tied softmax has no rows and uses the token table.

    With `cutoffs` it is adaptive (Grave et al. 2017, here with rows of full width): words before the first cutoff are
    predicted directly, rarer ones in two steps, first the cluster, then the word within the cluster.
    """

    def __init__(self, *, vocab_size: int, dim: int, tied: bool = False, cutoffs: Sequence[int] = ()) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocab_size, dim))
        self.bias = nn.Parameter(torch.empty(vocab_size))
        self.clusters = tuple(pairwise((*cutoffs, vocab_size))) if cutoffs else ()
        """Begin and end of each cluster of rare words; empty in a plain softmax."""
        self.cluster_weight = nn.Parameter(torch.empty(len(cutoffs), dim)) if cutoffs else None
        self.cluster_bias = nn.Parameter(torch.empty(len(cutoffs))) if cutoffs else None

    def initialize(self, generator: torch.Generator) -> None:
        """Draw bilm-tf's initial values; the encoder initializes a tied table."""
        for weight in (self.weight, self.cluster_weight):
            if weight is not None:
                nn.init.normal_(weight, 0, 1 / math.sqrt(weight.shape[1]), generator)
        for bias in (self.bias, self.cluster_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def init_bias_from_counts(self, counts: Tensor) -> None:
        """Set the biases to the log frequencies of the words from their counts (V,), with add-one smoothing."""
        frequencies = (counts.double() + 1) / (counts.double() + 1).sum()  # (V,)
        with torch.no_grad():
            self.bias.copy_(frequencies.log())
            if self.cluster_bias is not None:
                sums = [frequencies[begin:end].sum() for begin, end in self.clusters]
                self.cluster_bias.copy_(torch.stack(sums).log())

    def head(self, token_table: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Weight and bias of the first decision: every word, or frequent words and then clusters."""
        weight = token_table if self.weight is None else self.weight
        assert weight is not None
        if self.cluster_weight is None or self.cluster_bias is None:
            return weight, self.bias  # (V, P), (V,)
        num_frequent = self.clusters[0][0]
        return (
            torch.cat([weight[:num_frequent], self.cluster_weight]),
            torch.cat([self.bias[:num_frequent], self.cluster_bias]),
        )

    def decisions(
        self, targets: Tensor, token_table: Tensor | None
    ) -> Iterator[tuple[Tensor | None, Tensor, Tensor, Tensor]]:
        """The decisions that lead to targets (N,): one in a plain softmax; an adaptive one may add one in a cluster.

        For each decision: the predictions that make it (None means all), their outcomes, and its weight and bias.
        """
        weight, head = self.weight, targets
        if self.clusters:
            assert weight is not None
            head, num_frequent = targets.clone(), self.clusters[0][0]  # the word, or its cluster after these
            for number, (begin, end) in enumerate(self.clusters):
                inside = ((targets >= begin) & (targets < end)).nonzero()[:, 0]
                head[inside] = num_frequent + number
                if len(inside):
                    yield inside, targets[inside] - begin, weight[begin:end], self.bias[begin:end]
        yield None, head, *self.head(token_table)

    def forward(self, h: Tensor, token_table: Tensor | None = None) -> Tensor:
        """Logits (…, V) from top-layer outputs (…, P) of either direction; normalized in an adaptive softmax."""
        logits = linear(h, *self.head(token_table))  # (…, V) or (…, frequent + clusters)
        if not self.clusters:
            return logits
        assert self.weight is not None
        head = log_softmax(logits, -1)
        num_frequent = self.clusters[0][0]
        tails = [
            log_softmax(linear(h, self.weight[begin:end], self.bias[begin:end]), -1)
            + head[..., num_frequent + number, None]
            for number, (begin, end) in enumerate(self.clusters)
        ]
        return torch.cat([head[..., :num_frequent], *tails], -1)
