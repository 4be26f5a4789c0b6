"""The layers of a frozen biLM for a data set, computed once: epochs, seeds and tasks read them from disk.

One store holds the layers of one model in one precision, shared by all tasks. Sentences are looked up by their tokens.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from elmokit.cache import cache_directory
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.records import Meta, Vectors
from elmokit.embedding.store import VectorStore, encode_tokens, is_store, sentence_hash
from elmokit.embedding.store_writer import StoreWriter
from elmokit.errors import ConfigError, InputError
from elmokit.progress import ProgressCallback

_COMMIT_BYTES, _COMMIT_SECONDS = 256_000_000, 30.0
_OPEN_CHUNKS = 4096


class LayerStore:
    """Layers (L, T, D) in float16 of tokenized sentences, each from the zero state.

    Args:
        embedder: the frozen model; it must reset its state at every sentence.
        folder: the parent folder of the stores, one per model and precision; None is the user's cache.
    """

    def __init__(self, embedder: Embedder, folder: Path | None = None) -> None:
        if embedder.state != "reset":
            raise ConfigError(
                f"an embedder with state {embedder.state!r} gives other layers than a store keeps: give one with state "
                "'reset'."
            )
        self.embedder = embedder
        key = embedder.runner.precision_key
        name = embedder.fingerprint[:16] + ("" if key == "float32" else f"-{key}")
        self.path = (cache_directory() / "layers" if folder is None else folder) / name
        self._records: dict[int, int] = {}
        self._open()

    @property
    def num_layers(self) -> int:
        """L."""
        return self.embedder.bilm.config.num_layers

    @property
    def width(self) -> int:
        """D."""
        return self.embedder.bilm.config.output_dim

    def prepare(self, sentences: Iterable[Sequence[str]], report: ProgressCallback | None = None) -> int:
        """Embed sentences that are not stored yet, and return their number; a kill loses at most 30 seconds of work."""
        missing = list(dict.fromkeys(tuple(s) for s in sentences if _key(s) not in self._records))
        if not missing:
            return 0
        committed = time.monotonic()
        with self._writer() as writer:
            stream = self.embedder.embed_stream([list(tokens) for tokens in missing], dtype="float16")
            for number, (tokens, layers) in enumerate(zip(missing, stream, strict=True), 1):
                writer.add("", tokens, layers)
                if writer.pending_bytes > _COMMIT_BYTES or time.monotonic() - committed > _COMMIT_SECONDS:
                    writer.commit()
                    committed = time.monotonic()
                if report is not None:
                    report(number, len(missing))
            writer.commit()
        self._open()
        return len(missing)

    def read(self, tokens: Sequence[str]) -> Vectors:
        """The layers (L, T, D) of a prepared sentence."""
        record = self._records.get(_key(tokens))
        if record is None or self._store is None or self._store.read_sentence(record)[1] != tuple(tokens):
            raise InputError(f"the sentence {' '.join(tokens)[:80]!r} was not embedded: call prepare with it first.")
        return self._store.read_vectors(record)

    def _open(self) -> None:
        self._store = VectorStore(self.path, open_chunks=_OPEN_CHUNKS) if is_store(self.path) else None
        if self._store is not None:
            hashes = self._store.read_hashes().tolist()
            self._records = dict(zip(hashes, range(len(hashes)), strict=True))

    def _writer(self) -> StoreWriter:
        if is_store(self.path):
            return StoreWriter.append(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        meta = Meta(
            fingerprint=self.embedder.fingerprint,
            layers="all",
            state="reset",
            dtype=np.dtype(np.float16).name,
            num_layers=self.num_layers,
            width=self.width,
        )
        return StoreWriter.create(self.path, meta)


def _key(tokens: Sequence[str]) -> int:
    return sentence_hash(encode_tokens(tokens))
