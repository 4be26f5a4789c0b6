"""What every format of embeddings must do; a subclass names its suffix."""

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.embedding.dumps import convert_dump, open_embeddings, write_dump
from elmokit.embedding.records import Embeddings, Meta, Record
from elmokit.errors import ElmokitError, FormatError
from tests.small_disk import small_disk

FORMS = [(num_layers, pooling) for num_layers in (None, 3) for pooling in ("none", "mean")]
SENTENCES = [("The", "play"), (), ("and/or", "naïve", "模型"), ("The", "play"), ("x",), ('"quoted"', "\\", "\0", "\t")]
META = Meta("my model", "f" * 64, "0.2,0.8", "none", "reset", "float32", None, 4, extra={"int8": False, "ü": [1, None]})


def make_records(meta: Meta, sentences: list[tuple[str, ...]] = SENTENCES, seed: int = 0) -> list[Record]:
    generator = np.random.default_rng(seed)
    return [
        Record(index, " ".join(tokens), tokens, generator.standard_normal(meta.shape(len(tokens))).astype(meta.dtype))
        for index, tokens in enumerate(sentences)
    ]


def assert_same(found: Record, expected: Record) -> None:
    """Equal down to the sign of zero."""
    assert (found.index, found.text, found.tokens) == (expected.index, expected.text, expected.tokens)
    assert (found.vectors.dtype, found.vectors.shape) == (expected.vectors.dtype, expected.vectors.shape)
    assert np.ascontiguousarray(found.vectors).tobytes() == np.ascontiguousarray(expected.vectors).tobytes()


def assert_holds(embeddings: Embeddings, expected: list[Record]) -> None:
    assert len(embeddings) == len(expected)
    for found, record in zip(embeddings, expected, strict=True):
        assert_same(found, record)


@st.composite
def dumps(draw: st.DrawFn) -> tuple[Meta, list[Record]]:
    """Records of one form with any words and any finite numbers."""
    num_layers, pooling = draw(st.sampled_from(FORMS))
    dtype = draw(st.sampled_from(["float32", "float16"]))
    meta = Meta(pooling=pooling, dtype=dtype, num_layers=num_layers, width=draw(st.integers(1, 3)))
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=16 if dtype == "float16" else 32)
    records = []
    for index in range(draw(st.integers(0, 4))):
        tokens = tuple(draw(st.lists(st.text(max_size=4), max_size=3)))
        text = draw(st.just(" ".join(tokens).strip()) | st.text(max_size=6).map(str.strip))
        shape = meta.shape(len(tokens))
        size = int(np.prod(shape))
        values = draw(st.lists(numbers, min_size=size, max_size=size))
        records.append(Record(index, text, tokens, np.array(values, dtype=dtype).reshape(shape)))
    return meta, records


def assert_closed(embeddings: Embeddings) -> None:
    """Whatever is asked of closed embeddings, the answer is that they are closed."""
    calls: list[Callable[[], Any]] = [
        lambda: embeddings[0],
        lambda: embeddings[0:1][0],
        lambda: embeddings.tokens(0),
        lambda: embeddings.text(0),
        lambda: list(embeddings),
        lambda: list(embeddings.sentences()),
        lambda: embeddings.find("The play"),
        lambda: embeddings.find(["The", "play"]),
        lambda: embeddings.read_vectors(0),
    ]
    for call in calls:
        with pytest.raises(ElmokitError, match=r"is closed: read from it before close\(\).*or open it again\.$"):
            call()


