import numpy as np
import pytest

from elmokit.tasks.nli.reader import NliExample
from elmokit.tasks.nli.task import Nli
from elmokit.tasks.sentiment.reader import SentimentExample
from elmokit.tasks.sentiment.task import Sentiment

SENTENCES = [SentimentExample(("good",), label) for label in (4, 0, 4)]
PAIRS = [NliExample(("a",), ("b",), label) for label in ("entailment", "neutral", "contradiction")]


def test_classes_are_numbers() -> None:
    assert Sentiment().score(SENTENCES, [4, 0, 3]) == {"accuracy": pytest.approx(200 / 3)}
    assert Sentiment().count_all(SENTENCES, [4, 0, 3]).tolist() == [[1, 1], [1, 1], [0, 1]]


def test_labels_are_words() -> None:
    assert Nli().score(PAIRS, ["entailment", "contradiction", "contradiction"]) == {"accuracy": pytest.approx(200 / 3)}
    assert Nli().score(PAIRS, ["neutral", "contradiction", "entailment"]) == {"accuracy": 0}


def test_accuracy_is_the_share_of_equal_classes() -> None:
    random = np.random.default_rng(0)
    gold, predicted = random.integers(5, size=(2, 200))
    examples = [SentimentExample(("word",), label) for label in gold.tolist()]
    expected = 100 * float((gold == predicted).mean())
    assert Sentiment().score(examples, predicted.tolist())["accuracy"] == pytest.approx(expected)


def test_every_example_needs_a_prediction() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Nli().score(PAIRS, ["neutral", "neutral"])
