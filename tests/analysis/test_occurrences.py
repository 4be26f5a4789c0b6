"""Occurrences of words in files: which are found, which are sampled, and what a model knows around them."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.usage.occurrences import (
    Corpus,
    Sample,
    check_word,
    collect,
    collect_words,
    count_types,
    missing_word_error,
    mix_layers,
    rank_sentence,
    read_contexts,
)
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM
from elmokit.text.lines import split_line

LINES = ["The play was good .", "They play and play", "A player plays .", "", "PLAY !", "no such word"]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Corpus]:
    """A corpus of files, each given as its lines."""

    def build(*files: list[str], input: Any = "tokens") -> Corpus:
        for number, lines in enumerate(files):
            (tmp_path / f"{number}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return Corpus.find([str(tmp_path / f"{number}.txt") for number in range(len(files))], input)

    return build


def found(corpus: Corpus, *forms: str, limit: int = 100, **options: Any) -> list[tuple[str, int]]:
    sample = collect(corpus, forms, max_occurrences=limit, **options)
    return sorted((" ".join(o.tokens), o.position) for o in sample.occurrences)


class TestCollect:
    def test_tokens_in_any_case(self, write: Callable[..., Corpus]) -> None:
        corpus = write(LINES)
        everywhere = [("PLAY !", 0), ("The play was good .", 1), ("They play and play", 1), ("They play and play", 3)]
        assert found(corpus, "play") == found(corpus, "Play") == everywhere
        assert found(corpus, "PLAY", match_case=True) == [("PLAY !", 0)]
        assert len(found(corpus, "play", "plays")) == 5
        assert found(corpus, "lay") == []

    def test_raw_text_is_cut_into_sentences(self, write: Callable[..., Corpus]) -> None:
        corpus = write(["We saw a play. It's play, isn't it?", "No plays."], input="text")
        assert found(corpus, "play") == [("It 's play , is n't it ?", 2), ("We saw a play .", 3)]
        assert found(corpus, "'s") == [("It 's play , is n't it ?", 1)]

    def test_where_it_is_from(self, write: Callable[..., Corpus]) -> None:
        corpus = write(LINES, ["more play here"])
        sources = {o.source for o in collect(corpus, ["play"], max_occurrences=9).occurrences}
        assert sources == {"0.txt:1", "0.txt:2", "0.txt:5", "1.txt:1"}
        assert {o.line for o in collect(corpus, ["play"], max_occurrences=9).occurrences} == {1, 2, 5, 7}
        assert corpus.name == "0.txt and 1 more"

    @pytest.mark.parametrize("word", ["Straße", "ΣΊΣΥΦΟΣ", "İstanbul", "ﬁne", "naïve"])
    def test_no_line_is_passed_over(self, write: Callable[..., Corpus], word: str) -> None:
        forms = {word, word.lower(), word.upper(), word.title()}
        corpus = write([f"{form} ." for form in forms])
        expected = sum(form.lower() == word.lower() for form in forms)
        assert len(found(corpus, word)) == expected >= 1

    def test_lower_case_decides_not_folding(self, write: Callable[..., Corpus]) -> None:
        assert found(write(["die Masse", "die Maße"]), "Maße") == [("die Maße", 1)]

    def test_many_words_at_once(self, write: Callable[..., Corpus]) -> None:
        corpus = write(LINES, LINES)
        together = collect_words(corpus, ["play", "was", "absent"], max_occurrences=3, seed=7)
        for word, sample in together.items():
            alone = collect(corpus, [word], max_occurrences=3, seed=7)
            assert (sample.occurrences, sample.num_seen) == (alone.occurrences, alone.num_seen)
        assert together["play"].num_seen == 8
        assert count_types(corpus)["play"] == 8

    def test_only_lines_with_the_word_are_tokenized(
        self, write: Callable[..., Corpus], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from elmokit.analysis.usage import occurrences

        seen: list[str] = []
        original = split_line

        def listen(line: str, input: Any) -> Any:
            seen.append(line.strip())
            return original(line, input)

        corpus = write(LINES)
        monkeypatch.setattr(occurrences, "split_line", listen)
        collect(corpus, ["good"], max_occurrences=5)
        assert seen == ["The play was good ."]


class TestSample:
    def test_the_order_of_lines_and_files_does_not_matter(self, write: Callable[..., Corpus]) -> None:
        lines = [f"word number {number} of {number * 7 % 11}" for number in range(200)]
        first = found(write(lines), "number", limit=20, seed=5)
        shuffled = random.Random(1).sample(lines, len(lines))
        assert found(write(shuffled[:50], shuffled[50:]), "number", limit=20, seed=5) == first
        assert len(first) == 20
        assert found(write(lines), "number", limit=20, seed=6) != first
        sample = collect(write(shuffled), ["number"], max_occurrences=20, seed=5)
        assert sample.num_seen == 200
        ranks = [rank_sentence(o.tokens, 5) for o in sample.occurrences]
        assert ranks == sorted(rank_sentence(line.split(), 5) for line in lines)[:20]

    def test_files_may_be_named_in_any_order(self, write: Callable[..., Corpus]) -> None:
        corpus = write(["b word", "a word"], ["c word", "a word"])
        names = [str(path) for path in corpus.paths]
        turned = Corpus.find(names[::-1])
        assert turned.paths == corpus.paths
        samples = [collect(one, ["word"], max_occurrences=2).occurrences for one in (corpus, turned)]
        assert samples[0] == samples[1]

    def test_a_sentence_that_repeats_counts_once(self) -> None:
        occurrences = [Occurrence(("a", str(n % 5)), 0, f"x:{n}") for n in range(50)]
        for limit in (3, 5, 9):
            kept = []
            for seed in range(4):
                sample = Sample(limit)
                for one in random.Random(seed).sample(occurrences, len(occurrences)):
                    sample.offer(rank_sentence(one.tokens, 0), one)
                assert sample.num_seen == 50
                kept.append(sample.occurrences)
            assert len(kept[0]) == min(limit, 5) == len({o.tokens for o in kept[0]})
            assert all(one == kept[0] for one in kept)

    def test_every_sentence_has_the_same_chance(self) -> None:
        counts = np.zeros(20)
        for seed in range(400):
            sample = Sample(5)
            for number in range(20):
                sample.offer(rank_sentence((str(number),), seed), Occurrence((str(number),), 0))
            for one in sample.occurrences:
                counts[int(one.form)] += 1
        assert counts.sum() == 2000
        assert ((counts > 60) & (counts < 140)).all()  # 100 each, deviation 8.7


class TestBadInput:
    def test_an_absent_word_is_answered_with_near_ones(self, write: Callable[..., Corpus]) -> None:
        corpus = write(["the playwright played", "plays"])
        with pytest.raises(InputError, match=r"'playz' does not occur in 0.txt; it has plays, played") as error:
            raise missing_word_error("playz", corpus)
        assert str(error.value).count(".") == 2  # one sentence: its end and a file's name
        assert "only in other case" in str(missing_word_error("Plays", corpus))
        assert "it has" not in str(missing_word_error("xylophone", corpus))

    def test_a_corpus_without_text(self, write: Callable[..., Corpus]) -> None:
        with pytest.raises(InputError, match=r"the corpus 0.txt and 1 more has no text"):
            collect(write(["", "  "], []), ["play"], max_occurrences=5)
        assert collect(write(["text"]), ["play"], max_occurrences=5).num_seen == 0

    def test_not_a_token(self) -> None:
        for word, input, said in (
            ("bank account", "tokens", "2 tokens \\(bank account\\)"),
            ("don't", "text", "2 tokens \\(do n't\\)"),
            ("", "tokens", "no token"),
        ):
            with pytest.raises(InputError, match=said):
                check_word(word, input)  # type: ignore[arg-type]
        check_word("don't", "tokens")
        check_word("play", "text")

    def test_not_utf8_and_unknown_input(self, tmp_path: Path) -> None:
        (tmp_path / "bad.txt").write_bytes(b"play \xff\xfe\n")
        with pytest.raises(InputError, match="not UTF-8"):
            collect(Corpus.find([str(tmp_path / "bad.txt")]), ["play"], max_occurrences=5)
        with pytest.raises(ConfigError, match="input 'words' is unknown"):
            Corpus.find([str(tmp_path / "bad.txt")], "words")  # type: ignore[arg-type]


class TestContexts:
    @pytest.fixture
    def store(self, bilm: BiLM, tmp_path: Path) -> LayerCache:
        return LayerCache(Embedder(bilm, threads=1), tmp_path / "layers")

    def test_what_is_known_without_the_token(self, store: LayerCache, bilm: BiLM) -> None:
        """Against the plain model with the token replaced: only what stands around it may matter."""
        sentence = ("the", "play", "was", "naïve", ".")
        occurrences = [Occurrence(sentence, place) for place in range(len(sentence))]
        found = read_contexts(store, occurrences)  # (K, L, D)
        half = store.width // 2
        for place in range(len(sentence)):
            other = [*sentence[:place], "模型", *sentence[place + 1 :]]
            with torch.inference_mode():
                layers = bilm(bilm.to_char_ids([other]), keep_boundaries=True).layers[:, 0].numpy()  # (L, T + 2, D)
            np.testing.assert_allclose(found[place, :, :half], layers[:, place, :half], atol=2e-3)
            np.testing.assert_allclose(found[place, :, half:], layers[:, place + 2, half:], atol=2e-3)
            assert np.abs(layers).max() > 0.05

    def test_sentences_are_embedded_once(self, store: LayerCache, monkeypatch: pytest.MonkeyPatch) -> None:
        occurrences = [Occurrence(("a", "b", "a"), 0), Occurrence(("a", "b", "a"), 2), Occurrence(("c",), 0)]
        done: list[tuple[int, int]] = []
        first = read_contexts(store, occurrences, lambda *progress: done.append(progress))
        assert done == [(1, 2), (2, 2)]

        def refuse(*_: Any, **__: Any) -> Iterator[Any]:
            raise AssertionError("embedded again")

        monkeypatch.setattr(store.embedder, "embed_stream", refuse)
        again = LayerCache(store.embedder, store.path.parent)
        np.testing.assert_array_equal(read_contexts(again, occurrences), first)

    def test_mixes_keep_the_sides_apart(self, store: LayerCache) -> None:
        contexts = np.random.default_rng(0).standard_normal((4, 3, 6)).astype(np.float32)  # (K, L, D)
        select = store.embedder.select
        np.testing.assert_allclose(mix_layers(contexts, select("top")), contexts[:, 2])
        np.testing.assert_allclose(mix_layers(contexts, select("average")), contexts.mean(1), atol=1e-6)
        np.testing.assert_allclose(
            mix_layers(contexts, select([0.5, 0, 2])), 0.5 * contexts[:, 0] + 2 * contexts[:, 2], atol=1e-6
        )
        joined = mix_layers(contexts, select("all"))  # (K, L·D)
        assert joined.shape == (4, 18)
        np.testing.assert_array_equal(joined[:, :9].reshape(4, 3, 3), contexts[:, :, :3])
        np.testing.assert_array_equal(joined[:, 9:].reshape(4, 3, 3), contexts[:, :, 3:])
