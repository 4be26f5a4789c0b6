"""The cost of building a neighbor index relative to embedding, and of a search relative to its matrix product.

    python bench/neighbors.py --model PATH --corpus TEXT --json results/usage/neighbors.json

Build: the same sentences through `embed_stream`, consumed (= 1), and into an index on disk; the embedder has seen the
words before. Search: one query's top layer against all tokens and against the occurrences of a frequent word, relative
to the product of the same rows, in memory as float32, with the query (= 1). A search reads memory-mapped float16 from
the page cache, computes norms, and keeps the ten best distinct contexts. With faiss, approximate search is also
measured, and how many of the exact ten it finds.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.machine import Timing, interleave  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402
from elmokit.analysis.neighbors.build import corpus_hash, open_index  # noqa: E402
from elmokit.analysis.neighbors.index import NeighborIndex  # noqa: E402
from elmokit.analysis.neighbors.search import ApproximateIndex, Nearest  # noqa: E402
from elmokit.embedding.embedder import Embedder  # noqa: E402
from elmokit.text.lines import read_sentences  # noqa: E402

K = 10


def take_sentences(corpus: Path, num_words: int) -> list[list[str]]:
    sentences: list[list[str]] = []
    total = 0
    for tokens in read_sentences(corpus, input="text"):
        if total + len(tokens) > num_words:
            break
        sentences.append(tokens)
        total += len(tokens)
    return sentences


def build(embedder: Embedder, sentences: list[list[str]], folder: Path, rounds: int) -> dict[str, Timing]:
    """Seconds of embedding alone and of building an index; one index is left in folder/index."""
    corpus = folder / "corpus.txt"
    corpus.write_text("".join(" ".join(tokens) + "\n" for tokens in sentences), encoding="utf-8")
    numbers = count()

    def consume() -> None:
        for _ in embedder.embed_stream(sentences):
            pass

    def index() -> None:
        path = folder / f"index-{next(numbers)}"
        open_index(embedder, corpus, path, input="tokens")
        shutil.rmtree(path)

    consume()
    timings = interleave({"embed": consume, "index": index}, rounds)
    open_index(embedder, corpus, folder / "index", input="tokens")
    return timings


def search(index: NeighborIndex, query: np.ndarray, weights: tuple[float, ...], rows: Any) -> Nearest:
    nearest = Nearest(query, weights, K, lambda row: index.occurrence(row)[:2])
    for found, layers in index.blocks(rows):
        nearest.feed(found, layers)
    return nearest


def searches(
    index: NeighborIndex, query: np.ndarray, weights: tuple[float, ...], word: str
) -> tuple[dict[str, Callable[[], object]], dict[str, Any]]:
    """The functions to time, and further facts about them."""
    top = len(weights) - 1
    everything = np.concatenate([layers[:, top].astype(np.float32) for _, layers in index.blocks()])  # (N, D)
    matrix, vector = torch.from_numpy(everything), torch.from_numpy(query[top].astype(np.float32))
    rows = index.rows_of(word)
    own = matrix[torch.from_numpy(np.array(rows))]  # (n, D)
    candidates: dict[str, Callable[[], object]] = {
        "product, all tokens": lambda: torch.mv(matrix, vector),
        "search, all tokens": lambda: search(index, query, weights, None),
        "product, one word": lambda: torch.mv(own, vector),
        "search, one word": lambda: search(index, query, weights, rows),
    }
    known: dict[str, Any] = {"tokens": index.num_tokens, "word": word, "occurrences": len(rows)}
    try:
        lists = ApproximateIndex(index, weights)
    except Exception as error:  # faiss is an extra
        print(f"without faiss: {error}")
        return candidates, known

    def approximate() -> Nearest:
        nearest = Nearest(query, weights, K, lambda row: index.occurrence(row)[:2])
        lists.search(nearest)
        return nearest

    exact = {hit.row for hit in search(index, query, weights, None).hits()}
    known["approximate_finds_of_10"] = len(exact & {hit.row for hit in approximate().hits()})
    return candidates | {"faiss, all tokens": approximate}, known


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    torch.set_num_threads(arguments.threads)
    embedder = Embedder.from_pretrained(arguments.model, threads=arguments.threads)
    sentences = take_sentences(arguments.corpus, arguments.words)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        built = build(embedder, sentences, Path(folder), arguments.rounds)
        index = NeighborIndex(Path(folder) / "index")
        layers = embedder.embed([sentences[0]])[0][:, 0]  # (L, D)
        weights = tuple(float(layer == len(layers) - 1) for layer in range(len(layers)))
        word = index.types.words[int(np.argsort(-index.types.counts, kind="stable")[arguments.rank])]
        candidates, known = searches(index, layers, weights, word)
        timings = interleave(candidates, arguments.rounds * 3)
        size = sum(path.stat().st_size for path in (Path(folder) / "index").rglob("*") if path.is_file())
    rows = {
        "build speed, embedding = 1": {
            "ratio": round(built["embed"].median / built["index"].median, 3),
            "seconds": round(built["index"].median, 2),
            "tokens_per_second": round(known["tokens"] / built["index"].median),
            "disturbed_rounds": built["index"].disturbed,
        }
    }
    for name, timing in timings.items():
        base = timings[f"product, {name.partition(', ')[2]}"].median
        rows[f"time of {name}, product = 1"] = {
            "ratio": round(timing.median / base, 2),
            "milliseconds": round(1e3 * timing.median, 3),
            "disturbed_rounds": timing.disturbed,
        }
    for name, values in rows.items():
        print(f"{name:45}", *(f"{key} {value:<10}" for key, value in values.items()))
    print(known)
    return {"model_sha256": embedder.fingerprint, "corpus_sha256": corpus_hash(arguments.corpus),
            "threads": arguments.threads, "rounds": arguments.rounds, "width": index.meta.width,
            "layers": index.meta.num_layers, "index_bytes_a_token": round(size / known["tokens"]), **known,
            "rows": rows}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--corpus", type=Path, required=True, help="running text; .gz .xz .bz2 work")
    parser.add_argument("--words", type=int, default=200_000)
    parser.add_argument("--rank", type=int, default=100, help="search the occurrences of the word of this frequency")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    origin = provenance("neighbors.py") if arguments.json else {}
    result = origin | measure(arguments)
    if arguments.json:
        write(arguments.json, result)


if __name__ == "__main__":
    main()
