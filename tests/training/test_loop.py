"""The loop on a problem of its own: it knows nothing of language models."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from elmokit.errors import ElmokitError
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import LoopConfig, OptimizerConfig
from elmokit.training.log import RunLog
from elmokit.training.loop import Loop, Progress, StepResult
from elmokit.training.optim import Optimizer


class Numbers:
    """The numbers 1 … size, again in every epoch."""

    def __init__(self, size: int = 4, num_epochs: int = 3) -> None:
        self.size, self.num_epochs = size, num_epochs
        self.given = 0

    @property
    def epoch(self) -> int:
        return self.given // self.size

    def __next__(self) -> int:
        if self.epoch == self.num_epochs:
            raise StopIteration
        self.given += 1
        return (self.given - 1) % self.size + 1

    def state_dict(self) -> dict[str, Any]:
        return {"given": self.given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.given = state["given"]


class Square:
    """The loss is a number times the weight's square, of as many examples as the number says."""

    def __init__(self, weight: nn.Parameter, losses: Callable[[int, float], float] | None = None) -> None:
        self.weight = weight
        self.losses = losses or (lambda number, loss: loss)
        self.overflows: list[bool] = []

    def __call__(self, batch: int, number: int) -> StepResult:
        loss = batch * self.weight**2
        loss.backward()
        return StepResult(self.losses(number, float(loss.detach())), {"number": float(batch)}, batch)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass

    def overflowed(self) -> bool:
        return bool(self.overflows and self.overflows.pop())


class Holder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))


def build(folder: Path, batches: Any = None, rate: float = 0.01, losses: Any = None, **extra: Any) -> Loop:
    model = Holder()
    settings = OptimizerConfig(kind="adagrad", learning_rate=rate, clip_norm=None)
    rhythm = {"log_every": 2, "evaluate_every": 0, "checkpoint_every": 3, **extra.pop("config", {})}
    return Loop(
        model=model,
        batches=batches or Numbers(),
        step=Square(model.weight, losses),
        optimizer=Optimizer([("weight", model.weight)], [], settings, 12),
        config=LoopConfig(**rhythm),
        num_steps=12,
        checkpoints=Checkpoints(folder / "checkpoints", keep=2),
        log=RunLog(folder / "log.jsonl"),
        **extra,
    )


def evaluated_steps(loop: Loop) -> list[int]:
    assert loop.log is not None
    return [entry["step"] for entry in loop.log.read() if "heldout_loss" in entry]


def loss_entries(loop: Loop) -> list[dict[str, Any]]:
    assert loop.log is not None
    return [entry for entry in loop.log.read() if "loss" in entry]


def test_evaluates_at_the_end_of_each_epoch(tmp_path: Path) -> None:
    loop = build(tmp_path, evaluate=lambda: {"loss": 1.0})
    done = loop.run()
    assert done.reason == "end of data"
    assert done.progress.step == 12
    assert evaluated_steps(loop) == [4, 8, 12]


@pytest.mark.parametrize(("max_steps", "every", "expected"), [(None, 5, [5, 10, 12]), (10, 5, [5, 10]), (7, 0, [4, 7])])
def test_evaluates_every_so_many_steps_and_at_the_end(
    max_steps: int | None, every: int, expected: list[int], tmp_path: Path
) -> None:
    config = {"max_steps": max_steps, "evaluate_every": every}
    loop = build(tmp_path, evaluate=lambda: {"loss": 1.0}, config=config)
    assert loop.run().reason == ("max_steps" if max_steps else "end of data")
    assert evaluated_steps(loop) == expected


def test_batches_without_epochs_are_evaluated_at_the_end(tmp_path: Path) -> None:
    class Plain(Numbers):
        epoch = None  # type: ignore[assignment]

        def __next__(self) -> int:
            if self.given == 5:
                raise StopIteration
            self.given += 1
            return 1

    loop = build(tmp_path, Plain(), evaluate=lambda: {"loss": 1.0})
    loop.run()
    assert evaluated_steps(loop) == [5]


@pytest.mark.parametrize(("lower", "best_step"), [(True, 8), (False, 4)])
def test_patience_and_the_best_model(lower: bool, best_step: int, tmp_path: Path) -> None:
    figures = iter([{"score": value} for value in (3.0, 1.0, 2.0, 0.5)])
    saved: list[int] = []
    loop = build(
        tmp_path,
        Numbers(num_epochs=4),
        evaluate=lambda: next(figures),
        metric="score",
        lower_is_better=lower,
        save_best=lambda: saved.append(loop.progress.step),
        config={"patience": 1},
    )
    done = loop.run()
    assert done.reason == "patience"
    assert done.progress.best_step == best_step
    assert saved == ([4, 8] if lower else [4])
    assert done.progress.step == (12 if lower else 8)


def test_means_of_a_log_entry_are_weighed_by_counts(tmp_path: Path) -> None:
    loop = build(tmp_path, Numbers(size=3, num_epochs=1))
    loop.run()
    first, last = loss_entries(loop)
    assert (first["step"], first["count"], first["number"]) == (2, 3, pytest.approx((1 * 1 + 2 * 2) / 3))
    assert (last["step"], last["count"], last["number"]) == (3, 6, 3.0)


