"""Same-sense pairs against different-sense pairs: exact AUC, the rule that chooses words, made-up models."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from bench.word_in_context import auc, choose_words, compare_contexts
from numpy.typing import NDArray

from bench import word_in_context
from elmokit.analysis.wsd.semcor import read_semcor
from elmokit.analysis.wsd.wordnet import SenseSentence, Target, Word
from elmokit.errors import InputError
from tests.data import DATA, needs_data

WSD = DATA / "wsd"
BANK = Word("bank", "noun")
RIVER, MONEY, CASH = "bank%1:17:01::", "bank%1:14:00::", "bank%1:06:00::"


def test_auc_counts_ties_half() -> None:
    assert auc(np.array([1.0, 2.0]), np.array([0.0])) == 1
    assert auc(np.array([0.0]), np.array([1.0, 2.0])) == 0
    assert auc(np.array([1.0, 1.0]), np.array([1.0, 1.0, 1.0])) == 0.5
    assert auc(np.array([1.0, 3.0]), np.array([1.0, 2.0])) == (0.5 + 0 + 1 + 1) / 4
    with pytest.raises(InputError, match="AUC of 0 against 1 values"):
        auc(np.array([]), np.array([1.0]))


def test_auc_is_the_share_of_pairs() -> None:
    draw = np.random.default_rng(3)
    higher, lower = draw.integers(0, 9, 70) + 1, draw.integers(0, 9, 90)
    pairs = (higher[:, None] > lower).mean() + (higher[:, None] == lower).mean() / 2
    assert auc(higher, lower) == pytest.approx(pairs, abs=1e-12)


def occurrence(
    key: str, text: int, form: str = "bank", word: Word = BANK, more: str = "", end: int = 2
) -> SenseSentence:
    """A form behind a token that tells its sense, in one of several texts."""
    return SenseSentence((key, form, "."), (Target(1, end, word, (key, more) if more else (key,)),), f"text{text}")


def often(key: str, count: int, **options: Any) -> list[SenseSentence]:
    return [occurrence(key, number % 7, **options) for number in range(count)]


class TestChoice:
    def test_a_word_needs_two_frequent_senses(self) -> None:
        enough = often(RIVER, 40) + often(MONEY, 15) + often(CASH, 14)
        [chosen] = choose_words(enough)
        assert (chosen.word, chosen.form, chosen.counts, chosen.balance) == (BANK, "bank", {RIVER: 40, MONEY: 15}, 15)
        assert choose_words(often(RIVER, 40) + often(MONEY, 14)) == []

    def test_senses_of_few_texts_do_not_count(self) -> None:
        assert choose_words(often(RIVER, 40) + [occurrence(MONEY, number % 4) for number in range(40)]) == []
        assert choose_words(often(RIVER, 40) + [occurrence(MONEY, number % 5) for number in range(40)])

    @pytest.mark.parametrize(
        "options", [{"form": "Bank"}, {"more": CASH}, {"end": 3}, {"form": "banks"}, {"word": Word("bank", "adj")}]
    )
    def test_what_is_not_counted(self, options: dict[str, Any]) -> None:
        assert choose_words(often(RIVER, 40) + often(MONEY, 20, **options)) == []

    def test_capitals_are_not_counted(self) -> None:
        assert choose_words(often(RIVER, 40, form="Bank") + often(MONEY, 20, form="Bank")) == []

    def test_the_balanced_form_is_taken(self) -> None:
        text = often(RIVER, 90) + often(MONEY, 15) + often(RIVER, 20, form="banks") + often(MONEY, 21, form="banks")
        [chosen] = choose_words(text)
        assert (chosen.form, list(chosen.counts)) == ("banks", [MONEY, RIVER])

    def test_half_nouns_half_verbs_by_balance(self) -> None:
        words = [Word(lemma, pos) for pos in ("verb", "noun") for lemma in "dabc"]
        counts = [30, 20, 20, 40, 16, 17, 18, 19]
        text = []
        for word, count in zip(words, counts, strict=True):
            text += often("x%1:01:00::", 50, word=word) + often("x%1:01:01::", count, word=word)
        chosen = [("noun", "c"), ("noun", "b"), ("verb", "c"), ("verb", "d"), ("verb", "a")]
        assert [(w.word.pos, w.word.lemma) for w in choose_words(text, 5)] == chosen
        assert choose_words(text[::-1], 5) == choose_words(text, 5)


SENSES = {RIVER: (1.0, 0.0), MONEY: (0.0, 1.0)}


def embed(sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
    """Layer 0 sees forms, layer 1 knows senses, layer 2 puts the same sense apart."""
    for number, tokens in enumerate(sentences):
        known = np.array([SENSES.get(tokens[0], (1.0, 1.0))] * len(tokens))  # (T, D)
        blind = np.full_like(known, 1 / 3)
        yield np.stack([blind, known, blind * (-1) ** number])


ALTERNATING = [s for pair in zip(often(RIVER, 15), often(MONEY, 15), strict=True) for s in pair]


class TestComparison:
    def test_by_layer(self) -> None:
        result = compare_contexts(embed, ALTERNATING, choose_words(ALTERNATING))
        assert result.aucs["0"] == [0.5]
        assert result.aucs["1"] == [1]
        assert result.aucs["2"] == [1]  # occurrences alternate, so the sign happens to tell the sense
        assert result.means["1"] == 1
        assert list(result.aucs) == ["0", "1", "2", "mean"]

    def test_only_the_chosen_form(self) -> None:
        result = compare_contexts(embed, [*often(RIVER, 9, form="banks"), *ALTERNATING], choose_words(ALTERNATING))
        assert result.aucs["1"] == [1]

    def test_rounding_makes_no_difference(self) -> None:
        """The same vector may come out of another batch with other last digits."""
        draw = np.random.default_rng(5)
        vectors = draw.normal(size=(1, 3, 333))  # (L, T, D)

        def shaky(sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
            return (vectors * (1 + 1e-7 * draw.normal(size=vectors.shape)) for _ in sentences)

        assert compare_contexts(shaky, ALTERNATING, choose_words(ALTERNATING)).aucs["0"] == [0.5]

    def test_pairs_inside_a_text_are_left_out(self) -> None:
        """15 occurrences in 7 texts: one text has 3, six have 2."""
        result = compare_contexts(embed, ALTERNATING, choose_words(ALTERNATING))
        assert result.num_pairs == [(2 * (15 * 14 // 2 - 3 - 6), 15 * 15 - 9 - 6 * 4)]

    def test_many_occurrences_are_spread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(word_in_context, "MAX_OCCURRENCES", 10)
        seen: list[int] = []

        def watched(sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
            seen.append(len(sentences))
            return embed(sentences)

        text = often(RIVER, 95) + often(MONEY, 20)
        result = compare_contexts(watched, text, choose_words(text))
        assert seen == [20]
        kept = [s for s in word_in_context._spread(text, choose_words(text)) if s.tokens[0] == RIVER]
        places = [next(place for place, s in enumerate(text) if s.targets[0] is k.targets[0]) for k in kept]
        assert np.diff(places).tolist() == pytest.approx([9.5] * 9, abs=0.5)
        assert result.aucs["1"] == [1]

    def test_another_text(self) -> None:
        words = choose_words(ALTERNATING)
        with pytest.raises(InputError, match="'bank' occurs 29 times: give the text it was chosen from"):
            compare_contexts(embed, ALTERNATING[1:], words)
        with pytest.raises(InputError, match="no word was chosen"):
            compare_contexts(embed, ALTERNATING, [])


@pytest.mark.slow
@needs_data("wsd")
def test_words_of_semcor() -> None:
    chosen = choose_words(read_semcor(WSD / "semcor3.0.tar.xz", ["brown1"]), 6)
    assert [choice.word.pos for choice in chosen] == ["noun"] * 3 + ["verb"] * 3
    found = [(choice.form, choice.balance) for choice in chosen]
    assert found == [("time", 73), ("number", 42), ("work", 36), ("is", 348), ("have", 56), ("made", 46)]
