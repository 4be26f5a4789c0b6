"""A run's log: a line of JSON for every entry, in a file that a resumed run goes on with."""

import json
from pathlib import Path
from typing import Any

from elmokit.errors import ElmokitError
from elmokit.formats._atomic import write_text_atomic


class RunLog:
    """Appends entries; on resuming it forgets those after the checkpoint, because they are made again."""

    def __init__(self, path: Path, *, tensorboard: bool = False) -> None:
        self.path = path
        self._writer = _tensorboard(path.parent) if tensorboard else None

    def rewind(self, step: int) -> None:
        """Keep entries up to a step; a line that was cut off by a kill goes too."""
        kept = [line for line in self._lines() if json.loads(line)["step"] <= step]
        write_text_atomic(self.path, "".join(f"{line}\n" for line in kept))

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]  # what follows the last line end is half a line
        return [line for line in lines if line]

    def write(self, entry: dict[str, Any]) -> None:
        """Append an entry, which has a `step`."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        if self._writer is not None:
            for name, value in entry.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(name, value, entry["step"])

    def read(self) -> list[dict[str, Any]]:
        """All entries."""
        return [json.loads(line) for line in self._lines()]


def _tensorboard(directory: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ElmokitError('TensorBoard is not installed: run pip install "elmokit[track]", or leave it out.') from None
    return SummaryWriter(str(directory / "tensorboard"))
