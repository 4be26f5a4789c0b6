"""The only training loop. It knows neither language models nor tasks.

`batches` is an iterator that can save its place, `step` turns a batch into gradients, `optimizer` uses them,
`evaluate` measures. The loop owns the rest: accumulation, logging, the best model, checkpoints, early stopping,
signals, and the stop at a loss that is not a number. A run that is killed at any moment and resumed takes the same
steps as one that was not.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from elmokit.errors import ElmokitError
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import LoopConfig
from elmokit.training.distributed import Processes
from elmokit.training.log import RunLog
from elmokit.training.optim import Optimizer


@dataclass(frozen=True)
class StepResult:
    """What a step says of its batch: the mean loss, parts of it by name, how many things it is the mean of."""

    loss: float
    parts: Mapping[str, float]
    count: int
    scale: float = 1.0
    """What the gradients must still be multiplied with."""


class Batches(Protocol):
    """An iterator that can save its place."""

    def __next__(self) -> Any:
        """The next batch."""

    def state_dict(self) -> dict[str, Any]:
        """Where it stands."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""


class Step(Protocol):
    """Adds the gradients of a batch to the parameters."""

    def __call__(self, batch: Any, number: int, /) -> StepResult:
        """Do so for batch `number` of the run."""

    def state_dict(self) -> dict[str, Any]:
        """What it carries from batch to batch."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take that up again."""

    def overflowed(self) -> bool:
        """Whether a gradient that is not finite was met by lowering a scale, so that the loop may go on."""


@dataclass
class Progress:
    """How far a run is; what a progress bar shows, and part of every checkpoint."""

    max_steps: int = 0
    step: int = 0
    batch: int = 0
    count: int = 0
    """Predictions or examples so far."""
    best: float | None = None
    best_step: int = 0
    num_worse: int = 0
    """Evaluations since the best one."""
    sums: dict[str, float] = field(default_factory=dict)
    """Of what the next log entry averages."""
    num_summed: int = 0


@dataclass(frozen=True)
class Fitted:
    """How a run ended."""

    progress: Progress
    reason: Literal["max_steps", "end of data", "patience"]
    seconds: float


Report = Callable[[Progress, Mapping[str, float]], None]
"""Called at every log entry and evaluation with its figures."""


