"""Training a biLM: pretraining, fine-tuning, and their settings."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.training.config import FinetuneConfig, PretrainConfig, read_run
    from elmokit.training.finetune import finetune
    from elmokit.training.pretrain import RunFiles, RunResult, pretrain

__all__ = [
    "FinetuneConfig",
    "PretrainConfig",
    "RunFiles",
    "RunResult",
    "finetune",
    "pretrain",
    "read_run",
]

_HOMES = {
    "FinetuneConfig": "elmokit.training.config",
    "PretrainConfig": "elmokit.training.config",
    "RunFiles": "elmokit.training.pretrain",
    "RunResult": "elmokit.training.pretrain",
    "finetune": "elmokit.training.finetune",
    "pretrain": "elmokit.training.pretrain",
    "read_run": "elmokit.training.config",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
