import pytest

from elmokit.errors import InputError
from elmokit.tasks.sentiment.metric import score_sentiment


def test_classes_are_numbers() -> None:
    score = score_sentiment([0, 4, 4], [0, 4, 3])
    assert score.accuracy == pytest.approx(2 / 3)
    assert score.confusion == ((1, 0, 0, 0, 0), (0,) * 5, (0,) * 5, (0,) * 5, (0, 0, 0, 1, 1))


def test_two_classes() -> None:
    assert score_sentiment([0, 1], [1, 1], num_classes=2).confusion == ((0, 1), (0, 1))
    with pytest.raises(InputError, match="gold class 4: choose one of 0, 1"):
        score_sentiment([4], [1], num_classes=2)
