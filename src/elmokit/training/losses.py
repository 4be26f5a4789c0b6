"""What a direction pays for its predictions: −log p of every target, summed.

Three ways to p: the full softmax; a sampled one, which compares the target with a random draw of other words and is
far cheaper, but is not a likelihood and always labelled as sampled; and the adaptive softmax, which is exact for a
model that was built with one. All of them run over a few predictions at a time and work their gradients out on the
way, so memory does not grow with the window and is small beside the softmax itself.

Notation: N predictions, n of a chunk, P width of a direction, V words, S samples, K rows of the softmax in play.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmokit.errors import ConfigError
from elmokit.model.engines.products import PLAIN_PRODUCTS, Products
from elmokit.model.softmax import Softmax

_CHUNK_SCORES = 2**21
"""Scores computed at a time: 8 MB, which a core's cache can still help with."""
_LEAST_ROWS = 16
"""Predictions computed at a time, however large the vocabulary: with fewer, most time goes into reading the matrix."""
_SCORE_ROWS, _SCORE_WORDS = 512, 1024
"""Rows and words of a block of scores that are only summed: 2 MB, and as much of the matrix at most."""


def full_loss(h: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """−log p summed over all predictions: outputs (N, P), ids (N,), and the softmax (V, P), (V,)."""
    loss: Tensor = _FullLoss.apply(h, weight, bias, targets)
    return loss


def softmax_loss(h: Tensor, targets: Tensor, softmax: Softmax, token_table: Tensor | None) -> Tensor:
    """The exact loss of a model's own softmax, plain or adaptive."""
    total = h.new_zeros(())
    for inside, outcomes, weight, bias in _decisions(targets, softmax, token_table):
        total = total + full_loss(h if inside is None else h[inside], outcomes, weight, bias)
    return total


@torch.no_grad()
def target_log_probs(
    h: Tensor, targets: Tensor, softmax: Softmax, token_table: Tensor | None, places: Tensor | None = None
) -> Tensor:
    """The log p (N,) of each target by the exact softmax, for evaluation.

    Args:
        h: outputs (M, P).
        targets: ids (N,).
        softmax: the model's own, plain or adaptive.
        token_table: of a tied softmax.
        places: which output (N,) each target is predicted from, so that what several share is computed once; None if
            each has its own.

    Memory grows neither with the vocabulary nor with the number of predictions, beyond one number each.
    """
    places = torch.arange(len(h), device=h.device) if places is None else places  # (N,)
    found = h.new_zeros(len(targets))
    for inside, outcomes, weight, bias in _decisions(targets, softmax, token_table):
        own = places if inside is None else places[inside]  # (n,)
        used, which = own.unique(return_inverse=True)  # (m,), (n,)
        log_probs = h.new_empty(len(own))
        for begin in range(0, len(used), _SCORE_ROWS):
            rows = used[begin : begin + _SCORE_ROWS]
            chosen = ((which >= begin) & (which < begin + len(rows))).nonzero()[:, 0]
            chosen = chosen[outcomes[chosen].argsort()]
            log_probs[chosen] = _log_probs(h[rows], which[chosen] - begin, outcomes[chosen], weight, bias)
        found = found + log_probs if inside is None else found.index_add(0, inside, log_probs)
    return found


def _log_probs(h: Tensor, places: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The log p (n,) of targets in ascending order, each by one of the outputs (m, P), with a softmax (V, P), (V,).

    Scores are computed in blocks of words that stay in a core's cache, and only their sums are kept. A target's own
    score is taken from there too: then it loses nothing beside the sum if its probability is close to 1.
    """
    firsts = range(0, len(weight), _SCORE_WORDS)
    ends = torch.searchsorted(targets, torch.tensor([*firsts[1:], len(weight)], device=h.device)).tolist()
    scratch = h.new_empty(len(h) * min(len(weight), _SCORE_WORDS))
    largest, sums = h.new_empty(len(h), len(firsts)), h.new_empty(len(h), len(firsts))  # (m, blocks)
    own = h.new_empty(len(targets))
    for number, (first, begin, end) in enumerate(zip(firsts, [0, *ends], ends, strict=False)):
        last = min(first + _SCORE_WORDS, len(weight))
        scores = scratch[: len(h) * (last - first)].view(len(h), last - first)  # (m, v)
        torch.addmm(bias[first:last], h, weight[first:last].T, out=scores)
        own[begin:end] = scores[places[begin:end], targets[begin:end] - first]
        top = scores.amax(1).clamp_(min=torch.finfo(h.dtype).min)  # (m,): finite, so that a score of −∞ weighs nothing
        largest[:, number] = top
        sums[:, number] = scores.sub_(top[:, None]).exp_().sum(1)
    top = largest.amax(1)  # (m,)
    log_sums = (sums * (largest - top[:, None]).exp_()).sum(1).log_()  # (m,)
    return own - top[places] - log_sums[places]


def _decisions(
    targets: Tensor, softmax: Softmax, token_table: Tensor | None
) -> Iterator[tuple[Tensor | None, Tensor, Tensor, Tensor]]:
    """The choices that lead to targets (N,): one in a plain softmax; in an adaptive one the word of a cluster as well.

    For each: which predictions make it (None is all of them), its outcomes, and the weight and bias it is made by.
    """
    weight, head = softmax.weight, targets
    if softmax.clusters:
        assert weight is not None
        head, num_frequent = (
            targets.clone(),
            softmax.clusters[0][0],
        )  # the word, or its cluster after the frequent words
        for number, (begin, end) in enumerate(softmax.clusters):
            inside = ((targets >= begin) & (targets < end)).nonzero()[:, 0]
            head[inside] = num_frequent + number
            if len(inside):
                yield inside, targets[inside] - begin, weight[begin:end], softmax.bias[begin:end]
    yield None, head, *softmax.head(token_table)


class _FullLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        total = h.new_zeros(())
        wants_h, wants_weight, wants_bias, _ = ctx.needs_input_grad
        dh = torch.empty_like(h) if wants_h else None
        dweight = torch.zeros_like(weight) if wants_weight else None
        dbias = torch.zeros_like(bias) if wants_bias else None
        for rows in _chunks(len(h), len(weight)):
            logits = torch.addmm(bias, h[rows], weight.T)  # (n, V)
            own = targets[rows, None]  # (n, 1)
            normalizer = logits.logsumexp(1, keepdim=True)  # (n, 1)
            total += (normalizer - logits.gather(1, own)).sum()
            if not any(ctx.needs_input_grad):
                continue
            p = logits.sub_(normalizer).exp_()  # (n, V)
            p.scatter_add_(1, own, p.new_full((len(p), 1), -1.0))
            if dh is not None:
                dh[rows] = p @ weight
            if dweight is not None:
                dweight.addmm_(p.T, h[rows])
            if dbias is not None:
                dbias += p.sum(0)
        ctx.save_for_backward(dh, dweight, dbias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None if tensor is None else tensor * scale for tensor in ctx.saved_tensors), None)


class Candidates(NamedTuple):
    """The words that a sampled softmax looks at: S samples, then every target that is not among them."""

    ids: NDArray[np.int64]  # (K,) distinct
    num_samples: int
    log_expected: NDArray[np.float32]  # (K,) log of how often a draw of S distinct words contains the word

    def places(self, targets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each target stands among the candidates."""
        order = np.argsort(self.ids)  # (K,)
        places: NDArray[np.int64] = order[np.searchsorted(self.ids, targets, sorter=order)]
        return places


class LogUniformSampler:
    """Draws distinct words, frequent ones more often: P(k) = ln((k + 2) / (k + 1)) / ln(V + 1) for the word of id k.

    The vocabulary is sorted by count, so this follows Zipf's law without knowing any count, as in bilm-tf.
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
        """Draw until S distinct words are there, and add the targets."""
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
        """Log of the chance that words are among the samples when it took so many draws to find S distinct ones."""
        p = np.log1p(1 / (ids + 1.0)) / np.log(self.vocab_size + 1)
        if num_tries == self.num_samples:
            expected = num_tries * p
        else:
            expected = -np.expm1(num_tries * np.log1p(-p))
        logs: NDArray[np.float32] = np.log(expected).astype(np.float32)
        return logs


def sampled_loss(
    h: Tensor,
    places: Tensor,
    rows: Tensor,
    biases: Tensor,
    candidates: Candidates,
    products: Products = PLAIN_PRODUCTS,
) -> Tensor:
    """The sampled loss, summed: not a likelihood.

    Args:
        h: outputs (N, P).
        places: where each prediction's target stands among the candidates (N,).
        rows: the candidates' rows of the softmax (K, P).
        biases: their biases (K,).
        candidates: what was drawn.
        products: how matrices are multiplied.
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
        dsamples, dsample_bias = drows[:num_samples], dbiases[:num_samples]  # (S, P), (S,)
        for part in _chunks(len(h), num_samples):
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
            products.add_turned(odds, h[part] * share, dsamples)
            dsample_bias += odds.T @ share[:, 0]
            drows.index_add_(0, own_place, surplus[:, None] * h[part])
            dbiases.index_add_(0, own_place, surplus)
        ctx.save_for_backward(dh, drows, dbiases)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return (*(tensor * scale for tensor in ctx.saved_tensors), None, None, None, None)


def _chunks(num_rows: int, num_scores: int) -> Iterator[slice]:
    size = max(_LEAST_ROWS, _CHUNK_SCORES // num_scores)
    for begin in range(0, num_rows, size):
        yield slice(begin, min(begin + size, num_rows))
