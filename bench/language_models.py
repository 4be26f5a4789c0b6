"""Write the results of a finished training run to a file, for the tables of docs/pretraining.md.

    python bench/language_models.py text DATA --output FOLDER          task data without labels, to fine-tune on
    python bench/language_models.py run RUN --name "Penn Treebank" --test FILE --json results/pretraining/ptb.json
    python bench/language_models.py finetune RUN --name "SST" --json results/fine-tuning/sst.json

RUN is the folder of `elmokit pretrain` or `elmokit finetune`. Perplexities are those of whole files; that of the
held-out file was measured by the run itself.
"""

import argparse
import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import elmokit
from elmokit.formats import fingerprint
from elmokit.scoring.perplexity import evaluate_both
from elmokit.tasks.config import read_task_config
from elmokit.tasks.registry import TASKS
from elmokit.text.files import file_sha256
from elmokit.text.lines import read_text

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.provenance import provenance
from bench.results import write
from bench.tasks import SETTINGS

TEXTS = {"sst": "sst-5", "conll2003": "conll2003", "sick": "sick", "ewt": "ewt", "litbank": "litbank"}
"""Names of texts, and the settings of `bench/tasks.py` that they come from."""


def write_task_text(data: Path, output: Path) -> None:
    """Sentences of a task's training and dev files, as its reader gives them, with space-separated tokens.

    The SRL reader repeats a sentence for each predicate; it is written once.
    """
    output.mkdir(parents=True, exist_ok=True)
    for name, key in TEXTS.items():
        setting = SETTINGS[key]
        task = TASKS[setting.task]
        settings = task.read_settings(read_task_config(setting.task, "small").model)
        for split in ("train", "dev"):
            examples = task.read([data / getattr(setting, split)], settings, training=False)
            lines = [" ".join(tokens) + "\n" for tokens in task.sentences(examples)]
            if setting.task == "srl":
                lines = [line for line, _ in groupby(lines)]
            (output / f"{name}-{split}.txt").write_text("".join(lines), encoding="utf-8")
            print(f"{name}-{split}.txt: {len(lines):,} sentences")


def training_hours(run: Path) -> float:
    """Time spent in steps over all parts of a run, from the speeds that it logged."""
    hours, before = 0.0, 0
    for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if "per_second" in entry:
            hours += (entry["count"] - before) / entry["per_second"] / 3600
            before = entry["count"]
    return round(hours, 2)


def digest(path: Path) -> dict[str, str]:
    return {"file": path.name, "sha256": file_sha256(path)}


def describe(run: Path, name: str) -> dict[str, Any]:
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
    parser.add_argument("kind", choices=["text", "run", "finetune"])
    parser.add_argument("run", type=Path, metavar="RUN|DATA")
    parser.add_argument("--name")
    parser.add_argument("--test", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if options.kind == "text":
        return write_task_text(options.run, options.output)
    origin = provenance("language_models.py")
    result = describe(options.run, options.name)
    if options.kind == "run":
        bilm = elmokit.load(options.run / "model")
        assert fingerprint(bilm) == result["model"]
        own = json.loads((options.run / "result.json").read_text(encoding="utf-8"))
        heldout = json.loads((options.run / "run.json").read_text(encoding="utf-8"))["heldout"]
        result["valid"] = {**own["heldout"], **digest(Path(heldout[0]))}
        text = read_text([options.test], input=result["config"]["corpus"]["input"])
        result["test"] = {**evaluate_both(bilm, text), **digest(options.test)}
    else:
        own = json.loads((options.run / "result.json").read_text(encoding="utf-8"))
        result |= {"before": own["before"], "after": own["heldout"]}
    result |= origin
    write(options.json, result)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
