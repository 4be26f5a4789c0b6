"""Read sentences with predicates and their arguments from three layouts of PropBank.

Labels are kept as in the file: `V` is the predicate's own span, `R-X` refers to X, `C-X` continues it. Arguments of one
predicate do not nest, so that tags can represent them; a file with nested arguments is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from elmokit.errors import InputError
from elmokit.tasks.brackets import Cell, is_mention_cell, read_arguments
from elmokit.tasks.columns import ColumnSentence, Row, is_comment, read_columns
from elmokit.tasks.spans import Span, to_iob2

VERB = "V"
_FIRST = ("document", "sentence number", "token number", "word", "POS", "parse", "predicate lemma")
_EWT = (*_FIRST, "roleset")
_CONLL2012 = (*_FIRST, "frameset", "word sense", "speaker", "named entity", "coreference")


@dataclass(frozen=True)
class Predicate:
    """A predicate with the spans of its arguments, from left to right, including `V`."""

    index: int
    """Position of its token. `V` may be elsewhere if a word was split (`x` + `rays`)."""
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class SrlExample:
    """A sentence with one of its predicates, whose arguments are IOB2 tags."""

    tokens: tuple[str, ...]
    predicate: int
    tags: tuple[str, ...]


@dataclass(frozen=True)
class SrlSentence:
    """A sentence with all of its predicates, in the order of their columns; it may have none."""

    tokens: tuple[str, ...]
    predicates: tuple[Predicate, ...] = ()

    def examples(self) -> tuple[SrlExample, ...]:
        """One example per predicate."""
        return tuple(
            SrlExample(self.tokens, one.index, to_iob2(one.spans, len(self.tokens))) for one in self.predicates
        )


def read_ewt_propbank(path: Path) -> Iterator[SrlSentence]:
    """Stream a `gold_conll` file of PropBank on the English Web Treebank.

    Tab-separated: document, sentence number, token number, word, POS, parse, lemma, roleset, and one column of
    arguments per token with a roleset.
    """
    for sentence in read_columns(path, _EWT, separator="\t", more=True):
        rows = sentence.rows
        for place, row in enumerate(rows):
            if not row.columns[1].isdecimal() or row.columns[2] != str(place):
                raise InputError(
                    f"{path} line {row.line} has sentence {row.columns[1]!r} and token {row.columns[2]!r}, "
                    f"expected a number and {place}: give a gold_conll file of EWT PropBank."
                )
        marked = [place for place, row in enumerate(rows) if row.columns[7] != "-"]
        spans = _argument_columns(path, rows, range(len(_EWT), len(rows[0].columns)), len(marked))
        yield SrlSentence(sentence.column(3), tuple(map(Predicate, marked, spans)))


def read_conll2005(props: Path, words: Path | None = None) -> Iterator[SrlSentence]:
    """Stream a file of CoNLL-2005: a predicate's lemma or `-`, then one column of arguments per predicate.

    Args:
        props: the file with predicates and arguments.
        words: the file whose first column contains the words; without it, the word comes before the lemma in `props`.
    """
    if words is None:
        for sentence in read_columns(props, ("word", "predicate lemma"), more=True):
            yield SrlSentence(sentence.column(0), _conll2005_predicates(props, sentence.rows, 1))
        return
    pairs = zip_longest(read_columns(words, ("word",), more=True), read_columns(props, ("predicate lemma",), more=True))
    for worded, sentence in pairs:
        if worded is None or sentence is None or len(worded.rows) != len(sentence.rows):
            raise InputError(
                f"{_extent(words, worded)} but {_extent(props, sentence)}: give the words and props of the same text."
            )
        yield SrlSentence(worded.column(0), _conll2005_predicates(props, sentence.rows, 0))


def _extent(path: Path, sentence: ColumnSentence | None) -> str:
    if sentence is None:
        return f"{path} has no more sentences"
    return f"{path} line {sentence.rows[0].line} begins a sentence of {len(sentence.rows)} tokens"


def _conll2005_predicates(path: Path, rows: Sequence[Row], lemma: int) -> tuple[Predicate, ...]:
    for row in rows:
        if row.columns[lemma].strip("()*") != row.columns[lemma]:
            raise InputError(
                f"{path} line {row.line} has {row.columns[lemma]!r} for a predicate, expected a lemma or -: "
                "give the file of words as well, if this one has none."
            )
    marked = [place for place, row in enumerate(rows) if row.columns[lemma] != "-"]
    spans = _argument_columns(path, rows, range(lemma + 1, len(rows[0].columns)), len(marked))
    return tuple(map(Predicate, marked, spans))


def read_conll2012(path: Path) -> Iterator[SrlSentence]:
    """Stream a `*_conll` file of CoNLL-2012: 11 columns, one column of arguments per predicate, coreference.

    There are lemmas and even framesets without arguments, so a predicate is the token where its column has `V`.
    """
    for sentence in read_columns(path, _CONLL2012, comments=is_comment, more=True):
        rows = sentence.rows
        for row in rows:
            _check_conll2012(path, row)
        columns = range(len(_CONLL2012) - 1, len(rows[0].columns) - 1)
        predicates = []
        for number, spans in enumerate(_argument_columns(path, rows, columns), start=1):
            verb = next((span for span in spans if span.type == VERB), None)
            if verb is None:
                raise InputError(
                    f"{path} line {rows[0].line} begins a sentence whose argument column {number} has no (V*): "
                    "mark its predicate or remove the column."
                )
            within = range(verb.start, verb.end)
            index = next((place for place in within if rows[place].columns[7] != "-"), verb.start)
            predicates.append(Predicate(index, spans))
        yield SrlSentence(sentence.column(3), tuple(predicates))


def _check_conll2012(path: Path, row: Row) -> None:
    part, number, last = row.columns[1], row.columns[2], row.columns[-1]
    if not (part.isdecimal() and number.isdecimal() and (last == "-" or is_mention_cell(last))):
        raise InputError(
            f"{path} line {row.line} has part {part!r}, token {number!r} and coreference {last!r}, expected numbers "
            "and - or mentions such as (1|(2): give a *_conll file of CoNLL-2012."
        )


def _argument_columns(
    path: Path, rows: Sequence[Row], columns: range, num_predicates: int | None = None
) -> list[tuple[Span, ...]]:
    """The spans of each column; if the number of predicates is known, there must be one column per predicate."""
    if num_predicates not in (None, len(columns)):
        raise InputError(
            f"{path} line {rows[0].line} begins a sentence with {num_predicates} predicates and {len(columns)} columns "
            "of arguments: there must be one column for each token with a predicate."
        )
    return [read_arguments(str(path), [Cell(row.line, row.columns[column]) for row in rows]) for column in columns]
