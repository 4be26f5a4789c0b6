"""The only training loop. It knows neither language models nor tasks.

`batches` is an iterator that can save its position, `step` turns a batch into gradients, `optimizer` applies them,
`evaluate` measures the model. The loop does the rest: accumulation, logging, the best model, checkpoints, early
stopping, signals, and stopping at a loss that is not a number. A run that is killed at any moment and resumed takes the
same steps as an uninterrupted one.

A step first takes all its batches and then computes, so a run that ends because of a signal or missing data is exactly
between two steps and can be saved there.
"""

import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol

import torch
from torch import nn

from elmokit.errors import ConfigError, ElmokitError
from elmokit.training.average import WeightAverage
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import LoopConfig
from elmokit.training.distributed import Processes
from elmokit.training.log import RunLog
from elmokit.training.optim import Optimizer


@dataclass(frozen=True)
class StepResult:
    """The result of a step: the mean loss, its parts by name, and the number of items it is the mean of."""

    loss: float
    parts: Mapping[str, float]
    count: int
    scale: float = 1.0
    """Factor to multiply the gradients by before the update."""


class Batches(Protocol):
    """An iterator that can save its position.

    It may have an `epoch`, an int that changes after each pass over the data.
    """

    def __next__(self) -> Any:
        """The next batch."""

    def state_dict(self) -> dict[str, Any]:
        """The current position."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position."""


class Step(Protocol):
    """Adds the gradients of a batch to the parameters."""

    def __call__(self, batch: Any, number: int, /) -> StepResult:
        """Add the gradients of batch `number` of the run."""

    def state_dict(self) -> dict[str, Any]:
        """The state that is carried from batch to batch."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore that state."""

    def overflowed(self) -> bool:
        """Whether a non-finite gradient was handled by lowering a scale, so that the loop may continue."""


Reason = Literal["max_steps", "end of data", "patience", "end of decay"]


@dataclass
class Progress:
    """The progress of a run, for progress bars and checkpoints."""

    num_steps: int = 0
    """Steps that the run is expected to take."""
    step: int = 0
    batch: int = 0
    count: int = 0
    """Predictions or examples so far."""
    best: float | None = None
    best_step: int = 0
    num_worse: int = 0
    """Evaluations since the best one."""
    evaluated: int = -1
    """The step of the last evaluation."""
    totals: dict[str, float] = field(default_factory=dict)
    """Sums for the means in the next log entry: losses times their counts, gradient norms."""
    num_counted: int = 0
    num_norms: int = 0
    decay_from: int | None = None
    """The step at which the decay of schedule wsd began, if it has begun."""
    reason: Reason | None = None
    """Why the run ended, if it has."""


@dataclass(frozen=True)
class Fitted:
    """How a run ended."""

    progress: Progress
    reason: Reason
    seconds: float


LogCallback = Callable[[Progress, Mapping[str, float]], None]
"""Receives the figures of every log entry and evaluation."""


