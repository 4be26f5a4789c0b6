"""Linear probes of every layer as one call per data set: read it, embed it, probe, report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from elmokit.analysis.embed import cached_layers, model_name
from elmokit.analysis.probes.layers import ProbeResult, ProbeTask
from elmokit.analysis.probes.ner import NER
from elmokit.analysis.probes.pos import TagSet, pos_task
from elmokit.analysis.probes.report import ner_report, pos_report
from elmokit.analysis.report import Report
from elmokit.arguments import check_path
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.progress import ProgressCallback

Kind = TypeVar("Kind")


def analyze_pos(
    embedder: Embedder,
    data_dir: str | Path,
    *,
    tags: Sequence[TagSet] = ("xpos",),
    seeds: Sequence[int] = (0, 1, 2),
    max_sentences: int | None = None,
    on_embedding: ProgressCallback | None = None,
    on_probe: ProgressCallback | None = None,
) -> Report:
    """How well a linear probe predicts part-of-speech tags from each layer (Table 6 of the paper).

    The layers are cached on disk, so a second call on the same model and sentences starts with the probes.

    Args:
        embedder: The model.
        data_dir: A treebank: one file each whose name ends in train.conllu, dev.conllu and test.conllu.
        tags: Kinds of tags to probe.
        seeds: A probe is trained with each.
        max_sentences: Of each file; None takes all.
        on_embedding: Receives how many sentences of how many are embedded.
        on_probe: Receives how many kinds of tags of how many are probed.
    """
    tasks = {kind: pos_task(kind) for kind in tags}
    folder = check_path("data_dir", data_dir)
    results, num_tokens = _probe(embedder, folder, tasks, seeds, max_sentences, on_embedding, on_probe)
    return pos_report(results, model=model_name(embedder), data=folder.name, num_tokens=num_tokens)


def analyze_ner(
    embedder: Embedder,
    data_dir: str | Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    max_sentences: int | None = None,
    on_embedding: ProgressCallback | None = None,
    on_probe: ProgressCallback | None = None,
) -> Report:
    """How well a linear probe finds named entities in each layer, tagging every token on its own.

    The folder is that of CoNLL-2003, with one file each whose name ends in eng.train, eng.testa (development) and
    eng.testb. The other arguments are those of `analyze_pos`.
    """
    folder = check_path("data_dir", data_dir)
    results, num_tokens = _probe(embedder, folder, {"ner": NER}, seeds, max_sentences, on_embedding, on_probe)
    return ner_report(results["ner"], model=model_name(embedder), data=folder.name, num_tokens=num_tokens)


def _probe(
    embedder: Embedder,
    data_dir: Path,
    tasks: dict[Kind, ProbeTask],
    seeds: Sequence[int],
    max_sentences: int | None,
    on_embedding: ProgressCallback | None,
    on_probe: ProgressCallback | None,
) -> tuple[dict[Kind, ProbeResult], dict[str, int]]:
    """The results of tasks on the same sentences, and the number of tokens of each set."""
    sets = {kind: task.read_sets(data_dir, max_sentences) for kind, task in tasks.items()}
    first = next(iter(sets.values()))
    sentences = [tokens for tagged in first.values() for tokens in tagged.sentences]
    embed = cached_layers(LayerCache(embedder), sentences, on_embedding)
    results = {}
    for number, (kind, task) in enumerate(tasks.items()):
        if on_probe is not None:
            on_probe(number, len(tasks))
        results[kind] = task.probe(embed, sets[kind], seeds=seeds)
    return results, {name: len(tagged.flat_tags) for name, tagged in first.items()}
