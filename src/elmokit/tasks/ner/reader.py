"""Sentences with named entities, and the ways to write entities as tags.

IOB1 begins an entity with B- only where one of the same type stands right before it, IOB2 always. BIOUL also marks
the last token (L-) and an entity of one token (U-). Whatever a file has, an example has IOB2.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.columns import Row, read_columns

DOCUMENT_START = "-DOCSTART-"
_BEGINS, _ENDS = frozenset("BUS"), frozenset("LUES")


class Span(NamedTuple):
    """An entity: tokens `start` to `end`, the latter not included."""

    start: int
    end: int
    type: str


@dataclass(frozen=True)
class NerExample:
    """A sentence with its entities as IOB2 tags."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    document_start: bool = False
    """Whether it is the first sentence of a document, where the file says so."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """The entities, from left to right."""
        return to_spans(self.tags)


def to_spans(tags: Sequence[str]) -> tuple[Span, ...]:
    """The entities that tags of any scheme mean, ill-formed ones read as conlleval does.

    An entity goes on only with a tag of its own type that does not begin one; any other tag that is not O begins an
    entity, whatever its letter. B- and I- are IOB1 and IOB2; L-, U- (or E-, S-) are BIOUL.
    """
    spans: list[Span] = []
    start, inside = 0, None
    for place, tag in enumerate((*tags, "O")):
        letter, _, kind = tag.partition("-")
        if inside is not None and (letter == "O" or letter in _BEGINS or kind != inside):
            spans.append(Span(start, place, inside))
            inside = None
        if letter == "O":
            continue
        if inside is None:
            start, inside = place, kind
        if letter in _ENDS:
            spans.append(Span(start, place + 1, kind))
            inside = None
    return tuple(spans)


def to_iob2(spans: Iterable[Span], num_tokens: int) -> tuple[str, ...]:
    """Tags that begin every entity with B-."""
    tags = ["O"] * num_tokens
    for span in spans:
        _place(tags, span, ["B", *"I" * (span.end - span.start - 1)])
    return tuple(tags)


def to_iob1(spans: Iterable[Span], num_tokens: int) -> tuple[str, ...]:
    """Tags that begin an entity with B- only right after another of its type."""
    tags = ["O"] * num_tokens
    before = None
    for span in sorted(spans):
        touching = before is not None and (before.end, before.type) == (span.start, span.type)
        _place(tags, span, ["B" if touching else "I", *"I" * (span.end - span.start - 1)])
        before = span
    return tuple(tags)


def to_bioul(spans: Iterable[Span], num_tokens: int) -> tuple[str, ...]:
    """Tags that mark first, inner and last tokens of entities, and entities of one token."""
    tags = ["O"] * num_tokens
    for span in spans:
        length = span.end - span.start
        _place(tags, span, ["U"] if length == 1 else ["B", *"I" * (length - 2), "L"])
    return tuple(tags)


def _place(tags: list[str], span: Span, letters: list[str]) -> None:
    if not 0 <= span.start < span.end <= len(tags):
        raise InputError(f"the span {tuple(span)} is not inside a sentence of {len(tags)} tokens: give start < end.")
    for place, letter in enumerate(letters, start=span.start):
        if tags[place] != "O":
            raise InputError(f"the span {tuple(span)} overlaps another: tags can hold one entity a token.")
        tags[place] = f"{letter}-{span.type}"


def read_conll2003(path: Path) -> Iterator[NerExample]:
    """Stream a file of CoNLL-2003: word, part of speech, chunk and entity tag, with `-DOCSTART-` lines."""
    return _read(path, ("word", "POS", "chunk", "NER tag"), separator=None)


def read_wnut(path: Path) -> Iterator[NerExample]:
    """Stream a file of WNUT: word, tab, entity tag."""
    return _read(path, ("word", "NER tag"), separator="\t")


def _read(path: Path, names: tuple[str, ...], separator: str | None) -> Iterator[NerExample]:
    document_start = False
    scheme = _SchemeWatch(path)
    for sentence in read_columns(path, names, separator=separator):
        rows = sentence.rows
        if rows[0].columns[0] == DOCUMENT_START:
            document_start, rows = True, rows[1:]
        if not rows:
            continue
        for row in rows:
            _check_tag(path, row)
        scheme.see(rows)
        tags = to_iob2(to_spans([row.columns[-1] for row in rows]), len(rows))
        yield NerExample(tuple(row.columns[0] for row in rows), tags, document_start)
        document_start = False
    scheme.warn_of_mixture()


def _check_tag(path: Path, row: Row) -> None:
    tag = row.columns[-1]
    letter, _, kind = tag.partition("-")
    if tag != "O" and (letter not in ("B", "I") or not kind):
        raise InputError(
            f"{path} line {row.line} has the tag {tag!r}, expected O, B-TYPE or I-TYPE: convert it to IOB2."
        )


class _SchemeWatch:
    """Where a file first shows that it is IOB1 and where that it is IOB2.

    Both are read alike, so that nothing has to be known before the last line; a file that is both has faults.
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
