"""The table of bench/README.md: every file under results/, its command, its data and its hours."""

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from statistics import median

from bench.places import RESULTS, ROOT
from bench.results import read
from bench.task_tables import DATA as SETTINGS
from elmokit.tasks.config import read_task_config

SUM = re.compile(r"^([0-9a-f]{64})  (\S+)$", re.MULTILINE)
PROSE, MINI = "tests/fixtures/prose.txt", "Wikipedia (first part), Books"
OTHER_DATA = {
    "embedding/int8-trained": f"bilm-tf's test model, {PROSE}",
    "embedding/command-*": "Wikipedia (held-out text)",
    "embedding/start": "one sentence",
    "embedding/*": PROSE,
    "fine-tuning/conll2003": "CoNLL-2003",
    "fine-tuning/litbank": "LitBank",
    "fine-tuning/sick": "SICK",
    "fine-tuning/sst": "Stanford Sentiment Treebank",
    "pretraining/settings": f"{MINI}, UD-EWT",
    "pretraining/wikitext-2": "WikiText-2",
    "senses/*": "SemCor 3.0, All-words word sense disambiguation, WordNet 3.0 (sense index)",
    "tasks/skipgram": MINI,
    "training/memory": "Wikipedia (first part)",
    "training/*": PROSE,
}
"""Data of results that contain no SHA-256 of docs/data.md; the first matching pattern applies."""
READ_FROM_RUNS = ("layer-weights", "learning-curves")
"""Studies that train nothing."""


def results() -> list[str]:
    """Every result by path, then the number of those made from a commit with changes."""
    lines = ["| result | command | data | hours |", "|---|---|---|---|"]
    names = [path.relative_to(RESULTS).with_suffix("").as_posix() for path in sorted(RESULTS.rglob("*.json"))]
    changed = []
    for name in names:
        result = read(name)
        link = f"[{name}](../results/{name}.json)"
        mark = "\\*" if result["commit"].endswith("-dirty") else ""
        changed += [name] if mark else []
        lines.append(f"| {link}{mark} | `{result['command']}` | {data_text(name, result)} | {hours_text(result)} |")
    return [*lines, "", f"\\* Made from a commit with changes ({len(changed)} of {len(names)})."]


def read_sums(page: str = "docs/data.md") -> dict[str, tuple[str, str]]:
    """Data set and path of every SHA-256 of the page."""
    sections = re.split(r"^## ", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {found[1]: (section.partition("\n")[0], found[2]) for section in sections for found in SUM.finditer(section)}


def data_text(name: str, result: dict) -> str:
    """The data sets whose sums a result contains, or else its entry in `OTHER_DATA`."""
    known = read_sums()
    named = dict.fromkeys(known[text][0] for text in strings(result) if text in known)
    if named:
        return ", ".join(named)
    return next(text for pattern, text in OTHER_DATA.items() if fnmatch(name, pattern))


def strings(value: object) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def hours_text(result: dict) -> str:
    """Hours of training if the result has them, or of the command; otherwise an estimate or a dash."""
    training = result.get("training", result).get("hours")
    if "common_words" in result:
        training = sum(row["seconds"] for row in result["rows"]) / 3600
    if training is not None:
        return f"{round_hours(training)} to train"
    if isinstance(seconds := result.get("seconds"), int | float):
        return round_hours(seconds / 3600)
    if result.get("study") in READ_FROM_RUNS:
        return "those of `compare`"
    if "wall_hours" in result:
        return round_hours(result["wall_hours"])
    estimate = estimate_hours(result)
    return "–" if estimate is None else f"≈ {round_hours(estimate)}"


def round_hours(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 1 else f"{max(hours, 0.01):.2f}"


def estimate_hours(result: dict) -> float | None:
    """Epochs of a task's runs, as many as the preset allows, times the seconds of one on one core."""
    study = result.get("study", "epochs")
    if not isinstance(name := result.get("data"), str) or name not in SETTINGS:
        return None
    if study == "epochs":
        return sum(sum(found) for found in result["seconds"].values()) / 3600
    epoch = read(f"tasks/epochs/{name}")
    sides = {side: median(found) / epoch["fraction"] for side, found in epoch["seconds"].items()}
    number = read_task_config(epoch["task"], "small").num_epochs
    points = result.get("points", [result])
    if study == "grid":
        rows = (sides[row["side"]] * int(row["changes"].get("num_epochs", number)) for row in result["rows"])
        return sum(rows) * len(result["seeds"]) / 3600
    seconds = sum(
        point.get("share", 1) * len(point["seeds"]) * (sides["baseline"] + len(point["others"]) * sides["elmo"])
        for point in points
    )
    return seconds * number / 3600
