"""The sampled softmax: compares each target with a random sample of other words.

It is far cheaper than the full softmax, but it is not a likelihood and is always labeled as sampled. It computes its
gradients in the forward pass, a few predictions at a time.

Notation: N predictions, n per chunk, P width of a direction, V words, S samples, K softmax rows in use.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmokit.errors import ConfigError
from elmokit.model.engines.products import PLAIN_PRODUCTS, Products
from elmokit.training.full_softmax import chunks


class Candidates(NamedTuple):
    """The words that a sampled softmax compares: S samples, then every target that is not among them."""

    ids: NDArray[np.int64]  # (K,) distinct
    num_samples: int
    log_expected: NDArray[np.float32]  # (K,) log of how often a draw of S distinct words contains the word

    def places(self, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The position of each target among the candidates."""
        order = np.argsort(self.ids)  # (K,)
        places: NDArray[np.int64] = order[np.searchsorted(self.ids, targets, sorter=order)]
        return places


class LogUniformSampler:
    """Draws distinct words, frequent ones more often: P(k) = ln((k + 2) / (k + 1)) / ln(V + 1) for the word with id k.

    The vocabulary is sorted by count, so this follows Zipf's law without any counts, as in bilm-tf.
    """

    def __init__(self, vocab_size: int, num_samples: int) -> None:
        if not 0 < num_samples <= vocab_size:
            raise ConfigError(
                f"loss.num_negatives ({num_samples}) must be between 1 and the {vocab_size} words of the vocabulary: "
                "lower it, or set loss.kind to full."
            )
        self.vocab_size = vocab_size
        self.num_samples = num_samples

    def draw(self, random: np.random.Generator, targets: NDArray[np.int64]) -> Candidates:
        """Draw until there are S distinct words, and add the targets."""
        drawn = np.empty(0, dtype=np.int64)
        while True:
            uniform = random.random(max(4 * self.num_samples, len(drawn)))
            more = np.exp(uniform * np.log(self.vocab_size + 1)).astype(np.int64) - 1
            drawn = np.concatenate([drawn, np.minimum(more, self.vocab_size - 1)])
            _, first = np.unique(drawn, return_index=True)
            if len(first) >= self.num_samples:
                break
        first = np.sort(first)[: self.num_samples]
        samples, num_tries = drawn[first], int(first[-1]) + 1
        ids = np.concatenate([samples, np.setdiff1d(targets, samples)])
        return Candidates(ids, self.num_samples, self.log_expected(ids, num_tries))

    def log_expected(self, ids: NDArray[np.int64], num_tries: int) -> NDArray[np.float32]:
        """Log probability that words are among the samples if it took `num_tries` draws to find S distinct ones."""
        p = np.log1p(1 / (ids + 1.0)) / np.log(self.vocab_size + 1)
        if num_tries == self.num_samples:
            expected = num_tries * p
        else:
            expected = -np.expm1(num_tries * np.log1p(-p))
        logs: NDArray[np.float32] = np.log(expected).astype(np.float32)
        return logs


def sampled_loss(
    h: Tensor, places: Tensor, rows: Tensor, biases: Tensor, candidates: Candidates, products: Products = PLAIN_PRODUCTS
) -> Tensor:
    """The sampled loss, summed: not a likelihood.

    `places` (N,) has the position of each prediction's target among the candidates; `rows` (K, P) and `biases` (K,) are
    the softmax rows of the candidates.
    """
    offset = torch.from_numpy(candidates.log_expected).to(h)  # (K,)
    loss: Tensor = _SampledLoss.apply(h, rows, biases, places, offset, candidates.num_samples, products)
    return loss


class _SampledLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        rows: Tensor,
        biases: Tensor,
        places: Tensor,
        offset: Tensor,
        num_samples: int,
        products: Products,
    ) -> Tensor:
        total, h = h.new_zeros(()), h.contiguous()
        corrected = biases - offset  # (K,)
        samples, sample_bias = rows[:num_samples], corrected[:num_samples]  # (S, P), (S,)
        to_scores, to_outputs = products.prepare(samples.T), products.prepare(samples)
        dh, drows, dbiases = torch.empty_like(h), torch.zeros_like(rows), torch.zeros_like(biases)
        dsamples, dsample_bias = h.new_zeros(h.shape[1], num_samples), dbiases[:num_samples]  # (P, S), (S,)
        for part in chunks(len(h), num_samples):
            own_place = places[part]  # (n,)
            own_row = rows[own_place]  # (n, P)
            own = (h[part] * own_row).sum(1) + corrected[own_place]  # (n,)
            scores = to_scores.multiply(h[part], h.new_empty(len(own), num_samples), sample_bias)  # (n, S)
            hit = (own_place < num_samples).nonzero()[:, 0]  # a sample that is the target counts once, as the target
            scores[hit, own_place[hit]] = -torch.inf
            largest = torch.maximum(scores.amax(1), own)  # (n,)
            odds = scores.sub_(largest[:, None]).exp_()  # (n, S)
            sums = odds.sum(1) + (own - largest).exp_()  # (n,)
            surprise = largest + sums.log() - own  # (n,)
            total += surprise.sum()
            surplus = (-surprise).expm1_()  # (n,): p of the target, less one
            share = sums.reciprocal_()[:, None]  # (n, 1): p of a sample is its odds × this
            to_outputs.multiply(odds, dh[part]).mul_(share).addcmul_(surplus[:, None], own_row)
            products.add_transposed_product(h[part] * share, odds, dsamples)
            dsample_bias += odds.T @ share[:, 0]
            drows.index_add_(0, own_place, surplus[:, None] * h[part])
            dbiases.index_add_(0, own_place, surplus)
        drows[:num_samples] += dsamples.T
        ctx.save_for_backward(dh, drows, dbiases)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return (*(tensor * scale for tensor in ctx.saved_tensors), None, None, None, None)
