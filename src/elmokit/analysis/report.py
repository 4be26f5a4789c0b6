"""The result of an analysis: blocks of text, tables, sentences and plots, for a terminal or a page.

An analysis returns a `Report`. `show` prints it, `elmokit.analysis.page.write_report` writes it to files, `--json`
prints its figures. Blocks do not depend on where they are shown.
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
"""A table cell; numbers are rounded to the table's decimals, None is an empty cell."""
_LEAST_AROUND, _MOST_AROUND = 12, 60
"""Terminal columns on each side of a concordance's word."""
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Table:
    """Rows under a header; the first column names the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    decimals: int = 1

    def text_of(self, cell: Cell) -> str:
        """A cell as text."""
        if cell is None:
            return ""
        if isinstance(cell, float):
            return f"{round(cell, self.decimals) + 0.0:.{self.decimals}f}"  # + 0.0: no -0.0
        return str(cell)

    @property
    def numeric_columns(self) -> tuple[bool, ...]:
        """Which columns contain numbers and are therefore right-aligned."""
        return tuple(
            any(isinstance(row[column], int | float) for row in self.rows) for column in range(len(self.header))
        )


@dataclass(frozen=True)
class Line:
    """A word in its sentence, with a note (a distance, a source)."""

    before: str
    word: str
    after: str
    note: str = ""


@dataclass(frozen=True)
class Concordance:
    """Sentences with a word, one below the other.

    Args:
        caption: the caption of the block.
        lines: the sentences.
        note: the header of the notes; empty if there are none.
    """

    caption: str
    lines: tuple[Line, ...]
    note: str = ""


@dataclass(frozen=True)
class Chart:
    """A matplotlib plot; matplotlib is imported only when it is drawn.

    Args:
        name: name of the files, without suffix.
        title: title above the plot, also in the image file.
        caption: what it shows, what lines and colors mean and where axes start; also for readers who cannot see it.
        draw: draws into an empty figure.
        size: width and height in inches.
    """

    name: str
    title: str
    caption: str
    draw: "Callable[[Figure], None]"
    size: tuple[float, float] = (8.0, 5.0)


@dataclass(frozen=True)
class Point:
    """An occurrence on a map, its group and its tooltip."""

    x: float
    y: float
    group: str
    label: str


@dataclass(frozen=True)
class Map:
    """Occurrences as points in the plane, one color per group; interactive on a page.

    Args:
        name: name of the files, without suffix.
        title: title above the plot.
        caption: what it shows.
        points: the occurrences.
        groups: groups in legend order; by default in order of appearance.
        palette: colors of the groups, repeated if there are more groups; by default the common palette.
        axes: labels of the horizontal and the vertical axis.
    """

    name: str
    title: str
    caption: str
    points: tuple[Point, ...]
    groups: tuple[str, ...] = ()
    palette: tuple[str, ...] = ()
    axes: tuple[str, str] = ("first direction", "second direction")


Block = str | Table | Concordance | Chart | Map
"""A block; a string is a paragraph."""


@dataclass(frozen=True)
class Report:
    """A title, blocks in order, and the same content as plain figures for programs."""

    title: str
    blocks: tuple[Block, ...]
    figures: Mapping[str, Any]


def printable(text: str) -> str:
    """External text with � instead of control characters, invalid XML characters and surrogates."""
    return _UNPRINTABLE.sub("\ufffd", text)


def show(report: Report, console: Console) -> None:
    """Print a report without its plots."""
    console.print(_rich_text(report.title, "bold"))
    for block in report.blocks:
        if isinstance(block, str):
            console.print(_rich_text(block))
        elif isinstance(block, Table):
            print_table(block, console)
        elif isinstance(block, Concordance):
            console.print(_rich_text(block.caption, "italic"))
            around = _room_around(block, console.width)
            if block.note:
                widest = max((cell_len(line.word) for line in block.lines), default=0)
                before = " " * (2 * around + widest + 2)  # and a space on each side of the word
                console.print(_rich_text(f"{before}  {block.note}", "dim"), no_wrap=True, overflow="ellipsis")
            for line in block.lines:
                console.print(_rich_line(line, around), no_wrap=True, overflow="ellipsis")


def print_table(table: Table, console: Console) -> None:
    """Print a table below its caption."""
    console.print(_rich_text(table.caption, "italic"))
    console.print(_rich_table(table))


def _rich_text(text: str, style: str = "") -> Text:
    """Plain text: nothing in it is markup."""
    return Text(printable(text), style=style)


def _rich_table(table: Table) -> RichTable:
    shown = RichTable()
    for name, right in zip(table.header, table.numeric_columns, strict=True):
        shown.add_column(_rich_text(name), justify="right" if right else "left")
    for row in table.rows:
        shown.add_row(*(_rich_text(table.text_of(cell)) for cell in row))
    return shown


def _room_around(block: Concordance, width: int) -> int:
    """Columns on each side of the words, leaving room for the longest word and note."""
    notes = max(map(cell_len, (block.note, *(line.note for line in block.lines))))
    longest = notes + max((cell_len(line.word) for line in block.lines), default=0)
    return max(_LEAST_AROUND, min(_MOST_AROUND, (width - longest - 4) // 2))


def _rich_line(line: Line, around: int) -> Text:
    """The word in the middle of the terminal, as usual in concordances."""
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
