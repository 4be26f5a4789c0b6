import pytest

from elmokit.errors import InputError
from elmokit.tasks.accuracy import AccuracyScore, score_classes


def test_counts_by_class() -> None:
    score = score_classes(["a", "a", "b", "b", "b"], ["a", "b", "b", "c", "b"], ["a", "b", "c"])
    assert score == AccuracyScore(("a", "b", "c"), ((1, 1, 0), (0, 2, 1), (0, 0, 0)))
    assert (score.num_examples, score.num_correct) == (5, 3)
    assert score.accuracy == 0.6


def test_no_examples_are_zero() -> None:
    score = score_classes([], [], range(2))
    assert (score.accuracy, score.confusion) == (0, ((0, 0), (0, 0)))


def test_other_lengths() -> None:
    with pytest.raises(InputError, match="there are 1 predicted classes for 2 examples"):
        score_classes([0, 1], [0], range(2))


def test_unknown_classes() -> None:
    with pytest.raises(InputError, match="example 1 has the predicted class 2: choose one of 0, 1"):
        score_classes([0, 1], [0, 2], range(2))
    with pytest.raises(InputError, match="example 0 has the gold class 'x'"):
        score_classes(["x"], ["a"], ["a"])
