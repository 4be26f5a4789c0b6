"""Spans that a column marks by brackets: arguments, from `(A0*` to `*)`, and mentions, from `(7` to `7)`."""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.tasks.spans import Span

_ARGUMENT = re.compile(r"(?:\(([^()*|]+))?\*(\))?")
_MENTION = re.compile(r"\|?(\()?([0-9]+)(\))?")
_MENTIONS = re.compile(r"(?:\([0-9]+\)?|[0-9]+\))(?:\|?(?:\([0-9]+\)?|[0-9]+\)))*")


class Cell(NamedTuple):
    """The cell of one column for one token."""

    line: int
    text: str


def read_arguments(where: str, cells: Iterable[Cell]) -> tuple[Span, ...]:
    """The spans of one predicate's column, from left to right; `where` names the file in errors."""
    spans: list[Span] = []
    label, start, opened = "", 0, 0
    for place, (line, text) in enumerate(cells):
        if text == "*":
            continue
        match = _ARGUMENT.fullmatch(text)
        if match is None:
            what = "opens two arguments" if text.count("(") > 1 else "no argument"
            raise InputError(f"{where} line {line} has {text!r} ({what}), expected *, (LABEL*, *) or (LABEL*).")
        if match[1]:
            if label:
                raise InputError(
                    f"{where} line {line} opens {match[1]} inside the {label} of line {opened}: "
                    "arguments of one predicate must not nest."
                )
            label, start, opened = match[1], place, line
        if match[2]:
            if not label:
                raise InputError(f"{where} line {line} closes an argument that is not open: balance the brackets.")
            spans.append(Span(start, place + 1, label))
            label = ""
    if label:
        raise InputError(f"{where} line {opened} opens {label}, which the sentence never closes: balance the brackets.")
    return tuple(spans)


def is_mention_cell(text: str) -> bool:
    """Whether a cell opens or closes mentions, such as `(1|(2)` or, as OntoGUM has it, `(1(2)`."""
    return _MENTIONS.fullmatch(text) is not None


class Mentions(NamedTuple):
    """The mentions of a document's column by cluster id, and the errors in its brackets."""

    clusters: dict[str, list[tuple[int, int]]]
    """Token offsets, end exclusive, in the order in which mentions end; clusters in the order of their first opening
    brackets. At one token, mentions of that token alone come before longer ones, as in the scorer of CoNLL-2012."""
    faults: list[str]
    """One sentence per unmatched bracket; such a bracket makes no mention."""


def read_mentions(where: str, cells: Iterable[Cell]) -> Mentions:
    """Match the brackets of a column whose cells open or close mentions or are empty.

    Mentions may nest and cross. A cell is read from left to right; among several open mentions of one cluster, the one
    opened last is closed first.
    """
    clusters: dict[str, list[tuple[int, int]]] = {}
    opened: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    faults: list[str] = []
    for place, (line, text) in enumerate(cells):
        brackets = _MENTION.findall(text)
        for opens, cluster, _ in sorted(brackets, key=lambda bracket: not bracket[2]):
            if opens:
                clusters.setdefault(cluster, [])
        for opens, cluster, closes in brackets:
            if opens:
                opened[cluster].append((place, line))
            if closes and opened[cluster]:
                start, _ = opened[cluster].pop()
                clusters[cluster].append((start, place + 1))
            elif closes:
                faults.append(f"{where} line {line} closes a mention of {cluster}, none of which is open")
    for cluster, left in opened.items():
        for _, line in left:
            faults.append(f"{where} line {line} opens a mention of {cluster} that the document never closes")
    return Mentions({cluster: spans for cluster, spans in clusters.items() if spans}, faults)
