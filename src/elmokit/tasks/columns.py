"""Column files: one token per line with its columns, and a blank line between sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.text.files import open_text

_BLANKS = " \t\r\n"


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
    path: Path, names: Sequence[str], *, separator: str | None = None, comments: bool = False, more: bool = False
) -> Iterator[ColumnSentence]:
    r"""Stream the sentences of a file, plain or compressed.

    Args:
        path: the file to read.
        names: the expected columns; errors list them.
        separator: "\t" keeps spaces and empty columns; None treats any run of spaces and tabs as one separator.
        comments: whether to skip lines that begin with `#`; in a file of bare words, `#` may begin a word.
        more: whether further columns may follow the named ones, the same number in all rows of a sentence.
    """
    rows: list[Row] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip(_BLANKS):
                if rows:
                    yield ColumnSentence(tuple(rows))
                    rows = []
            elif not (comments and line.startswith("#")):
                columns = _split(line, separator)
                width = len(rows[0].columns) if rows else max(len(columns), len(names)) if more else len(names)
                if len(columns) != width:
                    raise _wrong_width(path, number, len(columns), width, names)
                rows.append(Row(number, columns))
    if rows:
        yield ColumnSentence(tuple(rows))


def _split(line: str, separator: str | None) -> tuple[str, ...]:
    """Only spaces and tabs separate: other Unicode white space may be part of a word."""
    if separator is None:
        return tuple(column for column in line.strip(_BLANKS).replace("\t", " ").split(" ") if column)
    return tuple(line.rstrip("\r\n").split(separator))


def _wrong_width(path: Path, line: int, found: int, width: int, names: Sequence[str]) -> InputError:
    listed = ", ".join(names) + (f" and {width - len(names)} more as in the previous row" if width > len(names) else "")
    plural = "column" if found == 1 else "columns"
    return InputError(
        f"{path} line {line} has {found} {plural}, expected {width} ({listed}): correct the line, or its separator."
    )
