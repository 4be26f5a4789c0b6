"""What the whole `elmokit embed` costs beside the computing, and how long a first result takes.

    python bench/command.py --layers all --json FILE        the command, as a multiple of `embed_stream` in memory
    python bench/command.py --layers top --json FILE
    python bench/command.py --start --json FILE             a cold start, as a multiple of `import torch`

The text is the first 3,000 paragraphs of held-out Wikipedia in $ELMOKIT_DATA (227,267 tokens), the model is `mini`, and
the vectors are float16. The command is a process of its own: its start, its journal and its end count. `embed_stream`
runs in this process with a loaded model that has seen no word, and its vectors are dropped at once.
"""

import argparse
import lzma
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import elmokit  # noqa: E402
from bench.machine import interleave  # noqa: E402
from bench.places import DATA  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402

PARAGRAPHS = 3000
FORMATS = ("parquet", "hdf5", "npz", "jsonl")
COMMAND = [sys.executable, "-m", "elmokit", "embed"]
ONE_SENTENCE = "import elmokit; elmokit.Embedder('mini').embed(['The play was cancelled.'])"


def read_paragraphs() -> list[str]:
    """The text: paragraphs that are not blank."""
    found = []
    with lzma.open(DATA / "lm/wikipedia-heldout.txt.xz", "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                found.append(line.strip())
            if len(found) == PARAGRAPHS:
                break
    return found


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def whole_command(layers: str, rounds: int) -> dict[str, object]:
    paragraphs, bilm, tokens = read_paragraphs(), elmokit.load("mini").requires_grad_(False), [0]

    def stream() -> None:
        embedder = elmokit.Embedder(bilm)
        tokens[0] = sum(v.shape[-2] for v in embedder.embed_stream(paragraphs, layers=layers, dtype="float16"))
        embedder.runner.workers.close()

    with tempfile.TemporaryDirectory(dir=ROOT / ".venv") as folder:
        source = Path(folder, "paragraphs.txt")
        source.write_text("\n".join(paragraphs) + "\n", encoding="utf-8")

        def embed(format_: str) -> None:
            output = Path(folder, f"vectors.{format_}")
            output.unlink(missing_ok=True)
            run([*COMMAND, str(source), str(output), "--model", "mini", "--dtype", "float16", "--layers", layers])

        candidates: dict[str, Callable[[], object]] = {"embed_stream": stream}
        candidates |= {format_: partial(embed, format_) for format_ in FORMATS}
        timings = interleave(candidates, rounds)
    base = timings["embed_stream"].median
    rows = {
        name: {"ratio": round(timing.median / base, 2), "seconds": round(timing.median, 2)}
        for name, timing in timings.items()
    }
    return {"layers": layers, "rounds": rounds, "paragraphs": PARAGRAPHS, "tokens": tokens[0], "rows": rows}


def start(rounds: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "one.txt").write_text("The play was cancelled.\n", encoding="utf-8")
        one_line = [*COMMAND, f"{folder}/one.txt", f"{folder}/one.npz", "--model", "mini", "--overwrite"]
        programs = {
            "import torch": [sys.executable, "-c", "import torch"],
            "one sentence in Python": [sys.executable, "-c", ONE_SENTENCE],
            "elmokit embed of one line": one_line,
        }
        for program in programs.values():
            run(program)
        timings = interleave({name: partial(run, program) for name, program in programs.items()}, rounds)
    medians = {name: statistics.median(timing.seconds) for name, timing in timings.items()}
    base = medians["import torch"]
    rows = {name: {"ratio": round(m / base, 2), "seconds": round(m, 3)} for name, m in medians.items()}
    return {"rounds": rounds, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", choices=["all", "top"], default="all")
    parser.add_argument("--start", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    origin = provenance("command.py") if arguments.json else {}
    measured = start(arguments.rounds) if arguments.start else whole_command(arguments.layers, arguments.rounds)
    for name, row in measured["rows"].items():  # type: ignore[attr-defined]
        print(f"{name:26}", *(f"{key} {value:<8}" for key, value in row.items()))
    if arguments.json:
        write(arguments.json, origin | measured)


if __name__ == "__main__":
    main()
