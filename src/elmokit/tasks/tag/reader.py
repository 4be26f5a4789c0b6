"""Read sentences with a label per token from CoNLL-U or from any file of columns."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.columns import BLANKS, CONLLU, Row, is_comment, numbered_words, read_columns, split_columns
from elmokit.text.files import open_text

UNTAGGED = "_"
"""The value of a column of CoNLL-U that is not annotated."""
_DOCUMENT_START = "-DOCSTART-"
_LAST = "last"


class TagExample(NamedTuple):
    """A sentence with a label per token; `chunks` says whether the labels are chunks (B-NP, I-NP, O) to be scored."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    chunks: bool = False


def read_tags(path: Path, column: str = "", *, chunks: bool = False) -> Iterator[TagExample]:
    """Stream the sentences of a file, plain or compressed.

    Args:
        path: a CoNLL-U file, or one word per line with its labels in columns after it.
        column: the column of the labels: a name of CoNLL-U such as xpos, or a number from 1. Empty means upos in
            CoNLL-U, and otherwise the last column.
        chunks: see `TagExample`.
    """
    names = _find_columns(path)
    if names is None:
        return
    is_conllu = names == list(CONLLU)
    place, word = _find_place(path, names, column or ("upos" if is_conllu else _LAST)), int(is_conllu)
    separator = "\t" if is_conllu else None
    for sentence in read_columns(path, names, separator=separator, comments=is_comment if is_conllu else _is_start):
        rows = numbered_words(path, sentence.rows) if is_conllu else sentence.rows
        if is_conllu:
            _check_tagged(path, rows, place)
        if rows:
            tags = tuple(row.columns[place] for row in rows)
            yield TagExample(tuple(row.columns[word] for row in rows), tags, chunks)


def _find_columns(path: Path) -> list[str] | None:
    """The names of a file's columns, by its first token; None if it has none."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.rstrip("\r\n").split("\t")
            if len(columns) == len(CONLLU) and columns[0][:1].isdecimal():
                return list(CONLLU)
            if not line.strip(BLANKS) or _is_start(line) or (is_comment(line) and len(split_columns(line, None)) != 2):
                continue
            width = len(split_columns(line, None))
            if width < 2 or line.startswith('{"'):
                found = "JSON" if width > 1 else f"{width} column"
                raise InputError(
                    f"{path} line {number} has {found}, expected a word and its label: give CoNLL-U, or one word per "
                    "line with its labels after it."
                )
            return ["word", *(f"column {place}" for place in range(2, width + 1))]
    return None


def _is_start(line: str) -> bool:
    return line.startswith(_DOCUMENT_START)


def _find_place(path: Path, names: list[str], column: str) -> int:
    """The index of the column with the labels."""
    if column == _LAST:
        return len(names) - 1
    by_name = {name.lower(): place for place, name in enumerate(names)}
    place = int(column) - 1 if column.isdecimal() else by_name.get(column.lower(), -1)
    if not int(names == list(CONLLU)) < place < len(names):
        listed = ", ".join(names[2:]).lower() if names == list(CONLLU) else f"a number from 2 to {len(names)}"
        raise ConfigError(f"model.column is {column!r}, but {path} has {listed}: choose one of these for the labels.")
    return place


def _check_tagged(path: Path, rows: Sequence[Row], place: int) -> None:
    for row in rows:
        if row.columns[place] == UNTAGGED:
            raise InputError(
                f"{path} line {row.line} has no {CONLLU[place]} ({UNTAGGED}): choose another column with model.column, "
                "or another treebank."
            )
