"""The log of a run: one line of JSON per entry, in a file to which a resumed run appends."""

import json
import os
from pathlib import Path
from typing import Any

from elmokit.errors import ElmokitError
from elmokit.filesystem import naming_destination, write_text_atomic


class RunLog:
    """Appends entries, after `rewind` has set how many to keep.

    Attributes:
        num_entries: entries so far. Checkpoints store it, and a run that resumes from one drops later entries.
    """

    def __init__(self, path: Path, *, tensorboard: bool = False) -> None:
        self.path = path
        self.num_entries = 0
        self._writer_class = _import_tensorboard() if tensorboard else None
        self._writer: Any = None

    def rewind(self, num_entries: int) -> None:
        """Keep the first `num_entries` entries and drop later ones, including a line that was cut off by a kill."""
        kept = self._lines()[:num_entries]
        write_text_atomic(self.path, "".join(f"{line}\n" for line in kept))
        self.num_entries = len(kept)
        if self._writer_class is not None:
            last = json.loads(kept[-1])["step"] if kept else -1
            self._writer = self._writer_class(str(self.path.parent / "tensorboard"), purge_step=last + 1)

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        return self.path.read_text(encoding="utf-8").split("\n")[:-1]  # the text after the last line end is incomplete

    def write(self, entry: dict[str, Any]) -> None:
        """Append an entry, which has a `step`."""
        with naming_destination(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self.num_entries += 1
        if self._writer is not None:
            for name, value in entry.items():
                if isinstance(value, int | float) and name != "step":
                    self._writer.add_scalar(name, value, entry["step"])

    def sync(self) -> None:
        """Flush all entries to disk; must happen before a checkpoint relies on them."""
        with naming_destination(self.path), self.path.open("a", encoding="utf-8") as file:
            os.fsync(file.fileno())
        if self._writer is not None:
            self._writer.flush()

    def read(self) -> list[dict[str, Any]]:
        """All entries."""
        return [json.loads(line) for line in self._lines()]

    def close(self) -> None:
        """Close the TensorBoard files."""
        if self._writer is not None:
            self._writer.close()


def _import_tensorboard() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ElmokitError('TensorBoard is not installed: run pip install "elmokit[track]", or leave it out.') from None
    return SummaryWriter
