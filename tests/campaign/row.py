"""One row of the campaign's table of wrong calls, and the things that its calls are about."""

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmokit.embedding.dumps import write_dump
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.records import Embeddings, Meta, Record
from elmokit.errors import ElmokitError
from elmokit.formats import save
from elmokit.model.bilm import BiLM
from tests.conftest import build_tiny
from tests.contracts.format import save_quietly
from tests.formats.makers import write_many_langs

NAN, INF = float("nan"), float("inf")


class Kit:
    """Small models, files of every kind, and a new folder to write to; nothing of it may change.

    Args:
        folder: holds the files; `make_files` fills it.
        out: empty, and new for every row.
    """

    def __init__(self, folder: Path, out: Path) -> None:
        self.folder, self.out = folder, out

    def file(self, name: str) -> Path:
        """A file of the folder, there or not."""
        return self.folder / name

    def new(self, name: str) -> Path:
        """A file that is not there yet."""
        return self.out / name

    @cached_property
    def bilm(self) -> BiLM:
        """Reads characters, has a softmax."""
        return build_tiny("softmax")

    @cached_property
    def plain(self) -> BiLM:
        """Reads characters, has no softmax."""
        return build_tiny("characters")

    @cached_property
    def words(self) -> BiLM:
        """Reads words."""
        return build_tiny("tokens")

    @cached_property
    def embedder(self) -> Embedder:
        """Of the first."""
        return Embedder(self.bilm, threads=1)

    def closed(self, name: str) -> Embeddings:
        """A dump that was opened and closed."""
        from elmokit import open_embeddings

        embeddings = open_embeddings(self.file(name))
        embeddings.close()
        return embeddings


Call = Callable[[Kit], Any]


@dataclass(frozen=True)
class Row:
    """A wrong call, the error that it must end in, and what the error's sentence must say."""

    id: str
    call: Call
    error: type[Exception]
    words: tuple[str, ...]


def row(id: str, call: Call, words: str, error: type[Exception] = ElmokitError) -> Row:
    """A row; several words are divided by a bar."""
    return Row(id, call, error, tuple(words.split("|")))


def make_files(folder: Path) -> None:
    """Everything that a wrong call may be pointed at."""
    (folder / "good.txt").write_text("the play was naïve .\nthey play\n\nthe play\n", encoding="utf-8")
    (folder / "latin1.txt").write_bytes("the play was naïve .\n".encode("latin-1"))
    (folder / "blank.txt").write_text("\n \n\t\n")
    (folder / "empty.txt").write_text("")
    (folder / "not.gz").write_text("this is no gzip\n")
    (folder / "cut.gz").write_bytes(gzip.compress(b"the play\n" * 1000)[:-20])
    (folder / "folder").mkdir()
    (folder / "broken.json").write_text('{"lstm": ')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "other.json").write_text('{"some": "thing"}')
    (folder / "broken.toml").write_text("[model\n")
    (folder / "unknown-key.toml").write_text("[model]\nwidth = 3\n")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\nplay\n")
    (folder / "no-marks.txt").write_text("the\nplay\n")
    (folder / "char.dic").write_text("a\t0\nb two\n")
    (folder / "vectors.txt").write_text("the 0.1 0.2\nplay 0.3\n")
    (folder / "tags.txt").write_text("the DT B-NP O\nplay NN\n")
    (folder / "tree.txt").write_text("(3 (2 the) (2 play)\n")
    (folder / "nli.jsonl").write_text('{"sentence1": "a"}\n')
    (folder / "squad.json").write_text('{"data": [{"title": 3}]}')
    (folder / "coref.conll").write_text("#begin document (a); part 000\na 0 0 the\n#end document\n")
    (folder / "props.txt").write_text("play (V*\n")
    (folder / "garbage.bin").write_bytes(bytes(range(256)) * 4)
    for name in ("garbage.hdf5", "garbage.npz", "garbage.jsonl", "garbage.parquet", "garbage.zip", "garbage.tgz"):
        (folder / name).write_bytes(bytes(range(256)) * 4)
    _make_models(folder)
    meta = Meta(width=4)
    records = [Record(n, t, tuple(t.split()), np.ones((len(t.split()), 4), np.float32)) for n, t in enumerate("ab")]
    for suffix in ("hdf5", "npz", "jsonl", "parquet"):
        write_dump(records, folder / f"dump.{suffix}", meta)
    with h5py.File(folder / "nan.hdf5", "w") as file:  # as a peer may have written it
        file["0"] = np.full((1, 4), np.nan, np.float32)
        file["sentence_to_index"] = np.array([json.dumps({"a": "0"})], dtype=h5py.string_dtype())


def _make_models(folder: Path) -> None:
    save(build_tiny("softmax"), folder / "model")
    save(build_tiny("characters"), folder / "plain")
    save_quietly(build_tiny("softmax"), folder / "bilm", format="bilm")
    for name in ("no-weights", "cut-weights", "no-config"):
        save(build_tiny("characters"), folder / name)
    (folder / "no-weights" / "model.safetensors").unlink()
    weights = folder / "cut-weights" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    (folder / "no-config" / "config.json").unlink()
    write_many_langs(folder / "many", config_path="/somewhere/mine.json")
    (folder / "task").mkdir()
    (folder / "task" / "task.json").write_text(json.dumps({"format": "elmokit-task", "version": 9, "task": "ner"}))
