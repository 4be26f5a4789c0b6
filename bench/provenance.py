"""Where a result comes from: the command, a commit without changes, the versions and the processor.

A script calls `provenance` before it measures, so that it does not measure for hours what it cannot record.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import elmokit
from bench.places import DATA, FIXTURES, ROOT

CODE = ("src", "bench", "tests", "tools", "pyproject.toml", "constraints.txt", ":!*.md")
"""Paths that figures depend on. Results, documents and pictures may be uncommitted: several are written in a row."""

SWITCHES = ("ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR", "OMP_NUM_THREADS")
"""Variables that make a processor compute like another; the recorded command includes those that are set."""


def provenance(script: str, words: Sequence[str] | None = None) -> dict[str, object]:
    """What others need to judge a result; a checkout with uncommitted changes ends the program with an error.

    Args:
        script: the file name of the benchmark below bench/.
        words: its arguments as recorded; default: those of this process.
    """
    names = {
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    }
    shown = [show_word(word) for word in sys.argv[1:]] if words is None else words
    switches = [f"{name}={os.environ[name]}" for name in SWITCHES if name in os.environ]
    return {
        "command": " ".join([*switches, f"python bench/{script}", *shown]),
        "commit": find_commit(ROOT, Path(elmokit.__file__)),
        "elmokit": elmokit.__version__,
        "torch": torch.__version__,
        "cpu": f"{os.cpu_count()} × {', '.join(sorted(names))}, {torch.backends.cpu.get_cpu_capability()}",
        "date": time.strftime("%Y-%m-%d"),
    }


def find_commit(root: Path, package: Path) -> str:
    """The commit of the checkout's code; `package` is the imported file of elmokit."""
    if not package.is_relative_to(root / "src"):
        sys.exit(
            f"elmokit is imported from {package.parent}, not from this checkout: set PYTHONPATH to {root / 'src'}."
        )
    commit = _git(root, "rev-parse", "--short", "HEAD")
    if not commit:
        sys.exit(f"{root} has no commit that a result could name: measure in a git clone of the project.")
    if changes := _git(root, "status", "--porcelain", "--", *CODE).splitlines():
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        sys.exit(f"{changes[0].split()[-1]}{more} changed since commit {commit}, so a result cannot name its code: "
                 "commit first.")  # fmt: skip
    return commit


def _git(root: Path, *words: str) -> str:
    command = ["git", "--no-optional-locks", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def show_word(word: str) -> str:
    """An argument as recorded in a result: paths relative to the checkout or the data, for others only the name."""
    name, equals, given = word.rpartition("=")
    path = Path(given)
    if path.is_absolute() or ".." in path.parts:
        for start, folder in (("$ELMOKIT_DATA/", DATA), ("$ELMOKIT_FIXTURES/", FIXTURES), ("", ROOT)):
            if path.resolve().is_relative_to(folder.resolve()):
                given = start + path.resolve().relative_to(folder.resolve()).as_posix()
                break
        else:
            given = path.name
    shown = name + equals + given
    return f"'{shown}'" if " " in shown else shown
