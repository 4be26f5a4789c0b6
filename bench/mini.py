r"""Measure the packaged model and write all figures of its model card to a file.

    python bench/mini.py MODEL --run RUN --version 1 --json results/pretraining/mini.json
    python bench/mini.py MODEL --run RUN --version 2 --before results/pretraining/mini.json \
        --json results/pretraining/mini-pass-2.json

MODEL is what `elmokit convert --float16` made of the run's model, RUN the folder of `elmokit pretrain`. The probes are
those that `bench/probes.py` and `bench/senses.py` wrote for the same MODEL to results/probes and results/senses, under
the name of the JSON. --before names the results of the model that RUN started from: its tokens and hours are added.
WikiText-2 is mapped to our tokens: titles are dropped, `@-@` and similar marks joined again, the space before
punctuation and clitics removed, the text tokenized like any other, and each `<unk>` read and counted as <UNK>.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import elmokit
from elmokit.formats import fingerprint
from elmokit.scoring.perplexity import evaluate_both
from elmokit.text.files import open_text
from elmokit.text.lines import read_text, split_line
from elmokit.text.vocabulary import UNKNOWN

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.language_models import digest, training_hours
from bench.places import DATA
from bench.provenance import provenance, show_word
from bench.results import read, write

_STAND_IN = "Zqunkqz"
_JOINED = (
    (re.compile(r" @([-,.])@ "), r"\1"),
    (re.compile(r" (['’](?:s|t|re|ve|ll|d|m)\b)"), r"\1"),
    (re.compile(r" ([,.;:!?%)\]])"), r"\1"),
    (re.compile(r"([(\[]) "), r"\1"),
)


def map_wikitext(line: str) -> list[str]:
    """The sentences of a line of WikiText as our space-separated tokens; a title gives none."""
    text = line.strip()
    if text.startswith("= ") and text.endswith(" ="):
        return []
    text = text.replace("<unk>", _STAND_IN)
    for pattern, replacement in _JOINED:
        text = pattern.sub(replacement, text)
    return [
        " ".join(UNKNOWN if _STAND_IN in token else token for token in sentence)
        for sentence in split_line(text, "text")
    ]


def read_wikitext(path: Path) -> list[str]:
    with open_text(path) as lines:
        return [sentence for line in lines for sentence in map_wikitext(line)]


def count_data(folder: Path) -> dict[str, int]:
    """White-space-separated words of the training files; empty lines separate articles and books."""
    counts: dict[str, int] = {}
    for name, words, parts in (
        ("wikipedia", "wikipedia_words", "wikipedia_articles"),
        ("books", "book_words", "books"),
    ):
        counts |= {words: 0, parts: 0}
        for path in sorted(folder.glob(f"{name}-0*.txt.xz")):
            inside = False
            with open_text(path) as lines:
                for line in lines:
                    counts[words] += len(line.split())
                    counts[parts] += bool(line.strip()) and not inside
                    inside = bool(line.strip())
    return counts


def describe_training(run: Path, before: Path | None) -> dict[str, object]:
    """The run, including the training before it."""
    earlier = json.loads(before.read_text(encoding="utf-8")) if before else None
    first: dict[str, Any] = (
        earlier["training"] if earlier else {"tokens_seen": 0, "steps": 0, "hours": 0.0, "course": []}
    )
    own = [one | {"predictions": one["predictions"] + first["tokens_seen"]} for one in read_course(run)]
    settings = json.loads((run / "run.json").read_text(encoding="utf-8"))
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    return {
        "preset": "mini",
        "began_with": earlier and earlier["fingerprint"],
        "tokens_seen": first["tokens_seen"] + result["predictions"],
        "steps": first["steps"] + result["steps"],
        "course": [*first["course"], *own],
        "hours": round(first["hours"] + training_hours(run), 2),
        "hardware": "two CPU cores, without a GPU",
        "elmokit": settings["versions"]["elmokit"],
        "command": "elmokit pretrain mini --train 'shards/*.gz' --heldout wikipedia-heldout.txt --output run"
        + (f", then again with --init {earlier['name']}" if earlier else ""),
        "config": settings["config"],
        "seed": settings["config"]["seed"],
    }


def read_course(run: Path) -> list[dict[str, float]]:
    """The held-out perplexities that the run measured during training."""
    entries = (json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        {"predictions": entry["count"], "perplexity": entry["heldout_perplexity"]}
        for entry in entries
        if "heldout_perplexity" in entry
    ]


def read_probes(results: Path, fingerprint: str) -> list[dict[str, object]]:
    """The probes as rows of a model card."""
    probes, senses = (read(f"{subject}/{results.stem}") for subject in ("probes", "senses"))
    for found in (probes, senses):
        if found["model_sha256"] != fingerprint:
            sys.exit(f"what `{found['command']}` left is of another model: measure this one first")
    rows: list[dict[str, object]] = [
        {
            "name": name,
            "dataset": dataset,
            "metric": metric,
            "values": {
                way: figures["test_mean"] / 100 for way, figures in probes["rows"]["model"][task]["candidates"].items()
            },
        }
        for task, name, dataset, metric in (
            ("pos", "part of speech", "UD English EWT", "accuracy"),
            ("ner", "named entities", "CoNLL-2003", "f1"),
        )
    ]
    wsd = {"name": "word senses, nearest of SemCor", "dataset": "Raganato et al. 2017, ALL", "metric": "f1"}
    context = {"name": "same sense or not", "dataset": "twenty words of SemCor", "metric": "auc"}
    label = "layer {}".format
    rows.append(wsd | {"values": {w if w == "mean" else label(w): f / 100 for w, f in senses["wsd"]["f1"]["ALL"].items()
                                  if w.isdecimal() or w == "mean"}})  # fmt: skip
    rows.append(context | {"values": {w if w == "mean" else label(w): f
                                      for w, f in senses["word_in_context"]["mean_auc"].items()}})  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--before", type=Path, help="results of the model that the run started from")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    before = ["--before", show_word(str(options.before))] if options.before else []
    shown = ["MODEL --run RUN --version", options.version, *before, "--json", show_word(str(options.json))]
    origin = provenance("mini.py", shown)
    bilm = elmokit.load(options.model)
    own = fingerprint(bilm)
    probes = read_probes(options.json, own)
    texts = {name: options.data / "lm" / f"{name}.txt.xz" for name in ("wikipedia-heldout", "books-heldout")}
    figures = {
        name: evaluate_both(bilm, read_text([path], input="text")) | digest(path) for name, path in texts.items()
    }
    path = options.data / "lm/wikitext-2/test.txt.xz"
    figures["wikitext-2 test, mapped"] = evaluate_both(bilm, read_wikitext(path)) | digest(path)
    perplexity = {
        name: {
            "forward": found["carry"]["forward"]["perplexity"],
            "backward": found["carry"]["backward"]["perplexity"],
            "average": found["carry"]["average"],
            "unknown": found["carry"]["oov_rate"],
            **found,
        }
        for name, found in figures.items()
    }
    corpus = json.loads((options.run / "corpus.json").read_text(encoding="utf-8"))
    result = {"name": "mini", "version": options.version, "fingerprint": own}
    result |= {"data": count_data(options.data / "lm") | {"tokens": corpus["num_words"]}}
    training = describe_training(options.run, options.before)
    result |= {"training": training, "perplexity": perplexity, "probes": probes}
    write(options.json, result | origin)
    print(
        json.dumps(
            {
                name: {k: round(v, 1) for k, v in found.items() if isinstance(v, float)}
                for name, found in perplexity.items()
            }
        )
    )


if __name__ == "__main__":
    main()
