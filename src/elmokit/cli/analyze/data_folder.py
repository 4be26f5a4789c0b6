"""The default location of an analysis's data."""

import os
from pathlib import Path

import typer


def find_data(given: Path | None, place: str) -> Path:
    """The given folder, or the default one inside $ELMOKIT_DATA."""
    root = os.environ.get("ELMOKIT_DATA")
    if given is None and not root:
        raise typer.BadParameter(
            f"name the folder of the data, or set ELMOKIT_DATA to a folder that has {place}.", param_hint="--data"
        )
    folder = given if given is not None else Path(root or "", place)
    if not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder.", param_hint="--data")
    return folder
