"""Groups of a word's uses compared with SemCor's senses: V-measure, B³ and adjusted Rand index, by method and layer.

    python bench/induction.py MODEL                     a model's folder, file or published name
    python bench/induction.py MODEL --json FILE         the same, written to a file

Words: those of `bench.word_in_context.choose_words`, 45 nouns and 45 verbs in one form each, without be, have and do;
the senses that occur 15 times or more, in 5 texts or more, in that form; at most 100 occurrences per sense. Methods are
chosen on the words at even positions of that list (by the geometric mean of V-measure and B³) and reported on the
others.

"shared" is the method of `elmokit analyze senses`: directions in which both sides of a word vary together. "auto"
estimates the number of groups, "gold" uses the correct one. "context" is k-means on the main directions of the same
vectors, "word" on those of the word itself, "linkage" is agglomerative (average, cosine), "substitutes" uses the words
that both directions predict there (Amrami and Goldberg, 2018, without their patterns), for models with a softmax. As a
control, the number of groups is also measured for words with one sense in SemCor.

Artificial shifts use the same occurrences: of a word's two most frequent senses, one corpus has 16 and 4, the other 4
and 16. Without a shift both have 10 and 10. AUC is the probability that a measure is higher with a shift.
"""

import argparse
import hashlib
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.embed import plain_quotes
from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.usage.groups import find_agreement, k_means, main_directions
from elmokit.analysis.usage.occurrences import Sample, rank_sentence, read_contexts
from elmokit.analysis.usage.shift import compare
from elmokit.analysis.wsd.semcor import read_semcor
from elmokit.analysis.wsd.target_vectors import layer_mixes
from elmokit.analysis.wsd.wordnet import SenseSentence, Word
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import SPECIALS

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.group_scores import GroupScore, score_groups  # noqa: E402
from bench.places import DATA  # noqa: E402
from bench.provenance import provenance  # noqa: E402
from bench.results import write  # noqa: E402
from bench.word_in_context import auc, choose_words  # noqa: E402

NUM_WORDS, MAX_OCCURRENCES = 90, 100
AUXILIARIES = ("be", "have", "do")
CONTROL_OCCURRENCES, CONTROL_SHARE = 60, 0.97
NUM_SUBSTITUTES, SUBSTITUTE_POWER = 200, 0.5

Groups = NDArray[np.int64]
Method = Callable[["Case"], Groups]


@dataclass(frozen=True)
class Case:
    """A word, its occurrences with their senses, and their vectors."""

    word: Word
    form: str
    senses: list[str]
    contexts: NDArray[np.float32]  # (K, L, D)
    own: NDArray[np.float32]  # (K, L, D)

    @property
    def num_senses(self) -> int:
        return len(set(self.senses))


def targets(sentences: Sequence[SenseSentence]) -> Iterator[tuple[Word, str, str, Occurrence]]:
    """Lowercase one-token nouns and verbs with one sense: word, form, sense, occurrences."""
    for sentence in sentences:
        tokens = tuple(plain_quotes(sentence.tokens))
        for target in sentence.targets:
            form = tokens[target.start]
            alone = target.end - target.start == 1 and len(target.keys) == 1
            if alone and target.word.pos in ("noun", "verb") and form == form.lower():
                yield target.word, form, target.keys[0], Occurrence(tokens, target.start, sentence.source)


def read_cases(store: LayerCache, semcor: Path) -> tuple[list[Case], list[Case]]:
    """The words to group, and those with one sense."""
    sentences = list(read_semcor(semcor))
    chosen = [choice for choice in choose_words(sentences, NUM_WORDS) if choice.word.lemma not in AUXILIARIES]
    found: dict[tuple[Word, str], dict[str, Sample]] = defaultdict(lambda: defaultdict(lambda: Sample(MAX_OCCURRENCES)))
    counts: dict[tuple[Word, str], Counter[str]] = defaultdict(Counter)
    for word, form, sense, occurrence in targets(sentences):
        found[word, form][sense].offer(rank_sentence(occurrence.tokens, 0), occurrence)
        counts[word, form][sense] += 1
    single = [
        (word, form, {senses.most_common(1)[0][0]: 0})
        for (word, form), senses in sorted(counts.items())
        if senses.total() >= CONTROL_OCCURRENCES
        and senses.most_common(1)[0][1] >= CONTROL_SHARE * senses.total()
        and word.lemma not in AUXILIARIES
    ]
    pairs = [
        [
            (word, form, {sense: found[word, form][sense].occurrences for sense in senses})
            for word, form, senses in words
        ]
        for words in ([(c.word, c.form, c.counts) for c in chosen], single)
    ]
    store.prepare(o.tokens for cases in pairs for *_, senses in cases for own in senses.values() for o in own)
    several, one = ([build_case(store, *case) for case in cases] for cases in pairs)
    return several, one


