"""Word senses in a model's vectors: nearest-sense disambiguation by layer, votes of similar occurrences with the
contribution of each part, and same-sense against different-sense pairs.

    python bench/senses.py MODEL                        a model's folder, file or published name
    python bench/senses.py MODEL --json FILE            the same, written to a file
    python bench/senses.py MODEL --parts brown1,brown2  sense vectors from a part of SemCor
    python bench/senses.py minilm --json FILE           the nearest senses of all-MiniLM-L6-v2 (see bench/minilm.py);
                                                        likewise random (mini's size, random weights) and glove

Sense vectors come from all of SemCor 3.0 by default; the sets are those of Raganato et al. (2017), and
"ALL without semeval2007" is what the paper reports. The data directory is that of `bench/places.py`; layers are
stored in the user's cache. `wsd_scores`, `vote_scores` and `context_scores` take any function from sentences to layers,
so other models can be measured too.
"""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import elmokit
from elmokit.analysis.embed import Embed, cached_layers, layers_of
from elmokit.analysis.wsd.contexts import VIEWS
from elmokit.analysis.wsd.data import read_wsd_data
from elmokit.analysis.wsd.nearest import Score, evaluate_wsd
from elmokit.analysis.wsd.semcor import PARTS, read_semcor
from elmokit.analysis.wsd.votes import evaluate_votes
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.tasks.words import read_vectors
from elmokit.text.files import file_sha256

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.minilm import MiniLM, find_weights  # noqa: E402
from bench.places import DATA, GLOVE  # noqa: E402
from bench.probes import data_hashes, glove_layers, random_twin  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402
from bench.word_in_context import choose_words, compare_contexts  # noqa: E402


def minilm_layers() -> Embed:
    """MiniLM's seven layers twice: each word by its first sub-token, then by the mean of its sub-tokens."""
    peer, size = MiniLM(), 4096

    def embed(sentences: Sequence[Sequence[str]]) -> Iterator[np.ndarray]:
        for start in range(0, len(sentences), size):
            part = sentences[start : start + size]
            ends = np.cumsum([len(sentence) for sentence in part])
            found = peer.layers(part)
            yield from np.split(np.concatenate([found["first"], found["mean"]]), ends[:-1], axis=1)  # (2L, T, D) each

    return embed


def random_layers(options: argparse.Namespace) -> tuple[Embed, str]:
    embedder = Embedder(random_twin(elmokit.load("mini")), threads=options.threads)
    return layers_of(embedder), embedder.fingerprint


PEERS: dict[str, Callable[[argparse.Namespace], tuple[Embed, str]]] = {
    "minilm": lambda options: (minilm_layers(), file_sha256(find_weights() / "model.safetensors")),
    "random": random_layers,
    "glove": lambda options: (
        partial(glove_layers, read_vectors(options.data / GLOVE)),
        file_sha256(options.data / GLOVE),
    ),
}
"""Other vectors for nearest senses, to compare with a model's, and the hash of their source."""


def wsd_scores(embed: Embed, data_dir: Path, parts: Collection[str] = PARTS) -> dict[str, object]:
    """F1 by set and layer, with the counts that it is computed from."""
    data = read_wsd_data(data_dir / "wsd", parts)
    result = evaluate_wsd(embed, data.train, data.sets, data.index)
    return {
        "f1": rounded(result.scores),
        "instances": {name: next(iter(ways.values())).total for name, ways in result.scores.items()},
        "backed_off": result.backed_off,
        "semcor": {"parts": list(parts), "senses": result.num_senses, "occurrences": result.num_occurrences},
    }


def vote_scores(embed: Embed, data_dir: Path, parts: Collection[str] = PARTS) -> dict[str, Any]:
    """F1 of votes by set: with the prior, with vectors, with both and own vectors only, and with everything."""
    data = read_wsd_data(data_dir / "wsd", parts)
    result = evaluate_votes(embed, data.train, data.sets, data.index)
    return {
        "f1": rounded(result.scores),
        "votings": {name: asdict(voting) for name, voting in result.votings.items()},
        "views": list(VIEWS),
        "voters": result.num_voters,
        "held_out": result.num_held,
    }


