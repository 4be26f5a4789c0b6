"""Is one system better than another, or is the difference due to chance?

Notation: S seeds, N examples, C counts of an example, R resamples.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError

_AT_ONCE = 500


def paired_bootstrap(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    figure: Callable[[Sequence[float]], float],
    *,
    num_resamples: int = 10_000,
    seed: int = 0,
) -> float:
    """The share of resampled test sets on which the second system is not better than the first.

    Both are judged on the same resamples, and each by the mean of its seeds.

    Args:
        first: counts (S, N, C) of the first system's runs.
        second: counts (S', N, C) of the second system's runs.
        figure: computes the metric from the sums of counts (C,).
        num_resamples: R.
        seed: random seed of the resamples.
    """
    if first.ndim != 3 or second.ndim != 3 or first.shape[1:] != second.shape[1:] or not first.shape[1]:
        raise InputError(
            f"counts of shape {first.shape} and {second.shape} cannot be compared: give (seeds, examples, counts) of "
            "the same examples."
        )
    random = np.random.default_rng(seed)
    num_examples = first.shape[1]
    not_better = 0
    for begin in range(0, num_resamples, _AT_ONCE):
        size = min(_AT_ONCE, num_resamples - begin)
        weights = random.multinomial(num_examples, [1 / num_examples] * num_examples, size=size).astype(np.float64)
        means = [np.mean([_figures(weights @ run, figure) for run in runs], axis=0) for runs in (first, second)]  # (R,)
        not_better += int((means[1] <= means[0]).sum())
    return not_better / num_resamples


def _figures(sums: NDArray[np.float64], figure: Callable[[Sequence[float]], float]) -> list[float]:
    return [figure(row) for row in sums.tolist()]
