"""The words whose use differs most between Wikipedia and the books of $ELMOKIT_DATA, as a result file.

    python bench/shifts.py --model mini --output FOLDER --json results/usage/shifts.json

FOLDER gets the page of `elmokit analyze senses --rank 20`; an existing one is not made again.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from elmokit.text.files import file_sha256

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.places import DATA
from bench.provenance import provenance, show_word
from bench.results import write

CORPORA = {"--corpus": "lm/wikipedia-00.txt.xz", "--against": "lm/books-00.txt.xz"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    origin = provenance("shifts.py", ["--model", options.model, "--output FOLDER --json", show_word(str(options.json))])
    report = options.output / "report.json"
    if not report.exists():
        command = [sys.executable, "-m", "elmokit", "analyze", "senses", "--rank", "20", "--input", "text"]
        command += [word for name, path in CORPORA.items() for word in (name, str(DATA / path))]
        subprocess.run([*command, "--model", options.model, "--output", str(options.output)], check=True)
    found = json.loads(report.read_text(encoding="utf-8"))
    del found["files"]
    found["data"] = [{"file": path, "sha256": file_sha256(DATA / path)} for path in CORPORA.values()]
    write(options.json, found | origin)
    print(f"wrote {options.json}")


if __name__ == "__main__":
    main()
