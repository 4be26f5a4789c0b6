"""Checkpoints of a run: one file each, complete or not there."""

import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from elmokit.errors import ElmokitError, FormatError
from elmokit.filesystem import atomic_path

_NAME = re.compile(r"step-(\d{9})\.pt")
_KEYS = frozenset(("identity", "model", "optimizer", "batches", "step_state", "progress", "rng", "log_entries"))


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
        path = self.directory / f"step-{step:09d}.pt"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for leftover in self.directory.glob(".step-*.tmp*"):  # of a run that was killed while it wrote
                leftover.unlink(missing_ok=True)
            with atomic_path(path) as temporary, temporary.open("wb") as file:
                torch.save(dict(content), file)
        except (OSError, RuntimeError) as error:  # torch wraps the system's error in one of its own
            cause = error if isinstance(error, OSError) else error.__context__
            reason = cause.strerror if isinstance(cause, OSError) else _first_line(error)
            raise ElmokitError(
                f"checkpoint {path} cannot be written ({reason}); those before it are whole: free some space or put "
                "right what is in the way, then repeat the command with --resume."
            ) from None
        for _, old in self.find()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def load_last(self) -> dict[str, Any] | None:
        """The newest checkpoint, None if there is none."""
        found = self.find()
        return None if not found else load_checkpoint(found[-1][1])


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint, whose every byte is checked."""
    remedy = "delete it, so that the run resumes from the one before, or begins anew if there is none."
    try:
        with zipfile.ZipFile(path) as archive:  # torch itself does not compare the checksums that it wrote
            if (damaged := archive.testzip()) is not None:
                raise FormatError(f"{path} is damaged (in {damaged}): {remedy}")
        content = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    except FormatError:
        raise
    except Exception as error:  # neither library has one error for all that can be wrong with a file
        raise FormatError(f"{path} is damaged or no checkpoint ({_first_line(error)}): {remedy}") from None
    if not isinstance(content, dict) or not content.keys() >= _KEYS:
        raise FormatError(f"{path} is not a checkpoint of this version of elmokit: {remedy}")
    return content


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
