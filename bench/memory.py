"""Peak memory of `elmokit embed`: does it stay flat in the number of lines, and what does the full model need?

    python bench/memory.py --json results/embed-memory.json

Runs the command on 10,000 and on 1,000,000 short lines with a tiny model, for each dump format, and the official full
size (random weights) on prose. Peaks are the operating system's own count of resident memory.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import elmokit
from elmokit.config import CharacterInput, LstmStack

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.embed import build, read_sentences  # noqa: E402
from bench.machine import provenance  # noqa: E402


def peak_megabytes(*words: str) -> float:
    """Run `elmokit …` and give its largest resident set."""
    child = subprocess.Popen([sys.executable, "-m", "elmokit", *words], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, words
    return usage.ru_maxrss / 1024


def write_lines(path: Path, count: int) -> None:
    words = [word for sentence in read_sentences(12000) for word in sentence]
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            start = number * 7 % (len(words) - 6)
            file.write(" ".join([*words[start : start + 5], str(number)]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--formats", nargs="*", default=["hdf5", "npz", "parquet", "jsonl"])
    arguments = parser.parse_args()
    flags = ["--layers", "top", "--pooling", "mean", "--dtype", "float16"]
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shape = CharacterInput(filters=((1, 8), (2, 8)), num_highway=1, char_dim=4)
        tiny = elmokit.ElmoConfig(input=shape, lstm=LstmStack(cell_dim=16, projection_dim=8))
        elmokit.save(elmokit.BiLM(tiny), place / "tiny")
        for count in (10_000, 1_000_000):
            write_lines(place / f"{count}.txt", count)
        for suffix in arguments.formats:
            peaks = {}
            for count in (10_000, 1_000_000):
                output = place / f"{count}.{suffix}"
                source = str(place / f"{count}.txt")
                peaks[count] = round(
                    peak_megabytes("embed", source, str(output), "--model", str(place / "tiny"), *flags)
                )
                output.unlink()
            result[suffix] = {**peaks, "growth": peaks[1_000_000] - peaks[10_000]}
            print(suffix, result[suffix], flush=True)
        full = build("full")
        elmokit.save(full, place / "full")
        (place / "prose.txt").write_text("\n".join(" ".join(s) for s in read_sentences(12500)), encoding="utf-8")
        peak = peak_megabytes(
            "embed", str(place / "prose.txt"), str(place / "prose.hdf5"), "--model", str(place / "full")
        )
        weights = round(full.num_parameters * 4 / 2**20)
        result["full"] = {"peak": round(peak), "weights": weights, "above": round(peak - weights)}
        print("full", result["full"])
    if arguments.json:
        arguments.json.write_text(
            json.dumps(provenance("python " + " ".join(["bench/memory.py", *sys.argv[1:]])) | result, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
