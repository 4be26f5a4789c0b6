"""The inputs of `elmokit task predict`: texts on the command line, by position or by name, or lines of files."""

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import typer

from elmokit.embedding.lines import open_stdin
from elmokit.errors import InputError
from elmokit.progress import ProgressCallback
from elmokit.recognize import TEXTS, mistaken
from elmokit.text.files import find_files, open_text
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.tasks.base import Task

Kind = Literal["text", "tokens", "jsonl"]
STDIN = "-"
_HEAD_LINES = 10
"""A bad line among the first may mean that the file is not text."""
_COMPRESSED = (".gz", ".xz", ".bz2")


@dataclass
class InputReader:
    """Reads the inputs of a task as `TaskPipeline.predict_stream` takes them.

    Lines of files have their number as id, or FILE:LINE if there are several files; blank lines count and are read.
    """

    task: "Task[Any]"
    kind: Kind | None = None
    """How files are read; None: JSON lines if they end in .jsonl, else raw text."""
    skip: bool = False
    """Whether a bad line is named on stderr and left out, instead of stopping."""
    report: ProgressCallback | None = None
    """Receives the number of bytes read and the total, if files are not compressed."""
    num_skipped: int = 0

    def read_arguments(self, texts: Sequence[str], named: Mapping[str, str]) -> Iterator[Any]:
        """Inputs from the command line: any number of examples by position, or one by name."""
        fields = self.task.fields
        wanted = f"{self.task.name} reads {' and '.join(fields)}"
        if named and set(named) != set(fields):
            raise typer.BadParameter(
                f"{wanted}, but this gives {' and '.join(named)}.", param_hint=" ".join(f"--{name}" for name in named)
            )
        given = [named[name] for name in fields] if named else list(texts)
        if len(given) % len(fields):
            raise typer.BadParameter(f"{wanted}, but TEXT has {counted(len(given), 'field')}.", param_hint="TEXT")
        for start in range(0, len(given), len(fields)):
            row = [text.split() if self.kind == "tokens" else text for text in given[start : start + len(fields)]]
            yield dict(zip(fields, row, strict=True))

    def read_files(self, names: Sequence[str]) -> Iterator[Any]:
        """Inputs from files or globs; "-" is standard input."""
        paths = [path for name in names for path in ([STDIN] if name == STDIN else find_files([name]))]
        total = _total_size(paths)
        done = 0
        for path in paths:
            place = "standard input" if path == STDIN else str(path)
            kind = self.kind or ("jsonl" if ".jsonl" in Path(path).suffixes else "text")
            with _opened(path) as lines:
                if self.task.whole_files and kind != "jsonl":
                    yield from self._read_document(lines, place, kind)
                    continue
                for number, line in enumerate(lines, 1):
                    done += len(line.encode("utf-8", "surrogateescape"))
                    if self.report is not None and total:
                        self.report(min(done, total), total)
                    id = number if len(paths) == 1 else f"{place}:{number}"
                    try:
                        item = self._parse(_checked(line), kind)
                    except InputError as error:
                        if number < _HEAD_LINES and path != STDIN and (sentence := mistaken(path, "text", *TEXTS)):
                            raise InputError(sentence) from None
                        self._refuse(f"{place}, line {number}, {error}")
                        continue
                    yield {"id": id, **item}
        if self.num_skipped:
            typer.echo(f"elmokit: skipped {counted(self.num_skipped, 'bad line')}", err=True)

    def _parse(self, line: str, kind: Kind) -> dict[str, Any]:
        fields = self.task.fields
        if kind == "jsonl":
            return self._parse_json(line)
        cells = line.split("\t") if len(fields) > 1 else [line]
        if not line.strip():
            cells = [""] * len(fields)
        if len(cells) != len(fields):
            raise InputError(
                f"has {counted(len(cells), 'field')}, but {self.task.name} reads {' and '.join(fields)}: put a tab "
                "between them."
            )
        return {name: cell.split() if kind == "tokens" else cell for name, cell in zip(fields, cells, strict=True)}

    def _parse_json(self, line: str) -> dict[str, Any]:
        from elmokit.tasks.records import parse_input

        fields = self.task.fields
        if not line.strip():
            return dict.fromkeys(fields, "")
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InputError(
                f"is not a JSON object: give one per line, with {' and '.join(fields)} and, if you like, id."
            )
        names = {"id", "text", "tokens", "sentences", *fields}
        item = {name: value for name, value in found.items() if name in names and value is not None}
        parse_input(item, fields, "the object", split_sentences=self.task.splits_sentences)
        return item

    def _read_document(self, lines: Iterable[str], place: str, kind: Kind) -> Iterator[Any]:
        (field,) = self.task.fields
        try:
            content = [_checked(line, end=True) for line in lines]
        except InputError as error:
            self._refuse(f"{place} {error}")
            return
        yield {
            "id": place,
            field: [tokens for line in content if (tokens := line.split())] if kind == "tokens" else "".join(content),
        }

    def _refuse(self, fault: str) -> None:
        if not self.skip:
            raise InputError(f"{fault.rstrip('.')}; --errors skip leaves such lines out.")
        self.num_skipped += 1
        typer.echo(f"elmokit: skipped: {fault}", err=True)


def check_sources(task: "Task[Any]", names: Collection[str], given: Iterable[object]) -> None:
    """Refuse inputs from no source or from several; `names` are the fields that have an option."""
    if sum(map(bool, given)) != 1:
        named = "".join(f", --{name} …" for name in task.fields if name in names)
        raise typer.BadParameter(
            f"{task.name} reads {' and '.join(task.fields)}: give them as TEXT{named}, or give --input-file.",
            param_hint="TEXT",
        )


def _checked(line: str, *, end: bool = False) -> str:
    """A line, without its end unless `end`; refuses bytes that are not UTF-8."""
    try:
        line.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"is not UTF-8 at character {error.start + 1}: convert it to UTF-8.") from None
    return line if end else line.rstrip("\r\n")


@contextmanager
def _opened(path: str | Path) -> Iterator[TextIO]:
    if path != STDIN:
        with open_text(Path(path), errors="surrogateescape") as lines:
            yield lines
        return
    file = io.TextIOWrapper(open_stdin(), "utf-8", "surrogateescape", newline="\n")
    try:
        yield file
    finally:
        file.detach()  # or standard input would be closed with it


def _total_size(paths: Sequence[str | Path]) -> int:
    """The size of all files; 0 if it is unknown or does not tell how much text there is."""
    plain = [Path(path) for path in paths if path != STDIN and Path(path).suffix not in _COMPRESSED]
    if len(plain) < len(paths) or not all(path.is_file() for path in plain):
        return 0
    return sum(path.stat().st_size for path in plain)
