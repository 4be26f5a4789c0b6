"""Files as the peers write them (FORMATS.md §4), made here by the peers' own steps."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmokit.embedding.dumps import convert_dump, is_dump, open_embeddings
from elmokit.embedding.records import Embeddings
from elmokit.errors import FormatError, UnsafeFileError
from tests.contracts.dump import assert_closed

LINES = ["The play was cancelled .", "and / or", "He saw it .", "They play .", "http://a.b/c says so", "He saw it ."]
TOKENS = [line.split() for line in LINES]


def vectors(line: str, num_layers: int | None = 3, width: int = 8) -> np.ndarray:
    leading = () if num_layers is None else (num_layers,)
    generator = np.random.default_rng(sum(line.encode()))
    return generator.standard_normal((*leading, len(line.split()), width)).astype(np.float32)


@contextmanager
def opened(path: Path) -> Iterator[Embeddings]:
    assert is_dump(path)
    with open_embeddings(path) as embeddings:
        yield embeddings
    if len(embeddings):
        assert_closed(embeddings)


def write_allennlp(path: Path, *, num_layers: int | None = 3, forget: bool = False) -> None:
    """`allennlp elmo`: a dataset a line, and the sentences unless they are to be forgotten."""
    with h5py.File(path, "w") as file:
        sentence_to_index = {}
        for number, line in enumerate(LINES):
            sentence_to_index[line] = str(number)
            data = vectors(line, num_layers)
            file.create_dataset(str(number), data.shape, dtype="float32", data=data)
        if not forget:
            index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype(encoding="utf-8"))
            index[0] = json.dumps(sentence_to_index)


@pytest.mark.parametrize("num_layers", [3, None])
def test_allennlp_by_line(tmp_path: Path, num_layers: int | None) -> None:
    write_allennlp(tmp_path / "a.hdf5", num_layers=num_layers)
    with opened(tmp_path / "a.hdf5") as embeddings:
        assert (len(embeddings), embeddings.layout) == (len(LINES), "line-numbers")
        assert (embeddings.meta.num_layers, embeddings.meta.width) == (num_layers, 8)
        for number, line in enumerate(LINES):
            assert np.array_equal(embeddings[number].vectors, vectors(line, num_layers))
        assert embeddings[1].text == "and / or"
        assert embeddings.tokens(-1) == ("He", "saw", "it", ".")
        assert embeddings.find("and / or") == embeddings.find(["and", "/", "or"]) == [1]
        assert embeddings.find("He saw it .") == [5]  # AllenNLP keeps the last of equal lines
        assert embeddings.find("no") == []


def test_allennlp_that_forgot_its_sentences(tmp_path: Path) -> None:
    write_allennlp(tmp_path / "a.hdf5", forget=True)
    with opened(tmp_path / "a.hdf5") as embeddings:
        assert np.array_equal(embeddings[-1].vectors, vectors(LINES[-1]))
        assert (embeddings[0].text, embeddings[0].tokens) == ("", ())
        with pytest.raises(FormatError, match="does not hold its sentences: look records up by number"):
            embeddings.find("They play .")


def test_allennlp_of_an_empty_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = "{}"
    with opened(tmp_path / "a.hdf5") as embeddings:
        assert (len(embeddings), list(embeddings), embeddings.find("x")) == (0, [], [])


def test_allennlp_by_sentence(tmp_path: Path) -> None:
    """`--use-sentence-keys`: a slash makes groups of a sentence."""
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for line in dict.fromkeys(LINES):
            file.create_dataset(line, data=vectors(line))
    with opened(tmp_path / "a.hdf5") as embeddings:
        assert (len(embeddings), embeddings.layout) == (5, "sentences")
        for line in LINES:
            (number,) = embeddings.find(line)
            assert np.array_equal(embeddings[number].vectors, vectors(line))
        assert embeddings.find(["and", "/", "or"]) == embeddings.find("and / or")
        assert embeddings.find("and") == []
        assert {record.text for record in embeddings} >= {"and / or", "They play ."}


def test_bilm_tf(tmp_path: Path) -> None:
    """`dump_bilm_embeddings`: blank lines count and have no tokens."""
    with h5py.File(tmp_path / "b.hdf5", "w") as file:
        for number, line in enumerate([*LINES, ""]):
            data = vectors(line)
            file.create_dataset(str(number), data.shape, dtype="float32", data=data)
    with opened(tmp_path / "b.hdf5") as embeddings:
        assert len(embeddings) == 7
        assert embeddings[-1].vectors.shape == (3, 0, 8)
        assert np.array_equal(embeddings[3].vectors, vectors(LINES[3]))


def write_many_langs(prefix: str, layers: list[int]) -> None:
    for layer in layers:
        with h5py.File(f"{prefix}.ly{layer}.hdf5", "w") as file:
            for tokens in TOKENS:
                key = "\t".join(tokens).replace(".", "$period$").replace("/", "$backslash$")
                if key not in file:
                    file.create_dataset(key, data=vectors(" ".join(tokens))[layer])


def test_many_langs(tmp_path: Path) -> None:
    write_many_langs(str(tmp_path / "x"), [-1, 0, 1, 2])
    for layer in (-1, 0, 2):
        with opened(tmp_path / f"x.ly{layer}.hdf5") as embeddings:
            assert (len(embeddings), embeddings.layout) == (5, "many-langs")
            for line, tokens in zip(LINES, TOKENS, strict=True):
                (number,) = embeddings.find(line)
                assert embeddings.find(tokens) == [number]
                assert embeddings.tokens(number) == tuple(tokens)
                assert np.array_equal(embeddings[number].vectors, vectors(line)[layer])


def test_all_layers_of_many_langs_by_their_prefix(tmp_path: Path) -> None:
    write_many_langs(str(tmp_path / "x"), [0, 1, 2])
    with opened(tmp_path / "x") as embeddings:
        assert embeddings.meta.num_layers == 3
        for line in LINES:
            assert np.array_equal(embeddings[embeddings.find(line)[0]].vectors, vectors(line))
    with h5py.File(tmp_path / "x.ly1.hdf5", "a") as file:
        del file["They\tplay\t$period$"]
    with pytest.raises(FormatError, match="do not hold the same sentences"):
        open_embeddings(tmp_path / "x")


def test_renamed_many_langs_files_are_known_by_their_keys(tmp_path: Path) -> None:
    write_many_langs(str(tmp_path / "x"), [0])
    (tmp_path / "x.ly0.hdf5").rename(tmp_path / "renamed.hdf5")
    with opened(tmp_path / "renamed.hdf5") as embeddings:
        assert embeddings.layout == "many-langs"
        assert embeddings.find("They play .") != []


def test_e2e_coref(tmp_path: Path) -> None:
    """A group a document, a dataset (T, width, layers) a sentence."""
    documents = {"nw/wsj/00/wsj_0001_0": LINES[:3] * 4, "bc/cctv/00/cctv_0000_0": LINES[3:]}
    with h5py.File(tmp_path / "cache.hdf5", "w") as file:
        for document, lines in documents.items():
            group = file.create_group(document.replace("/", ":"))
            for number, line in enumerate(lines):
                group[str(number)] = vectors(line).transpose(1, 2, 0)
    with opened(tmp_path / "cache.hdf5") as embeddings:
        assert (len(embeddings), embeddings.layout) == (15, "e2e-coref")
        for document, lines in documents.items():
            numbers = embeddings.find(document)
            assert len(numbers) == len(lines)
            for number, line in zip(numbers, lines, strict=True):  # 10 comes after 9, not after 1
                assert np.array_equal(embeddings[number].vectors, vectors(line))
        assert embeddings.find("nw:wsj:00:wsj_0001_0/11") == [embeddings.find("nw/wsj/00/wsj_0001_0")[11]]
        assert embeddings[0].text == "bc:cctv:00:cctv_0000_0/0"


def test_peers_files_convert(tmp_path: Path) -> None:
    write_allennlp(tmp_path / "a.hdf5")
    for target in ("b.parquet", "c.npz", "d.jsonl", "e.hdf5"):
        assert convert_dump(tmp_path / "a.hdf5", tmp_path / target) == len(LINES)
        with open_embeddings(tmp_path / target) as embeddings:
            assert np.array_equal(embeddings[4].vectors, vectors(LINES[4]))
            assert embeddings.find("and / or") == [1]


def test_foreign_hdf5_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.hdf5"

    def refused(match: str, error: Any = FormatError, **entries: object) -> None:
        with h5py.File(path, "w") as file:
            for name, value in entries.items():
                file[name] = value
        with pytest.raises(error, match=match), open_embeddings(path) as embeddings:
            list(embeddings)

    refused("is empty")
    refused("not a file of embeddings", images=np.zeros((5, 5), np.uint8))
    refused("not a file of embeddings", labels=np.zeros(5))
    refused("not a file of embeddings", **{"0": np.zeros((2, 3), np.int64)})
    refused("no sentence '1'", **{"0": np.zeros((2, 3)), "7": np.zeros((2, 3))})
    refused("a link to another place", UnsafeFileError, **{"0": h5py.ExternalLink("/etc/passwd", "/x")})
    refused("a link to another place", UnsafeFileError, **{"a b": h5py.SoftLink("/elsewhere")})
    refused("cannot be read", **{"0": np.zeros((2, 3)), "sentence_to_index": ["no JSON"]})
    with h5py.File(path, "w") as file:
        file.create_dataset("0", (10**6, 1000), dtype="float32", chunks=(1000, 1000), compression="gzip")
    with pytest.raises(UnsafeFileError, match="unpacks to"):
        open_embeddings(path)
    with h5py.File(path, "w") as file:
        group = file.create_group("a b")
        group["itself"] = group
    with pytest.raises(UnsafeFileError, match="contains itself"):
        open_embeddings(path)
