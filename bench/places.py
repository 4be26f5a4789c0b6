"""Where the checkout and the data are."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("ELMOKIT_DATA") or ROOT.parent / "shared" / "data")
GLOVE = "vectors/glove100-top20k.txt.xz"
"""Below the data directory."""
