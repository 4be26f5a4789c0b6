"""Probabilities of parts of tag sequences in a linear chain.

Notation: B examples, T tokens, K tags.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor


class Posteriors:
    """The distribution over all tag sequences of each example, for asking how likely a segment is.

    Args:
        scores: (B, T, K) scores of tags.
        mask: (B, T) True for real tokens.
        transitions: (K, K) scores of a tag (rows) being followed by another (columns).
        start: (K,) scores of first tags.
        end: (K,) scores of last tags.
    """

    def __init__(self, scores: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> None:
        alphas = [start + scores[:, 0]]  # (B, K) each
        for t in range(1, scores.shape[1]):
            own = (alphas[-1][:, :, None] + transitions).logsumexp(1) + scores[:, t]
            alphas.append(torch.where(mask[:, t, None], own, alphas[-1]))
        betas = [end.expand_as(alphas[0])]  # (B, K) each, from the last token on
        for t in range(scores.shape[1] - 1, 0, -1):
            own = (transitions + (scores[:, t] + betas[-1])[:, None]).logsumexp(2)
            betas.append(torch.where(mask[:, t, None], own, betas[-1]))
        self._total = (alphas[-1] + end).logsumexp(1).tolist()  # (B,)
        self._before = torch.stack(alphas, 1).numpy(force=True)  # (B, T, K): up to and with a token
        self._after = torch.stack(betas[::-1], 1).numpy(force=True)  # (B, T, K): after a token
        self._scores, self._transitions = scores.numpy(force=True), transitions.numpy(force=True)

    def segment(self, row: int, start: int, tags: Sequence[int]) -> float:
        """The probability that consecutive tokens from `start` on have these tags."""
        total = float(self._before[row, start, tags[0]])
        for place, (before, tag) in enumerate(pairwise(tags), start + 1):
            total += float(self._transitions[before, tag]) + float(self._scores[row, place, tag])
        total += float(self._after[row, start + len(tags) - 1, tags[-1]]) - self._total[row]
        return math.exp(min(total, 0.0))
