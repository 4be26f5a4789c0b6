"""Predictions of a trained model for files with gold labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from elmokit.progress import ProgressCallback
from elmokit.tasks.base import Task
from elmokit.tasks.sets import read_examples, warn_of_unseen
from elmokit.tasks.trained import TrainedTask
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
    trained: TrainedTask,
    patterns: Sequence[str],
    *,
    embedding: ProgressCallback | None = None,
    predicting: ProgressCallback | None = None,
) -> Evaluation:
    """The predictions of a trained model for files, given as paths or globs.

    `embedding` receives how many sentences the biLM has embedded, `predicting` how many examples have a prediction.
    """
    refuse_pipes(find_files(patterns))
    if trained.task.reads_raw_text(trained.settings):
        trained.check_tokenizer()
    examples = read_examples(trained.task, trained.config, patterns, training=False)
    warn_of_unseen(trained.task, trained.labels, examples, patterns)
    trained.prepare(examples, embedding)
    return Evaluation(trained.task, examples, trained.predict(examples, report=predicting))
