"""Layers of a data set are computed once, kept, and the same as the embedder's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.embedding import layer_cache
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import INDEX, VECTORS, LayerCache, count_cached
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.model.bilm import BiLM
from tests.precisions import rounding_precisions
from tests.tolerances import assert_close_halves

pytestmark = pytest.mark.usefixtures("engine_mode")

SENTENCES = [["The", "play", "."], ["naïve", "模型"], ["."], ["The", "play"], ["a", "b", "c", "d", "e"]]


@pytest.fixture
def embedder(bilm: BiLM) -> Embedder:
    return Embedder(bilm, threads=1)


@pytest.fixture
def embedded(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What the embedder is asked for, in order."""
    asked: list[tuple[str, ...]] = []
    original = embedder.embed_stream

    def listen(inputs: Any, **extra: Any) -> Iterator[Any]:
        asked.extend(tuple(tokens) for tokens in inputs)
        return original(inputs, **extra)

    monkeypatch.setattr(embedder, "embed_stream", listen)
    return asked


def test_layers_are_the_embedders(embedder: Embedder, tmp_path: Path) -> None:
    cache = LayerCache(embedder, tmp_path)
    assert cache.prepare(SENTENCES) == len(SENTENCES)
    for tokens in [*SENTENCES, tuple(SENTENCES[0])]:
        found, expected = cache.read(tokens), embedder.embed([list(tokens)])[0]
        assert found.dtype == np.float16
        assert found.shape == (cache.num_layers, len(tokens), cache.width) == expected.shape
        assert_close_halves(found, expected)
        assert np.abs(expected).max() > 0.01


def test_only_what_is_missing_is_embedded_and_each_sentence_once(
    embedder: Embedder, embedded: list[tuple[str, ...]], tmp_path: Path
) -> None:
    cache = LayerCache(embedder, tmp_path)
    assert cache.prepare(iter([SENTENCES[0], tuple(SENTENCES[0]), SENTENCES[1], SENTENCES[0]])) == 2
    assert embedded == [tuple(SENTENCES[0]), tuple(SENTENCES[1])]
    assert cache.prepare(SENTENCES[:2]) == 0
    assert cache.prepare([]) == 0
    embedded.clear()
    again = LayerCache(embedder, tmp_path)
    assert again.prepare(SENTENCES) == 3
    assert embedded == [tuple(tokens) for tokens in SENTENCES[2:]]
    assert count_cached(again.path) == 5
    np.testing.assert_array_equal(cache.read(SENTENCES[0]), again.read(SENTENCES[0]))


