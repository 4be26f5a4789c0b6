"""Column files: one token per line with its columns, and a blank line between sentences."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.text.files import open_text

BLANKS = " \t\r\n"
CONLLU = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")
"""The columns of a CoNLL-U file."""


class Row(NamedTuple):
    """A line of a column file."""

    line: int
    """Counted from 1."""
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ColumnSentence:
    """The rows between two blank lines, at least one."""

    rows: tuple[Row, ...]

    def column(self, index: int) -> tuple[str, ...]:
        """One column of all rows."""
        return tuple(row.columns[index] for row in self.rows)


def read_columns(
    path: Path,
    names: Sequence[str],
    *,
    separator: str | None = None,
    comments: Callable[[str], bool] | None = None,
    more: bool = False,
) -> Iterator[ColumnSentence]:
    r"""Stream the sentences of a file, plain or compressed.

    Args:
        path: the file to read.
        names: the expected columns; errors list them.
        separator: "\t" keeps spaces and empty columns; None treats any run of spaces and tabs as one separator.
        comments: tells which lines to skip; in a file of bare words, `#` may begin a word.
        more: whether further columns may follow the named ones, the same number in all rows of a sentence.
    """
    rows: list[Row] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip(BLANKS):
                if rows:
                    yield ColumnSentence(tuple(rows))
                    rows = []
            elif comments is None or not comments(line):
                columns = split_columns(line, separator)
                width = len(rows[0].columns) if rows else max(len(columns), len(names)) if more else len(names)
                if len(columns) != width:
                    raise _wrong_width(path, number, len(columns), width, names)
                rows.append(Row(number, columns))
    if rows:
        yield ColumnSentence(tuple(rows))


def is_comment(line: str) -> bool:
    """Whether a line begins with `#`."""
    return line.startswith("#")


def numbered_words(path: Path, rows: Iterable[Row]) -> list[Row]:
    """The rows of a sentence of CoNLL-U that are words, without multiword tokens (`1-2`) and empty nodes (`1.1`)."""
    words = []
    for row in rows:
        number = row.columns[0]
        if number.isdecimal():
            words.append(row)
        elif not number.replace("-", ".", 1).replace(".", "", 1).isdecimal():
            raise InputError(
                f"{path} line {row.line} has the ID {number!r}, expected a number, a range such as 1-2 or an empty "
                "node such as 1.1: correct the line."
            )
    return words


def split_columns(line: str, separator: str | None) -> tuple[str, ...]:
    """The columns of a line. Only spaces and tabs separate: other Unicode white space may be part of a word."""
    if separator is None:
        return tuple(column for column in line.strip(BLANKS).replace("\t", " ").split(" ") if column)
    return tuple(line.rstrip("\r\n").split(separator))


def _wrong_width(path: Path, line: int, found: int, width: int, names: Sequence[str]) -> InputError:
    listed = ", ".join(names) + (f" and {width - len(names)} more as in the previous row" if width > len(names) else "")
    plural = "column" if found == 1 else "columns"
    return InputError(
        f"{path} line {line} has {found} {plural}, expected {width} ({listed}): correct the line, or its separator."
    )
