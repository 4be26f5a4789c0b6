"""Training a biLM: pretraining, fine-tuning, and their settings."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.training.config import FinetuneConfig, PretrainConfig, read_run
    from elmokit.training.finetuning import finetune
    from elmokit.training.pretraining import pretrain
    from elmokit.training.run_files import RunFiles, RunResult

__all__ = ["FinetuneConfig", "PretrainConfig", "RunFiles", "RunResult", "finetune", "pretrain", "read_run"]

_HOMES = {
    "FinetuneConfig": "elmokit.training.config",
    "PretrainConfig": "elmokit.training.config",
    "RunFiles": "elmokit.training.run_files",
    "RunResult": "elmokit.training.run_files",
    "finetune": "elmokit.training.finetuning",
    "pretrain": "elmokit.training.pretraining",
    "read_run": "elmokit.training.config",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
