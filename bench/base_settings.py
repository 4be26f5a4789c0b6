"""Compare settings for the packaged model `base`: short runs on all genres that cost the same CPU time.

    python bench/base_settings.py train --home HOME --output RUNS          HOME is that of tools/base_run.py
    python bench/base_settings.py measure --home HOME --output RUNS --json FILE

Each setting is the preset `base` with a few changes, on the first sixteenth of every shard. First its CPU time per step
is compared with that of `base`, in turns and on one core, so that other work on the machine slows both. It then gets
as many steps as `base` could make in the same time: 100 of warm-up, and the last fifth to let the learning rate decay.
Perplexity is that of 10,000 predictions from each held-out file, and the better of the weights and their running
average is kept. The probes are quick ones on development data, so no test set is seen. Both commands skip finished
work.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import elmokit
from bench.places import DATA
from bench.probes import quick_probe
from bench.provenance import provenance
from bench.settings import folder_name
from elmokit.formats import fingerprint
from elmokit.text.files import find_files
from elmokit.text.lines import read_text
from elmokit.training.config import PretrainConfig, read_run
from elmokit.training.heldout import first_predictions
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles, RunResult

SETTINGS: dict[str, dict[str, object]] = {
    "base": {},
    "Muon": {"optimizer.kind": "muon"},
    "rate 0.002": {"optimizer.learning_rate": 2e-3},
    "rate 0.005": {"optimizer.learning_rate": 5e-3},
    "batch 64": {"batch_size": 64},
    "windows of 35": {"unroll_steps": 35, "batch_size": 73},
    "8,192 negatives": {"loss.num_negatives": 8192},
    "dropout 0.1": {"dropout": 0.1},
    "496 filters": {"model.input.filters": [[1, 16], [2, 16], [3, 32], [4, 64], [5, 128], [6, 240]]},
    "one highway": {"model.input.num_highway": 1},
    "768 cells, 192 wide": {"model.lstm.cell_dim": 768, "model.lstm.projection_dim": 192},
    "Wikipedia and news twice": {"corpus.weights": {"wikipedia/*": 2.0, "news/*": 2.0}},
    "Muon, rate 0.005": {"optimizer.kind": "muon", "optimizer.learning_rate": 5e-3},
}
CHECKED, PART = 10_000, 16
WARMUP, DECAYED = 100, 0.2
TURNS, TIMED_STEPS = 3, 8


def read_setting(changes: Mapping[str, object], num_steps: int, log_every: int) -> PretrainConfig:
    own = {
        "corpus.input": "tokens",
        "precision": "bfloat16",
        "loop.max_steps": num_steps,
        "loop.log_every": log_every,
        "loop.evaluate_every": 10**7,
        "loop.checkpoint_every": 10**7,
        "optimizer.warmup_steps": WARMUP,
        "optimizer.decay_steps": max(1, int(DECAYED * num_steps)),
        **{name: value for name, value in changes.items() if name != "corpus.weights"},
    }
    written = {name: json.dumps(value) for name, value in own.items()}
    if isinstance(weights := changes.get("corpus.weights"), dict):
        written["corpus.weights"] = "{" + ", ".join(f'"{name}" = {value}' for name, value in weights.items()) + "}"
    return read_run(PretrainConfig, "base", written)


def sample_heldout(home: Path, output: Path) -> list[str]:
    """The beginning of each genre's held-out text, as a file of its own."""
    paths = []
    for folder in sorted((home / "heldout").iterdir()):
        path = output / "heldout" / f"{folder.name}.txt"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            sentences = read_text(sorted(folder.glob("shard-*.txt")), input="tokens")
            path.write_text("\n".join(first_predictions(sentences, CHECKED)) + "\n", encoding="utf-8")
        paths.append(str(path))
    return paths


