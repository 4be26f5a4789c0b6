"""Linear probes of every layer of a model, for any labels of tokens.

Notation: N tokens, T of a sentence, L layers, D width of a vector.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.embed import Embed, embed_checked
from elmokit.analysis.probes.linear import PROTOCOL, Training, Vectors, fit_probes
from elmokit.errors import ConfigError, InputError

TagScore = Callable[[Sequence[Sequence[str]], Sequence[Sequence[str]]], float]
"""Gold and predicted tags of sentences → a score; higher is better."""


@dataclass(frozen=True)
class Tagged:
    """Sentences with one tag per token."""

    sentences: tuple[tuple[str, ...], ...]
    tags: tuple[tuple[str, ...], ...]

    @property
    def flat_tags(self) -> list[str]:
        """The tags of all tokens, sentence after sentence."""
        return [tag for tags in self.tags for tag in tags]


@dataclass(frozen=True)
class Candidate:
    """The scores of probes on one choice of vectors, one per seed."""

    l2: tuple[float, ...]
    dev: tuple[float, ...]
    test: tuple[float, ...]

    @property
    def dev_mean(self) -> float:
        """Mean over the seeds."""
        return fmean(self.dev)

    @property
    def test_mean(self) -> float:
        """Mean over the seeds."""
        return fmean(self.test)

    @property
    def test_deviation(self) -> float:
        """Standard deviation over the seeds; 0 for a single one."""
        return stdev(self.test) if len(self.test) > 1 else 0.0


@dataclass(frozen=True)
class ProbeResult:
    """The scores of probes on each layer, on their mean and on their concatenation."""

    metric: str
    seeds: tuple[int, ...]
    candidates: dict[str, Candidate]
    """By "layer 0", …, "mean" and "concatenated"."""

    @property
    def chosen(self) -> str:
        """The layer, or the mean, that is best on dev; the wider concatenation is not considered."""
        return max((name for name in self.candidates if name != "concatenated"), key=self._dev_mean)

    @property
    def best(self) -> Candidate:
        """The scores of the chosen vectors."""
        return self.candidates[self.chosen]

    def _dev_mean(self, name: str) -> float:
        return self.candidates[name].dev_mean


def tag_accuracy(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """Share of the tokens with the correct tag."""
    pairs = [pair for g, p in zip(gold, predicted, strict=True) for pair in zip(g, p, strict=True)]
    return sum(g == p for g, p in pairs) / len(pairs)


def probe_tags(
    embed: Embed,
    sets: Mapping[str, Tagged],
    *,
    metric: str,
    score: TagScore = tag_accuracy,
    seeds: Sequence[int] = (0, 1, 2),
    training: Training = PROTOCOL,
    candidates: Sequence[str] | None = None,
) -> ProbeResult:
    """Probe every layer, the mean of the layers and their concatenation for the tags of tokens.

    Args:
        embed: gives the layers of tokenized sentences, e.g. `layers_of(embedder)`.
        sets: "train", "dev" and "test"; only layers and L2 strengths are chosen on dev.
        metric: the name of the score.
        score: computes the score of predicted tags, on dev and test.
        seeds: random seeds of the order of the batches, one probe each.
        training: how each probe is trained.
        candidates: names of the vectors to probe; None probes all.
    """
    layers = {name: _collect(embed, sets[name]) for name in ("train", "dev", "test")}
    tags = sorted(set(sets["train"].flat_tags))
    numbers = {tag: number for number, tag in enumerate(tags)}
    labels = {n: np.array([numbers.get(tag, -1) for tag in sets[n].flat_tags]) for n in ("train", "dev")}

    def judge(name: str, predicted: NDArray[np.int64]) -> float:
        return score(sets[name].tags, _sentences_of([tags[label] for label in predicted], sets[name]))

    found = {}
    for candidate in candidates or candidate_names(len(layers["train"])):
        vectors = {name: pick_vectors(array, candidate) for name, array in layers.items()}  # (N, D) each
        probes = fit_probes(
            vectors["train"], labels["train"], vectors["dev"], labels["dev"],
            num_labels=len(tags), seeds=seeds, training=training, score=lambda predicted: judge("dev", predicted),
        )  # fmt: skip
        test = tuple(judge("test", probe.predict(vectors["test"])) for probe in probes)
        found[candidate] = Candidate(tuple(p.l2 for p in probes), tuple(p.dev_score for p in probes), test)
    return ProbeResult(metric, tuple(seeds), found)


@dataclass(frozen=True)
class ProbeTask:
    """Tags that probes predict: their files, how these are read, and how predictions are scored."""

    endings: Mapping[str, str]
    """How the names of the files of "train", "dev" and "test" end, without the suffix of a compressed file."""
    read: Callable[..., Tagged]
    """Reads a path, up to `max_sentences`."""
    metric: str = "accuracy"
    score: TagScore = tag_accuracy

    def read_sets(self, data_dir: Path, max_sentences: int | None = None) -> dict[str, Tagged]:
        """The sentences of "train", "dev" and "test" in a folder, by default all."""
        paths = {name: find_file(data_dir, ending) for name, ending in self.endings.items()}
        return {name: self.read(path, max_sentences=max_sentences) for name, path in paths.items()}

    def probe(
        self,
        embed: Embed,
        sets: Mapping[str, Tagged],
        *,
        seeds: Sequence[int] = (0, 1, 2),
        training: Training = PROTOCOL,
        candidates: Sequence[str] | None = None,
    ) -> ProbeResult:
        """The scores of probes by layer; see `probe_tags`."""
        return probe_tags(
            embed, sets, metric=self.metric, score=self.score, seeds=seeds, training=training, candidates=candidates
        )


def candidate_names(num_layers: int) -> list[str]:
    """Names of the vectors that can be probed for this number of layers; one layer has no mean."""
    single = [f"layer {number}" for number in range(num_layers)]
    return [*single, "mean", "concatenated"] if num_layers > 1 else single


def pick_vectors(layers: Vectors, candidate: str) -> Vectors:
    """The vectors (N, D) or (N, L·D) of a candidate, from layers (L, N, D)."""
    if candidate not in candidate_names(len(layers)):
        raise ConfigError(
            f"vectors {candidate!r} are unknown: choose one of {', '.join(candidate_names(len(layers)))}."
        )
    if candidate == "mean":
        mean: Vectors = layers.mean(0, dtype=np.float32)  # (N, D)
        return mean
    if candidate == "concatenated":
        return np.concatenate(list(layers), axis=1)  # (N, L·D)
    picked: Vectors = layers[int(candidate.removeprefix("layer "))]  # (N, D)
    return picked


def _collect(embed: Embed, tagged: Tagged) -> Vectors:
    """All layers of all tokens in one array (L, N, D), as float16 to halve its size."""
    num_tokens, place = len(tagged.flat_tags), 0
    if not num_tokens:
        raise InputError("there is no sentence to probe: give at least one in train, dev and test.")
    collected: Vectors | None = None
    for layers in embed_checked(embed, tagged.sentences):  # (L, T, D)
        if collected is None:
            collected = np.empty((len(layers), num_tokens, layers.shape[2]), dtype=np.float16)
        collected[:, place : place + layers.shape[1]] = layers
        place += layers.shape[1]
    assert collected is not None
    return collected


def _sentences_of(tags: list[str], tagged: Tagged) -> list[list[str]]:
    """Split a list of all tags into sentences."""
    return list(_cut(tags, [len(sentence) for sentence in tagged.sentences]))


def _cut(tags: list[str], lengths: Sequence[int]) -> Iterator[list[str]]:
    place = 0
    for length in lengths:
        yield tags[place : place + length]
        place += length


def find_file(folder: Path, ending: str) -> Path:
    """The only file of a folder with this name ending, plain or compressed."""
    found = sorted(path for suffix in ("", ".gz", ".xz", ".bz2") for path in folder.glob(f"*{ending}{suffix}"))
    if len(found) != 1:
        listed = ", ".join(path.name for path in found) or "none"
        raise InputError(f"{folder} must have one file *{ending} (or .gz, .xz, .bz2), and has {listed}.")
    return found[0]
