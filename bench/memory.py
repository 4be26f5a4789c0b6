"""Peak memory of `elmokit embed`: does it grow with the number of lines, and what does the full model need?

    python bench/memory.py --json results/embedding/memory.json             10,000 and 1,000,000 short lines, tiny model
    python bench/memory.py --full --json results/embedding/memory-full.json prose, official full size, random weights

A peak is the kernel's own count of a process's resident memory (VmHWM), mapped files and the interpreter included. The
process reads it itself at its end: the figure that a parent receives for its children includes the parent's own memory
before the exec.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import elmokit
from elmokit.config import CharacterInput, LstmStack

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.embed import build, read_sentences  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402

FORMATS = ("hdf5", "npz", "parquet", "jsonl")
COUNTS = (10_000, 1_000_000)
FLAGS = ("--layers", "top", "--pooling", "mean", "--dtype", "float16", "--input", "tokens")
COMMAND = """
import atexit, re, sys
from elmokit.cli.main import app
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]))
app(sys.argv[1:])
"""


def peak_megabytes(*words: object) -> int:
    """Run `elmokit …` and return its peak resident memory."""
    command = [sys.executable, "-c", COMMAND, *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    return round(int(done.stdout) / 1024)


def write_lines(path: Path, count: int) -> None:
    words = [word for sentence in read_sentences(12000) for word in sentence]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            start = number * 7 % (len(words) - 6)
            file.write(" ".join([*words[start : start + 5], str(number)]) + "\n")


def by_lines(place: Path, formats: list[str]) -> dict[str, object]:
    """Peaks of a tiny model for each format and number of lines."""
    shape = CharacterInput(filters=((1, 8), (2, 8)), num_highway=1, char_dim=4)
    tiny = elmokit.ElmoConfig(input=shape, lstm=LstmStack(cell_dim=16, projection_dim=8))
    elmokit.save(elmokit.BiLM(tiny), place / "tiny")
    result: dict[str, object] = {}
    for count in COUNTS:
        write_lines(place / f"{count}.txt", count)
    for suffix in formats:
        peaks: dict[Any, int] = {}
        for count in COUNTS:
            output = place / f"{count}.{suffix}"
            peaks[count] = peak_megabytes("embed", place / f"{count}.txt", output, "--model", place / "tiny", *FLAGS)
            output.unlink()
        result[suffix] = {**peaks, "growth": peaks[COUNTS[1]] - peaks[COUNTS[0]]}
        print(suffix, result[suffix], flush=True)
    return result


def full_size(place: Path) -> dict[str, object]:
    """The peak of the full-size model with all layers of all tokens; it grows a little over the first batches."""
    full = build("full")
    elmokit.save(full, place / "full")
    (place / "prose.txt").write_text("\n".join(map(" ".join, read_sentences(12500) * 4)), encoding="utf-8")
    words = ("--model", place / "full", "--input", "tokens")
    peak = peak_megabytes("embed", place / "prose.txt", place / "prose.hdf5", *words)
    weights = round(full.num_parameters * 4 / 2**20)
    result = {"peak": peak, "weights": weights, "above": peak - weights}
    print("full", result)
    return {"full": result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    origin = provenance("memory.py") if arguments.json else {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        result = full_size(place) if arguments.full else by_lines(place, arguments.formats)
    if arguments.json:
        write(arguments.json, origin | result)


if __name__ == "__main__":
    main()
