"""Build a neighbor index: a corpus is embedded in constant memory, and a kill at any moment loses little work.

Notation: N tokens, V types, n tokens of a chunk or block.
"""

import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.neighbors.index import HALF, INTEGER, VECTORS, WORDS, NeighborIndex, is_finished
from elmokit.arguments import check_kind, check_path
from elmokit.cache import cache_directory
from elmokit.embedding.embedder import Embedder, Output
from elmokit.embedding.journal import describe_difference
from elmokit.embedding.records import Meta
from elmokit.embedding.store import VectorStore, is_store, read_meta
from elmokit.embedding.store_writer import StoreWriter
from elmokit.embedding.windows import cut_windows
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.filesystem import atomic_directory, check_name
from elmokit.progress import ProgressCallback
from elmokit.recognize import did_you_mean, mistaken
from elmokit.text.files import open_text, refuse_pipes
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, actual_input, check_input
from elmokit.text.lines import split_line

COMMIT_BYTES, COMMIT_SECONDS = 64 * 2**20, 30.0
"""A kill loses at most this much work."""
_SORT_BLOCK = 2**20
_PRECISION, _EXACT = "precision", "float32"
"""The key under which an index records its precision, and what it is without the key."""


def open_index(
    embedder: Embedder,
    corpus: str | Path | None,
    folder: str | Path | None = None,
    *,
    input: InputKind | None = None,
    report: ProgressCallback | None = None,
) -> NeighborIndex:
    """The index of a corpus by a model; it is built if missing, and completed if a build was interrupted.

    Args:
        embedder: the model; it must reset its state at every sentence.
        corpus: the text; None uses a finished index as it is.
        folder: the folder of the index; None is one in the user's cache, by model, corpus and input.
        input: what the lines of the corpus are; None takes it from an index that exists already, else raw text.
        report: receives the progress of the build.

    Raises:
        FormatError: if the folder holds the index of another model or corpus, or in another precision; then nothing
            is changed.
    """
    check_kind("embedder", embedder, Embedder)
    corpus, folder, input = check_places(corpus, folder, input)
    wanted = _wanted(embedder, corpus, input)
    folder = default_folder(wanted) if folder is None else folder
    if is_finished(folder):
        _check(folder, read_meta(folder / VECTORS), wanted)
    elif corpus is None:
        raise FormatError(f"{folder} holds no finished index: give the corpus too (--corpus) to build it.")
    else:
        _build(folder, corpus, embedder, wanted, report or (lambda done, total: None))
    return NeighborIndex(folder)


def check_places(
    corpus: str | Path | None, folder: str | Path | None, input: InputKind | None
) -> tuple[Path | None, Path | None, InputKind]:
    """Check where a corpus and its index are, and settle how the corpus is read; see `open_index`."""
    corpus = None if corpus is None else check_path("corpus", corpus)
    if folder is not None:
        folder = check_path("folder", folder)
        check_name(folder)
    if corpus is None and folder is None:
        raise InputError("there is neither a corpus nor the folder of an index: give one of them.")
    return corpus, folder, input or (index_input(folder) if folder is not None else None) or DEFAULT_INPUT


def find_index(embedder: Embedder, corpus: Path, *, input: InputKind = DEFAULT_INPUT) -> NeighborIndex | None:
    """The finished index in the user's cache, if there is one."""
    folder = default_folder(_wanted(embedder, corpus, input))
    return NeighborIndex(folder) if is_finished(folder) else None


def index_input(folder: Path) -> InputKind | None:
    """How the corpus of an index was read, whether the index is finished or not; None if there is no index."""
    if not is_store(folder / VECTORS):
        return None
    input: InputKind = read_meta(folder / VECTORS).extra.get("input", "tokens")
    return input


def index_precision(folder: Path) -> str | None:
    """The precision of an index, whether it is finished or not; None if there is no index."""
    if not is_store(folder / VECTORS):
        return None
    return str(read_meta(folder / VECTORS).extra.get(_PRECISION, _EXACT)).partition("-")[0]


def default_folder(meta: Meta) -> Path:
    """The default folder of an index."""
    name = f"{meta.fingerprint[:16]}-{meta.extra['corpus_sha256'][:16]}-{meta.extra['input']}"
    name += f"-{meta.extra[_PRECISION]}" if _PRECISION in meta.extra else ""
    return cache_directory() / "neighbours" / name


