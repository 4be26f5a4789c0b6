"""The six tasks with and without ELMo on the data of $ELMOKIT_DATA, with results in results/tasks/STUDY/DATA.json.

    python bench/tasks.py compare conll2003 --runs RUNS --vectors skipgram.txt      Table 1
    python bench/tasks.py compare conll2003 --runs RUNS --vectors skipgram.txt -- --also random
    python bench/tasks.py mixing ewt --runs RUNS --vectors skipgram.txt             Table 2; also placement (Table 3)
    python bench/tasks.py sample-efficiency ewt --runs RUNS --vectors skipgram.txt  Figure 1
    python bench/tasks.py grid sick --runs RUNS --vectors skipgram.txt              settings of both variants, on dev
    python bench/tasks.py attempts conll2003 --runs RUNS --vectors skipgram.txt -- elmo both tuned=MODEL    to gain more
    python bench/tasks.py layer-weights ewt --runs RUNS                             Figure 2, from the runs of compare
    python bench/tasks.py learning-curves ewt --runs RUNS                           dev scores by epoch, from the same
    python bench/tasks.py epochs conll2003 --runs RUNS --vectors skipgram.txt       time per epoch with ELMo ÷ without

Arguments after -- are passed to `elmokit task compare` or `elmokit analyze …`, or name attempts, of which `elmo` is the
first, or points of a grid such as `baseline:dropout`. With --name NAME the result is written to
results/tasks/STUDY/DATA-NAME.json, next to the main one. Everything is resumable: repeat the command. The baseline's
word vectors are those of bench/skipgram.py concatenated with GloVe's of the data directory.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import elmokit
from elmokit.formats import fingerprint
from elmokit.tasks.config import read_task_config
from elmokit.tasks.experiments.comparison import compare, read_scores
from elmokit.tasks.experiments.variants import BASELINE, Experiment, RunDone, Variant, run_all
from elmokit.tasks.registry import TASKS
from elmokit.tasks.runner import TaskFiles, train_task
from elmokit.text.files import file_sha256, open_text

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.places import DATA, GLOVE, RESULTS, ROOT
from bench.provenance import provenance
from bench.results import write

STUDIES = {
    "compare": (["task", "compare"], "comparison.json"),
    "mixing": (["analyze", "mixing"], "report/report.json"),
    "placement": (["analyze", "placement"], "report/report.json"),
    "sample-efficiency": (["analyze", "sample-efficiency"], "report/report.json"),
}


class Setting(NamedTuple):
    """A task's files in the data directory, and the seeds of its table."""

    task: str
    train: str
    dev: str
    test: str
    seeds: str = "1 2 3"


SETTINGS = {
    "conll2003": Setting(
        "ner",
        "ner/conll2003/eng.train",
        "ner/conll2003/eng.testa",
        "ner/conll2003/eng.testb",
        seeds="1 2 3 4 5",
    ),
    "sst-5": Setting(
        "sentiment",
        "sentiment/sst/trees/train.txt",
        "sentiment/sst/trees/dev.txt",
        "sentiment/sst/trees/test.txt",
        seeds="1 2 3 4 5",
    ),
    "sick": Setting("nli", *(f"nli/sick/SICK_{name}.txt" for name in ("train", "dev", "test"))),
    "snli-small": Setting("nli", "train.jsonl", "dev.jsonl", "nli/snli-dev-test/snli_test.jsonl.xz"),
    "squad": Setting("qa", *(f"qa/squad/squad-{name}.json.xz" for name in ("train34", "dev7", "test7"))),
    "ewt": Setting("srl", *(f"srl/ewt-propbank/{name}.gold_conll.xz" for name in ("train", "dev", "test"))),
    "litbank": Setting("coref", *(f"coref/litbank/{name}.txt" for name in ("train", "dev", "test"))),
    "ontogum": Setting("coref", *(f"coref/ontogum/{name}.txt" for name in ("train", "dev", "test"))),
}

