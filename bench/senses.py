"""Word senses in a model's vectors: nearest-sense disambiguation by layer, and same sense against different senses.

    python bench/senses.py MODEL                        a model's folder, file or published name
    python bench/senses.py MODEL --json results/…       the same, written down
    python bench/senses.py MODEL --parts brown1,brown2  sense vectors from a part of SemCor

Sense vectors come from SemCor 3.0, as a whole if not said otherwise; the sets are those of Raganato et al. (2017), and
"ALL without semeval2007" is what the paper reports. The data directory is $ELMOKIT_DATA or ../shared/data.
`wsd_scores` and `context_scores` take any function from sentences to layers, so that other models can be measured too.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

from elmokit.analysis.embed import Embed, layers_of
from elmokit.analysis.semcor import PARTS, read_semcor
from elmokit.analysis.senses import read_sense_index
from elmokit.analysis.word_in_context import choose_words, compare_contexts
from elmokit.analysis.wsd import evaluate_wsd
from elmokit.analysis.wsd_sets import SETS, read_wsd_set
from elmokit.embedding.embedder import Embedder

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.machine import provenance  # noqa: E402

DATA = Path(os.environ.get("ELMOKIT_DATA") or ROOT.parent / "shared" / "data")


def wsd_scores(embed: Embed, data_dir: Path, parts: Collection[str] = PARTS) -> dict[str, object]:
    """F1 by set and layer, with the counts behind it."""
    folder = data_dir / "wsd"
    result = evaluate_wsd(
        embed,
        read_semcor(folder / "semcor3.0.tar.xz", parts),
        {name: read_wsd_set(folder / "eval" / name) for name in SETS},
        read_sense_index(folder / "wordnet3.0-index.sense.xz"),
    )
    f1 = {name: {way: round(score.f1, 2) for way, score in ways.items()} for name, ways in result.scores.items()}
    return {
        "f1": f1,
        "instances": {name: next(iter(ways.values())).total for name, ways in result.scores.items()},
        "backed_off": result.backed_off,
        "semcor": {"parts": list(parts), "senses": result.num_senses, "occurrences": result.num_occurrences},
    }


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


def print_wsd(result: dict) -> None:
    ways = list(result["f1"]["ALL"])
    print(f"{'F1':24}", *(f"{way:>11}" for way in ways))
    for name, scores in result["f1"].items():
        print(f"{name:24}", *(f"{scores[way]:11.1f}" for way in ways))
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
    embedder = Embedder.from_pretrained(arguments.model, threads=arguments.threads)
    embed = layers_of(embedder)
    wsd = wsd_scores(embed, arguments.data, arguments.parts.split(","))
    print_wsd(wsd)
    contexts = context_scores(embed, arguments.data)
    print_contexts(contexts)
    seconds = round(time.perf_counter() - start)
    print(f"{seconds} s")
    if arguments.json:
        result = provenance("python " + " ".join(["bench/senses.py", *sys.argv[1:]]))
        result |= {"model": arguments.model, "model_sha256": embedder.fingerprint, "seconds": seconds}
        result |= {"wsd": wsd, "word_in_context": contexts}
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