class DumpContract:
    """Tests of one format."""

    suffix: str

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Where to write, alone in its folder."""
        (tmp_path / "alone").mkdir()
        return tmp_path / "alone" / f"vectors{self.suffix}"

    @pytest.mark.parametrize("dtype", ["float32", "float16"])
    @pytest.mark.parametrize(("num_layers", "pooling"), FORMS)
    def test_round_trip(self, path: Path, num_layers: int | None, pooling: str, dtype: str) -> None:
        meta = replace(META, num_layers=num_layers, pooling=pooling, dtype=dtype)
        records = make_records(meta)
        assert write_dump(iter(records), path, meta) == len(records)
        assert os.listdir(path.parent) == [path.name]
        with open_embeddings(path) as embeddings:
            assert embeddings.meta == meta
            assert embeddings.layout == self.suffix[1:]
            assert_holds(embeddings, records)
            for index in (3, 0, -1, -len(records)):  # not in order
                assert_same(embeddings[index], records[index])
                assert embeddings.tokens(index) == records[index].tokens
                assert embeddings.text(index) == records[index].text

    @pytest.mark.parametrize("read_before", [False, True])
    def test_closed_is_not_damaged(self, path: Path, read_before: bool) -> None:
        write_dump(make_records(META), path, META)
        embeddings = open_embeddings(path)
        if read_before:  # what is kept in memory makes no difference
            assert embeddings[0].text == "The play" and embeddings.find("The play") == [0, 3]
        embeddings.close()
        embeddings.close()
        assert_closed(embeddings)

    @given(dump=dumps())
    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    def test_any_words_and_numbers_survive(self, tmp_path: Path, dump: tuple[Meta, list[Record]]) -> None:
        meta, records = dump
        path = tmp_path / f"any{self.suffix}"
        write_dump(records, path, meta, overwrite=True)
        with open_embeddings(path) as embeddings:
            assert_holds(embeddings, records)
            for record in records:
                same_text = [other.index for other in records if other.text == record.text]
                same_tokens = [other.index for other in records if other.tokens == record.tokens]
                assert embeddings.find(record.text) == same_text
                assert embeddings.find(record.tokens) == same_tokens

    def test_many_records(self, path: Path) -> None:
        records = make_records(META, [("word", str(index % 1000)) for index in range(5000)])
        write_dump(iter(records), path, META)
        with open_embeddings(path) as embeddings:
            assert len(embeddings) == 5000
            for index in (4999, 0, 255, 256, 4095, 4096, 4097, -1):
                assert_same(embeddings[index], records[index])
            assert embeddings.find("word 7") == [7, 1007, 2007, 3007, 4007]

    def test_a_long_text(self, path: Path) -> None:
        records = make_records(META, [("a",), ("word",) * 50_000, ("b",)])
        write_dump(records, path, META)
        with open_embeddings(path) as embeddings:
            assert_holds(embeddings, records)

    def test_finding(self, path: Path) -> None:
        write_dump(make_records(META), path, META)
        with open_embeddings(path) as embeddings:
            assert embeddings.find("The play") == [0, 3]
            assert embeddings.find(" The play\n") == [0, 3]
            assert embeddings.find(["The", "play"]) == [0, 3]
            assert embeddings.find("and/or naïve 模型") == [2]
            assert embeddings.find("") == [1]
            assert embeddings.find([]) == [1]
            assert embeddings.find("the play") == []
            assert embeddings.find(["nothing"]) == []

    def test_slices_read_nothing_until_asked(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        records = make_records(META)
        write_dump(records, path, META)
        with open_embeddings(path) as embeddings:
            with monkeypatch.context() as patch:
                patch.setattr(type(embeddings), "read_vectors", lambda *args: pytest.fail("read"))
                part, back = embeddings[1:4], embeddings[::-1]
                assert (len(part), len(back), len(embeddings[9:])) == (3, len(records), 0)
                assert embeddings.tokens(2) == records[2].tokens
            for found, record in zip(part, records[1:4], strict=True):
                assert_same(found, record)
            assert_same(back[0], records[-1])
            assert_same(part[1:][0], records[2])
            for wrong in (len(records), -len(records) - 1):
                with pytest.raises(IndexError, match=f"no record {wrong}"):
                    embeddings[wrong]

    def test_no_records(self, path: Path) -> None:
        for meta in (META, replace(META, num_layers=2), Meta()):
            assert write_dump([], path, meta, overwrite=True) == 0
            with open_embeddings(path) as embeddings:
                assert (len(embeddings), list(embeddings), embeddings.find("x")) == (0, [], [])

    def test_records_are_numbered_anew(self, path: Path) -> None:
        write_dump(make_records(META)[2:4], path, META)
        with open_embeddings(path) as embeddings:
            assert [record.index for record in embeddings] == [0, 1]

    def test_the_first_record_completes_the_meta(self, path: Path) -> None:
        write_dump(make_records(replace(META, num_layers=3)), path, Meta())
        with open_embeddings(path) as embeddings:
            assert (embeddings.meta.num_layers, embeddings.meta.width, embeddings.meta.dtype) == (3, 4, "float32")

    def test_records_of_another_form_are_refused(self, path: Path) -> None:
        records = make_records(META)
        for wrong in (np.zeros((2, 5), np.float32), np.zeros((2, 4)), np.zeros(4, np.float32)):
            with pytest.raises(FormatError, match="all records of a file have one form"):
                write_dump([*records, Record(9, "a b", ("a", "b"), wrong)], path, META)
        with pytest.raises(FormatError, match="dimensions"):
            write_dump([Record(0, "", (), np.zeros(4, np.float32))], path, Meta())
        assert os.listdir(path.parent) == []

    @pytest.mark.parametrize("existing", [False, True])
    @pytest.mark.parametrize(
        "failure", [RuntimeError("stop"), OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
    )
    def test_failing_midway_leaves_what_was_there(self, path: Path, failure: BaseException, existing: bool) -> None:
        if existing:
            write_dump(make_records(META), path, META)

        def fail() -> Iterator[Record]:
            yield from make_records(META, seed=1)
            raise failure

        with pytest.raises((type(failure), OSError)):
            write_dump(fail(), path, META, overwrite=True)
        assert os.listdir(path.parent) == [path.name] * existing
        if existing:
            with open_embeddings(path) as embeddings:
                assert_holds(embeddings, make_records(META))

    def test_a_full_disk_is_an_os_error_and_leaves_nothing(self, path: Path) -> None:
        records = make_records(replace(META, width=2000))
        with small_disk(20_000), pytest.raises(OSError, match="File too large"):
            write_dump(records, path, replace(META, width=2000))
        assert os.listdir(path.parent) == []

    def test_cut_files_are_reported_in_one_sentence(self, path: Path) -> None:
        write_dump(make_records(META), path, META)
        data = path.read_bytes()
        for size in (0, 1, 7, len(data) // 3, len(data) // 2, len(data) - 300, len(data) - 1):
            path.write_bytes(data[:size])
            with pytest.raises(FormatError, match=r"^[^\n]*vectors[^\n]*\.$"), open_embeddings(path) as embeddings:
                list(embeddings)

    def test_foreign_files_are_refused(self, path: Path) -> None:
        for data in (b"", b"hello", b"{}\n", os.urandom(5000)):
            path.write_bytes(data)
            with pytest.raises(FormatError, match="vectors"):
                open_embeddings(path)

    @pytest.mark.parametrize("other", [".hdf5", ".h5", ".parquet", ".npz", ".jsonl"])
    def test_conversion_loses_nothing(self, path: Path, other: str) -> None:
        meta = replace(META, num_layers=2, dtype="float16")
        write_dump(make_records(meta), path, meta)
        target = path.with_name(f"other{other}")
        assert convert_dump(path, target) == len(SENTENCES)
        with pytest.raises(FormatError, match=r"already exists: give another name"):
            convert_dump(path, target)
        with open_embeddings(target) as embeddings:
            assert embeddings.meta == meta
            assert_holds(embeddings, make_records(meta))

    def test_replacing_a_file(self, path: Path) -> None:
        write_dump(make_records(META, seed=1), path, META)
        with pytest.raises(FormatError, match=r"already exists: give another name, or --overwrite"):
            write_dump(make_records(META, seed=2), path, META)
        write_dump(make_records(META, seed=2), path, META, overwrite=True)
        with open_embeddings(path) as embeddings:
            assert_holds(embeddings, make_records(META, seed=2))

    def test_what_is_no_dump_of_ours_is_never_replaced(self, path: Path) -> None:
        for data in (b"", b"mine", b'{"my": 1}\n'):
            path.write_bytes(data)
            with pytest.raises(FormatError, match=r"is not a dump of embeddings that elmokit wrote.* left alone"):
                write_dump(make_records(META), path, META, overwrite=True)
            assert path.read_bytes() == data

    def test_paths_may_be_any_text(self, tmp_path: Path) -> None:
        for as_given in (str, Path):
            name: Any = as_given(tmp_path / f"Vektoren 模型 😀 'x' [1]{self.suffix.upper()}")
            write_dump(make_records(META), name, META, overwrite=True)
            with open_embeddings(name) as embeddings:
                assert_holds(embeddings, make_records(META))
