"""Named entity recognition probes: what each layer knows about names, on CoNLL-2003, without a CRF."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from elmokit.analysis.embed import Embed
from elmokit.analysis.probes.layers import ProbeResult, Tagged, find_file, probe_tags
from elmokit.analysis.probes.linear import PROTOCOL, Training
from elmokit.tasks.ner.metric import score_tags
from elmokit.tasks.ner.reader import read_conll2003

FILES = {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"}


def read_ner(path: Path, *, max_sentences: int | None = None) -> Tagged:
    """The first sentences of a CoNLL-2003 file, by default all, with IOB2 tags."""
    examples = list(islice(read_conll2003(path), max_sentences))
    return Tagged(tuple(example.tokens for example in examples), tuple(example.tags for example in examples))


def probe_ner(
    embed: Embed,
    data_dir: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    training: Training = PROTOCOL,
    max_sentences: int | None = None,
    candidates: Sequence[str] | None = None,
) -> ProbeResult:
    """Span F1 of named entities by layer, each token tagged on its own.

    Args:
        embed: gives the layers of tokenized sentences, e.g. `layers_of(embedder)`.
        data_dir: folder with eng.train, eng.testa (development set) and eng.testb, plain or compressed.
        seeds: random seeds, one probe each.
        training: how a probe is trained.
        max_sentences: maximum number of sentences per file; None uses all.
        candidates: which vectors to probe, by the names of `candidate_names`; None probes all.
    """
    sets = {name: read_ner(find_file(data_dir, file), max_sentences=max_sentences) for name, file in FILES.items()}
    return probe_tags(
        embed, sets, metric="span F1", score=span_f1, seeds=seeds, training=training, candidates=candidates
    )


def span_f1(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
    """F1 over all spans."""
    return score_tags(gold, predicted).f1
