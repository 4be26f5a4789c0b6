import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmokit.errors import InputError, VocabularyError
from elmokit.text.dictionary import dictionary_text, read_dictionary

ENTRIES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=4).map(
    lambda token: token if token.strip() else "\u3000"
)


def read(text: str | bytes, tmp_path: Path, num_rows: int = 100) -> dict[str, int]:
    (tmp_path / "char.dic").write_bytes(text.encode() if isinstance(text, str) else text)
    return read_dictionary(tmp_path / "char.dic", num_rows=num_rows)


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("a\t0\nb\t1\n", {"a": 0, "b": 1}),
        ("a\t0\r\nb\t1\r\n", {"a": 0, "b": 1}),
        ("a\t0\nb\t1", {"a": 0, "b": 1}),
        ("a\t0 \nb\t 1\n", {"a": 0, "b": 1}),
        ("\t\t3\n", {"\u3000": 3}),
        ("\t3\n", {"\u3000": 3}),
        (" \t3\n\u3000\t4\n\u00a0\t5\n", {"\u3000": 5}),
        (" a \t3\n", {" a ": 3}),
        ("a\tb\t3\n", {"a\tb": 3}),
        ("\u2028\t1\n\x85\t2\n\r\t3\n", {"\u3000": 3}),
        ("a\u2028b\t1\na\x85b\t2\na\rb\t3\n", {"a\u2028b": 1, "a\x85b": 2, "a\rb": 3}),
        ("a\t0\na\t7\n", {"a": 7}),
        ("7\t0\n", {"7": 0}),
        ("", {}),
    ],
)
def test_lines(text: str, table: dict[str, int], tmp_path: Path) -> None:
    assert read(text, tmp_path) == table


@pytest.mark.parametrize(
    "line", ["a", "a 0", "a\t", "a\tb", "a\t-1", "a\t1.0", "a\t0x1", "", " ", "a\t" + "9" * 5000, "a\t²"]
)
def test_lines_that_are_no_entries(line: str, tmp_path: Path) -> None:
    with pytest.raises(
        VocabularyError, match=r"char\.dic, line 2: .* is not a token, a tab and an id; .*\.$"
    ) as caught:
        read(f"fine\t0\n{line}\nfine too\t1\n", tmp_path)
    assert len(str(caught.value)) < 400


def test_ids_must_fit_the_table(tmp_path: Path) -> None:
    assert read("a\t4\n", tmp_path, num_rows=5) == {"a": 4}
    with pytest.raises(VocabularyError, match=r"char\.dic has ids up to 5, but its table has 5 rows.*\.$"):
        read("a\t5\nb\t0\n", tmp_path, num_rows=5)


@given(st.dictionaries(ENTRIES, st.integers(0, 99)))
def test_written_tables_come_back_in_order(table: dict[str, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "char.dic")
        path.write_text(dictionary_text(table), encoding="utf-8", newline="\n")
        assert list(read_dictionary(path, num_rows=100).items()) == list(table.items())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read(b"\xff\t0\n", tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_dictionary(tmp_path / "no.dic", num_rows=5)
