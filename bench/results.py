"""Reading results/*.json, and naming what made them."""

import json

from bench.places import ROOT


def read(name: str) -> dict:
    return json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))


def read_all(prefix: str) -> list[dict]:
    return [read(path.stem) for path in sorted((ROOT / "results").glob(f"{prefix}*.json"))]


def source(*results: dict) -> list[str]:
    lines = [f"`{r['command']}` (commit {r['commit']}, torch {r['torch']}, {r['cpu']})" for r in results]
    return ["", *(f"Made by {line}." for line in lines)]
