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
        # Sums of probabilities that are scaled at every token are matrix products, several times as fast as logsumexp.
        scores, steps = scores.double(), transitions.double().exp()  # (B, T, K), (K, K)
        most = scores.amax(2, keepdim=True)  # (B, T, 1)
        chances, most = (scores - most).exp(), most[:, :, 0]  # (B, T, K), (B, T)
        alpha, scale = _scaled(start.double().exp() * chances[:, 0], most[:, 0])  # (B, K), (B,)
        before = [alpha.log() + scale[:, None]]  # (B, K) each: up to and with a token
        for t in range(1, scores.shape[1]):
            following = _scaled((alpha @ steps) * chances[:, t], scale + most[:, t])
            alpha = torch.where(mask[:, t, None], following[0], alpha)
            scale = torch.where(mask[:, t], following[1], scale)
            before.append(alpha.log() + scale[:, None])
        ends = end.double().exp()
        self._total = ((alpha * ends).sum(1).log() + scale).tolist()  # (B,)
        beta, scale = ends.expand_as(alpha), torch.zeros_like(scale)
        after = [beta.log()]  # (B, K) each: after a token, from the last on
        for t in range(scores.shape[1] - 1, 0, -1):
            earlier = _scaled((chances[:, t] * beta) @ steps.T, scale + most[:, t])
            beta = torch.where(mask[:, t, None], earlier[0], beta)
            scale = torch.where(mask[:, t], earlier[1], scale)
            after.append(beta.log() + scale[:, None])
        self._before, self._after = (torch.stack(parts, 1).numpy(force=True) for parts in (before, after[::-1]))
        self._scores, self._transitions = scores.numpy(force=True), transitions.numpy(force=True)

    def segment(self, row: int, start: int, tags: Sequence[int]) -> float:
        """The probability that consecutive tokens from `start` on have these tags."""
        total = float(self._before[row, start, tags[0]])
        for place, (before, tag) in enumerate(pairwise(tags), start + 1):
            total += float(self._transitions[before, tag]) + float(self._scores[row, place, tag])
        total += float(self._after[row, start + len(tags) - 1, tags[-1]]) - self._total[row]
        return math.exp(min(total, 0.0))


def _scaled(chances: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (B, K) divided by their sums, and the logarithms (B,) of all factors so far."""
    total = chances.sum(1).clamp(min=1e-300)
    return chances / total[:, None], scale + total.log()
