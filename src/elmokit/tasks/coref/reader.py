"""Read documents with coreference from files of CoNLL-2012 and of its scorer, of LitBank and OntoGUM.

All have one token per line, between lines that begin and end a document, and mentions as brackets in the last column.
Documents without mentions are kept.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from elmokit.errors import ElmokitWarning, FormatError, InputError
from elmokit.tasks.brackets import Cell, is_mention_cell, read_mentions
from elmokit.tasks.columns import Row
from elmokit.tasks.coref.archive import Text, read_texts
from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.text.files import open_text

SENTENCE_LENGTHS = "sentence_lengths.tsv"
_BLANKS = " \t\r\n"
_UNUSED = "_"
"""The value of a column that a corpus does not fill."""
_NAMED = re.compile(r"#\s*begin document +(?:\((.*)\)|([^;]*[^;\s]))\s*(?:;\s*(?:part ([0-9]+))?)?")
_NAMELESS = re.compile(r"#\s*begin document()()()")
_END = re.compile(r"#\s*end document.*")


class _Layout(NamedTuple):
    """The layout of a corpus's files."""

    corpus: str
    begin: re.Pattern[str]
    begin_example: str
    outside: tuple[str, ...]
    """Values of the last column for a token that begins and ends no mention; messages show the first."""
    word: int
    number: int | None
    """The column with the token's number, if there is one."""
    width: int
    tabs: bool = True
    more: bool = False
    """Whether there may be more columns than `width` before the last one."""
    speaker: int | None = None
    counted: bool = True
    """Whether token numbers have no gaps: per document in OntoGUM, otherwise per sentence."""


_BEGIN = "#begin document (NAME); part 0"
_CONLL2012 = _Layout(
    "CoNLL-2012", _NAMED, _BEGIN, ("-", "_"), 3, 2, 12, tabs=False, more=True, speaker=9, counted=False
)
_LITBANK = _Layout("LitBank", _NAMED, _BEGIN, ("", "_", "-"), 3, 2, 13)
_ONTOGUM = _Layout("OntoGUM", _NAMELESS, "# begin document", ("_",), 1, 0, 3)


@dataclass
class _Draft:
    """The rows of a document that is being read."""

    name: str
    part: int
    line: int
    layout: _Layout
    rows: list[Row] = field(default_factory=list)
    ends: list[int] = field(default_factory=lambda: [0])
    """Number of rows before each sentence, and the total."""

    def end_sentence(self) -> None:
        if len(self.rows) > self.ends[-1]:
            self.ends.append(len(self.rows))


def read_conll2012(path: Path) -> Iterator[CorefDocument]:
    """Stream a `*_conll` file of CoNLL-2012, one document per part, or a file that its scorer reads.

    The scorer reads the last column only, so its files may have fewer columns than 12: document, part, token number
    and word come first, or document, token number and word, or token number and word, or the word alone. The genre is
    the first folder of a document's name: `bc` of `bc/cctv/00/cctv_0001`.
    """
    with open_text(path) as lines:
        for draft in _read_drafts(lines, str(path), _CONLL2012):
            genre, _, rest = draft.name.partition("/")
            yield _build(draft, str(path), genre if rest else None)


def read_litbank(path: Path, split: Path | None = None) -> Iterator[CorefDocument]:
    """Stream LitBank's documents from its archive or folder, in its order.

    Args:
        path: `litbank-conll.tar.xz` or what it unpacks to.
        split: a file with the names of the documents to read, one per line; None reads all.
    """
    for text in _read_split(path, split):
        for draft in _read_drafts(text.content.split("\n"), text.where, _LITBANK):
            yield _build(draft, text.where)


def read_ontogum(path: Path, split: Path | None = None) -> Iterator[CorefDocument]:
    """Stream OntoGUM's documents from its archive or folder, in its order.

    The genre is the second piece of a document's name: `academic` of `GUM_academic_art`. An unmatched
    bracket, of which `GENTLE_poetry_road` has two, is not an error here: its mention is left out with a warning.

    Args:
        path: `ontogum-conll.tar.xz` or what it unpacks to, with `sentence_lengths.tsv`.
        split: a file with the names of the documents to read, one per line; None reads all.
    """
    lengths = _read_lengths(path)
    for text in _read_split(path, split):
        genre = text.name.split("_")[1] if "_" in text.name else None
        for draft in _read_drafts(text.content.split("\n"), text.where, _ONTOGUM):
            draft.name = text.name
            draft.ends = [0, *accumulate(lengths.get(text.name, ()))]
            if draft.ends[-1] != len(draft.rows):
                raise InputError(
                    f"{text.where} has {len(draft.rows)} tokens, but {SENTENCE_LENGTHS} sentences of "
                    f"{draft.ends[-1]} for it: fetch the archive again."
                )
            yield _build(draft, text.where, genre, forgiving=True)


def _read_split(path: Path, split: Path | None) -> Iterator[Text]:
    names = None
    if split is not None:
        with open_text(split) as lines:
            names = {name for line in lines if (name := line.strip(_BLANKS))}
    seen: set[str] = set()
    for text in read_texts(path, lambda name: name.suffix == ".conll" and (names is None or name.stem in names)):
        seen.add(text.name)
        yield text
    if names is not None and (missing := sorted(names - seen)):
        raise InputError(f"{split} names {missing[0]}, which {path} does not have: give the lists of this archive.")
    if not seen:
        raise FormatError(f"{path} has no .conll files{' that ' + str(split) + ' names' if split else ''}.")


