"""Exact log probabilities of words under a model's softmax, in bounded memory.

Notation: N targets, M outputs, P width of a direction, V words; m, n and v of a block.
"""

import torch
from torch import Tensor

from elmokit.model.softmax import Softmax

_SCORE_ROWS, _SCORE_WORDS = 512, 1024
"""Rows and words of a block of scores: 2 MB, and at most as much of the matrix."""


@torch.no_grad()
def target_log_probs(
    h: Tensor, targets: Tensor, softmax: Softmax, token_table: Tensor | None, places: Tensor | None = None
) -> Tensor:
    """The log p (N,) of each target under the exact softmax, for evaluation.

    `h` has the outputs (M, P). `places` (N,) says which of them predicts each target, so that shared outputs are
    computed once; None if each target has its own.

    Memory does not grow with the vocabulary, and by only one number per prediction.
    """
    places = torch.arange(len(h), device=h.device) if places is None else places  # (N,)
    found = h.new_zeros(len(targets))
    for inside, outcomes, weight, bias in softmax.decisions(targets, token_table):
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
    """The log p (n,) of targets in ascending order, each from one of the outputs (m, P), with a softmax (V, P), (V,).

    Scores are computed in blocks of words that stay in a core's cache, and only their sums are kept. The target's score
    comes from the same block, so that a probability close to 1 loses no precision against the sum.
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
