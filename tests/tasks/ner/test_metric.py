import pytest

from elmokit.errors import InputError
from elmokit.tasks.ner.metric import score_spans, score_tags
from elmokit.tasks.spans import Span, SpanCounts

# Ill-formed on both sides; precision, recall, F1 and support by type are those that seqeval 1.2.2 gives.
GOLD = [
    "B-PER I-PER O B-LOC",
    "O I-ORG I-ORG B-ORG I-LOC",
    "I-PER B-PER I-PER O I-MISC",
    "B-LOC I-PER I-PER O",
    "O O",
]
PREDICTED = [
    "I-PER I-PER O I-LOC",
    "B-ORG I-ORG I-ORG I-ORG I-LOC",
    "I-PER I-PER I-PER O B-MISC",
    "B-LOC B-PER I-PER I-PER",
    "I-ORG O",
]


def split(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_ill_formed_tags_count_as_in_conlleval() -> None:
    score = score_tags(split(GOLD), split(PREDICTED))
    assert score.overall == SpanCounts(gold=10, predicted=9, correct=5)
    assert list(score.by_type.items()) == [
        ("LOC", SpanCounts(3, 3, 3)),
        ("MISC", SpanCounts(1, 1, 1)),
        ("ORG", SpanCounts(2, 2, 0)),
        ("PER", SpanCounts(4, 3, 1)),
    ]
    assert score.overall.precision == pytest.approx(0.5555555555555556)
    assert score.overall.recall == pytest.approx(0.5)
    assert score.f1 == pytest.approx(0.5263157894736842)
    assert score.by_type["PER"].f1 == pytest.approx(0.28571429)


def test_tokens_and_type_must_both_be_right() -> None:
    gold = [[Span(0, 2, "A")]]
    for wrong in (Span(0, 1, "A"), Span(1, 2, "A"), Span(0, 3, "A"), Span(0, 2, "B")):
        assert score_spans(gold, [[wrong]]).overall == SpanCounts(1, 1, 0)
    assert score_spans(gold, [[Span(0, 2, "A")]]).f1 == 1


def test_sentences_do_not_mix() -> None:
    span = Span(0, 1, "A")
    assert score_spans([[span], []], [[], [span]]).overall == SpanCounts(1, 1, 0)


def test_types_that_only_predictions_have() -> None:
    assert score_tags([["O"]], [["B-X"]]).by_type == {"X": SpanCounts(0, 1, 0)}


def test_nothing_is_zero() -> None:
    for counts in (SpanCounts(), SpanCounts(gold=3), SpanCounts(predicted=3), SpanCounts(2, 2, 0)):
        assert (counts.precision, counts.recall, counts.f1) == (0, 0, 0)


def test_other_lengths() -> None:
    with pytest.raises(InputError, match="there are 1 predicted sentences, expected 2"):
        score_spans([[], []], [[]])
    with pytest.raises(InputError, match="there are 1 predicted sentences, expected 0"):
        score_tags([], [["O"]])
    with pytest.raises(InputError, match="sentence 1 has 1 predicted tags, expected one for each of 2 tokens"):
        score_tags([["O"], ["O", "O"]], [["O"], ["O"]])
