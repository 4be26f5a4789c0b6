"""Embedding speed relative to AllenNLP 2.10.1's own modules, interleaved, and to the limits of the machine.

    python bench/embed.py --size small                      throughput: sorted AllenNLP = 1
    python bench/embed.py --size full --json FILE           the same, written to a file
    python bench/embed.py --size small --latency            one sentence of 20 tokens
    python bench/embed.py --peers                           words/s of mini, interleaved with all-MiniLM-L6-v2
    python bench/embed.py --linear                          tokens/s by corpus size and sentence length
    python bench/embed.py --int8-error MODEL                how much int8 changes the vectors of a trained model
    python bench/embed.py --bfloat16-error MODEL            the same for bfloat16

Both run the same random weights of official size on the same English sentences (tests/fixtures/prose.txt). AllenNLP's
sentences are sorted by length and batched by 32, its best case. "warm" has seen the words before, "cold" has not.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

import elmokit
from elmokit.amx import avoid_hidden_tiles
from elmokit.config import CharacterInput, LstmStack
from elmokit.embedding.embedder import Embedder
from elmokit.formats import fingerprint
from elmokit.model.engines.choose import resolve_precision
from elmokit.native.library import find_library, forget_library

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.parity.allennlp_peer import load_peer, quiet  # noqa: E402

from bench.machine import bandwidth, gemm_rate, interleave  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {"small": (1, 1024, 128), "medium": (1, 2048, 256), "full": (2, 4096, 512)}
WORDS = {"small": 12500, "medium": 12500, "full": 12500}


def build(size: str) -> elmokit.BiLM:
    num_highway, cell_dim, projection_dim = SIZES[size]
    shape = CharacterInput(filters=FILTERS, num_highway=num_highway)
    stack = LstmStack(cell_dim=cell_dim, projection_dim=projection_dim)
    return elmokit.BiLM(elmokit.ElmoConfig(input=shape, lstm=stack), seed=1).eval().requires_grad_(False)


def read_sentences(num_words: int) -> list[list[str]]:
    text = (ROOT / "tests/fixtures/prose.txt").read_text(encoding="utf-8")
    sentences: list[list[str]] = []
    for sentence in elmokit.tokenize(text):
        if sum(map(len, sentences)) + len(sentence) > num_words:
            break
        sentences.append([token.text for token in sentence])
    return sentences


def build_peer(bilm: elmokit.BiLM) -> torch.nn.Module:
    with tempfile.TemporaryDirectory() as folder, quiet():
        elmokit.save(bilm, Path(folder, "m"), format="bilm")
        return load_peer()._ElmoBiLm(f"{folder}/m/options.json", f"{folder}/m/weights.hdf5").eval()


def run_peer(peer: torch.nn.Module, sentences: list[list[str]], batch_size: int = 32) -> None:
    ordered = sorted(sentences, key=len)
    with quiet(), torch.no_grad():
        for start in range(0, len(ordered), batch_size):
            peer(elmokit.batch_to_ids(ordered[start : start + batch_size]))


def lstm_flops(bilm: elmokit.BiLM) -> int:
    """Operations of all LSTM products for one position."""
    stack = bilm.config.lstm
    return 2 * stack.num_layers * 2 * (2 * stack.output_dim * 4 * stack.cell_dim + stack.cell_dim * stack.output_dim)


def build_embedder(name: str, bilm: elmokit.BiLM, threads: int) -> Embedder:
    """An embedder by its name in the tables."""
    precision = name if name in ("bfloat16", "int8") else "float32"
    if name == "pure":
        os.environ["ELMOKIT_NATIVE"] = "0"
        forget_library()
    embedder = Embedder(bilm, threads=threads, precision=precision)
    os.environ.pop("ELMOKIT_NATIVE", None)
    forget_library()
    return embedder


def embedders(bilm: elmokit.BiLM, threads: int, int8: bool) -> dict[str, Embedder]:
    names = ["pure", *(["native"] if find_library() else []), *(["int8"] if int8 else [])]
    if resolve_precision("auto", next(bilm.parameters())) == "bfloat16":
        names.append("bfloat16")
    return {name: build_embedder(name, bilm, threads) for name in names}


def rounding_error(exactly: Embedder, rounding: Embedder, sentences: list[list[str]]) -> list[float]:
    """How much a precision changes each layer: root mean square of the difference, relative to that of the layer."""
    exact, rounded = (np.concatenate(embedder.embed(sentences), axis=1) for embedder in (exactly, rounding))
    return [
        round(float(np.sqrt(((r - e) ** 2).mean() / (e**2).mean())), 5) for e, r in zip(exact, rounded, strict=True)
    ]


def warm_and_cold(
    fast: dict[str, Embedder], sentences: list[list[str]], threads: int
) -> dict[str, Callable[[], object]]:
    """Candidates for each embedder: with the words seen before, and without."""

    def cold(name: str, embedder: Embedder) -> None:
        fresh = build_embedder(name, embedder.bilm, threads)
        fresh.runner.engine = embedder.runner.engine  # whose weights are packed
        fresh.embed(sentences)
        fresh.runner.workers.close()

    candidates: dict[str, Callable[[], object]] = {}
    for name, embedder in fast.items():
        embedder.embed(sentences)
        candidates[f"{name} warm"] = partial(embedder.embed, sentences)
        candidates[f"{name} cold"] = partial(cold, name, embedder)
    return candidates


def throughput(arguments: argparse.Namespace) -> dict[str, object]:
    bilm, peer = build(arguments.size), None
    sentences = read_sentences(arguments.words or WORDS[arguments.size])
    num_words = sum(map(len, sentences))
    peer = build_peer(bilm)
    fast = embedders(bilm, arguments.threads, arguments.int8)

    candidates: dict[str, Callable[[], object]] = {"allennlp": lambda: run_peer(peer, sentences)}
    candidates |= warm_and_cold(fast, sentences, arguments.threads)
    torch.set_num_threads(arguments.threads)
    rates: list[float] = []
    candidates["gemm"] = lambda: rates.append(gemm_rate(arguments.threads))
    timings = interleave(candidates, arguments.rounds)
    del timings["gemm"]
    error = rounding_error(fast["pure"], fast["int8"], sentences[:60]) if arguments.int8 else None
    rate = statistics.median(rates)
    limit = rate / lstm_flops(bilm)
    base = timings["allennlp"].median
    rows = {}
    positions = num_words + 2 * len(sentences)
    for name, timing in timings.items():
        rows[name] = {
            "ratio": round(base / timing.median, 2),
            "words_per_second": round(num_words / timing.median),
            "of_gemm_roofline": round(positions / timing.median / limit, 3),
            "disturbed_rounds": timing.disturbed,
        }
        print(f"{name:14}", *(f"{key} {value:<8}" for key, value in rows[name].items()))
    print(
        f"GEMM {rate / 1e9:.0f} GFLOP/s on {arguments.threads} threads; {len(sentences)} sentences, {num_words} words"
    )
    return {"size": arguments.size, "threads": arguments.threads, "rounds": arguments.rounds, "words": num_words,
            "gemm_gflops": round(rate / 1e9), "int8_relative_rms_by_layer": error, "rows": rows}  # fmt: skip


def latency(arguments: argparse.Namespace) -> dict[str, object]:
    bilm = build(arguments.size)
    peer = build_peer(bilm)
    sentence = next(s[:20] for s in read_sentences(3000) if len(s) >= 20)
    fast = embedders(bilm, arguments.threads, arguments.int8)
    candidates: dict[str, Callable[[], object]] = {"allennlp": lambda: run_peer(peer, [sentence])}
    for name, embedder in fast.items():
        candidates[name] = partial(embedder.embed, [sentence])
    torch.set_num_threads(arguments.threads)
    timings = interleave(candidates, arguments.rounds * 6)
    base = timings["allennlp"].median
    rows = {}
    stack = bilm.config.lstm
    streamed = (
        4 * 22 * 2 * stack.num_layers * (stack.output_dim * 4 * stack.cell_dim + stack.cell_dim * stack.output_dim)
    )
    for name, timing in timings.items():
        rows[name] = {"ratio": round(timing.median / base, 3), "milliseconds": round(1e3 * timing.median, 2)}
        print(f"{name:10}", rows[name])
    speed = bandwidth()
    print(f"recurrent weights streamed: {streamed / 1e6:.0f} MB a sentence, one core reads {speed / 1e9:.1f} GB/s")
    return {"size": arguments.size, "threads": arguments.threads, "rows": rows,
            "streamed_megabytes": round(streamed / 1e6), "one_core_gb_per_second": round(speed / 1e9, 1)}  # fmt: skip


def peers(arguments: argparse.Namespace) -> dict[str, object]:
    """Words per second of `mini` and of MiniLM, in every precision."""
    from bench.minilm import MiniLM
    from bench.peers import OnnxMiniLM, minilm_ways

    sentences = read_sentences(arguments.words or WORDS["small"])
    num_words = sum(map(len, sentences))
    torch.set_num_threads(arguments.threads)
    bilm = elmokit.load("mini").requires_grad_(False)
    candidates = warm_and_cold(embedders(bilm, arguments.threads, int8=True), sentences, arguments.threads)
    peer = MiniLM()
    ways = minilm_ways(peer, arguments.threads)
    for name, way in ways.items():
        way(sentences[:64])
        candidates[name] = partial(way, sentences)
    errors = {name: round(way.error(sentences[:64]), 6) for name, way in ways.items() if isinstance(way, OnnxMiniLM)}
    timings = interleave(candidates, arguments.rounds)
    speeds = {name: num_words / timing.median for name, timing in timings.items()}
    base = max(speeds[name] for name in ways if name.endswith("float32"))
    rows = {}
    for name, timing in timings.items():
        rows[name] = {
            "words_per_second": round(speeds[name]),
            "ratio": round(speeds[name] / base, 2),
            "disturbed_rounds": timing.disturbed,
        }
        print(f"{name:42}", *(f"{key} {value:<8}" for key, value in rows[name].items()))
    print(f"{len(sentences)} sentences, {num_words} words; relative error of the exported MiniLM: {errors}")
    loading = interleave({"load": lambda: elmokit.load("mini")}, arguments.rounds)["load"].median
    return {"model_sha256": fingerprint(bilm), "threads": arguments.threads, "rounds": arguments.rounds,
            "words": num_words, "rows": rows, "minilm_relative_rms": errors, "load_seconds": round(loading, 3),
            "parameters": sum(map(torch.numel, bilm.parameters())),
            "peer_parameters": sum(map(torch.numel, peer.model.parameters()))}  # fmt: skip


def linear(arguments: argparse.Namespace) -> dict[str, object]:
    """Tokens per second for 1k and 100k sentences, and for sentences of 20 and 200 tokens, in one run."""
    embedder = Embedder(build(arguments.size), threads=arguments.threads)
    words = [word for sentence in read_sentences(12000) for word in sentence]

    def stream(count: int, length: int) -> Iterator[list[str]]:
        for number in range(count):
            start = number * 7 % (len(words) - length)
            yield [f"{words[start]}{number % 9973}", *words[start + 1 : start + length]]

    def consume(count: int, length: int) -> None:
        for _ in embedder.embed_stream(stream(count, length), layers="top", pooling="mean"):
            pass

    consume(1000, 20)
    timings = interleave(
        {
            "1k": lambda: consume(1000, 20),
            "100k": lambda: consume(100_000, 20),
            "200 tokens": lambda: consume(200, 200),
        },
        arguments.rounds if arguments.rounds < 3 else 2,
    )
    speeds = {
        "1k": 20_000 / timings["1k"].median,
        "100k": 2_000_000 / timings["100k"].median,
        "200 tokens": 40_000 / timings["200 tokens"].median,
    }
    rows = {name: round(speed / speeds["1k"], 3) for name, speed in speeds.items()}
    print(rows)
    return {"size": arguments.size, "threads": arguments.threads, "tokens_per_second_relative_to_1k": rows}


def trained_error(arguments: argparse.Namespace) -> dict[str, object]:
    precision = "int8" if arguments.int8_error else "bfloat16"
    bilm = elmokit.load(arguments.int8_error or arguments.bfloat16_error).requires_grad_(False)
    error = rounding_error(Embedder(bilm), Embedder(bilm, precision=precision), read_sentences(12500))
    print(error)
    return {"model_sha256": fingerprint(bilm), f"{precision}_relative_rms_by_layer": error}


def main() -> None:
    avoid_hidden_tiles()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--words", type=int)
    parser.add_argument("--int8", action="store_true")
    parser.add_argument("--latency", action="store_true")
    parser.add_argument("--linear", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--int8-error", metavar="MODEL")
    parser.add_argument("--bfloat16-error", metavar="MODEL")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    measure = latency if arguments.latency else linear if arguments.linear else throughput
    measure = peers if arguments.peers else measure
    measure = trained_error if arguments.int8_error or arguments.bfloat16_error else measure
    origin = provenance("embed.py") if arguments.json else {}
    result = origin | measure(arguments)
    if arguments.json:
        write(arguments.json, result)


if __name__ == "__main__":
    main()
