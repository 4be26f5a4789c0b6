"""Put a trained model into the package, as src/elmokit/models/NAME.

    elmokit convert run/model /tmp/mini --float16              the weights that will ship
    …                                                          measure them: results/pretraining/mini.json
    python tools/model_card.py /tmp/mini results/pretraining/mini.json /tmp/card.md
    python tools/package_model.py /tmp/mini --name mini --version 1 --card /tmp/card.md

Rounding to float16 happens once: packaging the rounded model changes no weights, so the figures of the card are those
of the packaged weights. The folder appears only when it is complete.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from elmokit.errors import ConfigError, ElmokitError, FormatError
from elmokit.filesystem import atomic_directory
from elmokit.formats import load, native, packaged
from elmokit.formats.packaged import CARD, NAMES, SUMS, PackagedModel, read_sums
from elmokit.formats.parts import assemble, fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.files import file_sha256

MAX_BYTES = 35_000_000
"""Maximum size of a packaged model, which everyone who installs elmokit downloads."""
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")


def write_packaged(bilm: BiLM, *, name: str, version: str, card: str, overwrite: bool = False) -> PackagedModel:
    """Add a model to the package atomically, rounded to float16, with its card and sums.

    Args:
        bilm: the model; it must have a softmax, for the commands that predict words.
        name: one of `NAMES`.
        version: a number such as "1".
        card: the model card; it must name the fingerprint of the rounded weights, so that its figures refer to them.
        overwrite: replace an existing model with this name.
    """
    if name not in NAMES:
        raise ConfigError(
            f"{name!r} is not the name of a packaged model: choose {', '.join(NAMES)}, or add it to NAMES."
        )
    if not _VERSION.fullmatch(version):
        raise ConfigError(f"version {version!r} is not a version number: give a number such as 1 or 1.2.")
    if not bilm.config.softmax:
        raise ConfigError("the model has no softmax, so score and finetune would not work: give one that kept it.")
    packaged.FOLDER.mkdir(exist_ok=True)
    with atomic_directory(packaged.FOLDER / name, overwrite=overwrite) as directory:
        native.write(bilm, directory, float16=True)
        own_fingerprint = fingerprint(assemble(native.read(directory), origin=str(directory)))
        if own_fingerprint not in card:
            raise FormatError(
                f"the card does not name the fingerprint {own_fingerprint} of the float16 weights: make it from "
                "results of the model that `elmokit convert --float16` writes."
            )
        (directory / CARD).write_text(card, encoding="utf-8", newline="\n")
        files = {path.name: file_sha256(path) for path in sorted(directory.iterdir())}
        sums = {"name": name, "version": version, "fingerprint": own_fingerprint, "sha256": files}
        (directory / SUMS).write_text(json.dumps(sums, indent=2) + "\n", encoding="utf-8", newline="\n")
        size = sum(path.stat().st_size for path in directory.iterdir())
        if size > MAX_BYTES:
            raise FormatError(
                f"the model takes {size / 1e6:.1f} MB, but a packaged one may take {MAX_BYTES / 1e6:.0f} MB: give a "
                "smaller one."
            )
    return read_sums(name)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a foreseen failure is one sentence and exit code 1."""
    parser = argparse.ArgumentParser(description="Put a trained model into the package.")
    parser.add_argument("model", help="a model of any format, with its softmax")
    parser.add_argument("--name", required=True, choices=NAMES)
    parser.add_argument("--version", required=True, help="a number such as 1; new weights need a new version")
    parser.add_argument("--card", required=True, type=Path, help="the card that tools/model_card.py wrote")
    parser.add_argument("--overwrite", action="store_true", help="replace the packaged model of this name")
    given = parser.parse_args(arguments)
    try:
        card = given.card.read_text(encoding="utf-8")
        model = write_packaged(
            load(given.model), name=given.name, version=given.version, card=card, overwrite=given.overwrite
        )
    except (ElmokitError, OSError) as error:
        sys.exit(f"package_model: {error}")
    size = sum(path.stat().st_size for path in model.path.iterdir())
    print(f"{model.path}: version {model.version}, {size / 1e6:.1f} MB, fingerprint {model.fingerprint}")


if __name__ == "__main__":
    main()
