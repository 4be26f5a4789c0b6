"""Files of word vectors, and the table that a task makes of them."""

import gzip
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.errors import InputError
from elmokit.tasks.words import UNKNOWN_ROW, WordTable, build_table, read_vectors

GLOVE = "the 0.5 -1 2\nNew York 1e-1 0 3\nnaïve 1 1 1\n"
READ = {"the": [0.5, -1, 2], "New York": [0.1, 0, 3], "naïve": [1, 1, 1]}


def write(path: Path, text: str) -> Path:
    data = text.encode("utf-8")
    opened = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "wb") as file:
        file.write(data)
    return path


def values(path: Path, max_words: int | None = None) -> dict[str, Any]:
    found = read_vectors(path, max_words=max_words)
    assert all(vector.dtype == np.float32 for vector in found.values())
    return {word: pytest.approx(vector.tolist()) for word, vector in found.items()}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.vec.xz"])
@pytest.mark.parametrize("header", ["", "3 3\n"])
def test_glove_and_word2vec_plain_and_compressed(header: str, name: str, tmp_path: Path) -> None:
    found = values(write(tmp_path / name, header + GLOVE))
    assert found == READ
    assert list(found) == list(READ)


@pytest.mark.parametrize("end", ["\r\n", " \n", " \r\n"])
def test_what_may_stand_at_the_end_of_a_line(end: str, tmp_path: Path) -> None:
    assert values(write(tmp_path / "a.txt", GLOVE.replace("\n", end))) == READ
    assert values(write(tmp_path / "b.txt", GLOVE.rstrip("\n"))) == READ


def test_a_header_makes_words_of_spaces_in_the_first_line_readable(tmp_path: Path) -> None:
    text = ". . . 1 2\nx 3 4\n"
    assert values(write(tmp_path / "a.vec", "2 2\n" + text)) == {". . .": [1, 2], "x": [3, 4]}
    with pytest.raises(InputError, match=r"b\.txt line 1 is not a word and 4 numbers"):
        read_vectors(write(tmp_path / "b.txt", text))


def test_words_that_are_numbers(tmp_path: Path) -> None:
    assert values(write(tmp_path / "a.txt", "2024 0.5 1\n7 1 2\n")) == {"2024": [0.5, 1], "7": [1, 2]}


def test_white_space_of_unicode_is_part_of_a_word(tmp_path: Path) -> None:
    text = "a\u00a0b 1 2\n\u2028 3 4\nc\x85 5 6\n"
    assert values(write(tmp_path / "a.txt", text)) == {"a\u00a0b": [1, 2], "\u2028": [3, 4], "c\x85": [5, 6]}


def test_the_first_of_two_equal_words_counts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "b 1\na 2\nb 3\nc 4\n")
    assert values(path) == {"b": [1], "a": [2], "c": [4]}
    assert values(path, max_words=3) == {"b": [1], "a": [2], "c": [4]}
    assert values(path, max_words=2) == {"b": [1], "a": [2]}


def test_lines_behind_the_last_word_wanted_are_not_read(tmp_path: Path) -> None:
    assert list(values(write(tmp_path / "a.txt", "a 1 2\nb 3 4\nrubbish\n"), max_words=2)) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "line", "width"),
    [
        ("a 1 2\nb 1\n", 2, "2"),
        ("a 1 2\nb 1 x\n", 2, "2"),
        ("a 1 2\n\nb 3 4\n", 2, "2"),
        ("a 1 2\nb 1 nan\n", 2, "2"),
        ("a 1 2\nb inf 1\n", 2, "2"),
        ("a 1 2\nb 1e99 1\n", 2, "2"),
        ("a 1 2\n1 2\n", 2, "2"),
        ("2 2\na 1\n", 2, "2"),
        ("a\n", 1, "some"),
        ("\n", 1, "some"),
        ("a\t1\t2\n", 1, "some"),
        ("0 0\na\n", 2, "some"),
    ],
)
def test_a_malformed_line_is_named(text: str, line: int, width: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", text)
    with pytest.raises(InputError) as raised:
        read_vectors(path)
    assert str(raised.value).startswith(f"{path} line {line} is not a word and {width} numbers: give vectors in ")


@pytest.mark.parametrize("text", ["", "5 3\n"])
def test_a_file_without_vectors(text: str, tmp_path: Path) -> None:
    path = write(tmp_path / "v.txt", text)
    with pytest.raises(InputError, match=r"v\.txt has no vector: give a file of word vectors as text\.$"):
        read_vectors(path)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "v.bin").write_bytes(b"3 2\nthe \xff\xfe\x00\n")
    with pytest.raises(InputError, match=r"v\.bin is a binary file, not text"):
        read_vectors(tmp_path / "v.bin")