class Loop:
    """A run: its parts, and how far it is.

    Args:
        model: what is trained; its tensors are part of every checkpoint.
        batches: where batches come from; its end ends the run.
        step: from a batch to gradients.
        optimizer: from gradients to the next weights.
        config: when to do what.
        evaluate: figures of the present model; the one named `metric` decides what is best.
        metric: a figure of `evaluate`.
        lower_is_better: whether a smaller one is.
        save_best: called when the model is the best so far.
        checkpoints: where they go; none: none are written.
        log: where entries go.
        processes: those that share the run; the first one writes.
        identity: what must be equal for a checkpoint to be taken up, by name.
        report: for a progress bar.
        place: says where in the data a batch came from, for messages.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        batches: Batches,
        step: Step,
        optimizer: Optimizer,
        config: LoopConfig,
        max_steps: int,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        metric: str = "loss",
        lower_is_better: bool = True,
        save_best: Callable[[], None] | None = None,
        checkpoints: Checkpoints | None = None,
        log: RunLog | None = None,
        processes: Processes | None = None,
        identity: Mapping[str, Any] | None = None,
        report: Report | None = None,
        place: Callable[[], str] | None = None,
    ) -> None:
        self.model, self.batches, self.step, self.optimizer = model, batches, step, optimizer
        self.config, self.max_steps = config, max_steps
        self.evaluate, self.metric, self.lower_is_better, self.save_best = evaluate, metric, lower_is_better, save_best
        self.checkpoints, self.log = checkpoints, log
        self.processes = processes or Processes()
        self.identity = dict(identity or {})
        self.report = report
        self.place = place
        self.progress = Progress()
        self._stopped = False

    def resume(self) -> bool:
        """Take up the newest checkpoint; False if there is none."""
        content = self.checkpoints.load_last() if self.checkpoints is not None else None
        if content is None:
            return False
        differing = [name for name, value in self.identity.items() if content["identity"].get(name) != value]
        if differing:
            name = differing[0]
            raise ElmokitError(
                f"the checkpoint was made with {name} = {content['identity'].get(name)!r}, but now {name} = "
                f"{self.identity[name]!r}: resume with the run's own settings, or start anew in another folder."
            )
        self.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.batches.load_state_dict(content["batches"])
        self.step.load_state_dict(content["step_state"])
        self.progress = Progress(**content["progress"])
        torch.set_rng_state(content["rng"])
        if self.log is not None and self.processes.is_first:
            self.log.rewind(self.progress.step)
        return True

    def run(self) -> Fitted:
        """Train until the steps, the data or the patience end."""
        begun = time.monotonic()
        self.progress.max_steps = self.max_steps
        reason: Literal["max_steps", "end of data", "patience"] = "max_steps"
        window = (begun, self.progress.count)
        with _signals() as stop:
            while self.progress.step < self.max_steps:
                if not self._take_step():
                    reason = "end of data"
                    break
                done = self.progress.step
                if done % self.config.log_every == 0 or done == self.max_steps:
                    window = self._write_entry(window)
                if self.config.evaluate_every and done % self.config.evaluate_every == 0 and self._evaluate():
                    reason = "patience"
                    break
                stopping = self._any_process(stop.is_set())
                if stopping or done % self.config.checkpoint_every == 0:
                    self._save()
                if stopping:
                    raise KeyboardInterrupt
            if reason != "patience" and not (
                self.config.evaluate_every and self.progress.step % self.config.evaluate_every == 0
            ):
                self._evaluate()
            self._save()
        return Fitted(self.progress, reason, time.monotonic() - begun)

    def _take_step(self) -> bool:
        """One step of the optimiser; False if there is no batch left for it."""
        scale, taken = 1.0, 0
        for _ in range(self.config.accumulate):
            batch = next(self.batches, None)
            if batch is None:
                break
            result = self.step(batch, self.progress.batch)
            self._check(result.loss)
            taken += 1
            scale = result.scale
            self.progress.batch += 1
            self.progress.count += result.count
            for name, value in {"loss": result.loss, **result.parts}.items():
                self.progress.sums[name] = self.progress.sums.get(name, 0.0) + value
            self.progress.num_summed += 1
        if not taken:
            return False
        norm = self.optimizer.update(self.progress.step, scale / taken)
        if not math.isfinite(norm):
            if not self.step.overflowed():
                self._check(norm)
            self.optimizer.clear()
        self.progress.sums["gradient_norm"] = self.progress.sums.get("gradient_norm", 0.0) + norm
        self.progress.step += 1
        return True

    def _check(self, value: float) -> None:
        if math.isfinite(value):
            return
        where = f" ({self.place()})" if self.place is not None else ""
        saved = self.checkpoints.find() if self.checkpoints is not None else []
        remedy = f"the checkpoint of step {saved[-1][0]} is good" if saved else "there is no checkpoint yet"
        raise ElmokitError(
            f"the loss or its gradient is {value} at step {self.progress.step + 1}{where}, so the run stops; {remedy}: "
            "lower the learning rate or clip_norm and start from there with --init."
        )

    def _write_entry(self, window: tuple[float, int]) -> tuple[float, int]:
        progress, now = self.progress, time.monotonic()
        means = {
            name: value / (progress.num_summed / (self.config.accumulate if name == "gradient_norm" else 1))
            for name, value in progress.sums.items()
        }
        progress.sums, progress.num_summed = {}, 0
        speed = (progress.count - window[1]) / max(now - window[0], 1e-9)
        figures = {"count": progress.count, **means, "per_second": round(speed, 1)}
        self._tell(figures)
        return now, progress.count

    def _evaluate(self) -> bool:
        """Measure the model, keep it if it is the best; True if patience is at its end."""
        if self.evaluate is None:
            return False
        figures, progress = dict(self.evaluate()), self.progress
        value = figures[self.metric]
        if progress.best is None or (value < progress.best if self.lower_is_better else value > progress.best):
            progress.best, progress.best_step, progress.num_worse = value, progress.step, 0
            if self.save_best is not None and self.processes.is_first:
                self.save_best()
        else:
            progress.num_worse += 1
        self._tell({"count": progress.count, **{f"heldout_{name}": figure for name, figure in figures.items()}})
        return bool(self.config.patience) and progress.num_worse >= self.config.patience

    def _tell(self, figures: Mapping[str, float]) -> None:
        if not self.processes.is_first:
            return
        if self.log is not None:
            self.log.write({"step": self.progress.step, **figures})
        if self.report is not None:
            self.report(self.progress, figures)

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        step_state = self.step.state_dict()  # every process has a part of it
        if not self.processes.is_first:
            return
        self.checkpoints.save(
            self.progress.step,
            {
                "step": self.progress.step,
                "identity": self.identity,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "batches": self.batches.state_dict(),
                "step_state": step_state,
                "progress": vars(self.progress).copy(),
                "rng": torch.get_rng_state(),
            },
        )

    def _any_process(self, flag: bool) -> bool:
        if self.processes.size == 1:
            return flag
        flags: Tensor = torch.tensor([float(flag)])
        self.processes.add_up([flags])
        return bool(flags.item())


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Let Ctrl-C and a polite kill end the run after the present step; a second one ends it at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
