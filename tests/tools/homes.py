"""A small home of the long run: a repository of two files, a little text, and an environment that is this one's."""

import json
import lzma
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.base_parts import git
from tools.base_run import BaseRun

import elmokit
from tests.training.runs import BASE, KINDS, merge, write_sentences

KINDS_OF_TEXT = {"news": 2, "web": 1}
CONFIG = merge(
    merge(BASE, KINDS["sampled"]),
    {
        "num_epochs": 10_000,
        "optimizer": {"kind": "adamw", "schedule": "wsd", "decay_steps": 5, "ema_decay": 0.9, "warmup_steps": 3},
        "loop": {"log_every": 2, "evaluate_every": 20, "checkpoint_every": 10},
    },
)
PROGRAM = """#!{python}
import dataclasses, sys, time
from pathlib import Path

sys.path.insert(0, {source!r})
if sys.argv[1] == "pretrain" and "--finish" not in sys.argv:
    from elmokit.training.step import LanguageModelStep

    original, factor = LanguageModelStep.__call__, float(Path({factor!r}).read_text())

    def call(self, window, number):
        time.sleep({seconds})
        result = original(self, window, number)
        return dataclasses.replace(result, loss=result.loss * factor)

    LanguageModelStep.__call__ = call
from elmokit.cli.main import main

main()
"""
"""Replaces the installed command: a commit of the repository only says by what its losses are multiplied."""


def commit(root: Path, factor: str, note: str) -> str:
    """Add a commit to a repository."""
    (root / "factor").write_text(factor, encoding="utf-8")
    (root / "note").write_text(note, encoding="utf-8")
    git(root, "add", ".")
    git(root, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", note)
    return git(root, "rev-parse", "HEAD")


def make_root(folder: Path) -> Path:
    """A repository with a commit."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    commit(folder, "1.0", "first")
    return folder


def make_data(folder: Path) -> Path:
    """Texts as `tools/base_run.toml` names them."""
    (folder / "lm").mkdir(parents=True)
    for number, kind in enumerate(KINDS_OF_TEXT):
        for part, size in (("0", 20), ("1", 10), ("heldout", 6)):
            text = write_sentences(folder / "text", size, number)
            with lzma.open(folder / "lm" / f"{kind}-{part}.txt.xz", "wb") as file:
                file.write(text.read_bytes())
    return folder


def make_home(folder: Path, seconds: float = 0.0) -> Path:
    """A home whose environment and cache are there already."""
    (folder / "venv/bin").mkdir(parents=True)
    (folder / "cache").mkdir()
    (folder / "venv/installed").touch()
    program, source = folder / "venv/bin/elmokit", str(Path(elmokit.__file__).parents[1])
    factor = str(folder / "checkout/factor")
    text = PROGRAM.format(python=sys.executable, source=source, factor=factor, seconds=seconds)
    program.write_text(text, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def make_settings(path: Path, **more: Any) -> Path:
    """A file of settings for `tools/base_run.py`."""
    config = path.with_name("config.json")
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    values = {"commit": "HEAD", "num_words": 60, "config": str(config), **more}
    shards = "".join(f"{kind} = {number}\n" for kind, number in KINDS_OF_TEXT.items())
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    path.write_text(f"{lines}[shards]\n{shards}", encoding="utf-8")
    return path


def read_settings() -> dict[str, Any]:
    """The same as a dict, for a `BaseRun` that runs nothing."""
    return {"commit": "HEAD", "num_words": 60, "shards": KINDS_OF_TEXT}


class Commands:
    """The command line of `tools/base_run.py` in a home."""

    def __init__(self, home: Path, root: Path, data: Path, settings: Path) -> None:
        self.run = BaseRun(home, read_settings(), root=root, data=data)
        self._options = ["--home", str(home), "--root", str(root), "--settings", str(settings), "--wait", "0"]
        self._variables = os.environ | {"ELMOKIT_DATA": str(data), "OMP_NUM_THREADS": "1"}

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(Path(__file__).parents[2] / "tools/base_run.py"), *self._options, *words]
        return subprocess.run(command, capture_output=True, text=True, env=self._variables, timeout=300)

    def succeed(self, *words: str) -> str:
        """What a command says that must succeed."""
        done = self(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def fail(self, *words: str) -> str:
        """The one sentence of a command that must fail."""
        done = self(*words)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr.strip().splitlines()[-1]

    def wait_for(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first status that is as wanted."""
        for _ in range(3000):
            status = self.run.status()
            if condition(status):
                return status
            assert status["state"] != "stopped", self.run.last_words()
            time.sleep(0.1)
        raise AssertionError(self.run.status())
