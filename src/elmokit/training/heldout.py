"""Held-out text by file: the sample that is evaluated during a run, and the figures of each file at its end."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from elmokit.model.bilm import BiLM
from elmokit.scoring.perplexity import measure_parts, measure_perplexity
from elmokit.text.input_kind import InputKind
from elmokit.text.lines import read_text

Files = Mapping[Path, Sequence[str]]
"""The sentences of each file, as tokens separated by single spaces."""


def read_heldout(paths: Sequence[Path], *, input: InputKind) -> dict[Path, list[str]]:
    """Read held-out files."""
    return {path: read_text([path], input=input) for path in paths}


def sample_evenly(files: Files, num_predictions: int | None) -> list[str]:
    """The beginning of every file, about `num_predictions` predictions in total; None means everything.

    All files have equal shares; if a file is shorter than its share, the others get the rest.
    """
    texts = list(files.values())
    if num_predictions is None:
        return [sentence for text in texts for sentence in text]
    sizes = [sum(map(_num_predictions, text)) for text in texts]
    left, found = num_predictions, dict[int, Sequence[str]]()
    for place, number in enumerate(sorted(range(len(texts)), key=lambda number: (sizes[number], number))):
        share = -(-left // (len(texts) - place))
        found[number] = first_predictions(texts[number], share) if share > 0 else []
        left -= min(sizes[number], share)
    return [sentence for number in range(len(texts)) for sentence in found[number]]


def first_predictions(sentences: Sequence[str], num_predictions: int | None) -> Sequence[str]:
    """The first sentences that have `num_predictions` predictions in total, or slightly more; None means all."""
    if num_predictions is None:
        return sentences
    total = 0
    for number, sentence in enumerate(sentences):
        total += _num_predictions(sentence)
        if total >= num_predictions:
            return sentences[: number + 1]
    return sentences


def _num_predictions(sentence: str) -> int:
    return sentence.count(" ") + 2


def evaluate_sample(bilm: BiLM, sentences: Sequence[str]) -> dict[str, float]:
    """The figures that the log has for each evaluation of a model in training."""
    bilm.eval()
    found = measure_perplexity(bilm, sentences)
    bilm.train()
    return {
        "perplexity": found.average,
        "forward": found.forward.perplexity,
        "backward": found.backward.perplexity,
        "oov_rate": found.oov_rate,
    }


def evaluate_files(bilm: BiLM, files: Files) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Perplexities of all files together, as returned by `evaluate_both`, and of each file by name.

    The text is read once with the state carried and once with it reset, all files one after the other.
    """
    sentences = [sentence for text in files.values() for sentence in text]
    known = {path: text for path, text in files.items() if text}
    names = _names(list(known))
    whole: dict[str, Any] = {}
    by_file: dict[str, dict[str, float]] = {name: {} for name in names}
    for state in ("carry", "reset"):
        total, parts = measure_parts(bilm, sentences, [len(text) for text in known.values()], carry=state == "carry")
        whole[state] = total.to_dict()
        for name, part in zip(names, parts, strict=True):
            by_file[name] |= {state: part.average, "num_predictions": part.num_predictions}
    return whole, by_file


def _names(paths: Sequence[Path]) -> list[str]:
    """File names, or full paths for files with equal names."""
    counts = Counter(path.name for path in paths)
    return [path.name if counts[path.name] == 1 else str(path) for path in paths]