def _read_lengths(path: Path) -> dict[str, list[int]]:
    """The lengths of each document's sentences."""
    for text in read_texts(path, _is_lengths):
        found = {}
        for number, line in enumerate(text.content.split("\n"), start=1):
            name, tab, lengths = line.strip(_BLANKS).partition("\t")
            pieces = lengths.split()
            if tab and pieces and all(piece.isdecimal() and int(piece) for piece in pieces):
                found[name] = [int(piece) for piece in pieces]
            elif name or tab:
                raise InputError(f"{text.where} line {number} is not a name, a tab and lengths: fetch it again.")
        return found
    raise FormatError(f"{path} has no {SENTENCE_LENGTHS}: give OntoGUM's archive or the folder it unpacks to.")


def _is_lengths(name: PurePosixPath) -> bool:
    return name.name == SENTENCE_LENGTHS


def _read_drafts(lines: Iterable[str], where: str, layout: _Layout) -> Iterator[_Draft]:
    """Split lines into documents at their first and last lines."""
    draft: _Draft | None = None
    for number, line in enumerate(lines, start=1):
        text = line.strip(_BLANKS)
        if begin := layout.begin.fullmatch(text):
            if draft is not None:
                raise InputError(
                    f"{where} line {number} begins a document inside that of line {draft.line}: "
                    "write #end document before it."
                )
            draft = _Draft(begin[1] or begin[2] or "", int(begin[3] or 0), number, layout)
        elif draft is None:
            if text:
                raise InputError(
                    f"{where} line {number} is outside a document, expected {layout.begin_example!r}: "
                    f"give a file of {layout.corpus}."
                )
        elif _END.fullmatch(text):
            draft.end_sentence()
            yield draft
            draft = None
        elif not text:
            draft.end_sentence()
        else:
            if layout is _CONLL2012 and not draft.rows:
                draft.layout = _find_layout(line)
            draft.rows.append(_read_row(line, number, where, draft))
    if draft is not None:
        raise InputError(f"{where} ends inside the document that line {draft.line} begins: fetch it again.")


def _find_layout(line: str) -> _Layout:
    """The layout of a document for the scorer of CoNLL-2012, from its first token."""
    columns = _split(line)
    width = len(columns)
    number = next((place for place in (2, 1, 0) if place < width - 2 and columns[place] in ("0", "1")), None)
    if width >= _CONLL2012.width or (number is None and width != 2):
        return _CONLL2012
    word = 0 if number is None else number + 1
    return _CONLL2012._replace(word=word, number=number, width=width, more=False, speaker=None)


def _split(line: str) -> tuple[str, ...]:
    return tuple(column for column in line.strip(_BLANKS).replace("\t", " ").split(" ") if column)


def _read_row(line: str, number: int, where: str, draft: _Draft) -> Row:
    layout = draft.layout
    columns = tuple(line.rstrip("\r\n").split("\t")) if layout.tabs else _split(line)
    if len(columns) != layout.width and not (layout.more and len(columns) > layout.width):
        expected = f"at least {layout.width}" if layout.more else str(layout.width)
        raise InputError(
            f"{where} line {number} has {len(columns)} columns, expected {expected} of {layout.corpus}: "
            "correct the line, or its separator."
        )
    found, place = "0" if layout.number is None else columns[layout.number], str(len(draft.rows) - draft.ends[-1])
    if not found.isdecimal() or (layout.counted and found != place):
        raise InputError(
            f"{where} line {number} has the token number {found!r}, expected {place}: give a file of {layout.corpus}."
        )
    if columns[-1] not in layout.outside and not is_mention_cell(columns[-1]):
        raise InputError(
            f"{where} line {number} has the coreference {columns[-1]!r}, expected {layout.outside[0]!r} or mentions "
            f"such as (1, 1) and (1): give a file of {layout.corpus}."
        )
    return Row(number, columns)


def _build(draft: _Draft, where: str, genre: str | None = None, *, forgiving: bool = False) -> CorefDocument:
    """A document from its rows; with `forgiving`, unbalanced brackets are a warning."""
    layout = draft.layout
    if not draft.rows:
        raise InputError(f"{where} line {draft.line} begins a document without tokens: remove it.")
    cells = (Cell(row.line, "" if row.columns[-1] in layout.outside else row.columns[-1]) for row in draft.rows)
    clusters, faults = read_mentions(where, cells)
    for fault in faults:
        if not forgiving:
            raise InputError(f"{fault}: balance the brackets.")
        warnings.warn(f"{fault}: it is left out.", ElmokitWarning, stacklevel=3)
    speakers = None
    if layout.speaker is not None:
        column = [row.columns[layout.speaker] for row in draft.rows]
        speakers = None if set(column) == {_UNUSED} else _split_at(draft.ends, column)
    return CorefDocument(
        draft.name,
        _split_at(draft.ends, [row.columns[layout.word] for row in draft.rows]),
        tuple(tuple(sorted({Mention(*span) for span in spans})) for spans in clusters.values()),
        draft.part,
        speakers,
        genre,
    )


def _split_at(ends: Sequence[int], column: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(column[start:end]) for start, end in pairwise(ends))
