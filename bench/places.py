"""Where the checkout, the data and the fixtures are; benchmarks, tools and tests look here."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
SHARED = ROOT.parent / "shared"
"""The default folder for data and fixtures, unless the environment names another; docs/data.md lists its files."""
DATA = Path(os.environ.get("ELMOKIT_DATA") or SHARED / "data")
FIXTURES = Path(os.environ.get("ELMOKIT_FIXTURES") or SHARED / "fixtures")
GLOVE = "vectors/glove100-top20k.txt.xz"
"""Below the data directory."""
