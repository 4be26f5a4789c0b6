"""Read sentences with named entities; examples have IOB2 tags, whatever the file's scheme."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.columns import Row, read_columns
from elmokit.tasks.spans import Span, to_iob2, to_spans

DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True)
class NerExample:
    """A sentence with its entities as IOB2 tags."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The entities, from left to right."""
        return to_spans(self.tags)


def read_conll2003(path: Path) -> Iterator[NerExample]:
    """Stream a file of CoNLL-2003: word, part of speech, chunk and entity tag, with `-DOCSTART-` lines."""
    return _read(path, ("word", "POS", "chunk", "NER tag"), separator=None)


def read_wnut(path: Path) -> Iterator[NerExample]:
    """Stream a file of WNUT: word, tab, entity tag."""
    return _read(path, ("word", "NER tag"), separator="\t")


def _read(path: Path, names: tuple[str, ...], separator: str | None) -> Iterator[NerExample]:
    scheme = _SchemeWatch(path)
    for sentence in read_columns(path, names, separator=separator):
        rows = sentence.rows
        if rows[0].columns[0] == DOCUMENT_START:
            rows = rows[1:]
        if not rows:
            continue
        for row in rows:
            _check_tag(path, row)
        scheme.see(rows)
        tags = to_iob2(to_spans([row.columns[-1] for row in rows]), len(rows))
        yield NerExample(tuple(row.columns[0] for row in rows), tags)
    scheme.warn_of_mixture()


def _check_tag(path: Path, row: Row) -> None:
    tag = row.columns[-1]
    letter, _, kind = tag.partition("-")
    if tag != "O" and (letter not in ("B", "I") or not kind):
        raise InputError(
            f"{path} line {row.line} has the tag {tag!r}, expected O, B-TYPE or I-TYPE: convert it to IOB2."
        )


class _SchemeWatch:
    """The first evidence in a file for IOB1, and the first for IOB2.

    Both are read the same way, so the scheme need not be known in advance; a file with both contains errors.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.iob1_line: int | None = None
        self.iob2_line: int | None = None

    def see(self, rows: Sequence[Row]) -> None:
        before = ""
        for row in rows:
            letter, _, kind = row.columns[-1].partition("-")
            if letter == "I" and kind != before:
                self.iob1_line = self.iob1_line or row.line
            elif letter == "B" and kind != before:
                self.iob2_line = self.iob2_line or row.line
            before = kind

    def warn_of_mixture(self) -> None:
        if self.iob1_line and self.iob2_line:
            warnings.warn(
                f"{self.path} begins entities with I- (line {self.iob1_line}, IOB1) and with B- after other tokens "
                f"(line {self.iob2_line}, IOB2): each was read as the beginning of an entity; correct the rarer ones.",
                ElmokitWarning,
                stacklevel=3,
            )