def test_accumulated_gradients_are_averaged_also_when_batches_run_out(tmp_path: Path) -> None:
    loop = build(tmp_path, Numbers(size=3, num_epochs=1), config={"accumulate": 2, "log_every": 1}, rate=1e-9)
    assert loop.run().progress.step == 2
    norms = [entry["gradient_norm"] for entry in loss_entries(loop)]
    assert norms == pytest.approx([(2 * 1 + 2 * 2) / 2, 2 * 3])


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    loop = build(
        tmp_path,
        losses=lambda number, loss: math.nan if number == 4 else loss,
        place=lambda: f"file {loop.batches.state_dict()['given']}",
        rescue=lambda: "do this.",
    )
    with pytest.raises(
        ElmokitError, match=r"^the loss is nan at step 5 \(corpus: file 4 or behind\), .*stops; do this\.$"
    ):
        loop.run()
    assert [step for step, _ in loop.checkpoints.find()] == [3]  # type: ignore[union-attr]


def test_a_gradient_that_is_no_number_stops_the_run_unless_a_scale_can_fall(tmp_path: Path) -> None:
    loop = build(tmp_path, rate=1e-3, config={"log_every": 1})
    assert isinstance(loop.step, Square)
    loop.step.overflows = [False, True]
    seen: list[float] = []
    loop.report = lambda progress, figures: seen.append(figures["count"])
    original = loop.optimizer.update
    loop.optimizer.update = lambda step, scale: math.inf if step in (1, 3) else original(step, scale)  # type: ignore
    with pytest.raises(ElmokitError, match="the gradient's norm is inf at step 4"):
        loop.run()
    entries = loss_entries(loop)
    assert ["gradient_norm" in entry for entry in entries] == [True, False, True]
    assert len(seen) == 3


def test_an_evaluation_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ElmokitError, match="held-out loss is nan"):
        build(tmp_path, evaluate=lambda: {"loss": math.nan}).run()


@pytest.mark.parametrize("fails_at", range(8))
def test_data_that_fail_leave_a_checkpoint_between_two_steps(fails_at: int, tmp_path: Path) -> None:
    class Failing(Numbers):
        fails = True

        def __next__(self) -> int:
            if self.fails and self.given == fails_at:
                raise ElmokitError("the file is gone")
            return super().__next__()

    config = {"accumulate": 3, "checkpoint_every": 100}
    whole = build(tmp_path / "whole", config=config)
    (tmp_path / "whole").mkdir()
    whole.run()
    (tmp_path / "cut").mkdir()
    batches = Failing()
    with pytest.raises(ElmokitError, match="gone"):
        build(tmp_path / "cut", batches, config=config).run()
    resumed = build(tmp_path / "cut", config=config)
    assert resumed.resume()
    assert resumed.progress.step == fails_at // 3
    resumed.run()
    assert torch.equal(resumed.model.weight, whole.model.weight)  # type: ignore[arg-type]
    assert [e | {"per_second": 0} for e in loss_entries(resumed)] == [
        e | {"per_second": 0} for e in loss_entries(whole)
    ]


def test_a_run_without_checkpoints_and_log(tmp_path: Path) -> None:
    loop = build(tmp_path)
    loop.checkpoints = loop.log = None
    assert not loop.resume()
    assert loop.run().progress.count == 30
    assert list(tmp_path.iterdir()) == []


def test_the_report_hears_every_entry(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []

    def report(progress: Progress, figures: Any) -> None:
        heard.append((progress.step, progress.num_steps))

    build(tmp_path, report=report, evaluate=lambda: {"loss": 1.0}, config={"log_every": 6}).run()
    assert heard == [(4, 12), (6, 12), (8, 12), (12, 12), (12, 12)]


def test_the_log_forgets_half_a_line(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    log.rewind(0)
    for step in range(3):
        log.write({"step": step})
    with log.path.open("a", encoding="utf-8") as file:
        file.write('{"step": 3, "lo')
    again = RunLog(log.path)
    again.rewind(2)
    again.write({"step": 7})
    assert [entry["step"] for entry in again.read()] == [0, 1, 7]
    assert again.num_entries == 3


def test_random_numbers_of_a_step_go_on_where_they_were(tmp_path: Path) -> None:
    def noisy(number: int, loss: float) -> float:
        return loss + float(torch.rand(()))

    losses = {}
    for name, rhythm in (("whole", [9]), ("cut", [6, 9])):
        (tmp_path / name).mkdir()
        torch.manual_seed(1)
        for max_steps in rhythm:
            loop = build(tmp_path / name, losses=noisy, config={"max_steps": max_steps, "log_every": 3})
            loop.resume()
            loop.progress.reason = None
            loop.run()
            torch.manual_seed(2)
        losses[name] = [entry["loss"] for entry in loss_entries(loop)]
    assert losses["cut"] == losses["whole"]
