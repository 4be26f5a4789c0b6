"""The input of `elmokit task predict`: texts on the command line, by position or by name, or files."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.tasks.base import Task

Row = tuple[str, ...]
"""One text per field of a task."""


def read_rows(
    task: "Task[Any]", texts: list[str] | None, named: Mapping[str, str | None], files: list[str] | None
) -> list[Row]:
    """The rows to predict for.

    Args:
        task: the task, whose fields are expected.
        texts: texts given by position.
        named: texts given by name.
        files: files of rows, or of whole texts for a task that reads those.
    """
    given = {name: text for name, text in named.items() if text is not None}
    wanted = f"{task.name} reads {' and '.join(task.fields)}"
    if sum(map(bool, (texts, given, files))) != 1:
        options = "".join(f", --{name} …" for name in task.fields if name in named)
        raise typer.BadParameter(f"{wanted}: give them as TEXT{options}, or give --input-file.", param_hint="TEXT")
    if given:
        if set(given) != set(task.fields):
            raise typer.BadParameter(
                f"{wanted}, but this gives {' and '.join(given)}.", param_hint=" ".join(f"--{name}" for name in given)
            )
        return [tuple(given[name] for name in task.fields)]
    rows = [("TEXT", tuple(texts))] if texts else list(_read_files(task, files or []))
    for place, row in rows:
        if len(row) != len(task.fields):
            raise typer.BadParameter(f"{wanted}, but {place} has {counted(len(row), 'field')}.", param_hint="TEXT")
    return [row for _, row in rows]


def _read_files(task: "Task[Any]", names: list[str]) -> Iterator[tuple[str, Row]]:
    from elmokit.text.files import find_files, open_text

    for name in names:
        if name == "-":
            yield from _rows(task, "stdin", sys.stdin)
        else:
            for path in find_files([name]):
                with open_text(path) as lines:
                    yield from _rows(task, str(path), lines)


def _rows(task: "Task[Any]", name: str, lines: Iterable[str]) -> Iterator[tuple[str, Row]]:
    if task.whole_files:
        yield name, ("".join(lines),)
        return
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{name}, line {number},", tuple(line.rstrip("\r\n").split("\t"))
