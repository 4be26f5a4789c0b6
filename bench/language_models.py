"""Write down what a finished training run reached, for the tables of docs/pretraining.md.

    python bench/language_models.py run RUN --name "Penn Treebank" --valid FILE --test FILE --json results/lm-ptb.json
    python bench/language_models.py finetune RUN --name "SST" --json results/finetune-sst.json

RUN is the folder of `elmokit pretrain` or `elmokit finetune`. Perplexities are measured anew on whole files.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import elmokit
from elmokit.formats import fingerprint
from elmokit.training.perplexity import read_text
from elmokit.training.pretrain import evaluate_both

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.machine import provenance


def training_hours(run: Path) -> float:
    """Time spent in steps, over all stretches of a run, from the speeds that it logged."""
    hours, before = 0.0, 0
    for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "per_second" in entry:
            hours += (entry["count"] - before) / entry["per_second"] / 3600
            before = entry["count"]
    return round(hours, 2)


def digest(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def describe(run: Path, name: str) -> dict[str, object]:
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {
        "name": name,
        "steps": result["steps"],
        "predictions": result["predictions"],
        "best_step": result["best_step"],
        "hours": training_hours(run),
        "train": [digest(Path(path)) for path in settings["train"]],
        "config": settings["config"],
        "seed": settings["config"]["seed"],
        "num_parameters": settings["num_parameters"],
        "model": result["fingerprint"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["run", "finetune"])
    parser.add_argument("run", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--valid", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    result = describe(options.run, options.name)
    if options.kind == "run":
        bilm = elmokit.load(options.run / "model")
        assert fingerprint(bilm) == result["model"]
        for split in ("valid", "test"):
            path = getattr(options, split)
            text = read_text([path], input=result["config"]["corpus"]["input"])
            result[split] = {**evaluate_both(bilm, text), **digest(path)}
    else:
        own = json.loads((options.run / "result.json").read_text(encoding="utf-8"))
        result |= {"before": own["before"], "after": own["heldout"]}
    names = " ".join(Path(word).name if "/" in word else word for word in sys.argv[1:])
    result |= provenance(f"python bench/language_models.py {names}")
    options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
