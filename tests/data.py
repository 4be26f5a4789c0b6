"""Where real data is, and the mark of tests that need some of it."""

import pytest
from bench.places import DATA

__all__ = ["DATA", "needs_data"]


def needs_data(folder: str) -> pytest.MarkDecorator:
    """Skip a test where this folder of the data is not there."""
    return pytest.mark.skipif(not (DATA / folder).is_dir(), reason="needs the data directory: set ELMOKIT_DATA")
