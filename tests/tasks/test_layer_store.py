"""Layers of a data set are computed once, kept, and the same as the embedder's."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.embedding.embedder import Embedder
from elmokit.embedding.store import VectorStore
from elmokit.embedding.store_writer import StoreWriter
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.model.bilm import BiLM
from elmokit.tasks import layer_store
from elmokit.tasks.layer_store import LayerStore
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
    store = LayerStore(embedder, tmp_path)
    assert store.prepare(SENTENCES) == len(SENTENCES)
    for tokens in [*SENTENCES, tuple(SENTENCES[0])]:
        found, expected = store.read(tokens), embedder.embed([list(tokens)])[0]
        assert found.dtype == np.float16
        assert found.shape == (store.num_layers, len(tokens), store.width) == expected.shape
        assert_close_halves(found, expected)
        assert np.abs(expected).max() > 0.01


def test_only_what_is_missing_is_embedded_and_each_sentence_once(
    embedder: Embedder, embedded: list[tuple[str, ...]], tmp_path: Path
) -> None:
    store = LayerStore(embedder, tmp_path)
    assert store.prepare(iter([SENTENCES[0], tuple(SENTENCES[0]), SENTENCES[1], SENTENCES[0]])) == 2
    assert embedded == [tuple(SENTENCES[0]), tuple(SENTENCES[1])]
    assert store.prepare(SENTENCES[:2]) == 0
    assert store.prepare([]) == 0
    embedded.clear()
    again = LayerStore(embedder, tmp_path)
    assert again.prepare(SENTENCES) == 3
    assert embedded == [tuple(tokens) for tokens in SENTENCES[2:]]
    assert len(VectorStore(again.path)) == 5
    np.testing.assert_array_equal(store.read(SENTENCES[0]), again.read(SENTENCES[0]))


def test_the_report_counts_what_is_embedded(embedder: Embedder, tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    store = LayerStore(embedder, tmp_path)
    store.prepare(SENTENCES[:2])
    store.prepare(SENTENCES, lambda done, total: heard.append((done, total)))
    assert heard == [(1, 3), (2, 3), (3, 3)]
    store.prepare(SENTENCES, lambda done, total: pytest.fail("nothing is to be done"))


def test_nothing_is_written_before_something_is_prepared(embedder: Embedder, tmp_path: Path) -> None:
    LayerStore(embedder, tmp_path / "layers").prepare([])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore:text 0 is a list")
def test_tokens_are_told_apart_by_more_than_their_text(embedder: Embedder, tmp_path: Path) -> None:
    store = LayerStore(embedder, tmp_path)
    pairs = [["a b"], ["a", "b"], ['a", "b']]
    assert store.prepare(pairs) == 3
    assert [store.read(tokens).shape[1] for tokens in pairs] == [1, 2, 1]


def test_empty_sentences_and_odd_tokens(embedder: Embedder, tmp_path: Path) -> None:
    odd = [[], [""], ["\ud800", "x"], ["a\nb"], ["w" * 100]]
    store = LayerStore(embedder, tmp_path)
    assert store.prepare(odd) == len(odd)
    assert [store.read(tokens).shape for tokens in odd] == [(3, len(tokens), store.width) for tokens in odd]


def test_what_was_not_prepared_is_named(embedder: Embedder, tmp_path: Path) -> None:
    store = LayerStore(embedder, tmp_path)
    message = r"^the sentence 'no such thing' was not embedded: call prepare with it first\.$"
    for _ in range(2):
        with pytest.raises(InputError, match=message):
            store.read(["no", "such", "thing"])
        store.prepare(SENTENCES)


def test_equal_hashes_of_other_tokens_are_noticed(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LayerStore(embedder, tmp_path)
    store.prepare(SENTENCES)
    key = layer_store._key(SENTENCES[0])
    monkeypatch.setattr(layer_store, "_key", lambda tokens: key)
    with pytest.raises(InputError, match="'naïve 模型' was not embedded"):
        store.read(SENTENCES[1])


def test_two_models_have_two_stores(tiny: Callable[[str], BiLM], tmp_path: Path) -> None:
    stores = [LayerStore(Embedder(tiny(kind), threads=1), tmp_path) for kind in ("softmax", "characters")]
    for store in stores:
        assert store.prepare(SENTENCES) == len(SENTENCES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(s.embedder.fingerprint[:16] for s in stores)
    one, other = (store.read(SENTENCES[0]) for store in stores)
    assert not np.array_equal(one, other)


def test_the_users_cache_is_the_place_if_none_is_given(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    assert LayerStore(embedder).path == tmp_path / "cache" / "layers" / embedder.fingerprint[:16]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("changes", [{"state": "carry"}, {"state": "warm"}, {"int8": True}])
def test_an_embedder_that_gives_other_layers_is_refused(changes: dict[str, Any], bilm: BiLM, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="state 'reset' and precision float32"):
        LayerStore(Embedder(bilm, threads=1, **changes), tmp_path)


def test_a_second_writer_is_told_to_wait(embedder: Embedder, tmp_path: Path) -> None:
    first, second = LayerStore(embedder, tmp_path), LayerStore(embedder, tmp_path)
    first.prepare(SENTENCES[:1])
    with StoreWriter.append(first.path), pytest.raises(FormatError, match=r"is in use by process .*: wait"):
        second.prepare(SENTENCES)
    assert second.prepare(SENTENCES) == len(SENTENCES)  # it had opened the store when it was not there
    assert second.prepare(SENTENCES) == 0


# --- Kills -----------------------------------------------------------------------------------------------------------


class Crash(Exception):
    """What no code of ours expects."""


def test_a_crash_loses_only_what_was_not_committed(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_store, "_COMMIT_BYTES", 2 * 5 * 3 * embedder.bilm.config.output_dim)  # five tokens
    original = StoreWriter.add

    def add(self: StoreWriter, text: str, tokens: tuple[str, ...], vectors: Any) -> None:
        if tokens == tuple(SENTENCES[4]):
            raise Crash
        original(self, text, tokens, vectors)

    store = LayerStore(embedder, tmp_path)
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(StoreWriter, "add", add)
        store.prepare(SENTENCES)
    again = LayerStore(embedder, tmp_path)
    kept = [tokens for tokens in SENTENCES if layer_store._key(tokens) in again._records]
    assert kept == SENTENCES[:3]  # six tokens are more than five; the two of the fourth sentence were not yet
    assert again.prepare(SENTENCES) == 2
    for tokens in SENTENCES:
        assert_close_halves(again.read(tokens), embedder.embed([tokens], dtype="float16")[0])


def test_what_takes_long_is_committed_by_the_clock(
    embedder: Embedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_store, "_COMMIT_SECONDS", -1.0)
    store = LayerStore(embedder, tmp_path)
    store.prepare(SENTENCES)
    assert len(VectorStore(store.path).manifests) == len(SENTENCES)
    assert store.prepare(SENTENCES) == 0
