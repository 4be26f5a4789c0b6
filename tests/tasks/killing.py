"""Prepare layers, or train a task model, again and again, killing it at chosen moments; prints what happened as JSON.

    python -m tests.tasks.killing FOLDER NUMBER_OF_MOMENTS KIND…

A kind is "store" or a key of KINDS. Beside the moments of `tests.killing` those count at which a sentence is embedded,
a step is made or a checkpoint is halfway written.
"""

import hashlib
import json
import random
import signal
import sys
from pathlib import Path
from typing import Any

from elmokit.embedding import layer_cache
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.formats import load, save
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.runner import train_task
from tests.conftest import build_tiny
from tests.killing import Moments, in_fork, where
from tests.tasks.conftest import files, settings, write_data
from tests.training.killing import TrainingMoments

SENTENCES = [("a", "b"), ("c",), ("d", "e", "f")]
KINDS: dict[str, dict[str, Any]] = {
    "frozen": {
        "num_epochs": 2,
        "batch_size": 16,
        "average": 0.8,
        "model": {"dropout": 0.3},
        "elmo": {"place": "both", "dropout": 0.2, "regularization": 0.1},
        "optimizer": {"halve_after": 1, "learning_rate": 0.1},
        "loop": {"checkpoint_every": 2},
    },
    "tuned": {
        "num_epochs": 2,
        "batch_size": 10,
        "elmo": {"place": "output", "tuned": True, "dropout": 0.2},
        "optimizer": {"schedule": "linear", "warmup_steps": 3},
        "loop": {"accumulate": 2, "evaluate_every": 2, "checkpoint_every": 3},
    },
}


def outcome(output: Path) -> dict[str, Any]:
    """All that two equal runs have in common, bit for bit: every file, and the log but for the speed."""
    found = {str(path.relative_to(output)): digest(path) for path in sorted(output.rglob("*")) if path.is_file()}
    entries = [json.loads(line) for line in (output / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    log = [{name: value for name, value in entry.items() if name != "per_second"} for entry in entries]
    return {**found, "log.jsonl": log}


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def kill_store(folder: Path, num_points: int) -> list[dict[str, Any]]:
    """A commit behind every sentence, kills spread over the run."""
    save(build_tiny("characters"), folder / "bilm")
    layer_cache._COMMIT_SECONDS = -1.0

    def prepare(output: Path, deadly: int | None = None) -> dict[str, Any]:
        store = LayerCache(Embedder(load(folder / "bilm"), threads=1), output)
        kept = len(store._places)
        moments = Moments(output, deadly)
        moments.count(layer_cache, "_key")
        prepared = store.prepare(SENTENCES)
        layers = [store.read(tokens).tolist() for tokens in SENTENCES]
        return {"kept": kept, "prepared": prepared, "layers": layers, "moments": len(moments.names)}

    status, whole = in_fork(lambda: prepare(folder / "whole"))
    assert status == 0, "the uninterrupted run failed"
    kills = []
    for point in (1 + number * (whole["moments"] - 1) // (num_points - 1) for number in range(num_points)):
        output = folder / f"cut{point}"
        status, _ = in_fork(lambda output=output, point=point: prepare(output, point))
        assert status == -signal.SIGKILL, f"not killed at {point}"
        _, again = in_fork(lambda output=output: prepare(output))
        equal = again is not None and again["layers"] == whole["layers"]
        kills.append(
            {"point": point, **{name: (again or {}).get(name) for name in ("kept", "prepared")}, "equal": equal}
        )
    return kills


def kill_runs(folder: Path, kind: str, num_points: int) -> list[dict[str, Any]]:
    data = write_data(folder)

    def train(output: Path, deadly: int | None = None) -> list[str]:
        moments = TrainingMoments(output, deadly)
        moments.count(layer_cache, "_key")
        own = files(data, output / "run", layers_folder=output / "layers", resume=True)
        train_task(Ner(), settings(**KINDS[kind]), own)
        return moments.names

    status, names = in_fork(lambda: train(folder / "whole"))
    assert status == 0, "the uninterrupted run failed"
    expected = outcome(folder / "whole/run")
    generator, kills = random.Random(kind), []
    for point in choose(names, num_points, generator):
        output = folder / f"cut{point}"
        status, _ = in_fork(lambda output=output, point=point: train(output, point))
        assert status == -signal.SIGKILL, f"not killed at {point}"
        status, _ = in_fork(lambda output=output: train(output))
        place = where(output).read_text(encoding="utf-8")
        found = outcome(output / "run") if status == 0 else {}
        different = sorted(name for name in expected | found if expected.get(name) != found.get(name))
        kills.append({"point": point, "where": place, "status": status, "different": different})
    return kills


def choose(names: list[str], number: int, generator: random.Random) -> list[int]:
    """Moments of every kind: at a checkpoint, at the best model, at the result, and the rest anywhere."""
    wanted = ("half a checkpoint", "checkpoints", "run/.model", "run/model", "result.json", "os.rmdir")
    points = []
    for part in wanted:
        own = [point for point, name in enumerate(names, 1) if part in name and point not in points]
        assert own, f"nothing is {part}"
        points.append(generator.choice(own))
    rest = [point for point in range(1, len(names) + 1) if point not in points]
    return points + generator.sample(rest, number - len(points))


def main(folder: Path, num_points: int, kinds: list[str]) -> None:
    found = {}
    for kind in kinds:
        own = folder / kind
        own.mkdir()
        found[kind] = kill_store(own, num_points) if kind == "store" else kill_runs(own, kind, num_points)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
