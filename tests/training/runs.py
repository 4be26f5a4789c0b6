"""Training runs that take a moment: settings, a corpus, and what two runs must have in common."""

import json
import random
from pathlib import Path
from typing import Any

import torch

from elmokit.formats import load
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import PretrainConfig
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles, RunResult

CHARACTERS = {"kind": "characters", "char_dim": 4, "filters": [[1, 4], [2, 4]], "num_highway": 1, "max_characters": 10}
TOKENS = {"kind": "tokens"}
LSTM = {"cell_dim": 8, "projection_dim": 6}

BASE: dict[str, Any] = {
    "batch_size": 4,
    "unroll_steps": 5,
    "num_epochs": 2,
    "model": {"input": CHARACTERS, "lstm": LSTM},
    "corpus": {"buffer_sentences": 11},
    "loss": {"kind": "sampled", "num_negatives": 10},
    "optimizer": {"kind": "adamw", "learning_rate": 1e-2, "clip_norm": 3.0},
    "loop": {"log_every": 3, "evaluate_every": 4, "checkpoint_every": 5},
}

KINDS: dict[str, dict[str, Any]] = {
    "sampled": {"dropout": 0.2, "optimizer": {"kind": "adagrad", "learning_rate": 0.2, "clip_norm": 2.0}},
    "sampled-adamw": {"dropout": 0.1, "optimizer": {"weight_decay": 0.01, "schedule": "cosine", "warmup_steps": 3}},
    "muon": {"optimizer": {"kind": "muon", "weight_decay": 0.01, "ema_decay": 0.9}},
    "full": {"dropout": 0.1, "loss": {"kind": "full"}, "loop": {"accumulate": 2}},
    "adaptive": {"model": {"softmax_cutoffs": [10, 20]}, "loss": {"kind": "adaptive"}},
    "tied": {"model": {"input": TOKENS, "tied_softmax": True}, "loop": {"accumulate": 3}, "dropout": 0.3},
    "tied-adagrad": {
        "model": {"input": TOKENS, "tied_softmax": True},
        "loss": {"kind": "full"},
        "optimizer": {"kind": "adagrad", "learning_rate": 0.1},
    },
}


def merge(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, value in changes.items():
        inner = name in merged and isinstance(value, dict) and name != "input"
        merged[name] = merge(merged[name], value) if inner else value
    return merged


def settings(kind: str = "sampled", **changes: Any) -> PretrainConfig:
    return PretrainConfig.model_validate(merge(merge(BASE, KINDS[kind]), changes))


def write_sentences(path: Path, number: int, seed: int = 0, prefix: str = "w") -> Path:
    generator = random.Random(seed)
    words = [f"{prefix}{letter}" for letter in "abcdefghijklmnopqrstuvwxyzäöü"]
    lines = [" ".join(generator.choices(words, k=generator.randint(1, 9))) for _ in range(number)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_corpus(folder: Path) -> dict[str, list[str]]:
    """Two training files and a held-out one."""
    names = [write_sentences(folder / f"{name}.txt", size, size) for name, size in (("a", 17), ("b", 13), ("held", 8))]
    return {"train": [str(name) for name in names[:2]], "heldout": [str(names[2])]}


def count_predictions(paths: list[str]) -> int:
    """Words and sentences, counted the plain way."""
    lines = [line for path in paths for line in Path(path).read_text(encoding="utf-8").splitlines() if line.split()]
    return sum(len(line.split()) + 1 for line in lines)


def run(config: PretrainConfig, corpus: dict[str, list[str]], output: Path, **extra: Any) -> RunResult:
    callbacks = {name: extra.pop(name, None) for name in ("report", "notify")}
    files = RunFiles(**{"threads": 1, **corpus, "output": output, **extra})
    return pretrain(config, files, **callbacks)


def read_log(output: Path) -> list[dict[str, Any]]:
    """The log's entries without the speed, which is never the same."""
    lines = (output / "log.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    return [{name: value for name, value in entry.items() if name != "per_second"} for entry in entries]


def outcome(output: Path) -> dict[str, Any]:
    """All that two equal runs have in common, weights and moments bit for bit."""
    content = Checkpoints(output / "checkpoints", keep=1).load_last()
    assert content is not None
    digests = [name for name in content if name not in ("identity",)]
    model = {name: _bits(tensor) for name, tensor in load(output / "model").state_dict().items()}
    result = json.loads((output / "result.json").read_text(encoding="utf-8"))
    result = {name: value for name, value in result.items() if name not in ("seconds", "model_path")}
    return {
        "log": read_log(output),
        "model": model,
        "result": result,
        "checkpoint": {name: _bits(content[name]) for name in digests},
        "checkpoints": [step for step, _ in Checkpoints(output / "checkpoints", keep=1).find()],
        "files": sorted(path.name for path in output.rglob("*")),
    }


def _bits(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.cpu().numpy().tobytes().hex()
    if isinstance(value, dict):
        return {str(name): _bits(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_bits(inner) for inner in value]
    return value
