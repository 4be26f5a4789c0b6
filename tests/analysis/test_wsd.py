"""Nearest senses on vectors that were laid out by hand, and WordNet's first sense on the real sets."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from elmokit.analysis.embed import layers_of
from elmokit.analysis.wsd import target_vectors as vectors_module
from elmokit.analysis.wsd.nearest import (
    ALL,
    FIRST_SENSE,
    WITHOUT_DEVELOPMENT,
    Score,
    average_senses,
    evaluate_wsd,
    nearest_senses,
    score_first_sense,
    sums_of,
)
from elmokit.analysis.wsd.semcor import read_semcor
from elmokit.analysis.wsd.sets import SETS, read_wsd_set
from elmokit.analysis.wsd.target_vectors import keep_words, layer_mixes, target_vectors, unit_mixes
from elmokit.analysis.wsd.wordnet import SenseIndex, SenseSentence, Target, Word, read_sense_index
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM
from tests.analysis.sense_files import TEXT, write_index, write_semcor, write_set
from tests.data import DATA, needs_data

WSD = DATA / "wsd"

BANK, STAND = Word("bank", "noun"), Word("stand", "verb")
RIVER, MONEY, CASH = "bank%1:17:01::", "bank%1:14:00::", "bank%1:06:00::"
VECTORS = {
    "river": [[1, 0], [3, 1]],
    "money": [[1, 0], [0, 2]],
    "east": [[2, 0], [5, 0]],
    "north": [[1, 0], [0, 1]],
    "northeast": [[3, 0], [1, 1]],
    "nowhere": [[0, 0], [0, 0]],
}


def embed(sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
    """Two layers: the first the same direction for every word, the second by the table."""
    for tokens in sentences:
        yield np.array([VECTORS[token] for token in tokens], dtype=np.float32).swapaxes(0, 1)  # (L, T, D)


def repeated(vector: NDArray[Any], sentences: Sequence[Sequence[str]]) -> list[NDArray[Any]]:
    return [vector] * len(sentences)


def sentence(text: str, *targets: Target) -> SenseSentence:
    return SenseSentence(tuple(text.split()), targets, "text")


def one(text: str, *keys: str, word: Word = BANK) -> SenseSentence:
    """A sentence that is one target."""
    return sentence(text, Target(0, len(text.split()), word, keys))


@pytest.fixture
def index(tmp_path: Path) -> SenseIndex:
    return read_sense_index(write_index(tmp_path / "index.sense.xz"))


TRAIN = [one("river", RIVER), one("east", RIVER), one("money", MONEY), one("north", MONEY), one("northeast", CASH)]


def answers_for(index: SenseIndex, tests: list[SenseSentence], train: list[SenseSentence] = TRAIN) -> dict[str, Any]:
    found = list(target_vectors(embed, tests))
    targets = [target for sentence, _ in found for target in sentence.targets]
    vectors = np.concatenate([vectors for _, vectors in found])
    return nearest_senses(targets, vectors, average_senses(embed, train), index, layer_mixes(2))


class TestVectors:
    def test_several_tokens_are_their_mean(self) -> None:
        given = sentence("river money east", Target(0, 1, BANK, (RIVER,)), Target(1, 3, STAND, ("x",)))
        [(same, vectors)] = target_vectors(embed, [sentence("north"), given])
        assert same is given
        assert vectors.tolist() == [[[1, 0], [3, 1]], [[1.5, 0], [2.5, 1]]]

    def test_blocks_give_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = [vectors.tolist() for _, vectors in target_vectors(embed, TRAIN)]
        monkeypatch.setattr(vectors_module, "BLOCK_SENTENCES", 2)
        assert [vectors.tolist() for _, vectors in target_vectors(embed, TRAIN)] == whole
        assert len(whole) == 5

    def test_keep_words(self) -> None:
        both = sentence("river east", Target(0, 1, BANK, (RIVER,)), Target(1, 2, STAND, ("stand%2:35:00::",)))
        kept = list(keep_words([both, one("north", MONEY)], {STAND}))
        assert [(s.tokens, [t.word for t in s.targets]) for s in kept] == [(("river", "east"), [STAND])]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (lambda s: [], "embed gave nothing for a sentence of 1 tokens"),
            (lambda s: [np.zeros((2, 2, 2))] * 5, r"embed gave an array \(2, 2, 2\) for a sentence of 1 tokens"),
            (lambda s: [np.zeros((1, 2))] * 5, r"embed gave an array \(1, 2\)"),
            (lambda s: [np.zeros((2, 1, 2))] * 4 + [np.zeros((3, 1, 2))], "layers and width must stay the same"),
            (lambda s: [np.zeros((2, 1, 2))] * 6, "embed gave more than 5 arrays"),
        ],
    )
    def test_embed_that_breaks_its_word(self, wrong: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            list(target_vectors(wrong, TRAIN))

    def test_mixes(self) -> None:
        mixes = layer_mixes(2, {"own": [0.25, 2]})
        vectors = np.array([[[3.0, 4.0], [0.0, 2.0]], [[0.0, 0.0], [0.0, 0.0]]])  # (K, L, D)
        units = unit_mixes(vectors, mixes)
        assert list(mixes) == ["0", "1", "mean", "own"]
        assert units[0].tolist() == [[0.6, 0.8], [0, 0]]
        assert units[1, 0].tolist() == [0, 1]
        assert units[2, 0] == pytest.approx(np.array([1.5, 3]) / np.hypot(1.5, 3))
        assert units[3, 0] == pytest.approx(np.array([0.75, 5]) / np.hypot(0.75, 5))
        for wrong in ({"own": [1.0]}, {"mean": [1.0, 2.0]}):
            with pytest.raises(
                ConfigError, match=r"weights: give 2, one per layer, under another name than 0, 1, mean"
            ):
                layer_mixes(2, wrong)

    def test_our_models(self, bilm: BiLM) -> None:
        embedder = Embedder(bilm, threads=1)
        plain, quoted = layers_of(embedder)([["a", '"', "b", '"'], ["a", "``", "b", "''"]])
        assert plain.shape == (3, 4, bilm.config.output_dim)
        assert np.array_equal(plain, quoted)
        assert np.array_equal(plain, embedder.embed([["a", '"', "b", '"']])[0])


class TestSenses:
    def test_means_and_counts(self) -> None:
        senses = average_senses(embed, [*TRAIN, one("river", MONEY, CASH)])
        assert senses.means[RIVER].tolist() == [[1.5, 0], [4, 0.5]]
        assert senses.means[MONEY] == pytest.approx(np.array([[1, 0], [1, 4 / 3]]))
        assert senses.counts == {RIVER: 2, MONEY: 3, CASH: 2}
        assert senses.keys == {BANK: (RIVER, MONEY, CASH)}

    def test_nearest(self, index: SenseIndex) -> None:
        """By angle, with means at 7°, 90° and 45°: 0° → river, 90° → money, 45° → cash, 18° → river."""
        tests = [one(text, "any") for text in ("east", "north", "northeast", "river")]
        assert answers_for(index, tests)["1"] == [RIVER, MONEY, CASH, RIVER]

    def test_ties_go_to_wordnets_order(self, index: SenseIndex) -> None:
        """Layer 0 has one direction only; the order of training must not decide, nor rounding."""
        tests = [one("northeast", "any"), one("nowhere", "any")]
        for train in (TRAIN, TRAIN[::-1]):
            assert answers_for(index, tests, train)["0"] == [RIVER, RIVER]
        assert answers_for(index, tests, [*TRAIN[2:], one("money", MONEY)])["0"] == [MONEY, MONEY]

    def test_rounding_decides_no_tie(self, index: SenseIndex) -> None:
        """A form without context has one vector; means of 3, 7 and 11 of it differ in their last digits only."""
        draw = np.random.default_rng(5)
        train = [one("form", key) for key, count in ((CASH, 3), (MONEY, 7), (RIVER, 11)) for _ in range(count)]
        for _ in range(20):
            vector = draw.normal(size=(1, 1, 300))  # (L, T, D)
            senses = average_senses(partial(repeated, vector), train)
            answers = nearest_senses(train[0].targets, vector, senses, index, layer_mixes(1))
            assert answers["0"] == [RIVER]

    def test_only_senses_of_the_word(self, index: SenseIndex) -> None:
        train = [*TRAIN, one("east", "stand%2:35:00::", word=STAND)]
        assert answers_for(index, [one("north", "any", word=STAND)], train)["1"] == ["stand%2:35:00::"]

    def test_back_off(self, index: SenseIndex) -> None:
        play = Word("play", "verb")
        unseen = [one("north", "any", word=word) for word in (play, Word("play", "noun"), Word("nothing", "noun"))]
        train = [*TRAIN, one("east", "play%1:04:01::", word=Word("play", "noun"))]
        assert answers_for(index, unseen, train)["1"] == ["play%2:33:00::", "play%1:04:01::", None]

    def test_satellites_compete_with_adjectives(self, index: SenseIndex) -> None:
        kind = Word("kind", "adj")
        train = [one("east", "kind%3:00:00::", word=kind), one("north", "kind%5:00:00:good:01", word=kind)]
        tests = [one("river", "any", word=kind), one("money", "any", word=kind)]
        assert answers_for(index, tests, train)["1"] == ["kind%3:00:00::", "kind%5:00:00:good:01"]


class TestScores:
    def test_evaluation(self, index: SenseIndex) -> None:
        rare = Word("rare", "adj")
        sets = {
            "semeval2007": [one("east", RIVER), one("north", RIVER)],
            "other": [one("north", CASH, MONEY), one("northeast", MONEY), one("east", "rare%3:00:00::", word=rare)],
        }
        train = [*TRAIN, one("east", "stand%2:35:00::", word=STAND)]
        result = evaluate_wsd(embed, train, sets, index, mixes={"top": [0, 1]})
        ways = [FIRST_SENSE, "0", "1", "mean", "top"]
        assert list(result.scores) == ["semeval2007", "other", ALL, WITHOUT_DEVELOPMENT]
        assert all(list(scores) == ways for scores in result.scores.values())
        assert [result.scores["semeval2007"][way] for way in ways[:3]] == [Score(2, 2), Score(2, 2), Score(1, 2)]
        assert [result.scores["other"][way] for way in ways[:3]] == [Score(1, 3), Score(1, 3), Score(2, 3)]
        assert result.scores[ALL]["1"] == result.scores[ALL]["top"] == Score(3, 5)
        assert result.scores[WITHOUT_DEVELOPMENT] == result.scores["other"]
        assert result.scores[ALL]["1"].f1 == 60
        assert result.backed_off == {"semeval2007": 0, "other": 1}
        assert (result.num_senses, result.num_occurrences) == (3, 5)  # nobody asks for stand

    def test_sums(self) -> None:
        a, b = {"1": Score(1, 2)}, {"1": Score(3, 4)}
        assert sums_of({"a": a}) == {}
        assert sums_of({"a": a, "b": b}) == {ALL: {"1": Score(4, 6)}}

    def test_nothing_to_disambiguate(self, index: SenseIndex) -> None:
        with pytest.raises(InputError, match="no set has an instance"):
            evaluate_wsd(embed, TRAIN, {"a": [sentence("east")]}, index)
        with pytest.raises(InputError, match="set 'a' has no instance"):
            evaluate_wsd(embed, TRAIN, {"a": [sentence("east")], "b": [one("east", RIVER)]}, index)

    def test_from_files_with_a_model(self, bilm: BiLM, tmp_path: Path, index: SenseIndex) -> None:
        train = read_semcor(write_semcor(tmp_path / "s.tar.xz", {"brown1/tagfiles/a": TEXT}), ["brown1"])
        result = evaluate_wsd(
            layers_of(Embedder(bilm, threads=1)), train, {"tiny": read_wsd_set(write_set(tmp_path / "tiny"))}, index
        )
        assert list(result.scores) == ["tiny"]
        assert list(result.scores["tiny"]) == [FIRST_SENSE, "0", "1", "2", "mean"]
        assert result.scores["tiny"][FIRST_SENSE] == Score(2, 3)
        assert (result.num_senses, result.num_occurrences) == (4, 5)

    @pytest.mark.slow
    @needs_data("wsd")
    def test_first_sense_of_the_framework(self) -> None:
        index = read_sense_index(WSD / "wordnet3.0-index.sense.xz")
        scores = {}
        for name in SETS:
            targets = [target for sentence in read_wsd_set(WSD / "eval" / name) for target in sentence.targets]
            scores[name] = {FIRST_SENSE: score_first_sense(targets, index)}
        scores |= sums_of(scores)
        assert {name: round(score[FIRST_SENSE].f1, 1) for name, score in scores.items()} == {
            "senseval2": 66.8,
            "senseval3": 66.2,
            "semeval2007": 55.2,
            "semeval2013": 63.0,
            "semeval2015": 67.8,
            ALL: 65.2,
            WITHOUT_DEVELOPMENT: 65.9,
        }