class Loop:
    """A training run: its parts and its progress.

    Args:
        model: model to train; its tensors are part of every checkpoint.
        batches: source of batches; the run ends when it ends.
        evaluate: returns figures of the current model; only the main process calls it.
        metric: the figure of `evaluate` that decides which model is best.
        lower_is_better: whether a smaller metric is better.
        save_best: called when the model is the best so far.
        processes: the processes that share the run; the main one writes.
        identity: settings that must match those of a checkpoint to resume from it, by name.
        changeable: names of `identity` that a resumed run may change; each change is logged.
        average: a running average of the weights; the better of average and weights is evaluated as the best.
        finish_requested: returns whether the decay of schedule wsd should begin now.
        place: returns where in the data the next batch begins, for messages.
        rescue: called when a figure is not a number; returns what was saved and how to continue.
    """

    def __init__(
        self,
        *,
        model: nn.Module,
        batches: Batches,
        step: Step,
        optimizer: Optimizer,
        config: LoopConfig,
        num_steps: int,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        metric: str = "loss",
        lower_is_better: bool = True,
        save_best: Callable[[], None] | None = None,
        checkpoints: Checkpoints | None = None,
        log: RunLog | None = None,
        processes: Processes | None = None,
        identity: Mapping[str, Any] | None = None,
        changeable: Collection[str] = (),
        average: WeightAverage | None = None,
        finish_requested: Callable[[], bool] | None = None,
        report: LogCallback | None = None,
        place: Callable[[], str] | None = None,
        rescue: Callable[[], str] | None = None,
    ) -> None:
        self.model, self.batches, self.step, self.optimizer, self.config = model, batches, step, optimizer, config
        self.evaluate, self.metric, self.lower_is_better, self.save_best = evaluate, metric, lower_is_better, save_best
        self.checkpoints, self.log, self.report = checkpoints, log, report
        self.processes = processes or Processes()
        self.identity, self.changeable = dict(identity or {}), frozenset(changeable)
        self.average, self.finish_requested = average, finish_requested
        self.place, self.rescue = place, rescue
        self.progress = Progress(num_steps)
        self.changes: dict[str, list[Any]] = {}
        """Settings that a resumed run has changed, each with its old and new value."""
        self._place = ""

    def resume(self) -> bool:
        """Load the newest checkpoint; False if there is none."""
        content = self.checkpoints.load_last() if self.checkpoints is not None else None
        if content is None:
            return False
        changes = self._compare(content["identity"])
        self.model.load_state_dict(content["model"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.batches.load_state_dict(content["batches"])
        self.step.load_state_dict(content["step_state"])
        known = {one.name for one in fields(Progress)} - {"num_steps"}
        values = {name: value for name, value in content["progress"].items() if name in known}
        self.progress = Progress(self.progress.num_steps, **values)
        if self.progress.decay_from is not None:
            self.progress.num_steps = self.progress.decay_from + self.optimizer.config.decay_steps
        if self.average is not None and content.get("average") is not None:
            self.average.load_state_dict(content["average"])
        elif self.average is not None:
            self.average.restart()
        torch.set_rng_state(content["rng"])
        if self.log is not None and self.processes.is_first:
            self.log.rewind(content["log_entries"])
            if self.average is not None and content.get("average") is None:
                self.log.write({"step": self.progress.step, "average": "begun: the checkpoint has none"})
        self._take_changes(changes)
        return True

    def _compare(self, saved: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The settings that a resumed run changes, each with its old and new value; forbidden changes are refused."""
        changes = {
            name: [saved[name], value]
            for name, value in self.identity.items()
            if name in saved and saved[name] != value
        }
        for name, (before, now) in changes.items():
            if name not in self.changeable:
                raise ConfigError(
                    f"the run to resume was made with {name} = {before}, but now {name} = {now}: "
                    "give its own settings, or start anew in another folder."
                )
        return changes

    def _take_changes(self, changes: Mapping[str, list[Any]]) -> None:
        """Log what a resumed run changes, and let a run that had reached its end continue to a later one."""
        self.changes = dict(changes)
        if not changes:
            return
        if self.progress.reason == "end of decay":
            raise ConfigError(
                "this run has finished its decay, so that its settings cannot change any more: start a new run from "
                "its model with --init."
            )
        if self.progress.reason in ("max_steps", "end of data"):
            self.progress.reason = None
        if self.log is not None and self.processes.is_first:
            self.log.write({"step": self.progress.step, "changed": self.changes})

    def run(self) -> Fitted:
        """Train until the steps, the data or the patience run out."""
        begun, progress, config = time.monotonic(), self.progress, self.config
        mark = (begun, progress.count)
        epoch = getattr(self.batches, "epoch", None)
        with _signals() as stop:
            while progress.reason is None:
                if (reason := self._reached_end()) is not None:
                    progress.reason = reason
                    break
                if config.patience and progress.num_worse >= config.patience:
                    progress.reason = "patience"
                    break
                batches = self._take_batches(stop)
                if not batches:
                    progress.reason = "end of data"
                    break
                self._take_step(batches)
                if progress.step % config.log_every == 0:
                    mark = self._write_entry(mark)
                last_epoch, epoch = epoch, getattr(self.batches, "epoch", None)
                every = config.evaluate_every
                due = progress.step % every == 0 if every else epoch != last_epoch
                if due:
                    self.measure()
                if progress.step % config.checkpoint_every == 0:
                    self._save()
            if progress.num_counted:
                self._write_entry(mark)
            if progress.evaluated != progress.step:
                self.measure()
            self._save()
        return Fitted(progress, progress.reason, time.monotonic() - begun)

    def _take_batches(self, stop: threading.Event) -> list[Any]:
        """The batches of a step, fewer at the end of the data; saves the run if it cannot or must not continue."""
        before = self.batches.state_dict()
        self._place = self.place() if self.place is not None else ""
        batches: list[Any] = []
        failure: Exception | None = None
        asked = self._is_asked_to_finish()
        try:
            while len(batches) < self.config.accumulate and (batch := next(self.batches, None)) is not None:
                batches.append(batch)
        except Exception as error:
            failure = error
        stopped, failed, asked = self.processes.any_of(stop.is_set(), failure is not None, asked)
        if stopped or failed:
            self._save(before)
        if failure is not None:
            raise failure
        if failed:
            raise ElmokitError("another process of this run cannot read its data: see its own message.")
        if stopped:
            raise KeyboardInterrupt
        if asked:
            self._begin_decay("on request")
            self._save(before)  # so that a resumed run decays from the same step
        return batches

    def _is_asked_to_finish(self) -> bool:
        """Whether the main process finds a request for a decay that could begin now."""
        if self.finish_requested is None or not self.processes.is_first:
            return False
        can_begin = self.optimizer.config.schedule == "wsd" and self.progress.decay_from is None
        return can_begin and self.finish_requested()

    def _reached_end(self) -> Reason | None:
        """Why the run ends after the steps so far, if it does; begins the decay of schedule wsd when it is due."""
        progress, optimizer = self.progress, self.optimizer.config
        if optimizer.schedule != "wsd":
            last = self.config.max_steps
            return "max_steps" if last is not None and progress.step >= last else None
        if progress.step >= progress.num_steps - optimizer.decay_steps:
            self._begin_decay("at the end of the steps")
        if progress.decay_from is not None and progress.step >= progress.decay_from + optimizer.decay_steps:
            return "end of decay"
        return None

    def _begin_decay(self, why: str) -> None:
        progress = self.progress
        if progress.decay_from is not None:
            return
        progress.decay_from = progress.step
        progress.num_steps = progress.step + self.optimizer.config.decay_steps
        if self.log is not None and self.processes.is_first:
            self.log.write({"step": progress.step, "decay": f"begun {why}", "num_steps": progress.num_steps})

    def _take_step(self, batches: list[Any]) -> None:
        """One step of the optimizer."""
        progress, scale = self.progress, 1.0
        for batch in batches:
            result = self.step(batch, progress.batch)
            self._check("loss", result.loss)
            scale = result.scale
            progress.batch += 1
            progress.count += result.count
            progress.num_counted += result.count
            for name, value in {"loss": result.loss, **result.parts}.items():
                progress.totals[name] = progress.totals.get(name, 0.0) + value * result.count
        self.processes.all_reduce_gradients(self.optimizer.parameters)
        norm = self.optimizer.update(progress.step, scale / len(batches), progress.decay_from)
        if math.isfinite(norm):
            progress.totals["gradient_norm"] = progress.totals.get("gradient_norm", 0.0) + norm
            progress.num_norms += 1
        else:
            if not self.step.overflowed():
                self._check("gradient's norm", norm)
            self.optimizer.clear()
        progress.step += 1
        if self.average is not None:
            self.average.update(progress.step)

    def _check(self, name: str, value: float) -> None:
        if math.isfinite(value):
            return
        where = f" (corpus: {self._place} or later)" if self._place else ""
        remedy = f"; {self.rescue()}" if self.rescue is not None else "."
        raise ElmokitError(f"the {name} is {value} at step {self.progress.step + 1}{where}, so the run stops{remedy}")

    def _write_entry(self, mark: tuple[float, int]) -> tuple[float, int]:
        """Log the means since the last entry and the speed since a mark; return the next mark."""
        progress, now = self.progress, time.monotonic()
        means = {
            name: total / (progress.num_norms if name == "gradient_norm" else progress.num_counted)
            for name, total in progress.totals.items()
        }
        progress.totals, progress.num_counted, progress.num_norms = {}, 0, 0
        speed = (progress.count - mark[1]) / max(now - mark[0], 1e-9)
        self._tell({"count": progress.count, **means, "per_second": round(speed, 1)})
        return now, progress.count

    def measure(self) -> None:
        """Evaluate the current model, and save it if it is the best so far."""
        if self.evaluate is None:
            return
        progress = self.progress
        figures = dict(self.evaluate()) if self.processes.is_first else {}
        value = self.processes.broadcast_from_main(figures.get(self.metric, 0.0))
        if math.isnan(value):
            self._check(f"held-out {self.metric}", value)
        averaged = self._measure_average(figures)
        use_average = averaged is not None and self._is_better(averaged, value)
        value = averaged if averaged is not None and use_average else value
        progress.evaluated = progress.step
        if progress.best is None or self._is_better(value, progress.best):
            progress.best, progress.best_step, progress.num_worse = value, progress.step, 0
            if self.save_best is not None and self.processes.is_first:
                with self.average.in_model() if self.average is not None and use_average else nullcontext():
                    self.save_best()
        else:
            progress.num_worse += 1
            self.optimizer.observe(progress.num_worse)
        self._tell({"count": progress.count, **{f"heldout_{name}": figure for name, figure in figures.items()}})

    def _measure_average(self, figures: dict[str, float]) -> float | None:
        """Also evaluate the average of the weights, if there is one, and add its figures to those of the weights."""
        if self.average is None or self.evaluate is None:
            return None
        value = 0.0
        if self.processes.is_first:
            with self.average.in_model():
                found = self.evaluate()
            value = found[self.metric]
            figures |= {f"ema_{name}": figure for name, figure in found.items()}
        return self.processes.broadcast_from_main(value)

    def _is_better(self, value: float, other: float) -> bool:
        return value < other if self.lower_is_better else value > other

    def _tell(self, figures: Mapping[str, float]) -> None:
        if not self.processes.is_first:
            return
        if self.log is not None:
            self.log.write({"step": self.progress.step, **figures})
        if self.report is not None:
            self.report(self.progress, figures)

    def _save(self, batches: dict[str, Any] | None = None) -> None:
        """Write a checkpoint, optionally with another position of the batches."""
        if self.checkpoints is None:
            return
        step_state = self.step.state_dict()  # every process has a part of it
        if not self.processes.is_first:
            return
        if self.log is not None:
            self.log.sync()
        self.checkpoints.save(
            self.progress.step,
            {
                "step": self.progress.step,
                "identity": self.identity,
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "average": None if self.average is None else self.average.state_dict(),
                "batches": self.batches.state_dict() if batches is None else batches,
                "step_state": step_state,
                "progress": vars(self.progress).copy(),
                "rng": torch.get_rng_state(),
                "log_entries": 0 if self.log is None else self.log.num_entries,
            },
        )


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Make Ctrl-C and SIGTERM end the run after the current step; a second Ctrl-C ends it immediately."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, old in before.items():
            signal.signal(number, old)