def rounded(scores: Mapping[str, Mapping[str, Score]]) -> dict[str, dict[str, float]]:
    return {name: {way: round(score.f1, 2) for way, score in ways.items()} for name, ways in scores.items()}


def context_scores(embed: Embed, data_dir: Path) -> dict[str, object]:
    """Mean AUC over words by layer, and each word's."""
    semcor = data_dir / "wsd" / "semcor3.0.tar.xz"
    result = compare_contexts(embed, read_semcor(semcor), choose_words(read_semcor(semcor)))
    words = {}
    for number, ((word, form, counts), (same, different)) in enumerate(
        zip(result.words, result.num_pairs, strict=True)
    ):
        words[f"{word.lemma} ({word.pos})"] = {
            "form": form,
            "senses": counts,
            "same_sense_pairs": same,
            "different_sense_pairs": different,
            "auc": {name: round(values[number], 4) for name, values in result.aucs.items()},
        }
    return {"mean_auc": {name: round(mean, 4) for name, mean in result.means.items()}, "words": words}


def print_f1(f1: dict) -> None:
    """One row per method, one column per data set."""
    print(f"{'F1':32}", *(f"{name.replace('ALL without semeval', 'without '):>13}" for name in f1))
    for way in f1["ALL"]:
        print(f"{way:32}", *(f"{scores[way]:13.1f}" for scores in f1.values()))


def print_wsd(result: dict) -> None:
    print_f1(result["f1"])
    off, semcor = sum(result["backed_off"].values()), result["semcor"]
    print(
        f"{off} of {result['instances']['ALL']} instances by the first sense; {semcor['senses']} senses "
        f"from {semcor['occurrences']} occurrences in {', '.join(semcor['parts'])}"
    )


def print_contexts(result: dict) -> None:
    layers = list(result["mean_auc"])
    print(f"{'AUC':24}", *(f"{layer:>11}" for layer in layers))
    for name, word in result["words"].items():
        print(f"{name + ': ' + word['form']:24}", *(f"{word['auc'][layer]:11.3f}" for layer in layers))
    print(f"{'mean of words':24}", *(f"{result['mean_auc'][layer]:11.3f}" for layer in layers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (arguments.data / "wsd").is_dir():
        parser.error(f"no wsd in the data directory {arguments.data}: set ELMOKIT_DATA")
    start = time.perf_counter()
    origin = provenance("senses.py") if arguments.json else {}
    result = origin | {"model": arguments.model}
    result["data_sha256"] = data_hashes(arguments.data / "wsd")
    parts = arguments.parts.split(",")
    if arguments.model in PEERS:
        torch.set_num_threads(arguments.threads or torch.get_num_threads())
        embed, result["model_sha256"] = PEERS[arguments.model](arguments)
        scores = wsd_scores(embed, arguments.data, parts)
        result["wsd"] = scores
        print_wsd(scores)
    else:
        embedder = Embedder.from_pretrained(arguments.model, threads=arguments.threads)
        embed = cached_layers(LayerCache(embedder), [])
        wsd = wsd_scores(embed, arguments.data, parts)
        print_wsd(wsd)
        votes = vote_scores(embed, arguments.data, parts)
        print_f1(votes["f1"])
        contexts = context_scores(embed, arguments.data)
        print_contexts(contexts)
        result |= {"model_sha256": embedder.fingerprint, "wsd": wsd, "votes": votes, "word_in_context": contexts}
    result["seconds"] = round(time.perf_counter() - start)
    print(f"{result['seconds']} s")
    if arguments.json:
        write(arguments.json, result)


if __name__ == "__main__":
    main()
