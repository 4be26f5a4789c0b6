"""Surprisal per token against the log-probabilities of single sentences; spans, minimal pairs, wrong calls."""

import json
import math
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest

from elmokit.errors import ElmokitError, InputError
from elmokit.model.bilm import BiLM
from elmokit.scoring import TextSurprisal, compare_pairs, measure_surprisal, score_sentences
from elmokit.scoring.surprisal import Direction

TEXT = "The play was good. They play well."


def measure(bilm: BiLM, *texts: str | list[str], **options: str) -> list[TextSurprisal]:
    return list(measure_surprisal(bilm, texts, **options))  # type: ignore[arg-type]


def test_tokens_have_the_scores_of_their_sentences(bilm: BiLM) -> None:
    (found,) = measure(bilm, TEXT, unit="nats")
    assert [TEXT[token.start : token.end] for token in found.tokens] == [token.text for token in found.tokens]
    assert found.sentences == (0, 0, 0, 0, 0, 1, 1, 1, 1)
    sentences = [["The", "play", "was", "good", "."], ["They", "play", "well", "."]]
    scores = list(score_sentences(bilm, sentences))
    np.testing.assert_allclose(found.forward, np.concatenate([-score.forward[:-1] for score in scores]))
    np.testing.assert_allclose(found.backward, np.concatenate([-score.backward[1:] for score in scores]))
    np.testing.assert_allclose(found.forward_end, [-score.forward[-1] for score in scores])
    np.testing.assert_allclose(found.backward_end, [-score.backward[0] for score in scores])


def test_bits_are_nats_by_the_logarithm_of_two(bilm: BiLM) -> None:
    (bits,), (nats,) = measure(bilm, TEXT), measure(bilm, TEXT, unit="nats")
    np.testing.assert_allclose(bits.forward * math.log(2), nats.forward)
    assert bits.total("backward") * math.log(2) == pytest.approx(nats.total("backward"))


def test_totals_and_spans_are_sums(bilm: BiLM) -> None:
    (found,) = measure(bilm, TEXT)
    np.testing.assert_allclose(found.values(), (found.forward + found.backward) / 2)
    assert found.total("forward", boundaries=False) == pytest.approx(found.forward.sum())
    assert found.total("forward") == pytest.approx(found.forward.sum() + found.forward_end.sum())
    assert found.total() == pytest.approx((found.total("forward") + found.total("backward")) / 2)
    start = TEXT.index("play")
    assert found.span(start, start + 4, "forward") == pytest.approx(found.forward[1])
    assert found.span(start + 2, start + 6, "forward") == pytest.approx(found.forward[1:3].sum())  # "ay w"
    assert found.span(0, len(TEXT), "backward") == pytest.approx(found.backward.sum())


@pytest.mark.parametrize(("start", "end"), [(3, 4), (0, 0), (0, 99), (50, 60)])
def test_spans_must_touch_a_token(bilm: BiLM, start: int, end: int) -> None:
    (found,) = measure(bilm, TEXT)
    with pytest.raises(InputError, match="give a span that touches a token"):
        found.span(start, end)


def test_texts_come_in_order_whatever_they_hold(bilm: BiLM) -> None:
    texts = ["", TEXT, ["They", "play", "."], "  ", "Good.", ""]
    found = measure(bilm, *texts)  # type: ignore[arg-type]
    assert [one.index for one in found] == list(range(6))
    assert [len(one.tokens) for one in found] == [0, 9, 3, 0, 2, 0]
    assert found[2].text == "They play ." and found[2].tokens[2] == (".", 10, 11)
    assert found[0].total() == 0
    alone = measure(bilm, "Good.")[0]
    np.testing.assert_allclose(found[4].forward, alone.forward, rtol=1e-5)


def test_endless_input_is_read_as_results_are_taken(bilm: BiLM) -> None:
    def texts() -> Iterator[str]:
        while True:
            yield TEXT

    found = measure_surprisal(bilm, texts())
    assert [next(found).index for _ in range(300)] == list(range(300))


def test_records_are_json(bilm: BiLM) -> None:
    record = json.loads(json.dumps(measure(bilm, "They play.")[0].to_dict()))
    assert record["unit"] == "bits" and record["index"] == 0
    assert [token["text"] for token in record["tokens"]] == ["They", "play", "."]
    assert record["tokens"][1]["start"] == 5 and record["tokens"][1]["forward"] > 0
    assert set(record["total"]) == {"forward", "backward", "both"}


def test_the_less_surprising_text_of_a_pair_is_preferred(bilm: BiLM) -> None:
    first, second = measure(bilm, "They play.", "play They.")
    pairs = [("They play.", "play They."), ("play They.", "They play."), ("They play.", ["They", "play", "."])]
    for direction in get_args(Direction):
        found = list(compare_pairs(bilm, pairs, direction=direction))
        totals = first.total(direction), second.total(direction)
        assert (found[0].first, found[0].second) == pytest.approx(totals)
        assert [one.prefers_first for one in found] == [totals[0] < totals[1], totals[1] < totals[0], False]
        assert [one.index for one in found] == [0, 1, 2]


# mypy would refuse these calls, as it should.
surprisal: Any = measure_surprisal
pairs: Any = compare_pairs


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda bilm: list(surprisal(bilm, "They play.")), "texts is the str"),
        (lambda bilm: list(surprisal(bilm, ["a"], unit="bit")), "unit"),
        (lambda bilm: list(surprisal(bilm, [None])), "text 0"),
        (lambda bilm: next(surprisal(bilm, ["a"])).values("ahead"), "direction"),
        (lambda bilm: list(pairs(bilm, ["ab"])), "pair 0 is"),
        (lambda bilm: list(pairs(bilm, [("a", "b", "c")])), "pair 0 is"),
        (lambda bilm: list(pairs(bilm, "ab")), "pairs is"),
        (lambda bilm: list(pairs(bilm, [("a", 1)])), "pair 0"),
    ],
)
def test_wrong_calls_name_the_argument(bilm: BiLM, call: Any, words: str) -> None:
    with pytest.raises(ElmokitError, match=words):
        call(bilm)
