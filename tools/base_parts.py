"""What the run of `base` needs before it can start: checkout, environment, native library, tokenized text, word list.

All of it is in one folder outside the work tree. Each part appears only when it is complete, so making them
can be interrupted and repeated at any time.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Failure(Exception):
    """A sentence for the user."""


def say(line: str) -> None:
    """A line for the user."""
    print(f"base_run: {line}", file=sys.stderr, flush=True)


def call(*command: str, env: dict[str, str] | None = None) -> None:
    """Run a program that must succeed."""
    done = subprocess.run(command, env=env)
    if done.returncode:
        raise Failure(f"{' '.join(command[:4])} … failed with exit code {done.returncode}: see above.")


def git(folder: Path, *words: str) -> str:
    """What git says in a folder."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"git {' '.join(words)} failed in {folder}: {done.stderr.strip() or 'it does not say why'}")
    return done.stdout.strip()


class Parts:
    """The folder and its parts.

    Args:
        home: the folder.
        settings: the contents of `tools/base_run.toml`.
        root: the work tree that provides the commits.
        data: the folder that contains `lm` with the texts.
    """

    def __init__(self, home: Path, settings: Mapping[str, Any], *, root: Path, data: Path) -> None:
        self.home, self.settings, self.root, self.data = home, settings, root, data
        self.checkout, self.environment, self.cache = home / "checkout", home / "venv", home / "cache"
        self.shards, self.heldout, self.words = home / "shards", home / "heldout", home / "words.txt"
        self.pin = home / "commit"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second command from making or starting anything meanwhile."""
        self.home.mkdir(parents=True, exist_ok=True)
        with (self.home / "lock").open("w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failure(f"another command is at work in {self.home}: wait until it has ended.") from None
            yield

    def prepare(self) -> None:
        """Make every missing part."""
        self._pin_commit()
        self._make(self.checkout, self._clone)
        self._install()
        self._check_code()
        for target, sources in ((self.shards, "[0-9]*"), (self.heldout, "heldout")):
            self._make(target, lambda folder, sources=sources: self._shard(folder, sources))
        if not self.words.exists():
            say("counting words")
            arguments = ["--output", str(self.words), "--max-size", str(self.settings["num_words"])]
            self.elmokit("corpus", "vocab", str(self.shards / "*/shard-*.txt"), *arguments)
        self._check_shards()

    def commit(self) -> str:
        """The commit whose code is used."""
        return self.pin.read_text(encoding="utf-8").strip()

    def _pin_commit(self) -> None:
        """Record the hash of the commit that is used, because HEAD changes."""
        named = self.commit() if self.pin.exists() else str(self.settings["commit"])
        if not re.fullmatch(r"[0-9a-f]{40}", named) or not self.pin.exists():
            source, name = (self.checkout, "HEAD") if self.checkout.exists() else (self.root, named)
            self.write(self.pin, git(source, "rev-parse", "--verify", f"{name}^{{commit}}") + "\n")

    def write(self, path: Path, text: str) -> None:
        """Write a small file atomically."""
        half = path.with_name(f"{path.name}.half")
        half.write_text(text, encoding="utf-8")
        half.replace(path)

    def _make(self, target: Path, build: Callable[[Path], None]) -> None:
        """Build a folder under a temporary name, so that an incomplete one is never used."""
        if target.exists():
            return
        say(f"making {target.name}")
        half = target.with_name(f"{target.name}.half")
        shutil.rmtree(half, ignore_errors=True)
        build(half)
        half.rename(target)

    def _clone(self, folder: Path) -> None:
        call("git", "clone", "--quiet", "--no-checkout", str(self.root), str(folder))
        git(folder, "checkout", "--quiet", self.commit())

    def _check_code(self) -> None:
        """Restore the checkout after an interrupted move."""
        if git(self.checkout, "rev-parse", "HEAD") != self.commit():
            self.use(self.commit())

    def use(self, commit: str) -> None:
        """Check out a commit, and build its native library."""
        if git(self.checkout, "rev-parse", "HEAD") != commit:
            git(self.checkout, "fetch", "--quiet", str(self.root), commit)
            git(self.checkout, "checkout", "--quiet", "--force", commit)
        if (script := self.checkout / "src/elmokit/native/build.py").exists():
            call(str(self.environment / "bin/python"), str(script))

    def _install(self) -> None:
        """Make the environment; it cannot be renamed, so a marker file shows that it is complete."""
        mark = self.environment / "installed"
        if mark.exists():
            return
        say("making venv")
        shutil.rmtree(self.environment, ignore_errors=True)
        call(sys.executable, "-m", "venv", str(self.environment))
        pip = [str(self.environment / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--constraint", str(self.checkout / "constraints.txt")]
        call(*pip, "torch")
        call(*pip, "--editable", str(self.checkout))
        mark.touch()

    def _shard(self, folder: Path, sources: str) -> None:
        """Tokenize each kind of text separately, so that the stream can mix them in any proportion."""
        folder.mkdir()
        for kind, number in self.settings["shards"].items():
            count = number if sources != "heldout" else 1
            arguments = ["--output", str(folder / kind), "--shards", str(count), "--compression", "none"]
            self.elmokit("corpus", "shard", str(self.data / "lm" / f"{kind}-{sources}.txt.xz"), *arguments)

    def _check_shards(self) -> None:
        """Compare the text with the sums that were recorded when it was made."""
        for folder in (self.shards, self.heldout):
            for kind in self.settings["shards"]:
                record = folder / kind / "corpus.json"
                if not record.exists():
                    raise Failure(f"{record} is missing: delete {folder} and start again.")
                for shard in json.loads(record.read_text(encoding="utf-8"))["shards"]:
                    path = record.parent / shard["name"]
                    if not path.exists() or _sha256(path) != shard["sha256"]:
                        raise Failure(f"{path} is not what it was when it was made: delete {folder} and start again.")

    def variables(self) -> dict[str, str]:
        """The environment variables of its processes: the pinned code, and waiting threads do not use the cores."""
        own = {"ELMOKIT_CACHE": str(self.cache), "OMP_WAIT_POLICY": "PASSIVE"}
        return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own

    def elmokit(self, *arguments: str) -> None:
        """Run a command of the pinned elmokit."""
        call(str(self.environment / "bin/elmokit"), *arguments, env=self.variables())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
