r"""Compare settings for the packaged model: short pretraining runs that cost the same CPU time.

    python bench/settings.py train --corpus SHARDS --vocab VOCAB100K --heldout FILE --output RUNS
    python bench/settings.py measure --corpus SHARDS --heldout FILE --output RUNS \
        --json results/pretraining/settings.json

Each setting is the preset `mini` with a few changes. Its speed is measured first, on one core and in CPU seconds, and
then it gets as many steps as the budget allows, with the learning-rate schedule of a whole run. Runs that are done are
skipped, and so are models that were measured: both commands can be repeated. Perplexities are comparable: targets are
among the 50,000 most frequent words, and probabilities are renormalized over them. The probe is the quick linear one
of `bench/probes.py`.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch

import elmokit
from elmokit.corpus.counting import write_vocabulary_atomic
from elmokit.formats import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.scoring.perplexity import measure_perplexity
from elmokit.text.files import find_files
from elmokit.text.lines import read_text
from elmokit.text.vocabulary import Vocabulary, read_vocabulary
from elmokit.training.config import PretrainConfig, read_run
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.provenance import provenance
from bench.results import write

COMMON = 50_000
SETTINGS: dict[str, dict[str, object]] = {
    "base: 512 cells, 128 wide, 64 × 20": {},
    "512 cells, 192 wide": {"model.lstm.projection_dim": 192},
    "1024 cells, 128 wide": {"model.lstm.cell_dim": 1024},
    "768 cells, 192 wide": {"model.lstm.cell_dim": 768, "model.lstm.projection_dim": 192},
    "batch 128 × 20": {"batch_size": 128},
    "batch 32 × 20, rate 0.003": {"batch_size": 32, "optimizer.learning_rate": 3e-3},
    "windows of 40: 32 × 40": {"batch_size": 32, "unroll_steps": 40},
    "8,192 negatives": {"loss.num_negatives": 8192},
    "1,024 filters": {
        "model.input.filters": [[1, 64], [2, 64], [3, 128], [4, 256], [5, 256], [6, 256]],
    },
    "vocabulary of 100,000": {"corpus.max_vocab": 100_000},
    "three LSTM layers": {"model.lstm.num_layers": 3},
    "Adagrad 0.2, as in the paper": {
        "optimizer.kind": "adagrad",
        "optimizer.learning_rate": 0.2,
        "optimizer.schedule": "constant",
        "optimizer.warmup_steps": 0,
    },
    "rate 0.002": {"optimizer.learning_rate": 2e-3},
    "cosine from the start": {"optimizer.schedule": "cosine", "optimizer.hold": 0.0},
}
CHECKED = 60_000


def folder_name(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.split(":")[0]).strip("-").lower()


def read_setting(changes: Mapping[str, object], max_steps: int, log_every: int) -> PretrainConfig:
    own = {
        "batch_size": 64,
        "corpus.input": "tokens",
        "loop.max_steps": max_steps,
        "loop.log_every": log_every,
        "loop.evaluate_every": 10**7,
        "loop.checkpoint_every": 10**7,
        **changes,
    }
    return read_run(PretrainConfig, "mini", {name: json.dumps(value) for name, value in own.items()})


def train(options: argparse.Namespace) -> None:
    """Train every setting that has no model yet."""
    options.output.mkdir(parents=True, exist_ok=True)
    words = read_vocabulary(options.vocab).tokens
    for size in {COMMON} | {int(str(c.get("corpus.max_vocab", COMMON))) for c in SETTINGS.values()}:
        write_vocabulary_atomic(Vocabulary(words[:size]), options.output / f"vocab-{size}.txt", overwrite=True)
    for name, changes in SETTINGS.items():
        folder = options.output / folder_name(name)
        if (folder / "cost.json").exists() or (options.only and options.only not in name):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        clock: dict[int, float] = {}

        def note(progress: object, figures: Mapping[str, float], clock: dict[int, float] = clock) -> None:
            if "loss" in figures:
                clock[progress.step] = time.process_time()  # type: ignore[attr-defined]

        vocab = options.output / f"vocab-{changes.get('corpus.max_vocab', COMMON)}.txt"
        files = [str(path) for path in find_files([options.corpus])][:3]
        trial = RunFiles(files, [], options.output / f".trial-{folder.name}", vocab=vocab, threads=1)
        shutil.rmtree(trial.output, ignore_errors=True)
        pretrain(read_setting(changes, 40, 10), trial, report=note)
        num_steps = int(options.seconds * 30 / (clock[40] - clock[10]))
        clock.clear()
        run = RunFiles(files, [], folder, vocab=vocab, threads=1)
        start = time.process_time()
        result = pretrain(read_setting(changes, num_steps, 50), run, report=note)
        cost = {"name": name, "steps": num_steps, "predictions": result.predictions}
        cost |= {"cpu_seconds": max(clock.values()) - start, "seconds": result.seconds}
        (folder / "cost.json").write_text(json.dumps(cost) + "\n")
        print(json.dumps(cost), flush=True)


def restrict(bilm: BiLM, words: list[str]) -> BiLM:
    """A model that can predict only some of its words."""
    assert bilm.softmax is not None and bilm.softmax.weight is not None and bilm.vocabulary is not None
    rows = torch.tensor(bilm.vocabulary.to_ids(words))
    config = bilm.config.model_copy(update={"vocab_size": len(words)})
    small = BiLM(config, vocabulary=Vocabulary(words))
    weights = bilm.state_dict()
    for name in ("softmax.weight", "softmax.bias"):
        weights[name] = weights[name][rows]
    small.load_state_dict(weights)
    with torch.no_grad():
        small.softmax.bias[small.vocabulary.unknown_id] = -1e9  # type: ignore[union-attr]
    return small.eval()


def measure(options: argparse.Namespace) -> None:
    """Comparable perplexity and the probe of every finished model."""
    from bench.probes import quick_probe

    origin = provenance("settings.py", ["measure …"])
    words = list(read_vocabulary(options.output / f"vocab-{COMMON}.txt").tokens)
    text = read_text([options.heldout], input="text", max_predictions=CHECKED)
    before = json.loads(options.json.read_text(encoding="utf-8"))["rows"] if options.json.exists() else []
    known = {(row["name"], row["model"]): row for row in before}
    rows, found = [], None
    for name, changes in SETTINGS.items():
        folder = options.output / folder_name(name)
        if not (folder / "cost.json").exists():
            continue
        bilm = elmokit.load(folder / "model")
        if row := known.get((name, fingerprint(bilm))):
            rows.append(row)
            continue
        found = measure_perplexity(restrict(bilm, words), text)
        log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        row = {
            "name": name,
            "changes": changes,
            **json.loads((folder / "cost.json").read_text()),
            "num_parameters": bilm.num_parameters,
            "loss": [entry["loss"] for entry in log if "loss" in entry][-1],
            "perplexity": found.average_known,
            "pos": quick_probe(bilm, "pos", options.data),
            "model": fingerprint(bilm),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    if found is None:
        return print("all models were measured before")
    result = {"rows": rows, "common_words": COMMON, "predictions": found.num_predictions, "oov_rate": found.oov_rate}
    result |= {"heldout": options.heldout.name, "seed": 0} | origin
    write(options.json, result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["train", "measure"])
    parser.add_argument("--corpus", required=True, help="glob of shards written by elmokit corpus shard")
    parser.add_argument("--vocab", type=Path, help="at least 100,000 words by elmokit corpus vocab")
    parser.add_argument("--heldout", type=Path, help="raw text")
    parser.add_argument("--data", type=Path, help="folder with pos/ud_ewt")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=360, help="CPU seconds per setting")
    parser.add_argument("--only", help="settings whose name contains this")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    train(options) if options.action == "train" else measure(options)


if __name__ == "__main__":
    main()
