"""Predictions of a trained model for files with gold labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from elmokit.embedding.layer_cache import LayerCache
from elmokit.progress import ProgressCallback
from elmokit.tasks.base import Task
from elmokit.tasks.batches import LayerReader
from elmokit.tasks.pipeline import TaskPipeline
from elmokit.tasks.sets import read_examples, warn_of_unseen
from elmokit.text.files import find_files, refuse_pipes


@dataclass(frozen=True)
class Evaluation:
    """Examples with gold labels and their predictions."""

    task: Task[Any]
    examples: Sequence[Any]
    predictions: Sequence[Any]

    @cached_property
    def figures(self) -> dict[str, float]:
        """The task's figures, in percent."""
        return dict(self.task.score(self.examples, self.predictions))


def predict_files(
    trained: TaskPipeline,
    patterns: Sequence[str],
    *,
    layers_folder: Path | None = None,
    embedding: ProgressCallback | None = None,
    predicting: ProgressCallback | None = None,
) -> Evaluation:
    """The predictions of a trained model for files, given as paths or globs.

    The layers of the sentences are cached in `layers_folder`, or in the user's cache. `embedding` receives how many
    sentences the biLM has embedded, `predicting` how many examples have a prediction.
    """
    refuse_pipes(find_files(patterns))
    if trained.task.reads_raw_text(trained.settings):
        trained.check_tokenizer()
    examples = read_examples(trained.task, trained.config, patterns, training=False)
    warn_of_unseen(trained.task, trained.labels, examples, patterns)
    read = prepare_layers(trained, examples, layers_folder, embedding)
    predictions = trained.predict_examples(examples, read=read, report=predicting)
    return Evaluation(trained.task, examples, predictions)


def prepare_layers(
    pipeline: TaskPipeline, examples: Sequence[Any], folder: Path | None, report: ProgressCallback | None
) -> LayerReader | None:
    """Embed the sentences of examples that are not cached yet, and return the reader; None without a frozen biLM."""
    if pipeline.embedder is None:
        return None
    cache = LayerCache(pipeline.embedder, folder)
    cache.prepare(pipeline.task.sentences(examples), report)
    return cache.read
