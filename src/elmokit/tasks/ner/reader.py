"""Read sentences with named entities; examples have IOB2 tags, whatever the file's layout and scheme.

Layouts are recognized by the file's content: columns of CoNLL-2003, CoNLL-2002, WNUT, GermEval and others (a word and a
tag per line), numbered columns (`.iob2` files of Universal NER), CoNLL-2012 with its brackets, and JSON lines of texts
with spans. Tags are IOB1, IOB2, BIOES or BILOU.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.brackets import Cell, read_arguments
from elmokit.tasks.columns import BLANKS, Row, is_comment, numbered_words, read_columns, split_columns
from elmokit.tasks.ner.annotations import read_annotations
from elmokit.tasks.ner.example import NerExample
from elmokit.tasks.spans import to_iob2, to_spans
from elmokit.text.files import first_line, open_text

DOCUMENT_START = "-DOCSTART-"
_JSON = re.compile(r'\s*[{[]\s*["}]')
_ONE_TOKEN = re.compile(r"(?<!\*)\)")
"""The end of `(PERSON)`, which CoNLL-2012 writes without the star of `(PERSON*)`."""
_TAG = re.compile(r"O|[BILUES]-.+")
_CONLL2003 = ("word", "POS", "chunk", "NER tag")
_CONLL2012 = ("document", "part", "token number", "word", "POS", "parse", "lemma", "frameset", "sense", "speaker",
              "named entity")  # fmt: skip


class _Layout(NamedTuple):
    """Which columns of a file are words and tags."""

    word: int
    tag: int
    width: int
    separator: str | None
    numbered: bool

    @property
    def names(self) -> list[str]:
        """The columns, for errors."""
        if self.width == len(_CONLL2003) and not self.numbered:
            return list(_CONLL2003)
        named = {0: "token number"} if self.numbered else {}
        named |= {self.word: "word", self.tag: "NER tag"}
        return [named.get(place, f"column {place + 1}") for place in range(self.width)]

    def is_comment(self, line: str) -> bool:
        """Whether a line is no token: the beginning of a document, or `#` and something else than a row."""
        if line.startswith(DOCUMENT_START) or (self.numbered and is_comment(line)):
            return True
        if not line.startswith(("# ", "#\t")):
            return False
        columns = split_columns(line, self.separator)
        return len(columns) != self.width or _TAG.fullmatch(columns[self.tag]) is None


def read_entities(path: Path) -> Iterator[NerExample]:
    """Stream the sentences of a file, plain or compressed, in any of the layouts."""
    first = first_line(path)
    if _JSON.match(first):
        return read_annotations(path)
    if first.startswith("#begin document"):
        return _read_conll2012(path)
    return _read_columns(path)


def _read_columns(path: Path) -> Iterator[NerExample]:
    layout = _find_layout(path)
    if layout is None:
        return
    scheme = _SchemeWatch(path, layout.tag)
    for sentence in read_columns(path, layout.names, separator=layout.separator, comments=layout.is_comment):
        rows = numbered_words(path, sentence.rows) if layout.numbered else sentence.rows
        for row in rows:
            _check_tag(path, row, layout.tag)
        scheme.see(rows)
        if rows:
            tags = to_iob2(to_spans([row.columns[layout.tag] for row in rows]), len(rows))
            yield NerExample(tuple(row.columns[layout.word] for row in rows), tags)
    scheme.warn_of_mixture()


def _find_layout(path: Path) -> _Layout | None:
    """The layout of a file by its first sentence of several tokens, or its first one; None if it has no token."""
    sentences: list[list[Row]] = [[]]
    separator: str | None = None
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip(BLANKS):
                if len(sentences[-1]) > 1:
                    break
                sentences += [[]] * bool(sentences[-1])
            elif not line.startswith(DOCUMENT_START):
                columns = split_columns(line, "\t" if "\t" in line else separator)
                if not is_comment(line) or any(map(_TAG.fullmatch, columns[1:])):
                    separator = "\t" if "\t" in line else separator
                    sentences[-1].append(Row(number, columns))
    rows = next((rows for rows in reversed(sentences) if rows), None)
    return None if rows is None else _layout_of(path, rows, separator)


def _layout_of(path: Path, rows: Sequence[Row], separator: str | None) -> _Layout:
    width = len(rows[0].columns)
    numbers = [row.columns[0] for row in rows if "-" not in row.columns[0] and "." not in row.columns[0]]
    counts = len(numbers) > 1 and any(numbers == [str(first + k) for k in range(len(numbers))] for first in (0, 1))
    numbered = counts and width > 2
    tagged = {
        place: sum(_TAG.fullmatch(row.columns[place]) is not None for row in rows if place < len(row.columns))
        for place in range(1 + numbered, width)
    }
    places = [place for place, number in tagged.items() if number and number == max(tagged.values())]
    if not places:
        line, columns = rows[0]
        raise InputError(
            f"{path} line {line} begins a sentence in whose columns ({' '.join(columns)[:60]!r}) none has entity tags: "
            "give one word per line with a tag such as O, B-TYPE or I-TYPE after it, or JSON lines of texts with spans."
        )
    return _Layout(int(numbered), places[0] if numbered else places[-1], width, separator, numbered)


def _read_conll2012(path: Path) -> Iterator[NerExample]:
    for sentence in read_columns(path, _CONLL2012, comments=is_comment, more=True):
        named = ((row.line, row.columns[len(_CONLL2012) - 1]) for row in sentence.rows)
        cells = [Cell(line, _ONE_TOKEN.sub("*)", text)) for line, text in named]
        spans = read_arguments(str(path), cells)
        yield NerExample(sentence.column(3), to_iob2(spans, len(cells)))


def _check_tag(path: Path, row: Row, column: int) -> None:
    if _TAG.fullmatch(row.columns[column]) is None:
        raise InputError(
            f"{path} line {row.line} has the tag {row.columns[column]!r}, expected O, B-TYPE or I-TYPE, or also E- and "
            "S-, L- and U-: convert it to IOB2."
        )


class _SchemeWatch:
    """The first evidence in a file for IOB1, and the first for IOB2.

    Both are read the same way, so the scheme need not be known in advance; a file with both contains errors.
    """

    def __init__(self, path: Path, column: int) -> None:
        self.path, self.column = path, column
        self.iob1_line: int | None = None
        self.iob2_line: int | None = None

    def see(self, rows: Sequence[Row]) -> None:
        before = ""
        for row in rows:
            letter, _, kind = row.columns[self.column].partition("-")
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