def corpus_hash(corpus: Path) -> str:
    """SHA-256 of a file's bytes on disk."""
    refuse_pipes([corpus])
    try:
        with open(corpus, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(
            mistaken(corpus, "text")
            or f"the corpus {corpus} cannot be read: {error.strerror or error}{did_you_mean(corpus)}."
        ) from None


def _wanted(embedder: Embedder, corpus: Path | None, input: InputKind) -> Meta:
    """The metadata in the store of an index."""
    check_input(input)
    if corpus is not None:
        input = actual_input(corpus, input)
    if embedder.state != "reset":
        raise ConfigError(
            f"an embedder with state {embedder.state!r} gives other layers than an index keeps: give one with state "
            "'reset'."
        )
    key = embedder.runner.precision_key
    return Meta(
        model=embedder.name,
        fingerprint=embedder.fingerprint,
        layers="all",
        state="reset",
        dtype=np.dtype(np.float16).name,
        num_layers=embedder.bilm.config.num_layers,
        width=embedder.bilm.config.output_dim,
        extra={
            "input": input,
            "corpus_sha256": "" if corpus is None else corpus_hash(corpus),
            "corpus": "" if corpus is None else corpus.name,
            **({} if key == _EXACT else {_PRECISION: key}),
        },
    )


def _check(folder: Path, found: Meta, wanted: Meta) -> None:
    """Refuse the index of another model, corpus or kind of input."""
    other = "give that of this one, or another folder for a new index"
    if found.fingerprint != wanted.fingerprint:
        raise FormatError(
            f"{folder} is an index of the model {found.fingerprint}, and the model given is {wanted.fingerprint}: "
            f"{other}."
        )
    hashes = (str(found.extra.get("corpus_sha256")), wanted.extra["corpus_sha256"])
    if hashes[1] and hashes[0] != hashes[1]:
        name = found.extra.get("corpus") or "another corpus"  # missing in older indexes
        raise FormatError(
            f"{folder} is an index of {name} (SHA-256 {hashes[0][:12]}…), and the corpus given is "
            f"{wanted.extra['corpus']} ({hashes[1][:12]}…): {other}."
        )
    before, now = (meta.extra.get(_PRECISION, _EXACT) for meta in (found, wanted))
    if before != now:
        name = str(before).partition("-")[0]
        raise FormatError(
            f"{folder} is an index in {before}, and the embedder computes in {now}: give --precision {name} "
            f"(precision={name!r}), or another folder for a new index."
        )
    if found.extra.get("input") != wanted.extra["input"]:
        raise FormatError(
            f"{folder} is an index of a corpus read as {found.extra.get('input')}, not as {wanted.extra['input']}: "
            f"give --input {found.extra.get('input')}, or another folder."
        )


def _build(folder: Path, corpus: Path, embedder: Embedder, wanted: Meta, report: ProgressCallback) -> None:
    """Embed the rest of the corpus, then write the word lists."""
    input: InputKind = wanted.extra["input"]
    if input == "text":
        embedder.check_tokenizer()
    with open_text(corpus) as lines:
        if not any(split_line(line, input) for line in lines):
            raise empty_corpus(corpus)
    path = folder / VECTORS
    if is_store(path):
        found = read_meta(path)
        _check(folder, found, wanted)
        if difference := describe_difference(found, replace(wanted, extra={})):
            raise FormatError(f"{folder} is an unfinished index with {difference}: delete it to start over.")
    else:
        _make_folder(folder)
    with StoreWriter.append(path) if is_store(path) else StoreWriter.create(path, wanted) as writer:
        if is_finished(folder):  # by another process, before it released the lock
            return
        _fill(writer, corpus, embedder, input, report)
        if corpus_hash(corpus) != wanted.extra["corpus_sha256"]:
            raise InputError(f"the corpus {corpus} changed while it was read: delete {folder} and start again.")
        for leftover in folder.glob(f".{WORDS}.*.tmp"):
            shutil.rmtree(leftover)
        with atomic_directory(folder / WORDS) as temporary:
            _write_words(VectorStore(path, open_chunks=1), temporary)


def _make_folder(folder: Path) -> None:
    """Create the folder of a new index; refuse a folder with other files."""
    if folder.is_dir():
        strange = sorted(name for name in os.listdir(folder) if not re.fullmatch(rf"{VECTORS}|\..*\.tmp", name))
        if strange:
            raise FormatError(f"{folder} holds other files, e.g. {strange[0]}: give a new folder for the index.")
    elif folder.exists():
        raise FormatError(f"{folder} is a file: give a folder for the index.")
    folder.mkdir(parents=True, exist_ok=True)


def _fill(writer: StoreWriter, corpus: Path, embedder: Embedder, input: InputKind, report: ProgressCallback) -> None:
    """Embed the lines that are not committed yet; a commit records the number of sentences of each line."""
    output = Output(embedder.select("all"), np.dtype(np.float16))
    pending: list[int] = []
    committed = time.monotonic()
    size = corpus.stat().st_size
    with open_text(corpus) as text:
        digest = hashlib.sha256()
        lines = _hashed(text, digest)
        _skip_done(lines, digest, writer.committed)
        for window in cut_windows(lines):
            sentences = [split_line(line, input) for line in window]
            flat = list(chain.from_iterable(sentences))
            for tokens, embedded in zip(flat, embedder.embed_window(flat, output) if flat else (), strict=True):
                writer.add("", tokens, embedded.vectors)
            pending += map(len, sentences)
            report(min(size, os.lseek(text.fileno(), 0, os.SEEK_CUR)), size)
            if writer.pending_bytes >= COMMIT_BYTES or time.monotonic() - committed >= COMMIT_SECONDS:
                if writer.pending_bytes:  # lines without tokens are committed with later ones
                    writer.commit({"sentences": pending, "sha256": digest.hexdigest()})
                    pending = []
                committed = time.monotonic()
        writer.commit({"sentences": pending, "sha256": digest.hexdigest()})


def _skip_done(lines: Iterator[str], digest: Any, committed: VectorStore) -> None:
    """Skip the committed lines, and check that they are the same."""
    num_done = sum(len(manifest.note["sentences"]) for manifest in committed.manifests)
    for _ in islice(lines, num_done):
        pass
    if num_done and digest.hexdigest() != committed.note["sha256"]:
        raise FormatError(
            f"{committed.path.parent} is an unfinished index of other lines than the corpus begins with: delete it."
        )


def _hashed(lines: Iterable[str], digest: Any) -> Iterator[str]:
    for line in lines:
        digest.update(line.encode("utf-8"))
        yield line


def _write_words(store: VectorStore, folder: Path) -> None:
    """Write types, their vectors, and the rows of each; memory grows with types, not with tokens."""
    numbers: dict[str, int] = {}
    with open(folder / "numbers", "wb") as of_tokens, open(folder / "type_vectors", "wb") as vectors:
        for chunk, manifest in enumerate(store.manifests):
            records = range(store.first_record(chunk), store.first_record(chunk) + manifest.num_records)
            known = len(numbers)
            tokens = chain.from_iterable(store.tokens(record) for record in records)
            found = np.fromiter((numbers.setdefault(token, len(numbers)) for token in tokens), np.int32)  # (n,)
            found.tofile(of_tokens)
            new, places = np.unique(found, return_index=True)
            store.read_matrix(chunk)[places[new >= known], 0].astype(HALF).tofile(vectors)
    (folder / "types").write_bytes("".join(f"{word}\n" for word in numbers).encode("utf-8"))
    _write_rows(np.memmap(folder / "numbers", dtype=np.int32, mode="r"), len(numbers), folder)
    (folder / "numbers").unlink()
    counts = list(chain.from_iterable(manifest.note["sentences"] for manifest in store.manifests))
    np.repeat(np.arange(1, len(counts) + 1, dtype=INTEGER), counts).tofile(folder / "lines")


def _write_rows(of_token: NDArray[np.int32], num_types: int, folder: Path) -> None:
    """Sort tokens (N,) by type, in order within a type, one block at a time."""
    starts = np.zeros(num_types + 1, dtype=INTEGER)  # (V + 1,)
    blocks = [of_token[begin : begin + _SORT_BLOCK] for begin in range(0, len(of_token), _SORT_BLOCK)]  # memory-mapped
    for block in blocks:
        starts[1:] += np.bincount(block, minlength=num_types)
    np.cumsum(starts, out=starts)
    starts.tofile(folder / "starts")
    _reserve(folder / "rows", INTEGER.itemsize * len(of_token))
    rows = np.memmap(folder / "rows", dtype=INTEGER, mode="r+", shape=of_token.shape)
    free = starts[:-1].copy()  # (V,) where the next row of a type goes
    for number, block in enumerate(blocks):
        order = np.argsort(block, kind="stable")  # (n,)
        types, firsts, counts = np.unique(block[order], return_index=True, return_counts=True)
        within = np.arange(len(block)) - np.repeat(firsts, counts)  # (n,)
        rows[np.repeat(free[types], counts) + within] = number * _SORT_BLOCK + order
        free[types] += counts
    rows.flush()


def _reserve(path: Path, num_bytes: int) -> None:
    """Create a file with allocated disk space: writing to a sparse map on a full disk would kill the process."""
    with open(path, "wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, num_bytes)
        else:
            file.truncate(num_bytes)


def empty_corpus(corpus: Path) -> InputError:
    """The error for a corpus without tokens."""
    return InputError(f"the corpus {corpus} has no token: give a file with text.")
