"""Commands in this process: a new one takes seconds to load torch."""

import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from elmokit.cli.main import main

Done = subprocess.CompletedProcess[str]
Call = Callable[..., Done]


def command_runner(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """What runs `elmokit` with words in a folder, and gives its exit code, stdout and stderr."""

    def call(*words: str, stdin: str = "") -> Done:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "140")
        monkeypatch.setattr(sys, "argv", ["elmokit", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main sets it
        with pytest.raises(SystemExit) as done:
            main()
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(done.value.code or 0), captured.out, captured.err)

    return call


def assert_one_line(done: Done, *words: str, code: int = 1) -> None:
    """A command failed, and said why in one line that has these words; wrong usage (code 2) has more lines."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "Traceback" not in done.stderr
    if code == 1:
        assert done.stderr.startswith("elmokit: ") and done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def assert_help_has_examples(run: Call, *command: str) -> None:
    """The help of a command ends with examples that call it."""
    done = run(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"elmokit {' '.join(command)} " in done.stdout.partition("Examples:")[2]
    assert "\\b" not in done.stdout
