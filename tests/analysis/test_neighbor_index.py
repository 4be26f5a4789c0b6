"""The index of a corpus: what it holds, how it is built through kills, and what it refuses."""

import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import elmokit
from elmokit.analysis.neighbors import build as neighbor_build
from elmokit.analysis.neighbors.build import corpus_hash, find_index, index_precision, open_index
from elmokit.analysis.neighbors.index import BLOCK, NeighborIndex, is_finished
from elmokit.config import TokenizerConfig
from elmokit.embedding import windows
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.store import VectorStore
from elmokit.embedding.store_writer import StoreWriter
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.model.bilm import BiLM
from elmokit.text.input_kind import InputKind
from tests.precisions import rounding_precisions
from tests.tolerances import assert_close_halves

WORDS = ["The", "play", "was", "naïve", "模型", ".", "grounder", "Alusik", "'s", "on"]


@pytest.fixture
def embedder(whole_bilm: BiLM) -> Embedder:
    return Embedder(whole_bilm, threads=1)


@pytest.fixture
def sentences() -> list[list[str]]:
    """Sentences of few words, so that each occurs often, some sentences too, and blank lines between."""
    generator = random.Random(7)
    drawn = [generator.choices(WORDS, k=generator.choice([0, 1, 2, 5, 9])) for _ in range(120)]
    return [*drawn[:50], *[[]] * 40, *drawn[50:]]


@pytest.fixture
def corpus(sentences: list[list[str]], tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(" ".join(tokens) + "\n" for tokens in sentences), encoding="utf-8")
    return path


@pytest.fixture
def small_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_INPUTS", 16)
    monkeypatch.setattr(neighbor_build, "COMMIT_SECONDS", 0.0)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.engine
@pytest.mark.usefixtures("small_commits")
def test_every_word_is_found_where_it_stands_with_its_layers(
    embedder: Embedder, sentences: list[list[str]], corpus: Path, tmp_path: Path
) -> None:
    index = open_index(embedder, corpus, tmp_path / "index", input="tokens")
    assert index.store.num_chunks > 3
    places = [(line, position) for line, tokens in enumerate(sentences) for position in range(len(tokens))]
    layers = [layers.astype(np.float16) for layers in embedder.embed(sentences)]
    expected = {word: [p for p in places if sentences[p[0]][p[1]] == word] for word in WORDS}
    assert index.num_tokens == len(places) > 300
    assert index.types.words == list(dict.fromkeys(token for tokens in sentences for token in tokens))
    for number, word in enumerate(index.types.words):
        rows = index.rows_of(word)
        assert index.types.counts[number] == len(rows) == len(expected[word]) > 20
        found = [index.occurrence(int(row)) for row in rows]
        assert [(one.line - 1, one.position) for one in found] == expected[word]
        assert all(one.tokens == tuple(sentences[one.line - 1]) for one in found)
        blocks = list(index.blocks(rows))
        np.testing.assert_array_equal(np.concatenate([block for block, _ in blocks]), rows)
        vectors = np.concatenate([block for _, block in blocks])  # (n, L, D)
        assert_close_halves(vectors, [layers[line][:, position] for line, position in expected[word]])
        line, position = expected[word][0]
        np.testing.assert_array_equal(index.types.vectors[number], layers[line][0, position])
    assert not len(index.rows_of("absent"))


@pytest.mark.usefixtures("small_commits")
def test_blocks_of_all_rows(embedder: Embedder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = open_index(embedder, corpus, tmp_path / "index", input="tokens")
    monkeypatch.setattr("elmokit.analysis.neighbors.index.BLOCK", 7)
    rows, layers = zip(*index.blocks(), strict=True)
    assert max(map(len, rows)) == 7
    np.testing.assert_array_equal(np.concatenate(rows), np.arange(index.num_tokens))
    whole = np.concatenate([index.store.read_matrix(chunk) for chunk in range(index.store.num_chunks)])
    np.testing.assert_array_equal(np.concatenate(layers), whole)
    chosen = np.flatnonzero(np.random.default_rng(0).random(index.num_tokens) < 0.3)
    rows, layers = zip(*index.blocks(chosen), strict=True)
    np.testing.assert_array_equal(np.concatenate(rows), chosen)
    np.testing.assert_array_equal(np.concatenate(layers), whole[chosen])
    assert list(index.blocks(chosen[:0])) == []
    assert BLOCK > 7


def test_sorting_by_type_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbor_build, "_SORT_BLOCK", 10)
    of_token = np.random.default_rng(3).integers(0, 6, 101, dtype=np.int32)
    of_token[of_token == 4] = 3  # a type without a token
    neighbor_build._write_rows(of_token, 6, tmp_path)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "rows", "<i8"), np.argsort(of_token, kind="stable"))
    starts = np.fromfile(tmp_path / "starts", "<i8")
    np.testing.assert_array_equal(np.diff(starts), np.bincount(of_token, minlength=6))


