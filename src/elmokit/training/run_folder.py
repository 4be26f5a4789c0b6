"""What the folders of all runs have in common, be it a language model or a task that is trained there."""

import json
import platform
import shutil
from pathlib import Path

import numpy as np
import torch

from elmokit._version import __version__
from elmokit.errors import ConfigError
from elmokit.text.input_kind import INPUTS, Input
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


def input_of_run(output: Path) -> Input | None:
    """How the run in a folder reads its text; None if no run has been begun there."""
    try:
        content = json.loads((output / "run.json").read_text(encoding="utf-8"))
        found = content["config"].get("corpus", {}).get("input", "tokens")  # the default of those days
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return None
    return found if found in INPUTS else None


def versions() -> dict[str, str]:
    """What a run was made with, for its record."""
    return {
        "elmokit": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
