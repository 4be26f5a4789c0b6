"""Word-sense disambiguation as one call: read SemCor and the evaluation sets, embed, evaluate, report."""

from collections.abc import Sequence
from pathlib import Path

from elmokit.analysis.embed import cached_layers, model_name
from elmokit.analysis.report import Report
from elmokit.analysis.wsd.data import read_wsd_data
from elmokit.analysis.wsd.nearest import evaluate_wsd
from elmokit.analysis.wsd.report import wsd_report
from elmokit.analysis.wsd.semcor import PARTS
from elmokit.analysis.wsd.target_vectors import keep_words
from elmokit.analysis.wsd.votes import evaluate_votes
from elmokit.arguments import check_path
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.progress import ProgressCallback


def analyze_wsd(
    embedder: Embedder,
    data_dir: str | Path,
    *,
    parts: Sequence[str] = PARTS,
    seed: int = 0,
    on_embedding: ProgressCallback | None = None,
    on_evaluation: ProgressCallback | None = None,
) -> Report:
    """Word-sense disambiguation by layer (Table 5 of the paper), and by votes of similar occurrences.

    The layers are cached on disk, about 1 GB for a model of width 256.

    Args:
        embedder: The model.
        data_dir: A folder with semcor3.0.tar.xz, wordnet3.0-index.sense.xz and eval/senseval2 ….
        parts: Parts of SemCor to learn from.
        seed: Random seed of the choice of held-out SemCor texts.
        on_embedding: Receives how many sentences of how many are embedded.
        on_evaluation: Receives how many of the two evaluations are done.
    """
    data = read_wsd_data(check_path("data_dir", data_dir), list(parts))
    train = list(keep_words(data.train, data.words))
    sentences = [sentence.tokens for part in (train, *data.sets.values()) for sentence in part]
    embed = cached_layers(LayerCache(embedder), sentences, on_embedding)
    nearest = evaluate_wsd(embed, train, data.sets, data.index)
    if on_evaluation is not None:
        on_evaluation(1, 2)
    votes = evaluate_votes(embed, train, data.sets, data.index, seed=seed)
    return wsd_report(nearest, votes, model=model_name(embedder), parts=", ".join(parts))