GRIDS = {
    "conll2003": {"dropout": {"model.dropout": "0.3"}, "own": {"elmo.dropout": "0"}},
    "sst-5": {
        "dropout": {"model.input_dropout": "0.2"},
        "halved": {
            "num_epochs": "6",
            "optimizer.schedule": "constant",
            "optimizer.halve_after": "1",
            "loop.patience": "6",
        },
        "own": {"elmo.dropout": "0.5"},
    },
    "sick": {"dropout": {"model.dropout": "0.5"}, "own": {"elmo.dropout": "0.5"}},
    "squad": {
        "dropout": {"model.dropout": "0.4"},
        "less": {"model.dropout": "0.1"},
        "longer": {"num_epochs": "20"},
        "own": {"elmo.dropout": "0.5"},
    },
    "ewt": {"dropout": {"model.input_dropout": "0.4"}, "own": {"elmo.dropout": "0"}},
    "litbank": {"dropout": {"model.lexical_dropout": "0.3"}, "own": {"elmo.dropout": "0.2"}},
}
"""Values to try instead of the preset's, for both variants; ELMo's own settings only with ELMo."""

ATTEMPTS = {
    "conll2003": {
        "elmo": ("+ ELMo", ()),
        "lambda": ("λ = 0.001", (("elmo.regularization", "0.001"),)),
        "both": ("at both ends", (("elmo.place", "both"),)),
        "concat": ("all layers side by side", (("elmo.layers", '"concat"'),)),
        "learning": ("the biLM learns along, at a tenth of the rate", (("elmo.tuned", "0.1"),)),
        "gently": ("the biLM learns along, at a hundredth of it", (("elmo.tuned", "0.01"),)),
    },
}
"""Attempts to increase a small gain: name, label and settings."""

BILMS = {"tuned": "biLM tuned on the task's text", "second": "biLM after a second pass over its corpus"}
"""Other biLMs to try, each given as NAME=MODEL."""


