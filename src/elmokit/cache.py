"""The folder for files that elmokit can download or build again: models and the compiled cell."""

import os
from pathlib import Path


def cache_directory() -> Path:
    """`$ELMOKIT_CACHE`, else `$XDG_CACHE_HOME/elmokit`, else `~/.cache/elmokit`."""
    if own := os.environ.get("ELMOKIT_CACHE"):
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base).expanduser() if base else Path.home() / ".cache") / "elmokit"
