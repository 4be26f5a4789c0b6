"""The models inside the package: loaded by name, offline, and checked against their packaged SHA-256 sums.

Each is a native folder `models/NAME` with float16 weights, its card (`README.md`) and `sums.json`: name, version,
fingerprint and the SHA-256 of every other file. The sums detect damage, such as a missing or edited file; they are
stored beside the files, so they do not protect against deliberate changes.
"""

import difflib
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmokit.errors import ElmokitWarning, FormatError
from elmokit.text.files import file_sha256

FOLDER = Path(__file__).parents[1] / "models"
NAMES = ("mini",)
CARD, SUMS = "README.md", "sums.json"
_REMEDY = "`pip install --force-reinstall --no-deps elmokit` brings it back, in a checkout restore the folder"


@dataclass(frozen=True)
class PackagedModel:
    """A model of the package, verified by its sums."""

    name: str
    version: str
    """Version of the model with this name; it changes whenever the weights change."""
    fingerprint: str
    """`elmokit.formats.fingerprint` of the loaded model."""
    path: Path
    files: dict[str, str]
    """SHA-256 of each file except `sums.json`."""

    @property
    def card(self) -> str:
        """The model card's text, without its header."""
        text = (self.path / CARD).read_text(encoding="utf-8")
        return re.sub(r"\A---\n.*?^---\n", "", text, count=1, flags=re.DOTALL | re.MULTILINE).strip() + "\n"

    @property
    def card_metadata(self) -> dict[str, Any]:
        """The card's YAML header, as the Hub reads it."""
        from huggingface_hub import metadata_load

        return metadata_load(self.path / CARD) or {}


def find_packaged(name: str) -> PackagedModel | None:
    """Look up a packaged model by name, ignoring case, and check its files.

    Returns:
        The model, or None if no packaged model has this name.

    Raises:
        FormatError: if a file is missing or has changed.
    """
    key = name.strip().lower()
    if key not in NAMES:
        return None
    model = read_sums(key)
    for file, expected in model.files.items():
        try:
            found = file_sha256(model.path / file)
        except OSError as error:
            raise FormatError(
                f"{model.path / file} of the packaged model {key} cannot be read ({error.strerror}): {_REMEDY}."
            ) from None
        if found != expected:
            raise FormatError(
                f"{model.path / file} is not the file that was packaged (SHA-256 {found[:12]}…, expected "
                f"{expected[:12]}…): {_REMEDY}."
            )
    return model


def warn_of_shadow(source: str | Path) -> None:
    """Warn if a file or folder in the working directory has the name of a packaged model and is used instead."""
    if isinstance(source, str) and source in NAMES:
        warnings.warn(
            f"{source} is read from the working directory ({Path(source).resolve()}), which hides the packaged model "
            f"of that name: write ./{source} to mean yours, or {FOLDER / source} to get the packaged one.",
            ElmokitWarning,
            stacklevel=5,
        )


def suggest(name: str) -> list[str]:
    """Packaged models that `name` may have meant."""
    return difflib.get_close_matches(name.strip().lower(), NAMES, cutoff=0.7)


def read_sums(name: str) -> PackagedModel:
    """The packaged model of a name, without a check of its files."""
    from elmokit.formats import native  # loads torch, which is needed only for packaged names

    path = FOLDER / name
    if not path.is_dir():
        raise FormatError(
            f"the packaged model {name} is not in this installation (no folder {path}): {_REMEDY}, or name another "
            "model."
        )
    try:
        sums = json.loads((path / SUMS).read_text(encoding="utf-8"))
        model = PackagedModel(name, sums["version"], sums["fingerprint"], path, dict(sums["sha256"]))
        whole = sums["name"] == name and {native.CONFIG, native.WEIGHTS, CARD} <= model.files.keys()
    except (OSError, ValueError, TypeError, KeyError):
        whole = False
    if not whole:
        raise FormatError(f"{path / SUMS} of the packaged model {name} is missing or damaged: {_REMEDY}.")
    return model
