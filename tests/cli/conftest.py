import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.running import Call, command_runner


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run; modules put their files there."""
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A command in this process, in `folder`."""
    return command_runner(folder, monkeypatch, capsys)


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


Terminal = Callable[[], io.StringIO]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Makes stderr a terminal from then on, and gives what is written to it."""

    def open_terminal() -> io.StringIO:
        screen = _Screen()
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("TERM", "xterm")
        return screen

    return open_terminal
