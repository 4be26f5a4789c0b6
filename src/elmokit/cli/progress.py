"""Progress bars for work that is counted in items."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from elmokit.progress import ProgressCallback

if TYPE_CHECKING:
    from rich.progress import Progress as Display


@contextmanager
def progress_bar(
    what: str, *, only_under_way: bool = False, beside_output: bool = False
) -> Iterator[ProgressCallback | None]:
    """A bar on stderr if that is a terminal, None elsewhere.

    Args:
        what: the label of the bar.
        only_under_way: hide the bar before the first item and after the last, for use next to another bar.
        beside_output: results are printed meanwhile, so show no bar if stdout is a terminal too.
    """
    if not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
        yield None
        return
    with _display() as display:
        yield add_bar(display, what, only_under_way=only_under_way)


@contextmanager
def progress_bars(*steps: str) -> Iterator[tuple[ProgressCallback | None, ...]]:
    """One bar per step, shown while the step is running; None for each without a terminal."""
    if not sys.stderr.isatty():
        yield (None,) * len(steps)
        return
    with _display() as display:
        yield tuple(add_bar(display, step, only_under_way=True) for step in steps)


def add_bar(display: "Display", what: str, *, only_under_way: bool = False) -> ProgressCallback:
    """Add a bar to a display."""
    number = display.add_task(what, total=None, visible=not only_under_way)

    def report(done: int, total: int) -> None:
        display.update(number, completed=done, total=total, visible=done < total or not only_under_way)

    return report


def _display() -> "Display":
    from rich.console import Console
    from rich.progress import Progress as Display

    return Display(console=Console(stderr=True), transient=True)