def test_the_report_counts_what_is_embedded(embedder: Embedder, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    cache = LayerCache(embedder, tmp_path)
    cache.prepare(SENTENCES[:2])
    cache.prepare(SENTENCES, lambda done, total: heard.append((done, total)))
    assert heard == [(1, 3), (2, 3), (3, 3)]
    cache.prepare(SENTENCES, lambda done, total: pytest.fail("nothing is to be done"))


def test_nothing_is_written_before_something_is_prepared(embedder: Embedder, tmp_path: Path) -> None:
    LayerCache(embedder, tmp_path / "layers").prepare([])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:text 0 is a list")
def test_tokens_are_told_apart_by_more_than_their_text(embedder: Embedder, tmp_path: Path) -> None:
    cache = LayerCache(embedder, tmp_path)
    pairs = [["a b"], ["a", "b"], ['a", "b']]
    assert cache.prepare(pairs) == 3
    assert [cache.read(tokens).shape[1] for tokens in pairs] == [1, 2, 1]


def test_empty_sentences_and_odd_tokens(embedder: Embedder, tmp_path: Path) -> None:
    odd = [[], [""], ["\ud800", "x"], ["a\nb"], ["w" * 100]]
    cache = LayerCache(embedder, tmp_path)
    assert cache.prepare(odd) == len(odd)
    assert [cache.read(tokens).shape for tokens in odd] == [(3, len(tokens), cache.width) for tokens in odd]


def test_what_was_not_prepared_is_named(embedder: Embedder, tmp_path: Path) -> None:
    cache = LayerCache(embedder, tmp_path)
    message = r"^the sentence 'no such thing' was not embedded: call prepare with it first\.$"
    for _ in range(2):
        with pytest.raises(InputError, match=message):
            cache.read(["no", "such", "thing"])
        cache.prepare(SENTENCES)


def test_two_models_have_two_caches(tiny: Callable[[str], BiLM], tmp_path: Path) -> None:
    caches = [LayerCache(Embedder(tiny(kind), threads=1), tmp_path) for kind in ("softmax", "characters")]
    for cache in caches:
        assert cache.prepare(SENTENCES) == len(SENTENCES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{s.embedder.fingerprint[:16]}-float32" for s in caches
    )
    one, other = (cache.read(SENTENCES[0]) for cache in caches)
    assert not np.array_equal(one, other)


def test_the_users_cache_is_the_place_if_none_is_given(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    assert LayerCache(embedder).path == tmp_path / "cache" / "layers" / f"{embedder.fingerprint[:16]}-float32"


@pytest.mark.parametrize("state", ["carry", "warm"])
def test_an_embedder_that_gives_other_layers_is_refused(state: Any, bilm: BiLM, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"state '{state}' gives other layers .* give one with state 'reset'"):
        LayerCache(Embedder(bilm, threads=1, state=state), tmp_path)


def test_every_precision_has_its_own_layers(bilm: BiLM, tmp_path: Path) -> None:
    embedders = [Embedder(bilm, threads=1, precision=name) for name in ("float32", *rounding_precisions())]
    caches = [LayerCache(embedder, tmp_path) for embedder in embedders]
    assert [cache.prepare(SENTENCES) for cache in caches] == [len(SENTENCES)] * len(caches)
    for cache in caches[1:]:
        assert not np.array_equal(cache.read(SENTENCES[0]), caches[0].read(SENTENCES[0]))
    keys = ["-avx512bf16" if embedder.precision == "bfloat16" else "" for embedder in embedders]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"{one.fingerprint[:16]}-{one.precision}{key}" for one, key in zip(embedders, keys, strict=True)
    )


# --- Several writers -------------------------------------------------------------------------------------------------


def test_two_writers_fill_one_cache(embedder: Embedder, tmp_path: Path) -> None:
    first, second = LayerCache(embedder, tmp_path), LayerCache(embedder, tmp_path)
    assert first.prepare(SENTENCES[:2]) == 2
    assert second.prepare(SENTENCES[1:4]) == 2  # the other's are found
    assert first.prepare(SENTENCES) == 1
    assert count_cached(first.path) == len(SENTENCES)
    for tokens in SENTENCES:
        assert_close_halves(first.read(tokens), embedder.embed([tokens], dtype="float16")[0])


def test_what_another_writer_adds_meanwhile_is_stored_once(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = LayerCache(embedder, tmp_path), LayerCache(embedder, tmp_path)
    original = embedder.embed_stream

    def stream(inputs: Any, **extra: Any) -> Iterator[Any]:
        monkeypatch.setattr(embedder, "embed_stream", original)
        second.prepare(SENTENCES[:3])  # while the first computes
        return original(inputs, **extra)

    monkeypatch.setattr(embedder, "embed_stream", stream)
    assert first.prepare(SENTENCES) == len(SENTENCES)
    assert count_cached(first.path) == len(SENTENCES)


def test_a_lock_is_held_only_to_append(embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = LayerCache(embedder, tmp_path)
    locked: list[bool] = []
    original = embedder.embed_stream

    def stream(inputs: Any, **extra: Any) -> Iterator[Any]:
        locked.append((cache.path / layer_cache.LOCK).exists())
        return original(inputs, **extra)

    monkeypatch.setattr(embedder, "embed_stream", stream)
    cache.prepare(SENTENCES)
    assert locked == [False]


def test_a_cache_that_was_cleared_is_filled_again(embedder: Embedder, tmp_path: Path) -> None:
    cache = LayerCache(embedder, tmp_path)
    cache.prepare(SENTENCES[:2])
    before = [cache.read(tokens).copy() for tokens in SENTENCES[:2]]
    for name in layer_cache.FILES:
        (cache.path / name).unlink()
    assert cache.prepare(SENTENCES) == 3  # of the others it still has the layers
    for tokens, expected in zip(SENTENCES[:2], before, strict=True):
        np.testing.assert_array_equal(cache.read(tokens), expected)
    assert LayerCache(embedder, tmp_path).prepare(SENTENCES) == 2


# --- What is on disk -------------------------------------------------------------------------------------------------


def test_the_cache_holds_no_word(embedder: Embedder, tmp_path: Path) -> None:
    words = ["Zweckverband", "naïveté", "模型"]
    LayerCache(embedder, tmp_path).prepare([words])
    content = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(content) > 100 and not any(word.encode() in content for word in words)


def test_reading_opens_as_many_files_whatever_the_number_of_commits(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_cache, "_COMMIT_SECONDS", -1.0)
    cache = LayerCache(embedder, tmp_path)
    for number in range(20):
        cache.prepare([["word", str(number)], ["another", str(number)]])
    assert sorted(path.name for path in cache.path.iterdir()) == sorted(layer_cache.FILES)
    again = LayerCache(embedder, tmp_path)
    assert len({id(again._places[key].rows) for key in again._places}) == 1  # one map
    assert again.prepare([["word", str(number)] for number in range(20)]) == 0


@pytest.mark.parametrize("fault", ["truncated", "other", "gone", "nonsense"])
def test_a_damaged_cache_is_named(fault: str, embedder: Embedder, tmp_path: Path) -> None:
    cache = LayerCache(embedder, tmp_path)
    cache.prepare(SENTENCES)
    if fault == "truncated":
        (cache.path / VECTORS).write_bytes((cache.path / VECTORS).read_bytes()[:-1])
    elif fault == "other":
        text = (cache.path / layer_cache.CACHE).read_text(encoding="utf-8")
        (cache.path / layer_cache.CACHE).write_text(text.replace(embedder.fingerprint, "0" * 64), encoding="utf-8")
    elif fault == "gone":
        (cache.path / layer_cache.CACHE).unlink()
    else:
        (cache.path / layer_cache.CACHE).write_text("[1]", encoding="utf-8")
    with pytest.raises(FormatError, match=f"^{cache.path} is damaged, or holds .*: delete it and run again\\.$"):
        LayerCache(embedder, tmp_path)


# --- Kills -----------------------------------------------------------------------------------------------------------


class Crash(Exception):
    """What no code of ours expects."""


@pytest.mark.parametrize("cut", [1, 3, 31])
def test_what_a_kill_has_half_written_is_not_read(cut: int, embedder: Embedder, tmp_path: Path) -> None:
    cache = LayerCache(embedder, tmp_path)
    cache.prepare(SENTENCES[:2])
    with open(cache.path / VECTORS, "ab") as vectors, open(cache.path / INDEX, "ab") as index:
        vectors.write(b"x" * cut)
        index.write(b"x" * cut)
    again = LayerCache(embedder, tmp_path)
    assert again.prepare(SENTENCES) == 3
    for tokens in SENTENCES:
        assert_close_halves(again.read(tokens), embedder.embed([tokens], dtype="float16")[0])
    assert LayerCache(embedder, tmp_path).prepare(SENTENCES) == 0


def test_a_crash_loses_only_what_was_not_committed(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_cache, "_COMMIT_BYTES", 2 * 5 * 3 * embedder.bilm.config.output_dim)  # five tokens
    original = layer_cache._append

    def append(path: Path, sentences: dict[bytes, Any], row_bytes: int) -> None:
        if layer_cache._key(SENTENCES[4]) in sentences:
            raise Crash
        original(path, sentences, row_bytes)

    cache = LayerCache(embedder, tmp_path)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(layer_cache, "_append", append)
        cache.prepare(SENTENCES)
    again = LayerCache(embedder, tmp_path)
    assert [tokens for tokens in SENTENCES if again._has(tokens)] == SENTENCES[:3]  # six tokens are more than five
    assert again.prepare(SENTENCES) == 2
    for tokens in SENTENCES:
        assert_close_halves(again.read(tokens), embedder.embed([tokens], dtype="float16")[0])


def test_what_takes_long_is_committed_by_the_clock(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_cache, "_COMMIT_SECONDS", -1.0)
    commits: list[int] = []
    original = layer_cache._append
    monkeypatch.setattr(
        layer_cache, "_append", lambda path, new, size: (commits.append(len(new)), original(path, new, size))
    )
    cache = LayerCache(embedder, tmp_path)
    cache.prepare(SENTENCES)
    assert commits == [1] * len(SENTENCES)
    assert cache.prepare(SENTENCES) == 0
