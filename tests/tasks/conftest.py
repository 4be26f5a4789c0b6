"""What several tests of tasks want: sentences with entities, a tiny biLM on disk, settings of a run of a moment."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.formats import save
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.runner import TaskFiles
from tests.conftest import build_tiny

PEOPLE = ("Anna", "Bjørn", "Clara", "Dario", "Emil")
PLACES = ("Paris", "Oslo", "Lima", "Kyoto")
VERBS = ("visited", "left", "praised", "saw")

BASE: dict[str, Any] = {
    "task": "ner",
    "batch_size": 8,
    "num_epochs": 8,
    "model": {"hidden_dim": 8, "num_layers": 1, "dropout": 0.0, "char_dim": 4, "num_filters": 6, "filter_width": 3},
    "elmo": {"place": "input", "dropout": 0.0},
    "words": {"width": 8, "min_count": 1},
    "optimizer": {"kind": "adamw", "learning_rate": 0.03, "clip_norm": 5.0},
    "loop": {"evaluate_every": 0, "patience": 0, "log_every": 3, "checkpoint_every": 4},
}


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, value in changes.items():
        merged[name] = merge(merged[name], value) if isinstance(merged.get(name), dict) else value
    return merged


def settings(**changes: Any) -> TaskConfig:
    return TaskConfig.model_validate(merge(BASE, changes))


def write_entities(path: Path, number: int, seed: int) -> Path:
    """Sentences of people and places, which their words and letters tell apart, in CoNLL-2003's four columns."""
    generator = random.Random(seed)
    lines = ["-DOCSTART- -X- -X- O\n"]
    for _ in range(number):
        person = [(name, f"{letter}-PER") for name, letter in zip(generator.sample(PEOPLE, 2), "BI", strict=True)]
        place = [(generator.choice(PLACES), "B-LOC")]
        subject, other = (person, place) if generator.random() < 0.5 else (place, person[: generator.randint(1, 2)])
        late = [("late", "O")] * generator.randint(0, 3)
        tagged = [("so", "O"), *subject, (generator.choice(VERBS), "O"), *other, *late, (".", "O")]
        lines.append("".join(f"{word} X X {tag}\n" for word, tag in tagged))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_data(folder: Path) -> dict[str, Any]:
    """Training, dev and test files and a biLM, as `TaskFiles` takes them."""
    save(build_tiny("characters"), folder / "bilm")
    sizes = {"train": 40, "dev": 12, "test": 10}
    named = {name: [str(write_entities(folder / f"{name}.conll", size, size))] for name, size in sizes.items()}
    return {**named, "bilm": str(folder / "bilm"), "layers_folder": folder / "layers", "threads": 1}


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    return write_data(tmp_path)


def files(data: dict[str, Any], output: Path, **changes: Any) -> TaskFiles:
    return TaskFiles(**{**data, "output": output, **changes})


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Torch's own threads, which cost far more than tiny tensors do when they wait for each other, are left out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
