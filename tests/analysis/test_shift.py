"""Shifts between made-up corpora, measures against their definitions, and which words are ranked."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, cosine, jensenshannon, pdist

from elmokit.analysis.usage.occurrences import Corpus
from elmokit.analysis.usage.ranking import RankOptions, choose_words, rank_words
from elmokit.analysis.usage.shift import compare, unit_contexts
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM

WIDTH = 16


def uses(*sizes: int, seed: int = 0) -> NDArray[np.float64]:
    """Contexts (K, D) of a word, so many of each of its uses, whose centers are always the same."""
    centers = np.random.default_rng(99).standard_normal((3, WIDTH)) * 3
    draw = np.random.default_rng(seed)
    return np.concatenate([centers[n] + draw.standard_normal((size, WIDTH)) for n, size in enumerate(sizes)])


def same_use(size: int, seed: int) -> NDArray[np.float64]:
    """So many contexts, each of one of two uses by chance."""
    first = int(np.random.default_rng(seed).binomial(size, 0.6))
    return uses(first, size - first, seed=seed)


class TestCompare:
    def test_measures_are_what_they_are_defined_to_be(self) -> None:
        first, second = uses(20, 10), uses(5, 20, 10, seed=1)
        found = compare(first, second, num_shuffles=9)
        contexts = np.concatenate([first, second])
        standard = (contexts - contexts.mean(0)) / contexts.std(0)
        a, b = standard[:30], standard[30:]
        assert found.apd.value == pytest.approx(cdist(a, b, "cosine").mean(), abs=1e-9)
        assert found.within == pytest.approx((pdist(a, "cosine").mean(), pdist(b, "cosine").mean()), abs=1e-9)
        assert found.shift == pytest.approx(found.apd.value - np.mean(found.within), abs=1e-12)
        assert found.prt.value == pytest.approx(cosine(first.mean(0), second.mean(0)), abs=1e-9)
        shares = [np.bincount(part, minlength=3) / len(part) for part in np.split(found.grouping.groups, [30])]
        np.testing.assert_allclose(found.shares, shares)
        assert found.jsd.value == pytest.approx(jensenshannon(*shares, base=2), abs=1e-9)
        nearest = np.sort(cdist(a, b, "cosine"), axis=1)[:, :3].mean(1)
        np.testing.assert_allclose(found.isolation[:30], nearest, atol=1e-9)

    def test_a_shift_is_seen_and_its_sentences_too(self) -> None:
        found = compare(uses(40, 10), uses(10, 40, 12, seed=1))
        assert max(found.apd.chance, found.prt.chance, found.jsd.chance) == 0.001
        assert found.shift > 0.1
        assert set(found.most_isolated(True, 12)) == set(range(100, 112))  # the third use, which the first corpus lacks
        assert found.grouping.num_groups == 3
        assert found.shares[0].min() == 0

    @pytest.mark.slow
    def test_no_shift_is_not_seen_and_chances_are_honest(self) -> None:
        results = [compare(same_use(25, n), same_use(25, 100 + n), num_shuffles=99) for n in range(24)]
        assert abs(np.mean([one.shift for one in results])) < 0.02
        for chances in zip(*((one.apd.chance, one.prt.chance, one.jsd.chance) for one in results), strict=True):
            assert np.mean(np.array(chances) <= 0.05) <= 0.2
            assert 0.3 < np.mean(chances) < 0.8

    @pytest.mark.slow
    def test_the_shift_does_not_depend_on_how_much_there_is(self) -> None:
        """As the distance alone does: two small samples of one use are farther apart than two large ones."""
        for size, tolerance in ((5, 0.05), (50, 0.01)):
            found = [compare(same_use(size, n), same_use(size, 100 + n), 1, num_shuffles=1) for n in range(30)]
            assert np.mean([one.shift for one in found]) == pytest.approx(0, abs=tolerance)
        few, many = (compare(uses(size, seed=1), uses(0, size, seed=2), 1, num_shuffles=1) for size in (6, 120))
        assert few.shift == pytest.approx(many.shift, rel=0.1)

    def test_the_same_again(self) -> None:
        first, second = uses(20, 10), uses(10, 20, seed=1)
        one, again = compare(first, second, seed=4, num_shuffles=50), compare(first, second, seed=4, num_shuffles=50)
        assert (one.apd, one.prt, one.jsd) == (again.apd, again.prt, again.jsd)
        turned = compare(second, first, seed=4, num_shuffles=50)
        assert turned.apd.value == pytest.approx(one.apd.value)
        assert turned.within == pytest.approx(one.within[::-1])

    def test_equal_contexts_are_no_distance_apart(self) -> None:
        same = np.full((4, WIDTH), 0.2)
        found = compare(same, same, num_shuffles=9)
        assert found.apd.value == found.shift == found.jsd.value == 0
        assert found.prt.value == pytest.approx(0, abs=1e-12)
        assert found.apd.chance == found.jsd.chance == 1
        np.testing.assert_array_equal(unit_contexts(same), 1)

    def test_one_occurrence_cannot_be_compared(self) -> None:
        with pytest.raises(InputError, match="1 occurrence in one of the corpora"):
            compare(uses(1), uses(5))


class TestRanking:
    @pytest.fixture
    def store(self, bilm: BiLM, tmp_path: Path) -> LayerCache:
        return LayerCache(Embedder(bilm, threads=1), tmp_path / "layers")

    @pytest.fixture
    def corpora(self, tmp_path: Path) -> tuple[Corpus, Corpus]:
        """`play` follows other words in the second corpus than in the first, `was` and `naïve` do not."""
        for name, before in (("a", ("the", "was")), ("b", ("naïve", "模型"))):
            lines = [
                line
                for n in range(30)
                for line in (f"x{n} {before[n % 2]} play the", f"x{n} the was . x{n}", f"the x{n} naïve .")
            ]
            (tmp_path / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
        return Corpus.find([str(tmp_path / "a.txt")], "tokens"), Corpus.find([str(tmp_path / "b.txt")], "tokens")

    def test_the_word_that_moved_comes_first(
        self, store: LayerCache, corpora: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 2)  # the and .
        ranked = rank_words(store, corpora, store.embedder.select("all"), RankOptions(min_count=10, max_occurrences=20))
        assert ranked[0].word == "play"
        assert {one.word for one in ranked} == {"play", "was", "naïve"}
        play = ranked[0]
        assert play.counts == (30, 30)
        assert play.chance == 0.005 and play.score > 0.1
        assert play.examples[0].form == play.examples[1].form == "play"
        assert {one.examples[1].tokens[1] for one in ranked[:1]} <= {"naïve", "模型"}
        assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)

    def test_the_figures_are_those_of_a_comparison(
        self, store: LayerCache, corpora: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from elmokit.analysis.usage.occurrences import collect, mix_layers, read_contexts

        monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 2)
        select = store.embedder.select("top")
        for one in rank_words(store, corpora, select, RankOptions(min_count=10, max_occurrences=12, seed=3)):
            sides = [collect(corpus, [one.word], max_occurrences=12, seed=3).occurrences for corpus in corpora]
            contexts = [mix_layers(read_contexts(store, side), select) for side in sides]
            found = compare(contexts[0], contexts[1], 1, num_shuffles=1)
            assert one.apd == pytest.approx(found.apd.value, abs=1e-9)
            assert one.shift == pytest.approx(found.shift, abs=1e-9)

    def test_what_one_text_repeats_does_not_count(
        self, store: LayerCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Half of the first corpus uses `play` in its own way: the halves differ as much as the corpora."""
        odd, even = [
            [f"x{n} {before} play {after}" for n in range(15)] for before, after in (("the", "."), ("naïve", "模型"))
        ]
        (tmp_path / "a.txt").write_text("\n".join(odd + even), encoding="utf-8")
        (tmp_path / "b.txt").write_text("\n".join(line.replace("x", "y") for line in odd), encoding="utf-8")
        corpora = (Corpus.find([str(tmp_path / "a.txt")], "tokens"), Corpus.find([str(tmp_path / "b.txt")], "tokens"))
        monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 0)
        options = RankOptions(min_count=15, max_occurrences=40)
        play = {one.word: one for one in rank_words(store, corpora, store.embedder.select("top"), options)}["play"]
        assert play.shift > play.noise
        assert play.halves[0] > 2 * play.shift
        assert play.floor == play.halves[0] > max(play.noise, play.halves[1])
        assert play.score == play.shift - play.floor < 0

    def test_halves_are_compared_as_corpora_are(
        self, store: LayerCache, corpora: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from elmokit.analysis.usage.occurrences import collect, mix_layers, read_contexts

        monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 2)
        select = store.embedder.select("top")
        for one in rank_words(store, corpora, select, RankOptions(min_count=10, max_occurrences=40)):
            sides = [collect(corpus, [one.word], max_occurrences=40).occurrences for corpus in corpora]
            units = unit_contexts(mix_layers(read_contexts(store, sides[0] + sides[1]), select))
            order = np.argsort([occurrence.line for occurrence in sides[0]], kind="stable")
            a, b = units[order[: len(order) // 2]], units[order[len(order) // 2 :]]
            within = (pdist(a, "cosine").mean() + pdist(b, "cosine").mean()) / 2
            assert one.halves[0] == pytest.approx(cdist(a, b, "cosine").mean() - within, abs=1e-9)

    def test_a_second_run_embeds_nothing(
        self, store: LayerCache, corpora: tuple[Corpus, Corpus], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 2)
        options = RankOptions(min_count=10, max_occurrences=12)
        first = rank_words(store, corpora, store.embedder.select("top"), options)
        done: list[int] = []
        again = rank_words(
            LayerCache(store.embedder, store.path.parent),
            corpora,
            store.embedder.select("top"),
            options,
            lambda *progress: done.append(1),
        )
        assert again == first
        assert done == []

    def test_which_words(self) -> None:
        common = {f"c{n}": 1000 - n for n in range(150)}
        first = Counter({**common, "bank": 30, "light": 25, "rare": 5, "x1": 40, "q": 40, "only": 50, "état": 20})
        second = Counter({**common, "bank": 20, "light": 40, "rare": 90, "x1": 40, "q": 40, "état": 20})
        assert choose_words((first, second), RankOptions()) == ["bank", "light", "état"]
        assert choose_words((first, second), RankOptions(max_words=1)) == ["light"]
        assert choose_words((first, second), RankOptions(min_count=5, max_words=9))[2] == "rare"

    def test_no_word_is_frequent_enough(self, store: LayerCache, corpora: tuple[Corpus, Corpus]) -> None:
        with pytest.raises(InputError, match=r"no word occurs 20 times in both a.txt and b.txt: give more text"):
            rank_words(store, corpora, store.embedder.select("top"))
