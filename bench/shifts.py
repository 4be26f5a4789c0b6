"""The words whose use differs most between Wikipedia and the books of $ELMOKIT_DATA, written down with what made them.

    python bench/shifts.py --model mini --output FOLDER --json results/mini-shifts.json

FOLDER gets the page of `elmokit analyze senses --rank 20`; one that is there already is not made again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from elmokit.text.files import file_sha256

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.machine import provenance
from bench.places import DATA

CORPORA = {"--corpus": "lm/wikipedia-00.txt.xz", "--against": "lm/books-00.txt.xz"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    report = options.output / "report.json"
    if not report.exists():
        command = [sys.executable, "-m", "elmokit", "analyze", "senses", "--rank", "20", "--input", "text"]
        command += [word for name, path in CORPORA.items() for word in (name, str(DATA / path))]
        subprocess.run([*command, "--model", options.model, "--output", str(options.output)], check=True)
    found = json.loads(report.read_text(encoding="utf-8"))
    del found["files"]
    found["data"] = [{"file": path, "sha256": file_sha256(DATA / path)} for path in CORPORA.values()]
    found |= provenance(f"python bench/shifts.py --model {options.model} --output FOLDER --json {options.json}")
    options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
