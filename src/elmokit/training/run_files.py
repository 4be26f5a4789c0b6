"""What a run is given and what it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmokit.arguments import check_path


@dataclass(frozen=True)
class RunFiles:
    """What a run reads, where it writes, and how it starts."""

    train: Sequence[str]
    """Paths or globs of the training text."""
    heldout: Sequence[str]
    output: Path
    vocab: Path | None = None
    """A vocabulary to use; None: count one from the training text."""
    resume: bool = False
    """Resume the run in `output`, or begin it if there is none."""
    init: str | None = None
    """A model to take the weights and the vocabulary from."""
    skip_tokens: int = 0
    """Predictions of the training text to skip, rounded up to the end of a sentence."""
    threads: int | None = None
    device: str = "cpu"
    tensorboard: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", check_path("output", self.output))
        if self.vocab is not None:
            object.__setattr__(self, "vocab", check_path("vocab", self.vocab))


@dataclass(frozen=True)
class RunResult:
    """The results of a finished run."""

    model_path: Path
    fingerprint: str
    steps: int
    predictions: int
    seconds: float
    """Duration in seconds; a resumed run counts from the resume."""
    reason: str
    best_step: int
    heldout: Mapping[str, Any]
    """Perplexities on the held-out text, `carry` and `reset`; empty without held-out text."""
    before: Mapping[str, Any]
    """Perplexities before fine-tuning, in the same form."""
    heldout_by_file: Mapping[str, Mapping[str, float]]
    """Average perplexities of each held-out file, `carry` and `reset`, by file name."""

    def to_dict(self) -> dict[str, Any]:
        """The results as plain values for JSON."""
        return {**vars(self), "model_path": str(self.model_path)}
