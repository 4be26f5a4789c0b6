"""The vector store: what was committed stays, the rest never counts."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.embedding import store as store_module
from elmokit.embedding.dumps import open_embeddings
from elmokit.embedding.records import Meta, Record
from elmokit.embedding.store import VectorStore, chunk_path, is_store
from elmokit.embedding.store_writer import StoreWriter, delete_store
from elmokit.errors import FormatError
from tests.contracts.dump import FORMS, META, SENTENCES, assert_closed, assert_holds, assert_same, dumps, make_records


def add_all(writer: StoreWriter, records: list[Record]) -> None:
    for record in records:
        writer.add(record.text, record.tokens, record.vectors)


def build(path: Path, meta: Meta, *chunks: list[Record]) -> VectorStore:
    with StoreWriter.create(path, meta) as writer:
        for records in chunks:
            add_all(writer, records)
            writer.commit()
    return VectorStore(path)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("num_layers", "pooling"), FORMS)
def test_round_trip(tmp_path: Path, num_layers: int | None, pooling: str, dtype: str) -> None:
    meta = replace(META, num_layers=num_layers, pooling=pooling, dtype=dtype)
    records = make_records(meta)
    built = build(tmp_path / "s", meta, records[:4], records[4:])
    assert (built.meta, built.num_chunks, built.layout) == (meta, 2, "store")
    assert_holds(built, records)
    for index in (5, 0, -1, 3):
        assert_same(built[index], records[index])
    with open_embeddings(tmp_path / "s") as embeddings:
        assert_holds(embeddings, records)
    assert built.find("The play") == built.find(["The", "play"]) == [0, 3]
    assert built.find("and/or naïve 模型") == [2]
    assert (built.find("nothing"), built.find([]), built.find("")) == ([], [1], [1])


@pytest.mark.slow
@given(dump=dumps(), cuts=st.lists(st.booleans(), min_size=4, max_size=4))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_words_and_numbers_survive(tmp_path: Path, dump: tuple[Meta, list[Record]], cuts: list[bool]) -> None:
    meta, records = dump
    shutil.rmtree(tmp_path / "s", ignore_errors=True)
    with StoreWriter.create(tmp_path / "s", meta) as writer:
        for record, cut in zip(records, cuts, strict=False):
            writer.add(record.text, record.tokens, record.vectors)
            if cut:
                writer.commit()
        writer.commit()
    assert_holds(VectorStore(tmp_path / "s"), records)


def test_half_surrogate_pairs_survive(tmp_path: Path) -> None:
    records = make_records(META, [("\ud800", "a")])
    built = build(tmp_path / "s", META, records)
    assert_holds(built, records)
    assert built.find("\ud800 a") == [0]


def test_reading_all_records_maps_no_vectors(tmp_path: Path) -> None:
    """What was read of a map counts as memory of the process, and a chunk may be large."""
    records = make_records(META)
    built = build(tmp_path / "s", META, records)
    assert_holds(built, records)
    assert not any(np.shares_memory(record.vectors, built.read_matrix(0)) for record in built)
    assert np.shares_memory(built[0].vectors, built.read_matrix(0))


def test_closed_is_not_damaged(tmp_path: Path) -> None:
    embeddings = build(tmp_path / "store", META, make_records(META))
    assert embeddings[0].text == "The play"
    embeddings.close()
    assert_closed(embeddings)


def test_matrices_are_mapped_and_whole(tmp_path: Path) -> None:
    meta = replace(META, num_layers=3)
    records = make_records(meta)
    built = build(tmp_path / "s", meta, records[:3], records[3:])
    matrix = built.read_matrix(1)  # (N, L, D)
    assert matrix.shape == (sum(len(record.tokens) for record in records[3:]), 3, 4)
    assert matrix.flags.c_contiguous
    assert isinstance(matrix.base, np.memmap)
    assert not matrix.flags.writeable
    start, end = built.row_offsets(1)[1:3]
    assert np.array_equal(matrix[start:end].swapaxes(0, 1), records[4].vectors)
    assert (built.first_record(0), built.first_record(1)) == (0, 3)


def test_few_chunks_stay_open(tmp_path: Path) -> None:
    records = make_records(META, SENTENCES * 4)
    built = build(tmp_path / "s", META, *([record] for record in records))
    assert_holds(built, records)
    assert built.num_chunks == len(records)
    assert len(built._open) == store_module.OPEN_CHUNKS
    assert_same(built[7], records[7])


def test_appending_goes_on_and_drops_what_was_not_committed(tmp_path: Path) -> None:
    records = make_records(META)
    path = tmp_path / "s"
    build(path, META, records[:2])
    before = sorted(os.listdir(path))
    with StoreWriter.append(path) as writer:
        add_all(writer, records[2:])
        assert (writer.num_committed, writer.num_records) == (2, len(records))
        assert writer.pending_bytes == 4 * 4 * sum(len(record.tokens) for record in records[2:])
    assert sorted(os.listdir(path)) == before
    with StoreWriter.append(path) as writer:
        add_all(writer, records[2:3])
        writer.commit({"sha": "x"}, {"h": np.arange(3)})
        writer.commit({"nothing": "new"})
        add_all(writer, records[3:4])
        assert len(VectorStore(path)) == 3  # a reader beside the writer
        writer.commit({"sha": "y"})
    built = VectorStore(path)
    assert (built.num_chunks, built.note, built.read_arrays()) == (3, {"sha": "y"}, {})
    assert_holds(built, records[:4])


def test_notes_and_arrays_stay_with_their_chunk(tmp_path: Path) -> None:
    with StoreWriter.create(tmp_path / "s", META) as writer:
        add_all(writer, make_records(META))
        writer.commit({"lines": 7}, {"h": np.arange(3), "c": np.zeros((2, 0))})
    built = VectorStore(tmp_path / "s")
    assert built.note == {"lines": 7}
    assert {name: values.tolist() for name, values in built.read_arrays().items()} == {"h": [0, 1, 2], "c": [[], []]}
    chunk_path(tmp_path / "s", 0, "arrays").write_bytes(b"x" * built.manifests[0].sizes["arrays"])
    with pytest.raises(FormatError, match="arrays is damaged"):
        VectorStore(tmp_path / "s").read_arrays()


@pytest.mark.parametrize("part", ["vectors", "index", "tokens", "texts", "arrays", "json"])
@pytest.mark.parametrize("change", ["missing", "short", "long"])
def test_damage_is_reported_in_one_sentence(tmp_path: Path, part: str, change: str) -> None:
    with StoreWriter.create(tmp_path / "s", META) as writer:
        for _ in range(2):
            add_all(writer, make_records(META))
            writer.commit(None, {"h": np.arange(3)})
    file = chunk_path(tmp_path / "s", 0, part)
    data = file.read_bytes()
    if change == "missing":
        file.unlink()
    else:
        file.write_bytes(data[:-1] if change == "short" else data + b"}")
    with pytest.raises(FormatError, match=r"^[^\n]*build it again\.$"):
        VectorStore(tmp_path / "s")


def test_damaged_contents_are_reported(tmp_path: Path) -> None:
    build(tmp_path / "s", META, make_records(META))
    for part in ("index", "tokens"):
        file = chunk_path(tmp_path / "s", 0, part)
        data = file.read_bytes()
        file.write_bytes(b"\xff" * len(data))
        with pytest.raises(FormatError, match="damaged"):
            list(VectorStore(tmp_path / "s"))
        file.write_bytes(data)
    for meta in ("", "{}", '{"format": "elmokit-store", "format_version": 1, "width": "x"}'):
        (tmp_path / "s/meta.json").write_text(meta)
        with pytest.raises(FormatError, match=r"meta\.json"):
            VectorStore(tmp_path / "s")
    (tmp_path / "s/meta.json").write_text('{"format": "elmokit-store", "format_version": 2}')
    with pytest.raises(FormatError, match="newer elmokit"):
        VectorStore(tmp_path / "s")


def test_stores_are_made_in_new_folders_only(tmp_path: Path) -> None:
    build(tmp_path / "s", META, make_records(META))
    for folder in ("s", "full"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "keep.txt").write_text("precious")
        with pytest.raises(FormatError, match="already holds files"):
            StoreWriter.create(tmp_path / folder, META)
    assert sorted(os.listdir(tmp_path / "full")) == ["keep.txt"]
    with pytest.raises(FormatError, match=r"Meta\.width"):
        StoreWriter.create(tmp_path / "new", Meta())
    with pytest.raises(FormatError, match="not a vector store"):
        StoreWriter.append(tmp_path / "full")
    with pytest.raises(FormatError, match="not a vector store"):
        delete_store(tmp_path / "full")
    assert (tmp_path / "full/keep.txt").exists()


def test_vectors_of_another_form_are_refused(tmp_path: Path) -> None:
    with StoreWriter.create(tmp_path / "s", META) as writer:
        with pytest.raises(FormatError, match=r"shape \(1, 5\) where float32 of shape \(T, 4\)"):
            writer.add("a", ("a",), np.zeros((1, 5), np.float32))
        add_all(writer, make_records(META))
        writer.commit()
    assert_holds(VectorStore(tmp_path / "s"), make_records(META))


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with StoreWriter.create(tmp_path / "s", META) as writer:
        for action in (StoreWriter.append, delete_store):
            with pytest.raises(FormatError, match=f"is in use by process {os.getpid()} or one that it started: wait"):
                action(tmp_path / "s")
        add_all(writer, make_records(META))
        writer.commit()
    StoreWriter.append(tmp_path / "s").close()
    assert "lock" not in os.listdir(tmp_path / "s")


@pytest.mark.slow
def test_the_lock_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    script = (
        "import os, signal; from elmokit.embedding.records import Meta; import numpy as np\n"
        "from elmokit.embedding.store_writer import StoreWriter\n"
        f"w = StoreWriter.create({str(tmp_path / 's')!r}, Meta(width=4))\n"
        "w.add('a', ['a'], np.ones((1, 4), np.float32)); w.commit()\n"
        "w.add('b', ['b'], np.ones((1, 4), np.float32)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == -signal.SIGKILL
    assert "lock" in os.listdir(tmp_path / "s")
    with StoreWriter.append(tmp_path / "s") as writer:
        assert writer.num_committed == 1
        writer.add("c", ("c",), np.zeros((1, 4), np.float32))
        writer.commit()
    assert [record.text for record in VectorStore(tmp_path / "s")] == ["a", "c"]


def test_deleting_leaves_a_store_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = make_records(META)
    path = tmp_path / "s"
    build(path, META, records[:2], records[2:4], records[4:])
    unlink, seen = Path.unlink, []

    def watched(self: Path, missing_ok: bool = False) -> None:
        unlink(self, missing_ok)
        if is_store(path):
            seen.append(len(VectorStore(path)))
            assert_holds(VectorStore(path), records[: seen[-1]])

    monkeypatch.setattr(Path, "unlink", watched)
    delete_store(path)
    assert not path.exists()
    assert sorted(set(seen), reverse=True) == [4, 2, 0]
    assert seen == sorted(seen, reverse=True)


def test_a_failing_commit_leaves_the_chunks_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = make_records(META)
    path = tmp_path / "s"
    build(path, META, records[:2])
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch, StoreWriter.append(path) as writer:
            add_all(writer, records[2:])
            patch.setattr(f"elmokit.embedding.store_writer.os.{name}", _full_disk)
            with pytest.raises(OSError, match="No space left"):
                writer.commit()
        assert_holds(VectorStore(path), records[:2])
    with StoreWriter.append(path) as writer:
        add_all(writer, records[2:])
        writer.commit()
    assert_holds(VectorStore(path), records)


def _full_disk(*args: object) -> None:
    raise OSError(28, "No space left on device")


def test_the_meta_is_plain_json(tmp_path: Path) -> None:
    build(tmp_path / "s", META, make_records(META))
    meta = json.loads((tmp_path / "s/meta.json").read_text(encoding="utf-8"))
    assert {"model", "fingerprint", "layers", "pooling", "dtype", "width", "elmokit", "extra"} <= set(meta)
    assert meta["extra"] == META.extra
