"""Speed of training steps against an older commit, in turns, each in its best precision on this machine.

    python bench/train_commits.py --size mini --json results/training/mini-commits.json
    python bench/train_commits.py --size base --json results/training/base-commits.json

The older commit is unpacked into a temporary folder, and both run in processes of their own as `pretrain` runs them:
two threads, bfloat16, the optimizer included. The text is the prose fixture.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OLDER = "77a9049"
VOCAB_SIZE = 50_000
STEPS = 4
SIZES: dict[str, dict[str, str]] = {
    "mini": {},
    "base": {  # older commits do not know its preset
        "model.input.filters": "[[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512]]",
        "model.input.num_highway": "2",
        "model.lstm.cell_dim": "1024",
        "model.lstm.projection_dim": "256",
    },
}
"""Changes of the preset `mini`."""
COMMON = {"batch_size": "128", "unroll_steps": "20", "loss.num_negatives": "2048", "dropout": "0.0"}


class Repeated:
    """The sentences of the prose fixture, repeated forever."""

    def __init__(self, sentences: list[list[str]]) -> None:
        self.sentences, self.place = sentences, 0

    def __next__(self) -> list[str]:
        self.place += 1
        return self.sentences[self.place % len(self.sentences)]

    def state_dict(self) -> dict[str, int]:
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise NotImplementedError


def work(size: str, precision: str) -> None:
    """Take some steps for every line that is read, and print tokens per second; runs in either commit."""
    from elmokit.model.bilm import BiLM
    from elmokit.text.tokenize import tokenize
    from elmokit.text.vocabulary import Vocabulary
    from elmokit.training.config import PretrainConfig, read_run
    from elmokit.training.optim import Optimizer
    from elmokit.training.step import LanguageModelStep

    allocator = _module("elmokit.training.allocator")
    if allocator is not None:
        allocator.keep_freed_memory()
    windows = _module("elmokit.corpus.windows") or _module("elmokit.training.windows")
    assert windows is not None
    text = (ROOT / "tests/fixtures/prose.txt").read_text(encoding="utf-8")
    sentences = [[token.text for token in sentence] for sentence in tokenize(text)]
    config = read_run(PretrainConfig, "mini", COMMON | SIZES[size])
    seen = list(dict.fromkeys(token for sentence in sentences for token in sentence))
    filler = (f"word{number}" for number in range(VOCAB_SIZE))
    words = Vocabulary([*"<S> </S> <UNK>".split(), *seen, *filler][:VOCAB_SIZE])
    bilm = BiLM(config.build_model(VOCAB_SIZE), vocabulary=words, seed=1)
    rows, steps = config.batch_size, config.unroll_steps
    kind: Any = precision
    step = LanguageModelStep(bilm, config.loss, num_rows=rows, num_steps=steps, precision=kind)
    optimizer = Optimizer(*step.parameters(), config.optimizer, 1000)
    stream = windows.WindowStream(Repeated(sentences), words, bilm.indexer, num_rows=rows, num_steps=steps)
    batches = [next(stream) for _ in range(STEPS)]
    for _ in sys.stdin:
        begun = time.perf_counter()
        losses = []
        for number, batch in enumerate(batches):
            losses.append(step(batch, number).loss)
            optimizer.update(number)
        speed = STEPS * rows * steps / (time.perf_counter() - begun)
        print(json.dumps({"speed": speed, "loss": losses[0]}), flush=True)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


@contextmanager
def worker(tree: Path, size: str, precision: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that runs the code of a tree."""
    command = [sys.executable, __file__, "--size", size, "--worker", precision]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    process = subprocess.Popen(
        command, env=environment, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def ask(process: "subprocess.Popen[str]") -> dict[str, float]:
    """Let a worker take its steps."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    answer: dict[str, float] = json.loads(process.stdout.readline())
    return answer


def compare(size: str, older: str, rounds: int) -> dict[str, object]:
    """Tokens per second of both commits, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run(["git", "-C", str(ROOT), "archive", older], capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        with (
            worker(Path(folder), size, "bfloat16") as before,
            worker(ROOT, size, "bfloat16") as now,
            worker(ROOT, size, "float32") as exact,
        ):
            processes = {"before": before, "now": now, "now in float32": exact}
            first = {name: ask(process)["loss"] for name, process in processes.items()}
            speeds: dict[str, list[float]] = {name: [] for name in processes}
            for _ in range(rounds):
                for name, process in processes.items():
                    speeds[name].append(ask(process)["speed"])
    assert max(first.values()) < 1.01 * min(first.values()), f"the losses differ: {first}"
    return {
        "size": size,
        "older_commit": older,
        "rounds": rounds,
        "tokens_per_second": {name: round(statistics.median(values)) for name, values in speeds.items()},
        "ratio": {
            name: round(statistics.median(a / b for a, b in zip(values, speeds["before"], strict=True)), 2)
            for name, values in speeds.items()
            if name != "before"
        },
        "first_losses": first,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base", choices=list(SIZES))
    parser.add_argument("--older", default=OLDER, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.size, options.worker)
        return
    sys.path.insert(0, str(ROOT))
    from bench.provenance import provenance
    from bench.results import write

    origin = provenance("train_commits.py") if options.json else {}
    result = compare(options.size, options.older, options.rounds) | origin
    if options.json:
        write(options.json, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
