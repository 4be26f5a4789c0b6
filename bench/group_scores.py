"""Agreement of groups with human sense labels: V-measure, B³ and the adjusted Rand index.

V-measure is the harmonic mean of homogeneity, the share of the information about senses that groups contain, and
completeness, the same with senses and groups exchanged (Rosenberg and Hirschberg, 2007). It is 0 for a single group,
and it grows with the number of groups. B³ measures for each occurrence how much of its group has its sense and how much
of its sense is in its group; it is high for a single group. Neither is sufficient alone, and neither is corrected for
chance; the adjusted Rand index is: it is 0 on average for random groups.

Notation: K occurrences, S senses, G groups.
"""

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.errors import InputError


class GroupScore(NamedTuple):
    """Agreement of groups with senses; shares from 0 to 1."""

    v_measure: float
    b_cubed: float
    """The F1 of B³."""
    adjusted_rand: float
    """The adjusted Rand index; may be negative."""


def score_groups(senses: Sequence[Hashable], groups: Sequence[Hashable]) -> GroupScore:
    """Compare one word's groups with its senses, one name of each per occurrence."""
    if len(senses) != len(groups) or not len(senses):
        raise InputError(f"{len(senses)} senses against {len(groups)} groups: give one of each per occurrence.")
    table = _contingency(senses, groups)  # (S, G)
    return GroupScore(_v_measure(table), _b_cubed(table), _adjusted_rand(table))


def _contingency(senses: Sequence[Hashable], groups: Sequence[Hashable]) -> NDArray[np.float64]:
    """The number of occurrences of each sense in each group: (S, G)."""
    rows = {sense: row for row, sense in enumerate(dict.fromkeys(senses))}
    columns = {group: column for column, group in enumerate(dict.fromkeys(groups))}
    table = np.zeros((len(rows), len(columns)))
    for sense, group in zip(senses, groups, strict=True):
        table[rows[sense], columns[group]] += 1
    return table


def _entropy(counts: NDArray[np.float64]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return -float((shares * np.log(shares)).sum())


def _v_measure(table: NDArray[np.float64]) -> float:
    senses, groups = _entropy(table.sum(1)), _entropy(table.sum(0))
    shared = senses + groups - _entropy(table.ravel())
    homogeneity = shared / senses if senses else 1.0
    completeness = shared / groups if groups else 1.0
    both = homogeneity + completeness
    return max(0.0, 2 * homogeneity * completeness / both) if both > 0 else 0.0


def _b_cubed(table: NDArray[np.float64]) -> float:
    precision = float((table**2 / table.sum(0)).sum() / table.sum())
    recall = float((table**2 / table.sum(1, keepdims=True)).sum() / table.sum())
    return 2 * precision * recall / (precision + recall)


def _adjusted_rand(table: NDArray[np.float64]) -> float:
    together, senses, groups = (
        float((counts * (counts - 1)).sum() / 2) for counts in (table, table.sum(1), table.sum(0))
    )
    pairs = math.comb(int(table.sum()), 2)
    expected = senses * groups / pairs if pairs else 0.0
    most = (senses + groups) / 2
    return (together - expected) / (most - expected) if most != expected else 1.0
