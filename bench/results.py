"""Reading and writing results/SUBJECT/NAME.json, and describing how they were made."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from bench.places import RESULTS


def read(name: str) -> dict:
    """A result by its path below results/, without the suffix: "embedding/linear"."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def read_all(folder: str) -> list[dict]:
    """The results of a folder below results/, by name."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((RESULTS / folder).glob("*.json"))]


def write(path: Path, result: Mapping[str, object]) -> None:
    """Write a result to a file, with the hours that this process took."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {**result, "wall_hours": elapsed_hours()}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def elapsed_hours() -> float:
    """Hours since this process began."""
    began = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return round((time.clock_gettime(time.CLOCK_BOOTTIME) - began) / 3600, 4)


def source(*results: dict) -> list[str]:
    lines = [f"`{r['command']}` (commit {r['commit']}, torch {r['torch']}, {r['cpu']})" for r in results]
    return ["", *(f"Made by {line}." for line in lines)]