def sample_text(home: Path, output: Path) -> list[str]:
    """The beginning of every shard, so that a run need not count the whole text first."""
    paths = []
    for shard in find_files([str(home / "shards/*/shard-*.txt")]):
        path = output / "text" / shard.parent.name / shard.name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            size = shard.stat().st_size // PART
            with shard.open("rb") as file:
                path.write_bytes(file.read(size) + file.readline())
        paths.append(str(path))
    return paths


def run_setting(
    changes: Mapping[str, object], num_steps: int, log_every: int, files: RunFiles
) -> tuple[RunResult, dict[int, float]]:
    """Train a setting: its result, and the CPU time of this process at each logged step."""
    clock: dict[int, float] = {}

    def note(progress: Any, figures: Mapping[str, float]) -> None:
        if "loss" in figures:
            clock[progress.step] = time.process_time()

    return pretrain(read_setting(changes, num_steps, log_every), files, report=note), clock


def time_steps(files: list[str], options: argparse.Namespace, changes: Mapping[str, object]) -> float:
    """CPU seconds per step of a setting, without its start."""
    with tempfile.TemporaryDirectory(dir=options.output) as folder:
        run = RunFiles(files, [], Path(folder) / "run", vocab=options.home / "words.txt", threads=1)
        _, clock = run_setting(changes, 2 * TIMED_STEPS, TIMED_STEPS, run)
    return (clock[2 * TIMED_STEPS] - clock[TIMED_STEPS]) / TIMED_STEPS


def train(options: argparse.Namespace) -> None:
    """Train every setting that has no model yet."""
    heldout = sample_heldout(options.home, options.output)
    files = sample_text(options.home, options.output)
    for name, changes in SETTINGS.items():
        folder = options.output / folder_name(name)
        if (folder / "cost.json").exists() or (options.only and name not in options.only):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        ratio = 1.0
        if changes:
            turns = (time_steps(files, options, changes) / time_steps(files, options, {}) for _ in range(TURNS))
            ratio = statistics.median(turns)
        num_steps = round(options.steps / ratio)
        run = RunFiles(files, heldout, folder, vocab=options.home / "words.txt", threads=1)
        start = time.process_time()
        result, clock = run_setting(changes, num_steps, 25, run)
        cost = {"name": name, "steps": num_steps, "predictions": result.predictions}
        cost |= {"cpu_seconds": max(clock.values()) - start, "cost_per_step": ratio}
        (folder / "cost.json").write_text(json.dumps(cost) + "\n")
        print(json.dumps(cost), flush=True)


def measure(options: argparse.Namespace) -> None:
    """The perplexities and probes of every finished model."""
    before = json.loads(options.json.read_text(encoding="utf-8"))["rows"] if options.json.exists() else []
    known = {row["model"]: row for row in before}
    rows = []
    for name, changes in SETTINGS.items():
        folder = options.output / folder_name(name)
        if not (folder / "cost.json").exists():
            continue
        bilm = elmokit.load(folder / "model")
        if row := known.get(fingerprint(bilm)):
            rows.append(row)
            continue
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        last = next(entry for entry in reversed(log) if "heldout_perplexity" in entry)
        result = json.loads((folder / "result.json").read_text())
        row = {
            "name": name,
            "changes": changes,
            **json.loads((folder / "cost.json").read_text()),
            "num_parameters": bilm.num_parameters,
            "perplexity": last["heldout_perplexity"],
            "perplexity_of_average": last.get("heldout_ema_perplexity"),
            "by_file": result["heldout_by_file"],
            "pos": quick_probe(bilm, "pos", options.data),
            "ner": quick_probe(bilm, "ner", options.data),
            "model": fingerprint(bilm),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    found = {"rows": rows, "predictions_per_file": CHECKED, "seed": 0}
    found |= provenance("python bench/base_settings.py measure --home HOME --output RUNS --json FILE")
    options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["train", "measure"])
    parser.add_argument("--home", type=Path, required=True, help="the folder of tools/base_run.py")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=400, help="steps of `base`; others have what costs the same")
    parser.add_argument("--only", action="append", help="names of settings; repeatable")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    train(options) if options.action == "train" else measure(options)


if __name__ == "__main__":
    main()
