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
