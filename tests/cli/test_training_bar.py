"""What a person at a terminal sees of a training run."""

import io
import sys
from pathlib import Path

import pytest

from elmokit.cli.progress import training_bar
from elmokit.training.loop import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_step_is_beyond_the_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of steps is an estimate: the rows of text that end last may take a few more."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with training_bar(Path("run")) as bar:
        assert bar.report is not None
        bar.report(Progress(num_steps=36, step=36), {"loss": 1.0})
        bar.report(Progress(num_steps=36, step=37), {"loss": 1.0})
    assert "step 37/37" in terminal.getvalue()
    assert "37/36" not in terminal.getvalue()
