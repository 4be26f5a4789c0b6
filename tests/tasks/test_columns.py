import lzma
from pathlib import Path

import pytest

from elmokit.errors import InputError
from elmokit.tasks.columns import ColumnSentence, Row, is_comment, read_columns

PAIR = ("word", "tag")


def write(folder: Path, text: str) -> Path:
    path = folder / "data.conll"
    path.write_bytes(text.encode())
    return path


def test_rows_know_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\na O\nb  B-X \n\t\r\n \n c\tO\r\n")
    first, second = read_columns(path, PAIR)
    assert first == ColumnSentence((Row(3, ("a", "O")), Row(4, ("b", "B-X"))))
    assert second.rows == (Row(7, ("c", "O")),)
    assert first.column(1) == ("O", "B-X")


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "data.xz"
    path.write_bytes(lzma.compress(b"a O\n\nb O\n"))
    assert [sentence.column(0) for sentence in read_columns(path, PAIR)] == [("a",), ("b",)]


def test_only_spaces_and_tabs_separate(tmp_path: Path) -> None:
    path = write(tmp_path, "a\u00a0b\u2028c\x85 O\n\u3000 O\n")
    (sentence,) = read_columns(path, PAIR)
    assert sentence.column(0) == ("a\u00a0b\u2028c\x85", "\u3000")


def test_tabs_keep_spaces_and_empty_columns(tmp_path: Path) -> None:
    (sentence,) = read_columns(write(tmp_path, "a b\t\n \tO\r\n"), PAIR, separator="\t")
    assert [row.columns for row in sentence.rows] == [("a b", ""), (" ", "O")]


def test_comments_are_skipped(tmp_path: Path) -> None:
    path = write(tmp_path, "# one\n\n#two \na O\n# inside\nb O\n\nc O\n\n# last\n")
    first, second = read_columns(path, PAIR, comments=is_comment)
    assert first.column(0) == ("a", "b")
    assert second.column(0) == ("c",)


def test_hashtags_are_words_without_comments(tmp_path: Path) -> None:
    (sentence,) = read_columns(write(tmp_path, "#win\tO\n#\tO\n"), PAIR, separator="\t")
    assert sentence.column(0) == ("#win", "#")


def test_wrong_number_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "a O\n\nb O\nc O O\n")
    sentences = read_columns(path, PAIR)
    assert next(sentences).column(0) == ("a",)
    with pytest.raises(
        InputError, match=r"data\.conll line 4 has 3 columns, expected 2 \(word, tag\): correct the line"
    ):
        next(sentences)
    with pytest.raises(InputError, match=r"line 1 has 1 column, expected 2"):
        list(read_columns(write(tmp_path, "alone\n"), PAIR))


def test_more_columns_are_as_many_in_a_sentence(tmp_path: Path) -> None:
    path = write(tmp_path, "a O x y\nb O x y\n\nc O\n\nd O x\ne O\n")
    sentences = read_columns(path, PAIR, more=True)
    assert [len(next(sentences).rows[0].columns) for _ in range(2)] == [4, 2]
    with pytest.raises(
        InputError, match=r"line 7 has 2 columns, expected 3 \(word, tag and 1 more as in the previous row\)"
    ):
        next(sentences)
    with pytest.raises(InputError, match="line 1 has 1 column, expected 2"):
        list(read_columns(write(tmp_path, "a\n"), PAIR, more=True))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        list(read_columns(tmp_path / "none", PAIR))


def test_an_empty_file(tmp_path: Path) -> None:
    assert list(read_columns(write(tmp_path, "\n \n"), PAIR)) == []
