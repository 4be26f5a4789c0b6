"""Seven tasks with and without ELMo: each folder has a reader, a model and a metric; everything else is shared."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.tasks.base import Task, TaskModel
    from elmokit.tasks.config import TaskConfig, read_task_config
    from elmokit.tasks.coref.record import CorefRecord
    from elmokit.tasks.experiments.comparison import Comparison, VariantScores, compare
    from elmokit.tasks.experiments.variants import BASELINE, Experiment, Runs, Variant, run_all
    from elmokit.tasks.ner.record import NerRecord
    from elmokit.tasks.nli.record import NliRecord
    from elmokit.tasks.pipeline import TaskPipeline
    from elmokit.tasks.qa.record import QaRecord
    from elmokit.tasks.records import Record, TaskText, TextSpan
    from elmokit.tasks.registry import TASKS
    from elmokit.tasks.runner import TaskFiles, evaluate_task, train_task
    from elmokit.tasks.saved import load_task
    from elmokit.tasks.sentiment.record import SentimentRecord
    from elmokit.tasks.srl.record import SrlRecord
    from elmokit.tasks.tag.record import TagRecord

__all__ = [
    "BASELINE",
    "TASKS",
    "Comparison",
    "CorefRecord",
    "Experiment",
    "NerRecord",
    "NliRecord",
    "QaRecord",
    "Record",
    "Runs",
    "SentimentRecord",
    "SrlRecord",
    "TagRecord",
    "Task",
    "TaskConfig",
    "TaskFiles",
    "TaskModel",
    "TaskPipeline",
    "TaskText",
    "TextSpan",
    "Variant",
    "VariantScores",
    "compare",
    "evaluate_task",
    "load_task",
    "read_task_config",
    "run_all",
    "train_task",
]

_HOMES = {
    "CorefRecord": "elmokit.tasks.coref.record",
    "NerRecord": "elmokit.tasks.ner.record",
    "NliRecord": "elmokit.tasks.nli.record",
    "QaRecord": "elmokit.tasks.qa.record",
    "SentimentRecord": "elmokit.tasks.sentiment.record",
    "SrlRecord": "elmokit.tasks.srl.record",
    "TagRecord": "elmokit.tasks.tag.record",
    "BASELINE": "elmokit.tasks.experiments.variants",
    "Comparison": "elmokit.tasks.experiments.comparison",
    "Experiment": "elmokit.tasks.experiments.variants",
    "Record": "elmokit.tasks.records",
    "Runs": "elmokit.tasks.experiments.variants",
    "TASKS": "elmokit.tasks.registry",
    "Task": "elmokit.tasks.base",
    "TaskConfig": "elmokit.tasks.config",
    "TaskFiles": "elmokit.tasks.runner",
    "TaskModel": "elmokit.tasks.base",
    "TaskPipeline": "elmokit.tasks.pipeline",
    "TaskText": "elmokit.tasks.records",
    "TextSpan": "elmokit.tasks.records",
    "Variant": "elmokit.tasks.experiments.variants",
    "VariantScores": "elmokit.tasks.experiments.comparison",
    "compare": "elmokit.tasks.experiments.comparison",
    "evaluate_task": "elmokit.tasks.runner",
    "load_task": "elmokit.tasks.saved",
    "read_task_config": "elmokit.tasks.config",
    "run_all": "elmokit.tasks.experiments.variants",
    "train_task": "elmokit.tasks.runner",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
