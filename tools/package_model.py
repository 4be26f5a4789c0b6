"""Put a trained model into the package, as src/elmokit/models/NAME.

    elmokit convert run/model /tmp/mini --float16              the weights that will ship
    …                                                          measure them: results/pretraining/mini.json
    python tools/model_card.py /tmp/mini results/pretraining/mini.json /tmp/card.md
    python tools/package_model.py /tmp/mini --name mini --version 1 --card /tmp/card.md

Rounding to float16 happens once: packaging the rounded model changes no weights, so the figures of the card are those
of the packaged weights. The folder appears only when it is complete.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from elmokit.errors import ElmokitError
from elmokit.formats import load
from elmokit.formats.packaged import NAMES, write_packaged


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
