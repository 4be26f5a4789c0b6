import pytest

from elmokit.errors import InputError
from elmokit.tasks.nli.metric import score_nli


def test_labels_are_words() -> None:
    score = score_nli(["entailment", "neutral", "contradiction"], ["entailment", "contradiction", "contradiction"])
    assert score.classes == ("entailment", "neutral", "contradiction")
    assert score.confusion == ((1, 0, 0), (0, 0, 1), (0, 0, 1))
    assert score.accuracy == pytest.approx(2 / 3)


def test_unknown_labels() -> None:
    with pytest.raises(InputError, match="predicted class '-': choose one of entailment, neutral, contradiction"):
        score_nli(["neutral"], ["-"])