def build_case(store: LayerCache, word: Word, form: str, senses: dict[str, list[Occurrence]]) -> Case:
    occurrences = [occurrence for own in senses.values() for occurrence in own]
    names = [sense for sense, own in senses.items() for _ in own]
    own = np.stack([store.read(o.tokens)[:, o.position] for o in occurrences]).astype(np.float32)  # (K, L, D)
    return Case(word, form, names, read_contexts(store, occurrences), own)


def mixed(vectors: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.tensordot(weights, vectors, (0, 1))  # (K, D)


def shared(weights: NDArray[np.float64], number: int | None = None, gold: bool = False) -> Method:
    """The command's method, with a given number of groups, the gold number, or its own estimate."""

    def run(case: Case) -> Groups:
        agreement = find_agreement(mixed(case.contexts, weights))
        wanted = case.num_senses if gold else number or agreement.num_groups
        return k_means(agreement.points, wanted)

    return run


def shared_silhouette(weights: NDArray[np.float64]) -> Method:
    """The number, from 2 to 8, whose groups have the best silhouette."""
    from sklearn.metrics import silhouette_score

    def run(case: Case) -> Groups:
        points = find_agreement(mixed(case.contexts, weights)).points
        groups = [k_means(points, number) for number in range(2, 9)]
        return max(groups, key=lambda one: silhouette_score(points, one))

    return run


def plain(kind: str, weights: NDArray[np.float64]) -> Method:
    """k-means on the main directions of contexts or of words, with the gold number."""
    return lambda case: k_means(main_directions(mixed(getattr(case, kind), weights)), case.num_senses)


def linkage(kind: str, weights: NDArray[np.float64]) -> Method:
    from sklearn.cluster import AgglomerativeClustering

    def run(case: Case) -> Groups:
        points = main_directions(mixed(getattr(case, kind), weights))
        return AgglomerativeClustering(case.num_senses, linkage="average", metric="cosine").fit_predict(points)

    return run


def substitutes(bilm: BiLM) -> Method:
    """k-means on the words that both directions predict, weighted by inverse frequency among the occurrences."""
    half = bilm.config.lstm.output_dim

    @torch.inference_mode()
    def run(case: Case) -> Groups:
        top = torch.from_numpy(case.contexts[:, -1])  # (K, D)
        scores = bilm.logits(top[:, :half]).log_softmax(-1) + bilm.logits(top[:, half:]).log_softmax(-1)  # (K, V)
        scores[:, : len(SPECIALS)] = -torch.inf
        best = (SUBSTITUTE_POWER * scores).topk(NUM_SUBSTITUTES)
        table = torch.zeros_like(scores).scatter_(1, best.indices, best.values.softmax(1)).numpy()  # (K, V)
        table = table[:, table.any(0)].astype(np.float64)  # (K, words)
        table *= np.log(len(table) / (table > 0).sum(0))
        norms = np.linalg.norm(table, axis=1, keepdims=True)
        return k_means(table / np.where(norms == 0, 1, norms), case.num_senses)

    return run


def random_groups(case: Case) -> Iterator[Groups]:
    for seed in range(10):
        yield np.random.default_rng(seed).integers(0, case.num_senses, len(case.senses))


def build_methods(bilm: BiLM) -> dict[str, Method]:
    mixes = layer_mixes(bilm.config.num_layers)
    top = mixes[str(bilm.config.num_layers - 1)]
    methods: dict[str, Method] = {"one group": lambda case: np.zeros(len(case.senses), dtype=np.int64)}
    for name, weights in mixes.items():
        methods[f"shared, layer {name}, auto"] = shared(weights)
    for name, weights in mixes.items():
        methods[f"shared, layer {name}, gold"] = shared(weights, gold=True)
    for number in (2, 3):
        methods[f"shared, top layer, {number}"] = shared(top, number)
    methods["shared, top layer, silhouette"] = shared_silhouette(top)
    for name, weights in mixes.items():
        methods[f"context, layer {name}, gold"] = plain("contexts", weights)
        methods[f"word, layer {name}, gold"] = plain("own", weights)
    methods["context, top layer, linkage, gold"] = linkage("contexts", top)
    methods["word, top layer, linkage, gold"] = linkage("own", top)
    if bilm.softmax is not None:
        methods["substitutes, gold"] = substitutes(bilm)
    return methods


def summary(scores: Sequence[GroupScore], numbers: Sequence[float]) -> dict[str, float]:
    v_measure, b_cubed, rand = (100 * sum(column) / len(scores) for column in zip(*scores, strict=True))
    return {
        "v_measure": round(v_measure, 2),
        "b_cubed": round(b_cubed, 2),
        "geometric_mean": round(math.sqrt(v_measure * b_cubed), 2),
        "adjusted_rand": round(rand, 2),
        "groups": round(sum(numbers) / len(numbers), 2),
    }


def measure(cases: Sequence[Case], control: Sequence[Case], bilm: BiLM) -> dict[str, object]:
    halves = {"choose": list(range(0, len(cases), 2)), "report": list(range(1, len(cases), 2))}
    rows: dict[str, dict[str, dict[str, float]]] = {}
    words: dict[str, dict[str, object]] = {
        f"{case.word.lemma} ({case.word.pos})": {"form": case.form, "senses": dict(Counter(case.senses))}
        for case in cases
    }
    random_scores = [[score_groups(c.senses, groups.tolist()) for groups in random_groups(c)] for c in cases]
    means = [GroupScore(*np.mean(runs, axis=0).tolist()) for runs in random_scores]
    rows["random, gold"] = {
        half: summary([means[n] for n in numbers], [cases[n].num_senses for n in numbers])
        for half, numbers in halves.items()
    }
    for name, method in build_methods(bilm).items():
        groups = [method(case) for case in cases]
        scores = [score_groups(case.senses, own.tolist()) for case, own in zip(cases, groups, strict=True)]
        sizes = [len(np.unique(own)) for own in groups]
        rows[name] = {h: summary([scores[n] for n in ns], [sizes[n] for n in ns]) for h, ns in halves.items()}
        if name.endswith("auto"):
            for word, score, size in zip(words.values(), scores, sizes, strict=True):
                word[name] = {"groups": size, **{k: round(100 * v, 1) for k, v in score._asdict().items()}}
        show(name, rows[name])
    automatic = {name: row["choose"]["geometric_mean"] for name, row in rows.items() if name.endswith("auto")}
    top = shared(layer_mixes(bilm.config.num_layers)[str(bilm.config.num_layers - 1)])
    found = [len(np.unique(top(case))) for case in control]
    return {
        "chosen": max(automatic, key=lambda name: automatic[name]),
        "rows": rows,
        "one_sense": {
            "words": [case.form for case in control],
            "mean_groups": round(sum(found) / len(found), 2),
            "share_of_one_group": round(found.count(1) / len(found), 3),
        },
        "shift_auc": shift_aucs(cases, bilm.config.num_layers),
        "words": words,
    }


def shift_aucs(cases: Sequence[Case], num_layers: int) -> dict[str, object]:
    """How well each measure distinguishes words that shifted from words that did not."""
    top = layer_mixes(num_layers)[str(num_layers - 1)]
    found: dict[bool, list[tuple[float, ...]]] = {True: [], False: []}
    for number, case in enumerate(cases):
        common = [sense for sense, count in Counter(case.senses).most_common(2) if count >= 20]
        if len(common) < 2:
            continue
        contexts, draw = mixed(case.contexts, top), np.random.default_rng(number)  # (K, D)
        rows = [draw.permutation(np.flatnonzero(np.array(case.senses) == sense))[:20] for sense in common]
        for moved, cut in ((True, 16), (False, 10)):
            first = np.concatenate([rows[0][:cut], rows[1][: 20 - cut]])
            second = np.concatenate([rows[0][cut:], rows[1][20 - cut :]])
            result = compare(contexts[first], contexts[second], 1, num_shuffles=1)
            found[moved].append((result.shift, result.apd.value, result.prt.value))
    columns = zip(zip(*found[True], strict=True), zip(*found[False], strict=True), strict=True)
    aucs = [round(auc(np.array(yes), np.array(no)), 3) for yes, no in columns]
    return {"words": len(found[True]), **dict(zip(("shift", "apd", "prt"), aucs, strict=True))}


def show(name: str, row: dict[str, dict[str, float]]) -> None:
    cells = [
        f"{half}: V {f['v_measure']:5.1f}  B³ {f['b_cubed']:5.1f}  √ {f['geometric_mean']:5.1f}  "
        f"ARI {f['adjusted_rand']:5.1f}  groups {f['groups']:4.2f}"
        for half, f in row.items()
    ]
    print(f"{name:36}", "   ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    semcor = options.data / "wsd" / "semcor3.0.tar.xz"
    if not semcor.is_file():
        parser.error(f"no wsd/semcor3.0.tar.xz in the data directory {options.data}: set ELMOKIT_DATA")
    if options.threads:
        torch.set_num_threads(options.threads)
    start = time.perf_counter()
    result = provenance("induction.py") if options.json else {}
    embedder = Embedder.from_pretrained(options.model, threads=options.threads)
    cases, control = read_cases(LayerCache(embedder), semcor)
    result |= {"model": options.model, "model_sha256": embedder.fingerprint}
    result |= {"semcor_sha256": hashlib.sha256(semcor.read_bytes()).hexdigest()}
    found = measure(cases, control, embedder.bilm)
    show("random, gold", found["rows"]["random, gold"])  # type: ignore[index]
    one = found["one_sense"]
    print(f"{len(cases)} words; chosen: {found['chosen']}; words of one sense: {one}; shifts: {found['shift_auc']}")
    result |= {"seconds": round(time.perf_counter() - start), **found}
    if options.json:
        write(options.json, result)


if __name__ == "__main__":
    main()
