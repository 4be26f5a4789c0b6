"""JSON lines: one value per line, with the location of each for errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmokit.errors import InputError
from elmokit.text.files import open_text


def read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """Where each value of a file is, `PATH line N`, and the value; blank lines are skipped."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                where = f"{path} line {number}"
                yield where, parse_json(where, line)


def parse_json(where: str, line: str) -> Any:
    """The value of a line."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
        raise InputError(f"{where} is not JSON ({reason}): give one object per line.") from None