def test_running_text_is_cut_into_sentences_that_know_their_line(embedder: Embedder, tmp_path: Path) -> None:
    lines = ["", "The play was naïve. Alusik's play was on.", "  ", "On play.", ""]
    path = tmp_path / "text.txt.xz"
    path.write_bytes(lzma.compress("\n".join(lines).encode()))
    index = open_index(embedder, path, tmp_path / "index", input="text")
    found = [index.occurrence(int(row)) for row in index.rows_of("play")]
    assert [(one.line, one.position) for one in found] == [(2, 1), (2, 2), (4, 1)]
    assert found[1].tokens == ("Alusik", "'s", "play", "was", "on", ".")


def test_a_finished_index_is_opened_as_it_is(
    embedder: Embedder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[tuple[int, int]] = []
    open_index(embedder, corpus, tmp_path / "index", report=lambda done, total: heard.append((done, total)))
    assert heard[-1] == (corpus.stat().st_size,) * 2
    before = contents(tmp_path / "index")
    monkeypatch.setattr(embedder, "embed_window", lambda *args: pytest.fail("it was built already"))
    assert open_index(embedder, corpus, tmp_path / "index").num_tokens > 0
    assert open_index(embedder, None, tmp_path / "index").corpus_sha256 == corpus_hash(corpus)
    assert contents(tmp_path / "index") == before


def test_the_users_cache_by_model_corpus_and_input(
    embedder: Embedder, tiny: Callable[[str], BiLM], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    assert find_index(embedder, corpus) is None
    folders = {open_index(embedder, corpus).path, open_index(embedder, corpus, input="tokens").path}
    folders.add(open_index(Embedder(tiny("bare"), threads=1), corpus).path)
    assert find_index(embedder, corpus) is not None
    with open(corpus, "a", encoding="utf-8") as file:
        file.write("more\n")
    assert find_index(embedder, corpus) is None
    folders.add(open_index(embedder, corpus).path)
    assert len(folders) == 4
    assert {folder.parent for folder in folders} == {tmp_path / "cache" / "neighbours"}


class Stop(Exception):
    """Something went wrong in the middle."""


@pytest.mark.usefixtures("small_commits")
@pytest.mark.parametrize("num_windows", [0, 1, 4])
def test_a_stopped_build_goes_on(
    embedder: Embedder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_windows: int
) -> None:
    open_index(embedder, corpus, tmp_path / "whole", input="tokens")
    asked: list[int] = []
    original = embedder.embed_window

    def stopping(inputs: Any, *args: Any) -> Any:
        asked.append(len(inputs))
        if len(asked) == num_windows + 1:
            raise Stop
        return original(inputs, *args)

    monkeypatch.setattr(embedder, "embed_window", stopping)
    with pytest.raises(Stop):
        open_index(embedder, corpus, tmp_path / "index", input="tokens")
    assert not is_finished(tmp_path / "index")
    done = len(VectorStore(tmp_path / "index" / "vectors"))
    assert done == sum(asked[:-1])
    with pytest.raises(FormatError, match=r"holds no finished index: give the corpus too \(--corpus\)"):
        open_index(embedder, None, tmp_path / "index")
    asked.clear()
    num_windows = -1
    index = open_index(embedder, corpus, tmp_path / "index", input="tokens")
    assert sum(asked) == len(index.store) - done
    assert contents(tmp_path / "index") == contents(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_loses_only_what_was_not_committed(whole_bilm: BiLM, tmp_path: Path) -> None:
    elmokit.save(whole_bilm, tmp_path / "model")
    generator = random.Random(1)
    lines = [" ".join(generator.choices(WORDS, k=generator.randrange(8))) for _ in range(8)]
    (tmp_path / "corpus.txt").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "runs").mkdir()
    command = [sys.executable, "-m", "tests.analysis.index_killing"]
    arguments = [str(tmp_path / name) for name in ("model", "corpus.txt", "runs")]
    root = Path(__file__).parents[2]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *arguments, "10"], cwd=root, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["moments"] > 60
    assert len(found["results"]) == 10
    for result in found["results"]:
        assert result["status"] == 0, result
        assert result["whole"] and result["equal"] and not result["strange"], result
        assert result["resumed"]["embedded"] == found["total"] - result["committed"], result
    assert len({result["committed"] for result in found["results"]}) > 2


def test_another_model_is_refused_by_both_hashes(
    embedder: Embedder, tiny: Callable[[str], BiLM], corpus: Path, tmp_path: Path
) -> None:
    open_index(embedder, corpus, tmp_path / "index")
    other = Embedder(tiny("untied"), threads=1)
    before = contents(tmp_path / "index")
    for given in (corpus, None):
        with pytest.raises(
            FormatError, match=f"index of the model {embedder.fingerprint}, .* given is {other.fingerprint}: "
        ):
            open_index(other, given, tmp_path / "index")
    assert contents(tmp_path / "index") == before


def test_a_changed_corpus_is_refused_by_both_hashes(embedder: Embedder, corpus: Path, tmp_path: Path) -> None:
    open_index(embedder, corpus, tmp_path / "index")
    old = corpus_hash(corpus)
    with open(corpus, "a", encoding="utf-8") as file:
        file.write("one more line\n")
    with pytest.raises(FormatError, match=f"{corpus.name}.*{old[:12]}.*{corpus.name}.*{corpus_hash(corpus)[:12]}"):
        open_index(embedder, corpus, tmp_path / "index")


def test_another_input_is_refused(embedder: Embedder, corpus: Path, tmp_path: Path) -> None:
    open_index(embedder, corpus, tmp_path / "index", input="tokens")
    with pytest.raises(FormatError, match="read as tokens, not as text: give --input tokens"):
        open_index(embedder, corpus, tmp_path / "index", input="text")
    assert open_index(embedder, corpus, tmp_path / "index").num_tokens > 0
    assert open_index(embedder, None, tmp_path / "index").num_tokens > 0


@pytest.mark.usefixtures("small_commits")
def test_a_corpus_that_changes_while_it_is_read(
    embedder: Embedder, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, text = embedder.embed_window, corpus.read_text(encoding="utf-8")

    def meddle(inputs: Any, *args: Any) -> Any:
        if corpus.read_text(encoding="utf-8") == text:
            os.truncate(corpus, len(text.encode()) - 200)
        return original(inputs, *args)

    monkeypatch.setattr(embedder, "embed_window", meddle)
    with pytest.raises(InputError, match=r"corpus\.txt changed while it was read"):
        open_index(embedder, corpus, tmp_path / "index")
    assert not is_finished(tmp_path / "index")


@pytest.mark.usefixtures("small_commits")
def test_what_is_committed_must_be_how_the_corpus_begins(embedder: Embedder, corpus: Path, tmp_path: Path) -> None:
    index = open_index(embedder, corpus, tmp_path / "index", input="tokens")
    shutil.rmtree(tmp_path / "index" / "words")
    note = index.path / "vectors" / f"{index.store.num_chunks - 1:08d}.json"
    manifest = json.loads(note.read_text(encoding="utf-8"))
    note.write_text(json.dumps(manifest | {"note": manifest["note"] | {"sha256": "0" * 64}}), encoding="utf-8")
    with pytest.raises(FormatError, match="unfinished index of other lines than the corpus begins with"):
        open_index(embedder, corpus, tmp_path / "index")


@pytest.mark.parametrize("text", ["", "\n\n  \n"])
def test_an_empty_corpus(embedder: Embedder, tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.txt").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"the corpus .*empty\.txt has no token: give a file with text"):
        open_index(embedder, tmp_path / "empty.txt", tmp_path / "index")
    assert not (tmp_path / "index").exists()


def test_a_corpus_that_cannot_be_read(embedder: Embedder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.txt cannot be read: No such file"):
        open_index(embedder, tmp_path / "no.txt", tmp_path / "index")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        open_index(embedder, tmp_path, tmp_path / "index")
    (tmp_path / "latin.txt").write_bytes("fine\nna\xefve\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.txt is not UTF-8"):
        open_index(embedder, tmp_path / "latin.txt", tmp_path / "index")
    with pytest.raises(InputError, match="neither a corpus nor the folder of an index"):
        open_index(embedder, None)


def test_folders_of_others_are_left_alone(embedder: Embedder, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"holds other files, e\.g\. corpus\.txt: give a new folder"):
        open_index(embedder, corpus, tmp_path)
    with pytest.raises(FormatError, match=r"corpus\.txt is a file: give a folder"):
        open_index(embedder, corpus, corpus)
    assert os.listdir(tmp_path) == ["corpus.txt"]


def test_two_builders_at_once(embedder: Embedder, corpus: Path, tmp_path: Path) -> None:
    open_index(embedder, corpus, tmp_path / "index")
    shutil.rmtree(tmp_path / "index" / "words")
    with (
        StoreWriter.append(tmp_path / "index" / "vectors"),
        pytest.raises(FormatError, match=f"is in use by process {os.getpid()}"),
    ):
        open_index(embedder, corpus, tmp_path / "index")
    assert open_index(embedder, corpus, tmp_path / "index").num_tokens


@pytest.mark.parametrize("name", ["types", "starts", "rows", "lines", "type_vectors"])
def test_damaged_lists_are_named_and_can_be_made_again(
    embedder: Embedder, corpus: Path, tmp_path: Path, name: str
) -> None:
    index = open_index(embedder, corpus, tmp_path / "index", input="tokens")
    before = contents(index.path)
    path = index.path / "words" / name
    for cut in (1, path.stat().st_size // 2):
        path.write_bytes(path.read_bytes()[:-cut])
        with pytest.raises(FormatError, match=r"(bytes instead of|damaged).*: delete the folder .*words to rebuild"):
            NeighborIndex(index.path)
    shutil.rmtree(index.path / "words")
    open_index(embedder, corpus, tmp_path / "index")
    assert contents(index.path) == before


def test_an_unfinished_index_of_another_version(embedder: Embedder, corpus: Path, tmp_path: Path) -> None:
    index = open_index(embedder, corpus, tmp_path / "index", input="tokens")
    shutil.rmtree(index.path / "words")
    meta = index.path / "vectors" / "meta.json"
    values = json.loads(meta.read_text(encoding="utf-8"))
    meta.write_text(json.dumps(values | {"elmokit": "0.0.1"}), encoding="utf-8")
    with pytest.raises(FormatError, match=r"unfinished index with elmokit '0\.0\.1' instead of .*: delete it"):
        open_index(embedder, corpus, tmp_path / "index")


def test_an_embedder_with_another_state_is_refused(bilm: BiLM, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give one with state 'reset'"):
        open_index(Embedder(bilm, threads=1, state="carry"), corpus, tmp_path / "index")


@pytest.mark.usefixtures("library")
def test_an_index_keeps_its_precision(bilm: BiLM, corpus: Path, tmp_path: Path) -> None:
    assert index_precision(tmp_path / "index") is None
    rounding = Embedder(bilm, threads=1, precision="int8")
    open_index(rounding, corpus, tmp_path / "index")
    assert index_precision(tmp_path / "index") == "int8"
    assert open_index(rounding, None, tmp_path / "index")
    with pytest.raises(FormatError, match=r"an index in int8, .* computes in float32: give --precision int8"):
        open_index(Embedder(bilm, threads=1), corpus, tmp_path / "index")
    open_index(Embedder(bilm, threads=1), corpus, tmp_path / "exact")
    assert index_precision(tmp_path / "exact") == "float32"
    with pytest.raises(FormatError, match=r"an index in float32, .* computes in int8: give --precision float32"):
        open_index(rounding, None, tmp_path / "exact")


def test_indexes_in_the_cache_are_kept_by_precision(bilm: BiLM, corpus: Path) -> None:
    """They would give each other's vectors otherwise."""
    paths = [
        open_index(Embedder(bilm, threads=1, precision=name), corpus, input="tokens").path
        for name in ("float32", *rounding_precisions())
    ]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize(("input", "expected"), [("text", 1), ("tokens", 0)])
@pytest.mark.filterwarnings("always")
def test_a_model_of_another_tokenizer_is_reported(
    input: InputKind, expected: int, whole_bilm: BiLM, corpus: Path, tmp_path: Path
) -> None:
    tokenizer = TokenizerConfig(name="elmokit", version=99)
    whole_bilm.config = whole_bilm.config.model_copy(update={"tokenizer": tokenizer})
    with warnings.catch_warnings(record=True) as told:
        open_index(Embedder(whole_bilm, threads=1), corpus, tmp_path / "index", input=input)
    assert sum("trained with version 99" in str(one.message) for one in told) == expected
