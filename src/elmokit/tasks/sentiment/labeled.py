r"""Read texts with a label, one per line, as JSON lines or tab-separated columns; the labels may be any words.

Columns: a first line that names a column `label` and one `text` or `sentence` says which is which, as in the files of
GLUE; further columns are ignored. Without such a line there are two columns, and the label is the shorter one.
JSON lines: an object with `text` and `label`, Prodigy's `accept` with one choice, or spaCy's `cats`, whose highest is
taken.
"""

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.json_lines import read_json_lines
from elmokit.text.files import first_line, open_text
from elmokit.text.input_kind import InputKind, check_input, watched
from elmokit.text.lines import split_line

_BLANKS = " \t\r\n"
_TEXT_KEYS = ("text", "sentence")
_LABEL_KEYS = ("label", "labels", "category", "class")
_HEAD_LINES = 100
_SHOWN = 'an object such as {"text": "Fine.", "label": "good"}'


def is_labeled(path: Path) -> bool:
    """Whether a file has labeled texts instead of trees, by its suffix (.tsv) or its first line (an object)."""
    return ".tsv" in path.suffixes or is_json_lines(path)


def is_json_lines(path: Path) -> bool:
    """Whether the first line of a file begins an object."""
    return first_line(path).lstrip().startswith("{")


def read_labeled(path: Path, *, input: InputKind) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Stream the location, the tokens and the label of each text of a file, plain or compressed.

    Args:
        path: the file to read.
        input: "tokens" for space-separated tokens, "text" for raw text.
    """
    check_input(input)
    return _read(path, input)


def _read(path: Path, input: InputKind) -> Iterator[tuple[str, tuple[str, ...], str]]:
    rows = _read_json(path) if is_json_lines(path) else _read_columns(path)
    locations: list[tuple[str, str]] = []

    def texts() -> Iterator[str]:
        for where, text, label in rows:
            locations.append((where, label))
            yield text

    for text in watched(texts(), input, str(path), "`elmokit task train` --set model.input="):
        where, label = locations.pop()
        if not label:
            raise InputError(f"{where} has no label beside its text: correct it.")
        tokens = tuple(token for sentence in split_line(text, input) for token in sentence)
        if not tokens:
            raise InputError(f"{where} has no text beside its label: remove the line.")
        yield where, tokens, label


def _read_columns(path: Path) -> Iterator[tuple[str, str, str]]:
    text_place = label_place = width = None
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip(_BLANKS):
                continue
            where, cells = f"{path} line {number}", line.rstrip("\r\n").split("\t")
            if width is None:
                names = [cell.strip().lower() for cell in cells]
                label_place = next((names.index(name) for name in _LABEL_KEYS if name in names), None)
                text_place = next((names.index(name) for name in _TEXT_KEYS if name in names), None)
                if label_place is not None and (text_place is not None or len(cells) == 2):
                    text_place = 1 - label_place if text_place is None else text_place
                    width = len(cells)
                    continue
                width, label_place = 2, _find_label(path)
                text_place = 1 - label_place
            if len(cells) != width:
                expected = "one between label and text" if width == 2 else f"{width - 1} as in the first line"
                raise InputError(f"{where} has {len(cells) - 1} tabs, expected {expected}: correct it.")
            assert label_place is not None and text_place is not None
            yield where, cells[text_place], cells[label_place].strip(_BLANKS)


def _find_label(path: Path) -> int:
    """Which of two columns has fewer words in the first lines; the first one if they are equal."""
    words = [0, 0]
    with open_text(path) as lines:
        for line in islice(lines, _HEAD_LINES):
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) == 2 and all(cell.strip() for cell in cells):
                words = [before + len(cell.split()) for before, cell in zip(words, cells, strict=True)]
    return int(words[1] < words[0])


def _read_json(path: Path) -> Iterator[tuple[str, str, str]]:
    num_lines = num_skipped = 0
    for where, record in read_json_lines(path):
        num_lines += 1
        if not isinstance(record, dict):
            raise InputError(f"{where} is not an object: give {_SHOWN}.")
        if record.get("answer", "accept") != "accept":
            num_skipped += 1
            continue
        text = next((record[key] for key in _TEXT_KEYS if isinstance(record.get(key), str)), None)
        if text is None:
            raise InputError(f"{where} has no text: give {_SHOWN}.")
        yield where, text, _label_of(where, record)
    if num_skipped:
        warnings.warn(
            f"{path}: {num_skipped} of {num_lines} examples were not accepted by their annotator and are left out.",
            ElmokitWarning,
            stacklevel=2,
        )


def _label_of(where: str, record: dict[str, Any]) -> str:
    choices = record.get("accept")
    if isinstance(choices, list) and len(choices) == 1:
        return str(choices[0])
    cats = record.get("cats")
    if isinstance(cats, dict) and cats and all(isinstance(score, int | float) for score in cats.values()):
        return str(max(cats, key=cats.__getitem__))
    label = next((record[key] for key in _LABEL_KEYS if key in record), None)
    if isinstance(label, list) and len(label) == 1:  # doccano's
        label = label[0]
    if not isinstance(label, str | int):
        raise InputError(f"{where} has the label {str(label)[:40]}, expected one word or number: give {_SHOWN}.")
    return str(label)
