from dataclasses import astuple
from itertools import permutations

import numpy as np
import pytest

from elmokit.errors import InputError
from elmokit.tasks.coref.assignment import best_pairs
from elmokit.tasks.coref.document import Mention
from elmokit.tasks.coref.metric import CorefScore, Fractions, score_clusters

Rows = list[tuple[float, float, float]]


def clusters(text: str) -> list[list[str]]:
    """`abc d` for two clusters, of the mentions a, b, c and of d."""
    return [list(piece) for piece in text.split()]


def rows(score: CorefScore) -> Rows:
    metrics = (score.muc, score.b_cubed, score.ceaf)
    return [(metric.recall, metric.precision, metric.f1) for metric in metrics]


# Recall, precision and F1 of MUC, B³ and CEAF by scorch 0.2.0, and its mean F1.
CASES: dict[str, tuple[str, str, Rows, float]] = {
    "paper of the scorer": (
        "abc defg",
        "ab cd fghi",
        [(0.4, 0.4, 0.4), (0.4166666667, 0.5, 0.4545454545), (0.65, 0.4333333333, 0.52)],
        0.4581818182,
    ),
    "right": ("abc de", "ed cab", [(1, 1, 1), (1, 1, 1), (1, 1, 1)], 1),
    "nothing predicted": ("ab c", "", [(0, 0, 0), (0, 0, 0), (0, 0, 0)], 0),
    "nothing to find": ("", "ab", [(0, 0, 0), (0, 0, 0), (0, 0, 0)], 0),
    "nothing at all": ("", "", [(0, 0, 0), (0, 0, 0), (0, 0, 0)], 0),
    "other mentions": ("ab", "xy", [(0, 0, 0), (0, 0, 0), (0, 0, 0)], 0),
    "singletons": ("a b", "a b", [(0, 0, 0), (1, 1, 1), (1, 1, 1)], 0.6666666667),
    "singletons joined": ("a b c", "abc", [(0, 0, 0), (1, 1 / 3, 0.5), (1 / 6, 0.5, 0.25)], 0.25),
    "taken apart": ("abc", "a b c", [(0, 0, 0), (1 / 3, 1, 0.5), (0.5, 1 / 6, 0.25)], 0.25),
    "one big cluster": ("ab cd ef", "abcdef", [(1, 0.6, 0.75), (1, 1 / 3, 0.5), (1 / 6, 0.5, 0.25)], 0.5),
    "links exchanged": ("ab cd", "ac bd", [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)], 0.3333333333),
    "the best pair is not in the best pairing": (
        "abcd e",
        "abce d",
        [(2 / 3, 2 / 3, 2 / 3), (0.7, 0.7, 0.7), (0.4, 0.4, 0.4)],
        0.5888888889,
    ),
}


@pytest.mark.parametrize(("gold", "predicted", "expected", "mean"), CASES.values(), ids=CASES)
def test_as_scorch(gold: str, predicted: str, expected: Rows, mean: float) -> None:
    score = score_clusters([clusters(gold)], [clusters(predicted)])
    for found, wanted in zip(rows(score), expected, strict=True):
        assert found == pytest.approx(wanted)
    assert score.f1 == pytest.approx(mean)


def test_precision_is_recall_the_other_way_round() -> None:
    for gold, predicted, *_ in CASES.values():
        one = rows(score_clusters([clusters(gold)], [clusters(predicted)]))
        other = rows(score_clusters([clusters(predicted)], [clusters(gold)]))
        assert [(precision, recall) for recall, precision, _ in one] == [row[:2] for row in other]


def test_documents_are_summed_before_they_are_divided() -> None:
    gold = [clusters("abc defg"), clusters("ab cd"), [], clusters("xy")]
    predicted = [clusters("ab cd fghi"), clusters("ab c"), clusters("uv"), []]
    score = score_clusters(gold, predicted)
    assert score.muc == Fractions(3, 8, 3, 7)
    assert astuple(score.b_cubed) == pytest.approx((2.9166666667 + 2.5, 13, 4 + 3, 13))
    assert astuple(score.ceaf) == pytest.approx((1.3 + 1 + 2 / 3, 5, 1.3 + 1 + 2 / 3, 6))
    assert score.mentions == Fractions(6 + 3, 13, 6 + 3, 13)
    # scorch 0.2.0, all documents taken for one with mentions of their own.
    assert rows(score)[0] == pytest.approx((0.375, 0.4285714286, 0.4))
    assert rows(score)[1] == pytest.approx((0.4166666667, 0.5384615385, 0.4697986577))
    assert rows(score)[2] == pytest.approx((0.5933333333, 0.4944444444, 0.5393939394))
    assert score.f1 == pytest.approx(0.4697308657)
    assert score == sum((score_clusters([one], [two]) for one, two in zip(gold, predicted, strict=True)), CorefScore())


def test_documents_do_not_mix() -> None:
    score = score_clusters([clusters("ab"), []], [[], clusters("ab")])
    assert score.mentions == Fractions(0, 2, 0, 2)
    assert score.f1 == 0


def test_a_mention_counts_once_in_its_first_cluster() -> None:
    gold = [clusters("ab cd")]
    assert score_clusters(gold, [clusters("aabb bcd abcd")]) == score_clusters(gold, [clusters("ab cd")])
    assert score_clusters([clusters("ab abc")], [clusters("ab c")]).b_cubed == Fractions(3, 3, 3, 3)
    assert score_clusters(gold, [[*clusters("ab cd"), []]]).ceaf == Fractions(2, 2, 2, 2)


def test_mentions_must_match_exactly() -> None:
    gold = [[[Mention(0, 2), Mention(3, 4)]]]
    assert score_clusters(gold, [[[Mention(0, 2), Mention(3, 5)]]]).mentions == Fractions(1, 2, 1, 2)
    assert score_clusters(gold, [[[(0, 2), (3, 4)]]]).f1 == 1


def test_other_lengths() -> None:
    with pytest.raises(InputError, match="there are predictions for 1 documents, expected 2: give some for each"):
        score_clusters([[], []], [[]])


def test_no_documents() -> None:
    assert score_clusters([], []) == CorefScore()
    assert CorefScore().f1 == 0


def test_the_best_pairs_of_all() -> None:
    generator = np.random.default_rng(0)
    for number in range(600):
        shape = generator.integers(0, 6, 2)
        values = generator.random(shape) if number % 2 else generator.integers(-2, 3, shape) / 2
        pairs = best_pairs(values)
        assert len(pairs) == len({row for row, _ in pairs}) == len({column for _, column in pairs}) == min(shape)
        short = values if shape[0] <= shape[1] else values.T
        choices = permutations(range(short.shape[1]), short.shape[0])
        best = max(sum(short[row, column] for row, column in enumerate(choice)) for choice in choices)
        assert sum(values[pair] for pair in pairs) == pytest.approx(best)


def test_pairs_of_many() -> None:
    order = np.random.default_rng(1).permutation(200)
    values = np.random.default_rng(2).random((200, 230))
    values[np.arange(200), order] += 1
    assert sorted(best_pairs(values)) == list(enumerate(order.tolist()))
