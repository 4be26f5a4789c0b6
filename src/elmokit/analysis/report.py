"""What an analysis has to show: blocks of text, tables, sentences and pictures, for a terminal or a page.

An analysis gives a `Report`. `show` prints it, `elmokit.analysis.page.write_report` makes files of it, `--json` prints
its figures. No block knows where it will be shown.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | None
"""What a table holds; a number is rounded as its table says, None is an empty cell."""
_LEAST_AROUND, _MOST_AROUND = 12, 60
"""Columns of a terminal on either side of a concordance's word."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first column names the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    decimals: int = 1

    def text_of(self, cell: Cell) -> str:
        """A cell as it is shown."""
        if cell is None:
            return ""
        if isinstance(cell, float):
            return f"{round(cell, self.decimals) + 0.0:.{self.decimals}f}"  # + 0.0: no -0.0
        return str(cell)

    @property
    def numeric_columns(self) -> tuple[bool, ...]:
        """Which columns have numbers, and so are aligned to the right."""
        return tuple(
            any(isinstance(row[column], int | float) for row in self.rows) for column in range(len(self.header))
        )


@dataclass(frozen=True)
class Line:
    """A word in its sentence, and what is to be said of it (a distance, a source)."""

    before: str
    word: str
    after: str
    note: str = ""


@dataclass(frozen=True)
class Concordance:
    """Sentences with a word, one under the other.

    Args:
        caption: what they are.
        lines: the sentences.
        note: the header of what is said of each; empty if nothing is.
    """

    caption: str
    lines: tuple[Line, ...]
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A picture by matplotlib, which is imported only when it is drawn.

    Args:
        name: of the files, without their ending.
        title: above the picture, also where the file is shown alone.
        caption: what it shows, what lines and colors mean and where axes begin; also for readers who cannot see it.
        draw: fills an empty figure.
        size: in inches.
    """

    name: str
    title: str
    caption: str
    draw: "Callable[[Figure], None]"
    size: tuple[float, float] = (8.0, 5.0)


@dataclass(frozen=True)
class Point:
    """An occurrence on a map, the group it belongs to and what pointing at it shows."""

    x: float
    y: float
    group: str
    label: str


@dataclass(frozen=True)
class Map:
    """Occurrences as points in the plane, one color per group; on a page one can point at them.

    Args:
        name: of the files, without their ending.
        title: above the picture.
        caption: what it shows.
        points: the occurrences.
        groups: in the order of the legend; by default as they come.
        palette: colors of the groups, which begin again after the last; by default those of all pictures.
        axes: what the horizontal and the vertical direction are.
    """

    name: str
    title: str
    caption: str
    points: tuple[Point, ...]
    groups: tuple[str, ...] = ()
    palette: tuple[str, ...] = ()
    axes: tuple[str, str] = ("first direction", "second direction")


Block = str | Table | Concordance | Chart | Map
"""A string is a paragraph."""


@dataclass(frozen=True)
class Report:
    """A title, blocks in their order, and the same as plain figures for programs."""

    title: str
    blocks: tuple[Block, ...]
    figures: Mapping[str, Any]


def printable(text: str) -> str:
    """Text from outside without what commands a terminal, breaks XML or cannot be encoded: � stands there instead."""
    return _UNPRINTABLE.sub("\ufffd", text)


def show(report: Report, console: Console) -> None:
    """Print a report; pictures are left out."""
    console.print(_rich_text(report.title, "bold"))
    for block in report.blocks:
        if isinstance(block, str):
            console.print(_rich_text(block))
        elif isinstance(block, Table):
            console.print(_rich_text(block.caption, "italic"))
            console.print(_rich_table(block))
        elif isinstance(block, Concordance):
            console.print(_rich_text(block.caption, "italic"))
            around = _room_around(block, console.width)
            if block.note:
                widest = max((cell_len(line.word) for line in block.lines), default=0)
                before = " " * (2 * around + widest + 2)  # and a blank on each side of the word
                console.print(_rich_text(f"{before}  {block.note}", "dim"), no_wrap=True, overflow="ellipsis")
            for line in block.lines:
                console.print(_rich_line(line, around), no_wrap=True, overflow="ellipsis")


def _rich_text(text: str, style: str = "") -> Text:
    """Text as it is: nothing in it is markup."""
    return Text(printable(text), style=style)


def _rich_table(table: Table) -> RichTable:
    shown = RichTable()
    for name, right in zip(table.header, table.numeric_columns, strict=True):
        shown.add_column(_rich_text(name), justify="right" if right else "left")
    for row in table.rows:
        shown.add_row(*(_rich_text(table.text_of(cell)) for cell in row))
    return shown


def _room_around(block: Concordance, width: int) -> int:
    """Columns on each side of the words that leave room for the longest word and note."""
    notes = max(map(cell_len, (block.note, *(line.note for line in block.lines))))
    longest = notes + max((cell_len(line.word) for line in block.lines), default=0)
    return max(_LEAST_AROUND, min(_MOST_AROUND, (width - longest - 4) // 2))


def _rich_line(line: Line, around: int) -> Text:
    """The word in the middle of the terminal, as concordances have it."""
    before, word, after, note = (
        " ".join(printable(part).split()) for part in (line.before, line.word, line.after, line.note)
    )
    while cell_len(before) > around:
        before = before[1:]
    while cell_len(after) > around:
        after = after[:-1]
    return Text.assemble(
        " " * (around - cell_len(before)) + before,
        " ",
        (word, "bold cyan"),
        " ",
        after + " " * (around - cell_len(after)),
        (f"  {note}", "dim") if note else "",
    )
