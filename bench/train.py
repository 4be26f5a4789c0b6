"""Training speed relative to a straightforward implementation, interleaved, and of two processes relative to one.

    python bench/train.py --size small                       official small size, 8192 negatives
    python bench/train.py --size mini                        512/128, 496 filters, 2048 negatives
    python bench/train.py --size mini --negatives 8192
    python bench/train.py --processes                        two processes on two cores against one on one
    python bench/train.py --original                         time, memory and bytes of an original-size step

A step is 128 rows × 20 tokens in both directions: token vectors, LSTMs, sampled softmax, optimizer. The straightforward
one is autograd over the equations as written: the character convolution for every token, a cell with one product per
gate, the softmax rows by indexing, dense Adagrad. It starts from the same weights and takes the same windows and
negatives, and its losses must be equal.
"""

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

import elmokit
from elmokit.config import CharacterInput
from elmokit.corpus.windows import Sentences, Window, WindowStream
from elmokit.model.bilm import BiLM
from elmokit.model.engines.choose import Precision, choose_arithmetic
from elmokit.native.library import find_library
from elmokit.text.vocabulary import Vocabulary
from elmokit.training.config import PretrainConfig, read_run
from elmokit.training.optim import Optimizer
from elmokit.training.sampled_softmax import LogUniformSampler
from elmokit.training.step import _NEGATIVES, LanguageModelStep, _philox_key

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.machine import gemm_rate, interleave  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402

VOCAB_SIZE = 50_000
ORIGINAL_VOCAB_SIZE = 793_471
ROUNDED = "elmokit, bfloat16"


class Repeated(Sentences):
    """The sentences of the prose fixture, repeated forever."""

    def __init__(self) -> None:
        text = (ROOT / "tests/fixtures/prose.txt").read_text(encoding="utf-8")
        self.sentences = [[token.text for token in sentence] for sentence in elmokit.tokenize(text)]
        self.place = 0

    def __next__(self) -> list[str]:
        self.place += 1
        return self.sentences[self.place % len(self.sentences)]

    def state_dict(self) -> dict[str, Any]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.place = state["place"]