def cut_snli(data: Path, folder: Path) -> None:
    """SNLI's dev pairs, split by premise: a tenth for development, the rest for training, as the data's README says."""
    with open_text(data / "nli/snli-dev-test/snli_dev.jsonl.xz") as lines:
        pairs = [(json.loads(line)["sentence1"], line) for line in lines]
    premises = sorted({premise for premise, _ in pairs})
    random.Random(13).shuffle(premises)
    chosen = set(premises[: len(premises) // 10])
    folder.mkdir(parents=True, exist_ok=True)
    for name, inside in (("dev", True), ("train", False)):
        own = [line for premise, line in pairs if (premise in chosen) == inside]
        (folder / f"{name}.jsonl").write_text("".join(own), encoding="utf-8")


def find_files(name: str, options: argparse.Namespace) -> dict[str, Path]:
    setting = SETTINGS[name]
    files = {split: options.data / getattr(setting, split) for split in ("train", "dev", "test")}
    if name == "snli-small":
        folder = options.runs / "snli-small-data"
        cut_snli(options.data, folder)
        files |= {split: folder / getattr(setting, split) for split in ("train", "dev")}
    return files


def describe(options: argparse.Namespace) -> dict[str, object]:
    """Model and data by hash."""
    files = find_files(options.setting, options) | {path.name: path for path in options.vectors}
    return {
        "bilms": {options.model: fingerprint(elmokit.load(options.model))},
        "files": {name: {"name": path.name, "sha256": file_sha256(path)} for name, path in files.items()},
    }


def name_files(files: dict[str, Path], options: argparse.Namespace) -> list[str]:
    """The arguments of a command that name its files."""
    pairs = [*files.items(), *(("vectors", path) for path in options.vectors)]
    return [word for name, path in pairs for word in (f"--{name}", str(path))]


def run_study(options: argparse.Namespace) -> dict[str, object]:
    """Run an elmokit command and read its output file."""
    setting, files = SETTINGS[options.setting], find_files(options.setting, options)
    words, report = STUDIES[options.study]
    output = options.runs / "-".join(filter(None, (options.study, options.setting, options.name)))
    command = [sys.executable, "-m", "elmokit", *words, setting.task, "--model", options.model]
    command += name_files(files, options)
    command += ["--seeds", options.seeds or setting.seeds, "--output", str(output), *options.further]
    if options.processes:
        command += ["--processes", str(options.processes)]
    if subprocess.run(command).returncode:
        sys.exit(f"{options.study} of {options.setting} did not end well: see above, and repeat the command to go on")
    pictures = ROOT / "docs/pictures"
    pictures.mkdir(exist_ok=True)
    for picture in (output / report).parent.glob("*.svg"):
        shutil.copyfile(picture, pictures / f"{picture.stem}-{options.setting}.svg")
    found: dict[str, Any] = json.loads((output / report).read_text(encoding="utf-8"))
    shorten_names(found["setting"])
    return found | {"data": options.setting, "study": options.study, "name": options.name}


def build_experiment(options: argparse.Namespace, folder: str, seeds: str) -> Experiment:
    setting = SETTINGS[options.setting]
    files: dict[str, Any] = {split: [str(path)] for split, path in find_files(options.setting, options).items()}
    return Experiment(
        task=TASKS[setting.task],
        **files,
        output=options.runs / folder,
        seeds=[int(seed) for seed in (options.seeds or seeds).split()],
        vectors=[str(path) for path in options.vectors],
        processes=options.processes,
    )


def show_done(run: RunDone) -> None:
    print(run.name, run.result["dev"], f"{run.number} of {run.total}", flush=True)


def run_grid(options: argparse.Namespace) -> dict[str, object]:
    """Scores with settings other than the preset's, with and without ELMo; the preset's are in `compare`."""
    grid = GRIDS[options.setting]
    points = {f"baseline:{name}": {"elmo.place": "none"} | own for name, own in grid.items() if name != "own"}
    points |= {f"elmo:{name}": own for name, own in grid.items()}
    if unknown := [name for name in options.further if name not in points]:
        sys.exit(f"{unknown[0]} names no point of {options.setting}: give some of {', '.join(points)}")
    variants = []
    for name in options.further or points:
        model = None if name.startswith("baseline") else options.model
        variants.append(Variant(name.replace(":", "-"), name, tuple(points[name].items()), model))
    runs = run_all(build_experiment(options, f"grid-{options.setting}", "1"), variants, done=show_done)
    rows = []
    for variant in variants:
        scores = read_scores(runs, variant).to_dict()
        own = {name: scores[name] for name in ("dev", "test", "further")}
        rows.append({"side": variant.label.partition(":")[0], "changes": dict(variant.changes), **own})
    found: dict[str, Any] = {"rows": rows, "seeds": list(runs.experiment.seeds), "setting": runs.setting()}
    shorten_names(found["setting"])
    return found | {"data": options.setting, "study": "grid", "name": options.name}


def run_attempts(options: argparse.Namespace) -> dict[str, object]:
    """Other settings and other biLMs, compared with the baseline of `compare`, whose runs are reused."""
    others, settings = [], ATTEMPTS[options.setting]
    for word in options.further or settings:
        name, _, model = word.partition("=")
        if word in settings:
            others.append(Variant(word, *settings[word], options.model))
        elif name in BILMS and model:
            others.append(Variant(name, BILMS[name], bilm=model))
        else:
            own = ", ".join([*settings, *(f"{name}=MODEL" for name in BILMS)])
            sys.exit(f"{word} names no attempt of {options.setting}: give some of {own}")
    experiment = build_experiment(options, f"compare-{options.setting}", "1 2 3")
    runs = run_all(experiment, [BASELINE, *others], done=show_done)
    found = compare(runs, BASELINE, others).to_dict() | {"setting": runs.setting()}
    shorten_names(found["setting"])
    return found | {"data": options.setting, "study": "attempts", "name": options.name}


def read_runs(options: argparse.Namespace) -> dict[str, object]:
    """An analysis of the finished runs of a comparison; its picture is written to the docs."""
    folder = options.runs / f"compare-{options.setting}"
    sides = ("elmo",) if options.study == "layer-weights" else ("baseline", "elmo")
    runs = [str(path) for side in sides for path in sorted(folder.glob(f"{side}-*"))]
    with tempfile.TemporaryDirectory() as report:
        command = [sys.executable, "-m", "elmokit", "analyze", options.study, *runs, "--json", "--output", report]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        if options.study == "learning-curves":
            (picture,) = Path(report).glob("*.svg")
            shutil.copyfile(picture, ROOT / f"docs/pictures/learning-curves-{options.setting}.svg")
    comparison = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    return found | {"data": options.setting, "study": options.study, "setting": comparison["setting"]}


def measure_epochs(options: argparse.Namespace) -> dict[str, object]:
    """Seconds of an epoch's steps with and without ELMo, in turn, with the layers already cached."""
    setting, files = SETTINGS[options.setting], find_files(options.setting, options)
    fraction = options.fraction or 0.2
    own, changes = TASKS[setting.task], {"num_epochs": "1", "train_fraction": str(fraction)}
    splits = {split: [str(path)] for split, path in files.items()}
    vectors = [str(path) for path in options.vectors]
    seconds: dict[str, list[float]] = {"baseline": [], "elmo": []}
    for number in range(options.rounds + 1):
        for side in seconds:
            place = {"elmo.place": "none"} if side == "baseline" else {}
            config = read_task_config(setting.task, "small", changes | place)
            with tempfile.TemporaryDirectory() as folder:
                run = TaskFiles(
                    splits["train"],
                    splits["dev"],
                    Path(folder, "run"),
                    [],
                    vectors=vectors,
                    bilm=options.model,
                    threads=1,
                )
                train_task(own, config, run)
                entries = [json.loads(line) for line in (run.output / "log.jsonl").read_text().splitlines()]
            steps = [entry for entry in entries if "per_second" in entry]
            if number:  # the first round embeds
                counts = [0, *(entry["count"] for entry in steps)]
                seconds[side].append(
                    sum((counts[n + 1] - counts[n]) / entry["per_second"] for n, entry in enumerate(steps))
                )
        print({side: [round(value, 1) for value in values] for side, values in seconds.items()}, flush=True)
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    ratio = round(medians["elmo"] / medians["baseline"], 2)
    print(f"an epoch with ELMo takes {ratio} times one without")
    return {"data": options.setting, "task": setting.task, "rounds": options.rounds, "fraction": fraction,
            "threads": 1, "seed": 0, "seconds": seconds, "ratio": ratio, **describe(options)}  # fmt: skip


OTHERS = {
    "grid": run_grid,
    "attempts": run_attempts,
    "layer-weights": read_runs,
    "learning-curves": read_runs,
    "epochs": measure_epochs,
}
"""Studies without a command of their own."""


def shown_words(options: argparse.Namespace) -> list[str]:
    """The command as recorded in a result."""
    shown = [options.study, options.setting, "--runs RUNS --vectors skipgram.txt"]
    shown += [f"--fraction {options.fraction}"] if options.fraction else []
    shown += [f"--rounds {options.rounds}"] if options.study == "epochs" else []
    shown += [f"--name {options.name}"] if options.name else []
    shown += [f"--seeds '{options.seeds}'"] if options.seeds else []
    return [*shown, "--", *map(short, options.further)] if options.further else shown


def short(word: str) -> str:
    """An argument of a command; of a path only the last two parts."""
    before, equals, path = word.rpartition("=")
    return before + equals + "/".join(Path(path).parts[-2:])


def shorten_names(setting: dict[str, Any]) -> None:
    """The names of a study's biLMs without their folders, which mean nothing to others."""
    setting["bilms"] = {short(name): digest for name, digest in setting["bilms"].items()}


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=[*STUDIES, *OTHERS])
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--runs", type=Path, required=True, help="a folder for all runs")
    parser.add_argument("--vectors", type=Path, nargs="+", default=[], help="word vectors by bench/skipgram.py")
    parser.add_argument("--model", default="mini")
    parser.add_argument("--seeds", help="instead of those of the table")
    parser.add_argument("--name", default="", help="name of the result")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--fraction", type=float, help="fraction of the training data, for epochs: 0.2")
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds, for epochs")
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args(words[:cut])
    options.further = words[cut + 1 :]
    options.vectors.append(options.data / GLOVE)
    origin = provenance("tasks.py", shown_words(options))
    found = OTHERS.get(options.study, run_study)(options)
    path = RESULTS / "tasks" / options.study / f"{'-'.join(filter(None, (options.setting, options.name)))}.json"
    write(path, found | origin)
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
