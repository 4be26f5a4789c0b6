"""The campaign of wrong command lines: each is answered in words, and nothing of the user's changes."""

import shlex
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from tests.campaign.command_row import Row
from tests.campaign.commands import ROWS
from tests.campaign.workspace import build_workspace, snapshot
from tests.running import Call, command_runner

EVERY_THIRD = 3
"""One row of so many runs in `make test`, the others in `make test-rest`."""
SECONDS = 120
"""After so long a command counts as hanging."""


class Workspace:
    """A copy of the template, made again once a command has changed it."""

    def __init__(self, root: Path) -> None:
        self.template, self.folder = root / "template", root / "desk"
        build_workspace(self.template)
        self.restore()
        self.expected = snapshot(self.folder)

    def restore(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.template, self.folder, symlinks=True)
        (self.folder / "hard.txt").unlink()
        (self.folder / "hard.txt").hardlink_to(self.folder / "prose.txt")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("campaign"))


@pytest.fixture
def run(workspace: Workspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("ELMOKIT_DATA", raising=False)
    return command_runner(workspace.folder, monkeypatch, capsys)


@pytest.fixture
def _no_hang() -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"the command ran for {SECONDS} seconds")

    before: Callable[[int, FrameType | None], object] | int | None = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def marked(number: int, row: Row) -> object:
    marks = [pytest.mark.extended] if number % EVERY_THIRD else []
    return pytest.param(row, id=row.line, marks=marks)


def test_the_table_is_large_and_has_no_row_twice() -> None:
    assert len(ROWS) >= 300
    assert len({row.line for row in ROWS}) == len(ROWS)
    assert all(row.words for row in ROWS)


@pytest.mark.usefixtures("_no_hang")
@pytest.mark.parametrize("row", [marked(number, row) for number, row in enumerate(ROWS)])
def test_a_wrong_command_is_answered_and_changes_nothing(row: Row, workspace: Workspace, run: Call) -> None:
    try:
        done = run(*shlex.split(row.line))
        assert done.returncode == row.code, done.stderr or done.stdout
        assert "Traceback" not in done.stderr
        said = " ".join(line.strip(" │╭╮╰╯─") for line in (done.stderr or done.stdout).splitlines())
        if row.code == 1:
            lines = [line for line in done.stderr.splitlines() if not line.startswith("elmokit: warning: ")]
            assert len(lines) == 1 and lines[0].startswith("elmokit: "), done.stderr
        for word in row.words:
            assert word in said, done.stderr
        assert snapshot(workspace.folder) == workspace.expected
    finally:
        if snapshot(workspace.folder) != workspace.expected:
            workspace.restore()
