"""The scores of groups against other implementations."""

import numpy as np
import pytest
from bench.group_scores import score_groups
from sklearn.metrics import adjusted_rand_score, v_measure_score

from elmokit.errors import InputError


def brute_b_cubed(gold: list[int], found: list[int]) -> float:
    """Occurrence by occurrence, as Bagga and Baldwin define it."""
    precision, recall = [], []
    for sense, group in zip(gold, found, strict=True):
        both = sum(s == sense and g == group for s, g in zip(gold, found, strict=True))
        precision.append(both / found.count(group))
        recall.append(both / gold.count(sense))
    p, r = np.mean(precision), np.mean(recall)
    return float(2 * p * r / (p + r))


@pytest.mark.parametrize("seed", range(8))
def test_against_sklearn_and_one_by_one(seed: int) -> None:
    draw = np.random.default_rng(seed)
    size, senses, groups = draw.integers(2, 60), draw.integers(1, 6), draw.integers(1, 9)
    gold, found = draw.integers(0, senses, size).tolist(), draw.integers(0, groups, size).tolist()
    score = score_groups(gold, found)
    assert score.v_measure == pytest.approx(v_measure_score(gold, found), abs=1e-9)
    assert score.adjusted_rand == pytest.approx(adjusted_rand_score(gold, found), abs=1e-9)
    assert score.b_cubed == pytest.approx(brute_b_cubed(gold, found), abs=1e-12)


def test_ends_of_the_scales() -> None:
    assert score_groups("aabb", [1, 1, 0, 0]) == (1, 1, 1)
    assert score_groups("aabb", "xxxx").v_measure == 0
    assert score_groups("aabb", "xxxx").b_cubed == pytest.approx(2 * 0.5 / 1.5)
    assert score_groups("aabb", "wxyz").b_cubed == pytest.approx(2 * 0.5 / 1.5)
    assert score_groups("abab", "xxyy").v_measure == 0
    assert score_groups("a", "x") == (1, 1, 1)
    with pytest.raises(InputError, match="2 senses against 1 groups"):
        score_groups("ab", "x")
    with pytest.raises(InputError, match="0 senses"):
        score_groups("", "")