class Straightforward:
    """A biLM and its training step in the most direct implementation."""

    def __init__(self, bilm: BiLM, config: PretrainConfig) -> None:
        self.config = config
        own, clip = bilm.config.input, bilm.config.lstm.cell_clip
        assert isinstance(own, CharacterInput) and clip is not None
        self.widths = [width for width, _ in own.filters]
        self.num_highway = own.num_highway
        self.depth = bilm.config.lstm.num_layers
        self.clip = clip
        self.p = {name: tensor.detach().clone().requires_grad_() for name, tensor in bilm.named_parameters()}
        self.state = [
            [[torch.zeros(config.batch_size, width) for width in self.state_widths(bilm)] for _ in range(self.depth)]
            for _ in range(2)
        ]
        self.sampler = LogUniformSampler(VOCAB_SIZE, config.loss.num_negatives)
        self.optimizer = torch.optim.Adagrad(self.p.values(), lr=0.2, initial_accumulator_value=1.0, eps=0)

    def state_widths(self, bilm: BiLM) -> tuple[int, int]:
        return bilm.config.lstm.output_dim, bilm.config.lstm.cell_dim

    def encode(self, char_ids: Tensor) -> Tensor:
        characters = functional.embedding(char_ids - 1, self.p["encoder.char_table"])  # (N, C, D)
        parts = []
        for number in range(len(self.widths)):
            weight = self.p[f"encoder.convolutions.{number}.weight"].permute(2, 1, 0)  # (filters, D, width)
            bias = self.p[f"encoder.convolutions.{number}.bias"]
            parts.append(functional.conv1d(characters.transpose(1, 2), weight, bias).amax(-1))
        x = torch.cat(parts, 1).relu()  # (N, F)
        for number in range(self.num_highway):
            name = f"encoder.highways.{number}"
            gate = (x @ self.p[f"{name}.carry.weight"] + self.p[f"{name}.carry.bias"]).sigmoid()
            new = (x @ self.p[f"{name}.transform.weight"] + self.p[f"{name}.transform.bias"]).relu()
            x = gate * new + (1 - gate) * x
        return x @ self.p["encoder.projection.weight"] + self.p["encoder.projection.bias"]  # (N, P)

    def direction(self, side: int, x: Tensor) -> Tensor:
        """From token vectors (T, R, P) to top outputs (T, R, P)."""
        name = ("forward_lstm", "backward_lstm")[side]
        for depth in range(self.depth):
            h, c = self.state[side][depth]
            own = {key: self.p[f"{name}.layers.{depth}.{key}"] for key in ("input_weight", "recurrent_weight", "bias")}
            gates = [[tensor.chunk(4, -1)[gate] for tensor in own.values()] for gate in range(4)]
            outputs = []
            for step in x:
                i, f, o, j = (step @ w + h @ u + b for w, u, b in gates)
                c = (f + 1).sigmoid() * c + i.sigmoid() * j.tanh()
                c = c.clamp(-self.clip, self.clip)
                h = (o.sigmoid() * c.tanh()) @ self.p[f"{name}.layers.{depth}.projection_weight"]
                h = h.clamp(-self.clip, self.clip)
                outputs.append(h)
            self.state[side][depth] = [h.detach(), c.detach()]
            y = torch.stack(outputs)  # (T, R, P)
            x = y + x if depth else y
        return x

    def step(self, window: Window, number: int) -> float:
        total = torch.zeros(())
        char_ids = torch.from_numpy(window.char_ids)
        for side in (0, 1):
            index = torch.from_numpy(window.inputs[side].T.copy())  # (T, R)
            tokens = self.encode(char_ids[index.flatten()]).view(*index.shape, -1)  # (T, R, P)
            top = self.direction(side, tokens).flatten(0, 1)  # (N, P)
            targets = window.targets[side].T.reshape(-1)  # (N,)
            random = np.random.Generator(np.random.Philox(key=_philox_key((0, number, side, _NEGATIVES))))
            candidates = self.sampler.draw(random, np.unique(targets))
            expected = torch.from_numpy(candidates.log_expected)
            ids = torch.from_numpy(candidates.ids[: candidates.num_samples])
            places = torch.from_numpy(candidates.places(targets))
            weight, bias = self.p["softmax.weight"], self.p["softmax.bias"]
            goal = torch.from_numpy(targets)
            own = (top * weight[goal]).sum(1) + bias[goal] - expected[places]  # (N,)
            others = top @ weight[ids].T + bias[ids] - expected[: len(ids)]  # (N, S)
            others = others.masked_fill(ids == goal[:, None], -torch.inf)
            logits = torch.cat([own[:, None], others], 1)  # (N, 1 + S)
            total = total + functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.int64)) / 2
        (total * self.config.unroll_steps).backward()
        torch.nn.utils.clip_grad_norm_(self.p.values(), 10.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(total.detach())


def build(size: str, negatives: int | None, vocab_size: int = VOCAB_SIZE) -> tuple[BiLM, PretrainConfig]:
    changes = {"optimizer.kind": "adagrad", "optimizer.learning_rate": "0.2", "optimizer.schedule": "constant"}
    changes |= {"dropout": "0.0", "optimizer.clip_norm": "10.0", "optimizer.warmup_steps": "0"}
    if negatives is not None:
        changes["loss.num_negatives"] = str(negatives)
    config = read_run(PretrainConfig, size, changes)
    words = Repeated()
    seen = list(dict.fromkeys(token for sentence in words.sentences for token in sentence))
    filler = (f"word{number}" for number in range(vocab_size))
    vocabulary = Vocabulary([*"<S> </S> <UNK>".split(), *seen, *filler][:vocab_size])
    return BiLM(config.build_model(vocab_size), vocabulary=vocabulary, seed=1), config


def words_of(bilm: BiLM) -> Vocabulary:
    assert bilm.vocabulary is not None
    return bilm.vocabulary


class Ours:
    """elmokit's own step and optimizer."""

    def __init__(self, bilm: BiLM, config: PretrainConfig, precision: Precision = "float32") -> None:
        sizes: dict[str, Any] = {"num_rows": config.batch_size, "num_steps": config.unroll_steps}
        self.run = LanguageModelStep(bilm, config.loss, **sizes, precision=precision)
        self.optimizer = Optimizer(*self.run.parameters(), config.optimizer, 1000)

    def step(self, window: Window, number: int) -> float:
        loss = self.run(window, number).loss
        self.optimizer.update(number)
        return loss


def compare(size: str, negatives: int | None, rounds: int) -> dict[str, object]:
    bilm, config = build(size, negatives)
    windows = WindowStream(
        Repeated(), words_of(bilm), bilm.indexer, num_rows=config.batch_size, num_steps=config.unroll_steps
    )
    peers: dict[str, Straightforward | Ours] = {"straightforward": Straightforward(bilm, config)}
    if find_library("bfloat16") is not None:
        peers[ROUNDED] = Ours(copy.deepcopy(bilm), config, "bfloat16")
    peers["elmokit"] = Ours(bilm, config)
    batches = [next(windows) for _ in range(rounds + 1)]
    losses: dict[str, list[float]] = {name: [] for name in peers}

    def runner(name: str, stepper: Straightforward | Ours) -> Callable[[], None]:
        def run() -> None:
            number = len(losses[name])
            losses[name].append(stepper.step(batches[number], number))

        return run

    candidates = {name: runner(name, stepper) for name, stepper in peers.items()}
    for run in candidates.values():
        run()
    timings = interleave(candidates, rounds)
    differences = {
        name: max(abs(a - b) / abs(a) for a, b in zip(losses["straightforward"], own, strict=True))
        for name, own in losses.items()
    }
    assert differences["elmokit"] < 1e-4 and max(differences.values()) < 1e-2, f"the losses differ: {losses}"
    places = config.batch_size * config.unroll_steps
    speeds = {name: round(places / timing.median) for name, timing in timings.items()}
    found: dict[str, object] = {
        "size": size,
        "negatives": config.loss.num_negatives,
        "rounds": rounds,
        "disturbed_rounds": {name: timing.disturbed for name, timing in timings.items()},
        "distinct_tokens_a_window": round(statistics.mean(len(batch.char_ids) for batch in batches)),
        "tokens_per_second": speeds,
        "ratio": round(speeds["elmokit"] / speeds["straightforward"], 2),
        "largest_relative_difference_of_losses": float(f"{differences['elmokit']:.1e}"),
        "threads": torch.get_num_threads(),
        "gemm_gflops": round(gemm_rate(torch.get_num_threads()) / 1e9),
    }
    if ROUNDED in peers:
        ratio = round(speeds[ROUNDED] / speeds["straightforward"], 2)
        label = choose_arithmetic("bfloat16", torch.device("cpu"), torch.float32).label
        found["bfloat16"] = {"arithmetic": label, "ratio": ratio, "difference": float(f"{differences[ROUNDED]:.1e}")}
    return found


def one_process(core: str, steps: int, processes: int, folder: str) -> None:
    """Run in a separate process: `steps` of the mini model, alone or as one of two."""
    from elmokit.training.distributed import Processes, init_distributed, shutdown_distributed

    os.sched_setaffinity(0, {int(core)})
    torch.set_num_threads(1)
    group = init_distributed() if processes > 1 else Processes()
    bilm, config = build("mini", None)
    run = LanguageModelStep(
        bilm, config.loss, num_rows=config.batch_size, num_steps=config.unroll_steps, processes=group, threads=1
    )
    optimizer = Optimizer(*run.parameters(), config.optimizer, 1000)
    windows = WindowStream(
        Repeated(),
        words_of(bilm),
        bilm.indexer,
        num_rows=config.batch_size,
        num_steps=config.unroll_steps,
        rows=run.rows,
    )

    def step(number: int = 0) -> None:
        run(next(windows), number)
        group.all_reduce_gradients(optimizer.parameters)
        optimizer.update(number)

    step()
    timing = interleave({"step": step}, steps)["step"]
    if group.is_first:
        Path(folder, "seconds.json").write_text(json.dumps(timing.seconds), encoding="utf-8")
    shutdown_distributed()


def compare_processes(rounds: int, steps: int = 8) -> dict[str, object]:
    """Alternate one process on one core and two on two, with the same global batch."""
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        for processes in (1, 2):
            with tempfile.TemporaryDirectory() as folder:
                running = []
                for rank in range(processes):
                    environment = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(processes)}
                    environment |= {"RANK": str(rank), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(29611 + number)}
                    arguments = ["--worker", str(rank), str(steps), str(processes), folder]
                    running.append(subprocess.Popen([sys.executable, __file__, *arguments], env=environment))
                assert all(process.wait() == 0 for process in running)
                seconds[processes] += json.loads(Path(folder, "seconds.json").read_text(encoding="utf-8"))
    one, two = (statistics.median(values) for values in seconds.values())
    return {"rounds": rounds, "steps": steps, "seconds_a_step": {"one": one, "two": two}, "ratio": round(one / two, 2)}


