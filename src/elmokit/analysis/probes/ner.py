"""Named entity recognition probes: what each layer knows about names, on CoNLL-2003, without a CRF."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from elmokit.analysis.probes.layers import ProbeTask, Tagged
from elmokit.tasks.ner.metric import score_tags
from elmokit.tasks.ner.reader import read_entities


def read_ner(path: Path, *, max_sentences: int | None = None) -> Tagged:
    """The first sentences of a file of entities, by default all, with IOB2 tags."""
    examples = list(islice(read_entities(path), max_sentences))
    return Tagged(tuple(example.tokens for example in examples), tuple(example.tags for example in examples))


def span_f1(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """F1 over all spans."""
    return score_tags(gold, predicted).f1


NER = ProbeTask({"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}, read_ner, "span F1", span_f1)
"""Named entities, each token tagged on its own."""