# --- The table -------------------------------------------------------------------------------------------------------


def test_rows_of_tokens() -> None:
    table = WordTable(["the", "Paris", "paris", "ÉTÉ"])
    assert len(table) == 5
    assert table.to_rows(["the", "The", "THE", "Paris", "PARIS", "été", "x", ""]) == [1, 1, 1, 2, 3, 0, 0, 0]
    assert UNKNOWN_ROW == 0


def test_a_word_stands_once() -> None:
    with pytest.raises(InputError, match="a word occurs twice"):
        WordTable(["a", "b", "a"])


def vectors(**words: list[float]) -> dict[str, np.ndarray]:
    return {word: np.array(numbers, dtype=np.float32) for word, numbers in words.items()}


def test_files_stand_side_by_side() -> None:
    first, second = vectors(a=[1, 2], b=[3, 4]), vectors(b=[5], c=[6])
    table, found = build_table({}, [first, second], width=99, min_count=1, seed=0)
    assert table.words == ("a", "b", "c")
    assert found.dtype == np.float32
    assert found.shape == (4, 3)
    np.testing.assert_array_equal(found[1:], [[1, 2, 0], [3, 4, 5], [0, 0, 6]])
    assert found[UNKNOWN_ROW].all()


def test_words_of_the_text_have_rows_of_their_own_if_frequent_and_without_a_vector() -> None:
    counts = {"Paris": 9, "paris": 9, "Zebra": 2, "zebra": 2, "apple": 5, "rare": 1}
    table, found = build_table(counts, [vectors(paris=[1, 1], The=[2, 2])], width=7, min_count=2, seed=0)
    assert table.words == ("paris", "The", "Zebra", "apple", "zebra")  # Paris is the vector of paris
    assert table.to_rows(["Paris", "PARIS", "the", "rare", "Rare", "ZEBRA"]) == [1, 1, 0, 0, 0, 5]
    assert found.shape == (6, 2)


def test_without_files_the_width_is_the_given_one() -> None:
    table, found = build_table({"b": 3, "a": 2, "c": 1}, [], width=200, min_count=2, seed=0)
    assert table.words == ("a", "b")
    assert found.shape == (3, 200)
    assert np.abs(found).std() > 0
    assert found.std() == pytest.approx(0.1, rel=0.2)


def test_random_rows_are_as_long_as_the_others_and_the_same_for_the_same_seed() -> None:
    generator = np.random.default_rng(5)
    file = {f"w{number}": generator.normal(0, 3, 50).astype(np.float32) for number in range(20)}
    counts = dict.fromkeys((f"own{number}" for number in range(20)), 2)
    tables = [build_table(counts, [file], width=1, min_count=2, seed=seed)[1] for seed in (1, 1, 2)]
    np.testing.assert_array_equal(tables[0], tables[1])
    np.testing.assert_array_equal(tables[0][1:21], np.stack(list(file.values())))
    assert (tables[0][21:] != tables[2][21:]).all() and (tables[0][0] != tables[2][0]).all()
    assert tables[0][21:].std() == pytest.approx(3, rel=0.1)
    assert len(np.unique(tables[0][[0, *range(21, 41)]])) == 21 * 50  # no row is another's


def test_the_order_of_counts_does_not_matter() -> None:
    counts = {"b": 3, "a": 2}
    one, other = (build_table(c, [], width=4, min_count=1, seed=3) for c in (counts, dict(reversed(counts.items()))))
    assert one[0].words == other[0].words
    np.testing.assert_array_equal(one[1], other[1])
