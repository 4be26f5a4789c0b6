import pytest

from elmokit.errors import InputError
from elmokit.tasks.spans import Span, SpanCounts, to_spans
from elmokit.tasks.srl.metric import Argument, SrlScore, score_arguments, to_arguments


def spans(text: str) -> list[Span]:
    """`0-2 A0` for tokens 0 and 1, several with commas between them."""
    pieces = (piece.replace("-", " ", 1).split() for piece in text.split(",") if piece)
    return [Span(int(start), int(end), label) for start, end, label in pieces]


# srl-eval.pl of CoNLL-2005 gives these counts of correct, excess and missed arguments, and of perfect predicates.
CASES = {
    "right": ("0-2 A0,2-3 V,3-5 A1", "0-2 A0,2-3 V,3-5 A1", (2, 0, 0), 1),
    "nothing": ("", "", (0, 0, 0), 1),
    "only a verb": ("0-1 V", "", (0, 0, 0), 1),
    "another verb": ("0-1 V,2-3 A1", "1-2 V,2-3 A1", (1, 0, 0), 1),
    "nothing predicted": ("0-2 A0", "", (0, 0, 1), 0),
    "nothing to find": ("", "0-2 A0", (0, 1, 0), 0),
    "shorter": ("0-2 A0", "0-1 A0", (0, 1, 1), 0),
    "later": ("0-2 A0", "1-2 A0", (0, 1, 1), 0),
    "another label": ("0-2 A0", "0-2 A1", (0, 1, 1), 0),
    "two of a label": ("0-1 A1,2-3 A1", "0-1 A1", (1, 0, 1), 0),
    "reference": ("0-1 A0,1-2 R-A0", "0-1 A0,1-2 A0", (1, 1, 1), 0),
    "in two pieces": ("0-1 A1,1-2 V,2-4 C-A1", "0-1 A1,1-2 V,2-4 C-A1", (1, 0, 0), 1),
    "a piece is missing": ("0-1 A1,1-2 V,2-4 C-A1", "0-1 A1,1-2 V", (0, 1, 1), 0),
    "a piece is too much": ("0-1 A1,1-2 V", "0-1 A1,1-2 V,2-4 C-A1", (0, 1, 1), 0),
    "another piece": ("0-1 A1,3-4 C-A1", "0-1 A1,2-4 C-A1", (0, 1, 1), 0),
    "pieces as two arguments": ("0-1 A1,2-4 C-A1", "0-1 A1,2-4 A1", (0, 2, 1), 0),
    "pieces that touch": ("0-3 A1", "0-1 A1,1-3 C-A1", (0, 1, 1), 0),
    "same ends, another middle": ("0-1 A1,2-3 C-A1,4-5 C-A1", "0-1 A1,4-5 C-A1", (0, 1, 1), 0),
    "a continuation of the last": ("0-1 A1,1-2 A1,3-4 C-A1", "0-1 A1,1-2 A1", (1, 1, 1), 0),
    "a continuation of another": ("0-1 A0,1-2 A1,3-4 C-A0", "0-1 A0,1-2 A1,3-4 C-A1", (0, 2, 2), 0),
    "no head": ("2-3 A1", "2-3 C-A1", (1, 0, 0), 1),
    "no head, continued": ("1-2 A1,3-4 C-A1", "1-2 C-A1,3-4 C-A1", (1, 0, 0), 1),
    "head behind": ("0-1 C-A1,2-3 A1", "0-1 A1,2-3 A1", (2, 0, 0), 1),
    "continued reference": ("0-1 R-A0,2-3 C-R-A0", "0-1 R-A0,2-3 C-A0", (0, 2, 1), 0),
    "particle": ("0-1 V,2-3 C-V", "0-1 V", (0, 0, 0), 1),
    "particle without verb": ("2-3 C-V", "2-3 A1", (0, 1, 0), 0),
}


@pytest.mark.parametrize(("gold", "predicted", "counts", "perfect"), CASES.values(), ids=CASES)
def test_as_srl_eval(gold: str, predicted: str, counts: tuple[int, int, int], perfect: int) -> None:
    score = score_arguments([spans(gold)], [spans(predicted)])
    overall = score.overall
    assert (overall.correct, overall.predicted - overall.correct, overall.gold - overall.correct) == counts
    assert (score.predicates, score.perfect) == (1, perfect)


def test_all_cases_together() -> None:
    gold, predicted = ([spans(str(case[side])) for case in CASES.values()] for side in (0, 1))
    score = score_arguments(gold, predicted)
    assert score.overall == SpanCounts(gold=27, predicted=29, correct=11)
    assert list(score.by_label.items()) == [
        ("A0", SpanCounts(7, 8, 2)),
        ("A1", SpanCounts(18, 20, 9)),
        ("R-A0", SpanCounts(2, 1, 0)),
    ]
    assert (score.predicates, score.perfect) == (26, 9)
    # As srl-eval.pl prints them for the same 26 propositions.
    printed = (score.perfect_share, score.overall.precision, score.overall.recall, score.f1)
    assert [f"{100 * value:.2f}" for value in printed] == ["34.62", "37.93", "40.74", "39.29"]


def test_pieces_are_joined_from_left_to_right() -> None:
    given = spans("6-7 C-A1,0-1 A1,2-3 V,3-4 A1,4-6 C-A1,7-9 R-A1")
    assert to_arguments(given) == (
        Argument("A1", ((0, 1),)),
        Argument("A1", ((3, 4), (4, 6), (6, 7))),
        Argument("R-A1", ((7, 9),)),
    )
    assert to_arguments(spans("0-1 A1,1-2 R-C-A1")) == (Argument("A1", ((0, 1),)), Argument("R-C-A1", ((1, 2),)))


def test_duplicates_count_once_and_overlapping_spans_each() -> None:
    assert score_arguments([spans("0-2 A0")], [spans("0-2 A0,0-2 A0")]).overall == SpanCounts(1, 1, 1)
    twice = spans("0-1 A1,2-3 C-A1,2-3 C-A1")
    assert score_arguments([spans("0-1 A1,2-3 C-A1")], [twice]).overall == SpanCounts(1, 1, 1)
    assert score_arguments([spans("0-2 A0")], [spans("0-2 A0,0-3 A0,1-2 A1")]).overall == SpanCounts(1, 3, 1)


def test_predicates_do_not_mix() -> None:
    one = spans("0-1 A0")
    score = score_arguments([one, []], [[], one])
    assert score.overall == SpanCounts(1, 1, 0)
    assert score.perfect_share == 0


def test_tags_mean_the_same() -> None:
    gold = ["B-A1 O B-V B-C-A1 I-C-A1".split(), "B-R-A0 B-V O".split()]
    predicted = ["B-A1 O B-V B-C-A1 I-C-A1".split(), "B-A0 B-V O".split()]
    score = score_arguments(list(map(to_spans, gold)), list(map(to_spans, predicted)))
    assert score.overall == SpanCounts(gold=2, predicted=2, correct=1)
    assert score.by_label == {"A0": SpanCounts(0, 1, 0), "A1": SpanCounts(1, 1, 1), "R-A0": SpanCounts(1, 0, 0)}
    assert (score.f1, score.perfect_share) == (0.5, 0.5)


def test_no_predicates() -> None:
    score = score_arguments([], [])
    assert score == SrlScore(SpanCounts())
    assert (score.f1, score.perfect_share) == (0, 0)


def test_other_lengths() -> None:
    with pytest.raises(InputError, match="there are predictions for 1 predicates, expected 2: give some for each"):
        score_arguments([[], []], [[]])
