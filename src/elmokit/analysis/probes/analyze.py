"""The analysis of parts of speech as one call: read a treebank, embed it, probe each layer, report."""

from collections.abc import Sequence
from pathlib import Path

from elmokit.analysis.kept_layers import keep_layers
from elmokit.analysis.probes.layers import find_file, probe_tags
from elmokit.analysis.probes.pos import TagSet, read_pos
from elmokit.analysis.probes.report import pos_report
from elmokit.analysis.report import Report
from elmokit.embedding.embedder import Embedder
from elmokit.progress import ProgressCallback
from elmokit.tasks.layer_store import LayerStore


def analyze_pos(
    embedder: Embedder,
    data_dir: Path,
    *,
    model: str,
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
        model: The model's name in the report.
        tags: Kinds of tags to probe.
        seeds: A probe is trained with each.
        max_sentences: Of each file; None takes all.
        on_embedding: Receives how many sentences of how many are embedded.
        on_probe: Receives how many kinds of tags of how many are probed.
    """
    paths = {name: find_file(data_dir, f"{name}.conllu") for name in ("train", "dev", "test")}
    sets = {
        kind: {name: read_pos(path, tags=kind, max_sentences=max_sentences) for name, path in paths.items()}
        for kind in tags
    }
    first = sets[tags[0]]
    sentences = [tokens for tagged in first.values() for tokens in tagged.sentences]
    embed = keep_layers(LayerStore(embedder), sentences, on_embedding)
    results = {}
    for number, kind in enumerate(tags):
        if on_probe is not None:
            on_probe(number, len(tags))
        results[kind] = probe_tags(embed, sets[kind], metric="accuracy", seeds=seeds)
    num_tokens = {name: len(tagged.flat_tags) for name, tagged in first.items()}
    return pos_report(results, model=model, data=data_dir.name, num_tokens=num_tokens)
