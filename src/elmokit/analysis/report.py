"""What an analysis has to show: blocks of text, tables, sentences and pictures, for a terminal or a page.

An analysis gives a `Report`. `show` prints it, `elmokit.analysis.page.write_report` makes files of it, `--json` prints
its figures. No block knows where it will be shown.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | None
"""What a table holds; a number is rounded as its table says, None is an empty cell."""
_WORDS_AROUND = 45


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
        return f"{cell:.{self.decimals}f}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Line:
    """A word in its sentence, and what is to be said of it (a distance, a source)."""

    before: str
    word: str
    after: str
    note: str = ""


@dataclass(frozen=True)
class Concordance:
    """Sentences with a word, one under the other."""

    caption: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Chart:
    """A picture by matplotlib, which is imported only when it is drawn.

    Args:
        name: of the files, without their ending.
        caption: what it shows; also for readers who cannot see it.
        draw: fills an empty figure.
        size: in inches.
    """

    name: str
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
    """Occurrences as points in the plane, a colour a group; on a page one can point at them."""

    name: str
    caption: str
    points: tuple[Point, ...]


Block = str | Table | Concordance | Chart | Map
"""A string is a paragraph."""


@dataclass(frozen=True)
class Report:
    """A title, blocks in their order, and the same as plain figures for programs."""

    title: str
    blocks: tuple[Block, ...]
    figures: Mapping[str, Any]


def show(report: Report, console: Console) -> None:
    """Print a report; pictures are left out."""
    console.print(Text(report.title, style="bold"))
    for block in report.blocks:
        if isinstance(block, str):
            console.print(Text(block))
        elif isinstance(block, Table):
            console.print(_rich_table(block))
        elif isinstance(block, Concordance):
            console.print(Text(block.caption, style="italic"))
            for line in block.lines:
                console.print(_rich_line(line))


def _rich_table(table: Table) -> RichTable:
    shown = RichTable(title=table.caption, title_justify="left", title_style="italic")
    numeric = [
        any(isinstance(row[column], int | float) for row in table.rows) for column in range(len(table.header))
    ]  # one a column
    for name, right in zip(table.header, numeric, strict=True):
        shown.add_column(Text(name), justify="right" if right else "left")
    for row in table.rows:
        shown.add_row(*(Text(table.text_of(cell)) for cell in row))
    return shown


def _rich_line(line: Line) -> Text:
    """The word in the middle of the terminal, as concordances have it."""
    before = " ".join(line.before.split())[-_WORDS_AROUND:].rjust(_WORDS_AROUND)
    after = " ".join(line.after.split())[:_WORDS_AROUND].ljust(_WORDS_AROUND)
    note = (f"  {line.note}", "dim") if line.note else ""
    return Text.assemble(before, " ", (line.word, "bold cyan"), " ", after, note, no_wrap=True, overflow="ellipsis")
