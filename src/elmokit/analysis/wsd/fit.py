"""Weights of the votes of similar occurrences: a few numbers, fitted on texts with known senses.

Notation: P pairs of an instance and a voter's sense, G pairs of an instance and a sense, Q instances, V views.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.analysis.wsd.contexts import VIEWS
from elmokit.analysis.wsd.metric import Numbers
from elmokit.errors import InputError

_STEPS = 30
_START_WEIGHT, _START_COUNTS, _START_FLOOR = 9.0, -9.0, -7.0
"""Initial values: the sum of b, log a and log c."""


@dataclass(frozen=True)
class Voting:
    """How votes are weighted; see `elmokit.analysis.wsd.votes`."""

    weights: tuple[float, ...]
    """b of each view; 0 leaves it out."""
    counts: float
    """a, the share of plain counts."""
    floor: float
    """c, the score of a sense without a vote."""
    prior: bool = True
    """Whether a sense gets the sum of its votes, or their mean, for which its frequency does not matter."""


class Pairs(NamedTuple):
    """Instances with known senses, and all votes."""

    cosines: NDArray[np.float32]  # (P, V)
    votes: NDArray[np.float32]  # (P,): a voter with several senses divides its vote
    groups: Numbers  # (P,): for which instance and sense
    instances: Numbers  # (G,): of each instance and sense, in order
    right: NDArray[np.bool_]  # (G,): whether the sense is one of the instance

    @property
    def num_instances(self) -> int:
        """Q."""
        return int(self.instances[-1]) + 1


def fit_voting(pairs: Pairs, views: Sequence[str] = VIEWS, *, prior: bool = True) -> Voting:
    """The parameters that maximize the likelihood of the correct senses.

    Args:
        pairs: the data to fit.
        views: the views to use; the others get the weight 0.
        prior: see `Voting`.
    """
    columns = [VIEWS.index(view) for view in views]
    likelihood = _Likelihood(pairs, columns, prior=prior)
    weights = torch.full((len(views),), _START_WEIGHT / len(views)).log()
    unknowns = [weights, torch.tensor(_START_COUNTS), torch.tensor(_START_FLOOR)]
    for unknown in unknowns:
        unknown.requires_grad_()
    optimizer = torch.optim.LBFGS(unknowns, lr=0.5, max_iter=_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = likelihood.loss(*unknowns)
        torch.autograd.backward(loss)
        return loss

    optimizer.step(closure)
    found = [unknown.detach().exp() for unknown in unknowns]
    if not all(bool(torch.isfinite(value).all()) for value in found):
        raise InputError("the votes of the tagged text cannot be fitted: give all of SemCor.")
    by_view = dict(zip(views, found[0].tolist(), strict=True))
    return Voting(tuple(by_view.get(view, 0.0) for view in VIEWS), float(found[1]), float(found[2]), prior)


class _Likelihood:
    """The negative mean log-probability of the correct senses, as a function of log b, log a and log c."""

    def __init__(self, pairs: Pairs, columns: Sequence[int], *, prior: bool) -> None:
        self.cosines = torch.from_numpy(np.ascontiguousarray(pairs.cosines[:, columns]))  # (P, V)
        self.votes, self.groups = torch.from_numpy(pairs.votes), torch.from_numpy(pairs.groups)  # (P,), (P,)
        self.instances, self.right = torch.from_numpy(pairs.instances), torch.from_numpy(pairs.right)  # (G,), (G,)
        self.counts = torch.zeros(len(pairs.right)).index_add(0, self.groups, self.votes)  # (G,)
        self.num_instances, self.prior = pairs.num_instances, prior

    def loss(self, log_weights: Tensor, log_counts: Tensor, log_floor: Tensor) -> Tensor:
        weights = log_weights.exp()  # (V,)
        votes = torch.exp(self.cosines @ weights - weights.sum()) * self.votes  # (P,)
        sums = torch.zeros_like(self.counts).index_add(0, self.groups, votes)  # (G,)
        if self.prior:
            scores = sums + log_counts.exp() * self.counts + log_floor.exp()  # (G,)
        else:
            scores = sums / self.counts.clamp(min=1e-6) + log_floor.exp()  # (G,)
        empty = torch.zeros(self.num_instances)  # (Q,)
        totals = empty.index_add(0, self.instances, scores)  # (Q,)
        rights = empty.index_add(0, self.instances, scores * self.right)  # (Q,)
        return (totals.log() - (rights + 1e-9 * totals).log()).mean()
