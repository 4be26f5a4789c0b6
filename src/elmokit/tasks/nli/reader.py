"""Read pairs of sentences, labeled by whether the second follows from the first.

A file is JSON lines (SNLI, MultiNLI) or a tab-separated table whose first line names the columns (SICK, counterfactual
SNLI, the text files of SNLI and MultiNLI), recognized by its first line. Only sentences and label are read: the parses
of SNLI, the scores of SICK and everything else are ignored.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.json_lines import parse_json
from elmokit.text.files import open_text
from elmokit.text.input_kind import InputKind, check_input
from elmokit.text.lines import split_line

LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"
"""The label of a pair on which the annotators did not agree."""
_JSON_KEYS = ("sentence1", "sentence2", "gold_label")
_COLUMNS = (("sentence1", "sentence_A"), ("sentence2", "sentence_B"), ("gold_label", "entailment_judgment"))
_BLANKS = " \t\r\n"


class NliExample(NamedTuple):
    """A pair and its label, one of `LABELS`; a premise of several sentences is one token sequence."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str


def read_nli(path: Path, *, input: InputKind) -> Iterator[NliExample]:
    """Stream the pairs of a file, plain or compressed.

    Pairs without a gold label (`-`) are left out; a warning at the end says how many.

    Args:
        path: the file to read.
        input: "tokens" for space-separated tokens, "text" for raw sentences, as in SNLI's own files and SICK.
    """
    check_input(input)
    return _read(path, input)


def _read(path: Path, input: InputKind) -> Iterator[NliExample]:
    num_pairs = num_skipped = 0
    for where, texts in _records(path):
        num_pairs += 1
        label = texts[2].strip().lower()
        if label == NO_LABEL:
            num_skipped += 1
            continue
        if label not in LABELS:
            raise InputError(f"{where} has the label {texts[2][:40]!r}: accepted are {', '.join(LABELS)} and -.")
        premise, hypothesis = (_tokens(text, input) for text in texts[:2])
        if not premise or not hypothesis:
            part = "hypothesis" if premise else "premise"
            raise InputError(f"{where} has an empty {part}: remove the pair, or give it a sentence.")
        yield NliExample(premise, hypothesis, label)
    if num_skipped:
        warnings.warn(
            f"{path} has {num_skipped} of {num_pairs} pairs without a gold label: they were left out.",
            ElmokitWarning,
            stacklevel=2,
        )


def _tokens(text: str, input: InputKind) -> tuple[str, ...]:
    return tuple(token for sentence in split_line(text, input) for token in sentence)


def _records(path: Path) -> Iterator[tuple[str, Sequence[str]]]:
    """The location of a pair in the file, and its premise, hypothesis and label as written."""
    is_json = False
    header: list[str] = []
    places: list[int] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip(_BLANKS):
                continue
            where = f"{path} line {number}"
            if not header and not is_json:
                is_json = line.lstrip(_BLANKS).startswith("{")
                if not is_json:
                    header = line.rstrip("\r\n").split("\t")
                    places = _find_columns(where, header)
                    continue
            yield where, _from_json(where, line) if is_json else _from_table(where, line, header, places)


def _from_json(where: str, line: str) -> list[str]:
    record = parse_json(where, line)
    texts: list[str] = []
    for key in _JSON_KEYS:
        text = record.get(key) if isinstance(record, dict) else None
        if not isinstance(text, str):
            raise InputError(f"{where} has no text under {key!r}: give an object with {', '.join(_JSON_KEYS)}.")
        texts.append(text)
    return texts


def _find_columns(where: str, header: Sequence[str]) -> list[int]:
    places = [next((header.index(name) for name in names if name in header), -1) for names in _COLUMNS]
    if -1 in places:
        names = " or ".join(_COLUMNS[places.index(-1)])
        raise InputError(
            f"{where} is neither a JSON object nor names a column {names}: give JSON lines as in SNLI, or a "
            "tab-separated table that begins with the names of its columns."
        )
    return places


def _from_table(where: str, line: str, header: Sequence[str], places: Sequence[int]) -> list[str]:
    cells = line.rstrip("\r\n").split("\t")
    if len(cells) != len(header):
        raise InputError(f"{where} has {len(cells)} columns, expected {len(header)} as in the first line: correct it.")
    return [_unquote(cells[place]) for place in places]


def _unquote(cell: str) -> str:
    """Undo the CSV quoting of a cell that contains quotes: `"a ""b"" c"` is `a "b" c`.

    Text that only begins and ends with a quote is not changed: a CSV writer would have doubled those quotes.
    """
    inner = cell[1:-1]
    if len(cell) > 3 and cell[0] == cell[-1] == '"' and '""' in inner and '"' not in inner.replace('""', ""):
        return inner.replace('""', '"')
    return cell
