"""Memory of a training run over a corpus far larger than memory, simulated by listing the same shards repeatedly.

    python bench/train_memory.py FILES… --input text --json results/training/memory.json

A mini model takes a step now and then, while the stream of windows runs through `--read` gigabytes of a list of
`--corpus` gigabytes of text; the resident memory is measured throughout.
"""

import argparse
import json
import sys
from pathlib import Path

from elmokit.corpus.counting import build_vocabulary, count_words
from elmokit.corpus.stream import SentenceStream
from elmokit.corpus.windows import WindowStream
from elmokit.model.bilm import BiLM
from elmokit.text.files import find_files, open_text
from elmokit.text.vocabulary import Vocabulary
from elmokit.training.config import PretrainConfig, read_run
from elmokit.training.optim import Optimizer
from elmokit.training.step import LanguageModelStep

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.provenance import provenance
from bench.results import write

STEP_EVERY = 100
"""Windows between steps: the stream is what is measured, and steps take nearly all the time."""


def resident() -> int:
    """Megabytes of this process."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


class Counted:
    """A stream that counts the bytes of text that it has returned."""

    def __init__(self, sentences: SentenceStream) -> None:
        self.sentences, self.num_bytes = sentences, 0

    def __next__(self) -> list[str]:
        sentence = next(self.sentences)
        self.num_bytes += sum(len(token) + 1 for token in sentence)
        return sentence


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--input", default="text", choices=["text", "tokens"])
    parser.add_argument("--corpus", type=float, default=10.0)
    parser.add_argument("--read", type=float, default=0.5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    origin = provenance("train_memory.py") if options.json else {}
    paths = find_files(options.files)
    size = 0
    for path in paths:
        with open_text(path) as text:
            size += sum(len(line.encode()) for line in text)
    repeated = paths * -(-int(options.corpus * 1e9) // size)
    vocabulary: Vocabulary = build_vocabulary(count_words(paths[:1], input=options.input), max_size=50_000)
    config = read_run(PretrainConfig, "mini", {"loss.num_negatives": "2048"})
    bilm = BiLM(config.build_model(len(vocabulary)), vocabulary=vocabulary)
    step = LanguageModelStep(bilm, config.loss, num_rows=config.batch_size, num_steps=config.unroll_steps)
    optimizer = Optimizer(*step.parameters(), config.optimizer, 10_000)
    before = resident()
    sentences = Counted(SentenceStream(repeated, input=options.input))
    windows = WindowStream(
        sentences,  # type: ignore[arg-type]
        vocabulary,
        bilm.indexer,
        num_rows=config.batch_size,
        num_steps=config.unroll_steps,
    )
    seen: list[tuple[int, int]] = []
    for number, window in enumerate(windows):
        if number % STEP_EVERY == 0:
            step(window, number)
            optimizer.update(number)
            seen.append((sentences.num_bytes, resident()))
        if sentences.num_bytes > options.read * 1e9:
            break
    early = max(memory for place, memory in seen if place <= options.read * 1e8)
    result = {
        "corpus_gigabytes": round(len(repeated) / len(paths) * size / 1e9, 1),
        "num_files": len(repeated),
        "read_gigabytes": options.read,
        "model_and_libraries_megabytes": before,
        "peak_megabytes": max(memory for _, memory in seen),
        "above_model_megabytes": max(memory for _, memory in seen) - before,
        "growth_megabytes": max(memory for _, memory in seen) - early,
        **origin,
    }
    print(json.dumps(result, indent=1))
    if options.json:
        write(options.json, result)


if __name__ == "__main__":
    main()
