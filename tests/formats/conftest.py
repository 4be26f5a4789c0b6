from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.formats.loopback import LoopbackServer, isolate, serve_models


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """A cache of one's own, and downloads that try again without waiting: how long each would have waited."""
    return isolate(monkeypatch, tmp_path)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A server of published models."""
    with serve_models() as running:
        yield running
