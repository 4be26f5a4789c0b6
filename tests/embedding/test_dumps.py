"""The four formats of embeddings: what they promise in common, and how each lies on disk."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmokit.embedding.dumps import dump_format, hdf5, is_dump, open_embeddings, write_dump
from elmokit.embedding.dumps.stored_zip import StoredZip
from elmokit.embedding.records import Meta, Record
from elmokit.errors import ConfigError, ElmokitWarning, FormatError, InputError
from tests.contracts.dump import META, SENTENCES, DumpContract, assert_holds, make_records
from tests.formats.makers import assert_one_sentence


class TestHdf5(DumpContract):
    suffix = ".hdf5"

    def test_the_layout_is_allennlps(self, path: Path) -> None:
        records = make_records(META)
        write_dump(records, path, META)
        with h5py.File(path) as file:
            assert set(file) == {*map(str, range(len(records))), "sentence_to_index", "tokens"}
            for record in records:
                assert np.array_equal(file[str(record.index)][...], record.vectors)
            index = file["sentence_to_index"]
            assert (index.shape, tuple(h5py.check_string_dtype(index.dtype))) == ((1,), ("utf-8", None))
            # AllenNLP: json.dumps of a dict from line to str(number), in which the last of equal lines stays.
            assert json.loads(index[0]) == {record.text: str(record.index) for record in records}
            assert json.loads(index[0])["The play"] == "3"
            assert [tuple(json.loads(entry)) for entry in file["tokens"]] == SENTENCES
            attributes = dict(file.attrs)
        assert attributes["model"] == "my model"
        assert attributes["fingerprint"] == "f" * 64
        assert {"layers", "pooling", "state", "elmokit", "extra"} <= set(attributes)

    @pytest.mark.slow
    def test_texts_are_kept_where_tokens_do_not_tell(self, path: Path) -> None:
        vectors = np.zeros((2, 4), np.float32)
        texts = {3: "Can't", 600: "can't", 601: " two  spaces"}
        records = [Record(index, texts.get(index, "Ca n't"), ("Ca", "n't"), vectors) for index in range(700)]
        write_dump(records, path, META)
        with open_embeddings(path) as embeddings:
            assert_holds(embeddings, records)
            assert embeddings.find("Can't") == [3]
            assert len(embeddings.find("Ca n't")) == 697
            assert len(embeddings.find(["Ca", "n't"])) == 700

    def test_a_long_sentence_index_is_left_out_with_a_notice(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hdf5, "INDEX_LIMIT", 60)
        with pytest.warns(ElmokitWarning, match="sentence_to_index is left out"):
            write_dump(make_records(META), path, META)
        with h5py.File(path) as file:
            assert "sentence_to_index" not in file
        with open_embeddings(path) as embeddings:
            assert embeddings.find("The play") == [0, 3]
            assert embeddings.find("no such") == []

    def test_unique_lines_are_found_by_the_index_alone(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        records = make_records(META, [("a",), ("b", "c"), ()])
        write_dump(records, path, META)
        with open_embeddings(path) as embeddings:
            monkeypatch.setattr(hdf5._OwnDump, "read_sentence", lambda *args: pytest.fail("read"))
            assert (embeddings.find("b c"), embeddings.find("x"), embeddings.find("")) == ([1], [], [2])

    def test_damaged_tables_are_reported(self, path: Path) -> None:
        for name in ("tokens", "0"):
            path.unlink(missing_ok=True)
            write_dump(make_records(META), path, META)
            with h5py.File(path, "a") as file:
                del file[name]
            with pytest.raises(FormatError, match="incomplete; make it again"), open_embeddings(path) as embeddings:
                list(embeddings)


class TestParquet(DumpContract):
    suffix = ".parquet"

    def test_the_layout(self, path: Path) -> None:
        import pyarrow.parquet

        meta = replace(META, num_layers=2)
        records = make_records(meta)
        write_dump(records, path, meta)
        table = pyarrow.parquet.read_table(path)
        assert table.column_names == ["index", "text", "tokens", "layer_0", "layer_1"]
        assert str(table.schema.field("layer_1").type).startswith("list<")
        assert table.schema.field("layer_1").type.value_type.list_size == 4
        assert table["tokens"].to_pylist() == [list(tokens) for tokens in SENTENCES]
        assert json.loads(table.schema.metadata[b"elmokit"])["model"] == "my model"
        for record, cell in zip(records, table["layer_1"].to_pylist(), strict=True):
            assert np.array_equal(np.array(cell, np.float32).reshape(-1, 4), record.vectors[1])

    def test_without_pyarrow(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path.touch()
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        for action in (lambda: open_embeddings(path), lambda: write_dump([], path, META)):
            with pytest.raises(ConfigError, match=r'pip install "elmokit\[parquet\]"'):
                action()

    def test_half_a_surrogate_pair(self, path: Path) -> None:
        with pytest.raises(InputError, match="surrogate"):
            write_dump(make_records(META, [("\ud800",)]), path, META)

    def test_a_foreign_table(self, path: Path) -> None:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), path)
        with pytest.raises(FormatError, match="not written by elmokit"):
            open_embeddings(path)


class TestNpz(DumpContract):
    suffix = ".npz"

    def test_numpy_loads_it(self, path: Path) -> None:
        records = make_records(META)
        write_dump(records, path, META)
        with np.load(path, allow_pickle=False) as arrays:
            assert set(arrays) == {*map(str, range(len(records))), "tokens", "texts", "offsets", "meta"}
            for record in records:
                assert np.array_equal(arrays[str(record.index)], record.vectors)
            assert json.loads(str(arrays["meta"]))["model"] == "my model"
            start, end = arrays["offsets"][2:4, 0]
            assert json.loads(arrays["tokens"][start:end].tobytes()) == list(SENTENCES[2])
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None

    def test_a_compressed_copy_reads_too(self, path: Path) -> None:
        write_dump(make_records(META), path, META)
        with np.load(path) as arrays:
            np.savez_compressed(path.with_name("again.npz"), **arrays)
        with open_embeddings(path.with_name("again.npz")) as embeddings:
            assert_holds(embeddings, make_records(META))

    def test_a_foreign_archive(self, path: Path) -> None:
        np.savez(path, a=np.zeros(3))
        with pytest.raises(FormatError, match="not written by elmokit"):
            open_embeddings(path)

    def test_a_flipped_bit_is_noticed(self, path: Path) -> None:
        write_dump(make_records(META), path, META)
        data = bytearray(path.read_bytes())
        data[180] ^= 1
        path.write_bytes(data)
        with pytest.raises(FormatError, match="sentence 0 is damaged"), open_embeddings(path) as embeddings:
            list(embeddings)

    @pytest.mark.slow
    def test_more_members_than_16_bits_count(self, tmp_path: Path) -> None:
        with StoredZip(tmp_path / "many.zip") as archive:
            for number in range(70_000):
                archive.add(str(number), [b"%d" % number])
        with zipfile.ZipFile(tmp_path / "many.zip") as archive:
            assert len(archive.infolist()) == 70_000
            assert archive.read("69999") == b"69999"

    def test_more_bytes_than_32_bits_count(self, tmp_path: Path) -> None:
        hole, zeros = 1 << 20, bytes(1 << 20)
        with StoredZip(tmp_path / "big.zip") as archive:
            archive.begin("sparse", 5 << 30, 0)
            archive._file.seek((5 << 30) - hole, 1)  # no file here takes 5 GB
            archive.write(zeros)
            archive.add("last", [b"found"])
        with zipfile.ZipFile(tmp_path / "big.zip") as archive:
            assert archive.read("last") == b"found"
            assert archive.getinfo("sparse").file_size == 5 << 30
            assert archive.getinfo("last").header_offset > 5 << 30


class TestJsonl(DumpContract):
    suffix = ".jsonl"

    def test_the_layout(self, path: Path) -> None:
        write_dump(make_records(META), path, META)
        first, *lines = path.read_text(encoding="utf-8").splitlines()
        assert json.loads(first)["elmokit"]["fingerprint"] == "f" * 64
        assert list(json.loads(lines[2])) == ["index", "text", "tokens", "vectors"]
        assert json.loads(lines[2])["tokens"] == ["and/or", "naïve", "模型"]
        assert "模型" in lines[2]

    @pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
    def test_json_has_no_nan(self, path: Path, number: float) -> None:
        records = make_records(META)
        records[2].vectors[1, 3] = number
        with pytest.raises(FormatError, match=r"record 2 hold NaN or infinite numbers") as caught:
            write_dump(records, path, META)
        assert_one_sentence(caught.value)
        assert list(path.parent.iterdir()) == []

    def test_zeros_keep_their_bits(self, path: Path) -> None:
        vectors = np.array([[0.0, -0.0, 1e-45, 3.4e38], [-3.4e38, -1e-45, 1 / 3, 16777216]], np.float32)
        records = [Record(0, "a b", ("a", "b"), vectors)]
        write_dump(records, path, META)
        with open_embeddings(path) as embeddings:
            assert_holds(embeddings, records)

    @pytest.mark.parametrize(
        ("suffix", "compress"), [(".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)]
    )
    def test_compressed_files_are_read(self, path: Path, suffix: str, compress) -> None:  # type: ignore[no-untyped-def]
        write_dump(make_records(META), path, META)
        data = compress(path.read_bytes())
        packed = path.with_name(path.name + suffix)
        packed.write_bytes(data)
        with open_embeddings(packed) as embeddings:
            assert_holds(embeddings, make_records(META))
            assert embeddings.find("The play") == [0, 3]
        packed.write_bytes(data[: len(data) // 2])
        with pytest.raises(FormatError, match="damaged"), open_embeddings(packed) as embeddings:
            list(embeddings)

    def test_damaged_lines_are_named(self, path: Path) -> None:
        write_dump(make_records(META), path, META)
        lines = path.read_text(encoding="utf-8").splitlines()
        for wrong in ("{}", "nonsense", lines[1].replace("[[", "[[[", 1), '{"text": 1, "tokens": 2, "vectors": 3}'):
            path.write_text("\n".join([*lines[:2], wrong, *lines[3:], ""]), encoding="utf-8")
            with pytest.raises(FormatError, match="sentence 1 is damaged"), open_embeddings(path) as embeddings:
                list(embeddings)

    def test_half_a_surrogate_pair(self, path: Path) -> None:
        records = make_records(META, [("\ud800", "é")])
        write_dump(records, path, META)
        with open_embeddings(path) as embeddings:
            assert_holds(embeddings, records)


def test_unknown_suffixes_list_the_known_ones(tmp_path: Path) -> None:
    for name in ("x.csv", "x", "x.hdf5.bak"):
        with pytest.raises(ConfigError, match=r"\.hdf5, \.h5, \.parquet, \.npz, \.jsonl"):
            dump_format(tmp_path / name)
    (tmp_path / "x.csv").touch()
    with pytest.raises(ConfigError, match=r"\.jsonl"):
        open_embeddings(tmp_path / "x.csv")


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        open_embeddings(tmp_path / "no.hdf5")
    with pytest.raises(FormatError, match="not a vector store"):
        open_embeddings(tmp_path)
    with pytest.raises(FormatError, match="does not exist"):
        open_embeddings("x" * 5000 + ".hdf5")


def test_models_are_told_from_embeddings(tmp_path: Path) -> None:
    write_dump(make_records(META), tmp_path / "dump.hdf5", META)
    with h5py.File(tmp_path / "weights.hdf5", "w") as file:
        file["RNN_0/RNN/x"] = np.zeros(3)
    assert is_dump(tmp_path / "dump.hdf5")
    assert not is_dump(tmp_path / "weights.hdf5")
    with pytest.raises(FormatError, match=r"holds a model's weights.*elmokit\.load"):
        open_embeddings(tmp_path / "weights.hdf5")


def test_reading_needs_no_torch() -> None:
    code = "import sys, elmokit.embedding.dumps, elmokit.embedding.dumps.hdf5; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_meta_refuses_nonsense() -> None:
    wrong: list[Any] = [{"width": "3"}, {"extra": 1}, {"dtype": "nonsense"}, {"model": 3}, [], {"width": -1}]
    for values in wrong:
        with pytest.raises(FormatError, match="not written by elmokit"):
            Meta.from_dict(values, origin="x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Meta.from_dict({"width": 3, "new in a later version": 1}, origin="x").width == 3
