"""Checkpoints of a run: one file each, complete or not there."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from elmokit.errors import FormatError
from elmokit.formats._atomic import atomic_path

_NAME = re.compile(r"step-(\d{9})\.pt")


class Checkpoints:
    """The last few checkpoints in a folder.

    They hold tensors, numbers and strings only and are read as such, so that a file can never run code.
    """

    def __init__(self, directory: Path, *, keep: int) -> None:
        self.directory = directory
        self.keep = keep

    def find(self) -> list[tuple[int, Path]]:
        """The checkpoints that are there, by step, oldest first."""
        if not self.directory.is_dir():
            return []
        named = ((_NAME.fullmatch(path.name), path) for path in self.directory.iterdir())
        return sorted((int(match[1]), path) for match, path in named if match)

    def save(self, step: int, content: Mapping[str, Any]) -> Path:
        """Write a checkpoint, then delete those that are too many; a failure leaves the earlier ones as they were."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"step-{step:09d}.pt"
        with atomic_path(path) as temporary:
            torch.save(dict(content), temporary)
        for _, old in self.find()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def load_last(self) -> dict[str, Any] | None:
        """The newest checkpoint, None if there is none."""
        found = self.find()
        return None if not found else load_checkpoint(found[-1][1])


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # torch has no error of its own for a file that is not a checkpoint
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise FormatError(
            f"{path} is not a checkpoint ({reason}): delete it, so that the run resumes from the one before."
        ) from None
    if not isinstance(content, dict) or "step" not in content:
        raise FormatError(f"{path} is not a checkpoint of a training run: delete it.")
    return content
