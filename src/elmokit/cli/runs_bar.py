"""The display of several parallel runs: how many are done, and the progress of the others."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elmokit.cli.progress import add_bar
from elmokit.progress import ProgressCallback

_TAIL_BYTES = 16_384
"""Bytes read from the end of a log: usually more than the entries since the last evaluation."""


@contextmanager
def runs_bar(folders: Sequence[Path], metric: str) -> Iterator[ProgressCallback | None]:
    """Bars for all runs and for the embedding before them, and one line per active run; None without a terminal.

    The runs are other processes, so the display reads their logs.

    Args:
        folders: the folders of all runs, done or not.
        metric: the figure to show.

    Yields:
        The callback for the progress of embedding.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console, RenderableType
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Display
    from rich.text import Text

    class _Runs(Display):
        def get_renderables(self) -> Iterator[RenderableType]:
            for task in self.tasks[:1]:
                task.completed = sum(is_done(folder) for folder in folders)
            yield from super().get_renderables()
            for folder in folders:
                if state := describe_run(folder, metric):
                    yield Text(f"{folder.name}: {state}")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    display = _Runs(*columns, console=Console(stderr=True), transient=True, refresh_per_second=2)
    display.add_task("runs", total=len(folders))
    with display:
        yield add_bar(display, "embedding", only_under_way=True)


def is_done(folder: Path) -> bool:
    """Whether a run has finished successfully."""
    return (folder / "result.json").exists()


def describe_run(folder: Path, metric: str) -> str | None:
    """The progress of a run, from the end of its log; None if it has not started or is done."""
    if is_done(folder):
        return None
    entries = _read_tail(folder / "log.jsonl")
    if not entries:
        return None
    figures = [entry[f"heldout_{metric}"] for entry in entries if f"heldout_{metric}" in entry]
    dev = f", dev {metric} {figures[-1]:.2f}" if figures else ""
    return f"step {entries[-1]['step']:,}{dev}"


def _read_tail(path: Path) -> list[dict[str, Any]]:
    """The last complete entries of a log that another process may be writing."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")[int(size > _TAIL_BYTES) : -1]
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