def measure_original(rounds: int) -> dict[str, object]:
    """One process, the published size and vocabulary, the paper's settings."""
    bilm, config = build("original", None, ORIGINAL_VOCAB_SIZE)
    windows = WindowStream(
        Repeated(), words_of(bilm), bilm.indexer, num_rows=config.batch_size, num_steps=config.unroll_steps
    )
    ours = Ours(bilm, config)
    exchanged: list[int] = []

    def step(number: int = 0) -> None:
        ours.run(next(windows), number)
        gradients = [parameter.grad for parameter in ours.optimizer.parameters if parameter.grad is not None]
        exchanged.append(sum((g._values() if g.is_sparse else g).nbytes for g in gradients))
        ours.optimizer.update(number)

    step()
    timing = interleave({"step": step}, rounds)["step"]
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {
        "num_parameters": bilm.num_parameters,
        "rounds": rounds,
        "tokens_per_second": round(config.batch_size * config.unroll_steps / timing.median, 1),
        "peak_gigabytes": round(int(peak.split()[1]) / 2**20, 2),
        "exchanged_megabytes_a_step": round(statistics.mean(exchanged) / 2**20),
        "threads": torch.get_num_threads(),
        "gemm_gflops": round(gemm_rate(torch.get_num_threads()) / 1e9),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="mini", choices=["mini", "small"])
    parser.add_argument("--negatives", type=int)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--original", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        core, steps, processes, folder = options.worker
        one_process(core, int(steps), int(processes), folder)
        return
    origin = provenance("train.py") if options.json else {}
    if options.original:
        result = measure_original(options.rounds)
    elif options.processes:
        result = compare_processes(options.rounds)
    else:
        result = compare(options.size, options.negatives, options.rounds)
    result |= origin
    if options.json:
        write(options.json, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
