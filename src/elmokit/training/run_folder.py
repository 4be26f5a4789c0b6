"""What the folders of all runs have in common, be it a language model or a task that is trained there."""

import platform
import shutil
from pathlib import Path

import numpy as np
import torch

from elmokit._version import __version__
from elmokit.errors import ConfigError
from elmokit.training.checkpoint import Checkpoints


def refuse_second_run(output: Path, checkpoints: Checkpoints) -> None:
    """Refuse to begin a run in a folder that holds one, finished or not."""
    if checkpoints.find() or (output / "result.json").exists():
        raise ConfigError(
            f"{output} holds a run already: repeat the command with --resume to go on with it, or give another "
            "--output."
        )


def remove_leftovers(output: Path) -> None:
    """Remove what a kill has left half-written."""
    for path in output.glob(".*.tmp"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def versions() -> dict[str, str]:
    """What a run was made with, for its record."""
    return {
        "elmokit": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
