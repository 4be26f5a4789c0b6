"""A plain bar for work that is counted in pieces."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], None]
"""Receives how much of how much is done."""


@contextmanager
def progress_bar(what: str, *, only_under_way: bool = False, beside_output: bool = False) -> Iterator[Progress | None]:
    """A bar on stderr if that is a terminal, None elsewhere.

    Args:
        what: is being done.
        only_under_way: leave the bar out before the first piece and after the last, beside another bar.
        beside_output: results are printed meanwhile, so there is no bar if these go to a terminal too.
    """
    if not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Display

    with Display(console=Console(stderr=True), transient=True) as display:
        number = display.add_task(what, total=None, visible=not only_under_way)

        def report(done: int, total: int) -> None:
            display.update(number, completed=done, total=total, visible=done < total or not only_under_way)

        yield report
