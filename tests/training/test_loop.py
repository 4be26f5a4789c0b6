"""The loop on a problem of its own: it knows nothing of language models."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from elmokit.errors import ConfigError, ElmokitError
from elmokit.training.average import WeightAverage
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
    optimizer = {"kind": "adagrad", "learning_rate": rate, "clip_norm": None, **extra.pop("optimizer", {})}
    settings = OptimizerConfig.model_validate(optimizer)
    decay = extra.pop("ema_decay", 0.0)
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
        average=WeightAverage([model.weight], decay) if decay else None,
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
    loop: Loop = build(
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
    loop: Loop = build(
        tmp_path,
        losses=lambda number, loss: math.nan if number == 4 else loss,
        place=lambda: f"file {loop.batches.state_dict()['given']}",
        rescue=lambda: "do this.",
    )
    with pytest.raises(
        ElmokitError, match=r"^the loss is nan at step 5 \(corpus: file 4 or later\), .*stops; do this\.$"
    ):
        loop.run()
    assert [step for step, _ in loop.checkpoints.find()] == [3]


def test_a_gradient_that_is_no_number_stops_the_run_unless_a_scale_can_fall(tmp_path: Path) -> None:
    loop = build(tmp_path, rate=1e-3, config={"log_every": 1})
    assert isinstance(loop.step, Square)
    loop.step.overflows = [False, True]
    seen: list[float] = []
    loop.report = lambda progress, figures: seen.append(figures["count"])
    original = loop.optimizer.update
    loop.optimizer.update = lambda step, *more: math.inf if step in (1, 3) else original(step, *more)  # type: ignore
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


# --- A decay on request ----------------------------------------------------------------------------------------------

WSD = {"schedule": "wsd", "decay_steps": 4}


def rates(loop: Loop) -> list[float]:
    """Let a loop note the learning rate of each of its steps."""
    found: list[float] = []
    optimizer = loop.optimizer
    original = optimizer.update

    def update(*values: Any) -> float:
        norm = original(*values)
        found.append(round(optimizer._optimizers[0].param_groups[0]["lr"], 6))
        return norm

    optimizer.update = update  # type: ignore[assignment,method-assign]
    return found


def test_wsd_decays_in_the_last_steps(tmp_path: Path) -> None:
    loop = build(tmp_path, Numbers(num_epochs=99), optimizer=WSD)
    found = rates(loop)
    assert loop.run().reason == "end of decay"
    assert found == [0.01] * 9 + [0.0075, 0.005, 0.0025]


def test_wsd_decays_at_once_on_request(tmp_path: Path) -> None:
    loop = build(tmp_path, Numbers(num_epochs=99), optimizer=WSD)
    loop.finish_requested = lambda: loop.progress.step == 3
    found = rates(loop)
    done = loop.run()
    assert (done.reason, done.progress.step, done.progress.num_steps) == ("end of decay", 7, 7)
    assert found == [0.01] * 4 + [0.0075, 0.005, 0.0025]
    assert loop.log is not None
    assert [entry for entry in loop.log.read() if "decay" in entry] == [
        {"step": 3, "decay": "begun on request", "num_steps": 7}
    ]


def test_a_run_that_is_killed_in_its_decay_continues_it(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    loop = build(tmp_path, Numbers(num_epochs=99), optimizer=WSD)
    loop.finish_requested = lambda: loop.progress.step >= 4
    original = loop.optimizer.update

    def update(step: int, *more: Any) -> float:
        if step == 5:
            raise Killed
        return original(step, *more)

    loop.optimizer.update = update  # type: ignore[assignment,method-assign]
    with pytest.raises(Killed):
        loop.run()
    again = build(tmp_path, Numbers(num_epochs=99), optimizer=WSD)
    again.finish_requested = lambda: True
    assert again.resume()
    assert (again.progress.step, again.progress.decay_from) == (4, 4)  # saved as soon as it had begun
    found = rates(again)
    assert again.run().progress.step == 8
    assert found == [0.01, 0.0075, 0.005, 0.0025]


def test_only_wsd_can_be_asked_to_finish(tmp_path: Path) -> None:
    loop = build(tmp_path, optimizer={"schedule": "cosine"}, finish_requested=lambda: True)
    done = loop.run()
    assert (done.reason, done.progress.step, done.progress.decay_from) == ("end of data", 12, None)
    assert loop.log is not None
    assert not [entry for entry in loop.log.read() if "decay" in entry]


def test_a_second_request_changes_nothing(tmp_path: Path) -> None:
    loop: Loop
    loop = build(tmp_path, Numbers(num_epochs=99), optimizer=WSD, finish_requested=lambda: loop.progress.step >= 3)
    assert loop.run().progress.step == 7
    assert loop.log is not None
    assert len([entry for entry in loop.log.read() if "decay" in entry]) == 1


def test_a_run_shorter_than_its_decay_decays_from_the_first_step(tmp_path: Path) -> None:
    loop = build(tmp_path, Numbers(num_epochs=99), optimizer={**WSD, "decay_steps": 20})
    assert loop.run().progress.step == 20


# --- Settings that a resumed run may change --------------------------------------------------------------------------


def test_changes_are_logged_with_their_step_and_others_are_refused(tmp_path: Path) -> None:
    first = build(tmp_path, config={"max_steps": 5}, identity={"end": "5", "width": "8"}, changeable=["end"])
    assert first.run().reason == "max_steps"
    other = build(tmp_path, identity={"end": "5", "width": "9"}, changeable=["end"])
    with pytest.raises(ConfigError, match="width = 8, but now width = 9"):
        other.resume()
    later = build(tmp_path, config={"max_steps": 7}, identity={"end": "7", "width": "8"}, changeable=["end"])
    assert later.resume()
    assert later.run().progress.step == 7
    assert later.log is not None
    assert {"step": 5, "changed": {"end": ["5", "7"]}} in later.log.read()


def test_an_end_that_is_past_already_ends_the_run(tmp_path: Path) -> None:
    build(tmp_path, config={"max_steps": 5}).run()
    again = build(tmp_path, Numbers(num_epochs=99), config={"max_steps": 3})
    assert again.resume()
    again.progress.reason = None
    done = again.run()
    assert (done.reason, done.progress.step) == ("max_steps", 5)


def test_a_run_that_came_to_the_end_of_its_data_takes_up_more(tmp_path: Path) -> None:
    assert build(tmp_path, Numbers(num_epochs=1), identity={"n": 1}, changeable=["n"]).run().progress.step == 4
    more = build(tmp_path, Numbers(num_epochs=2), identity={"n": 2}, changeable=["n"])
    assert more.resume()
    done = more.run()
    assert (done.reason, done.progress.step) == ("end of data", 8)


def test_a_finished_decay_is_the_end(tmp_path: Path) -> None:
    build(tmp_path, Numbers(num_epochs=99), optimizer=WSD, identity={"n": 1}, changeable=["n"]).run()
    more = build(tmp_path, Numbers(num_epochs=99), optimizer=WSD, identity={"n": 2}, changeable=["n"])
    with pytest.raises(ConfigError, match=r"finished its decay.*--init"):
        more.resume()


# --- An average of the weights ---------------------------------------------------------------------------------------


def test_the_average_is_kept_where_it_is_better(tmp_path: Path) -> None:
    """The weight only falls, so that its average is larger: better or worse, as the metric wants it."""
    for better, lower_is_better in (("weight", True), ("average", False)):
        folder = tmp_path / better
        folder.mkdir()
        kept: list[float] = []
        loop = build(folder, Numbers(size=8), ema_decay=0.9, lower_is_better=lower_is_better, config={"max_steps": 16})
        weight = loop.model.weight
        assert isinstance(weight, nn.Parameter)
        loop.evaluate = lambda weight=weight: {"loss": float(weight.detach())}
        loop.save_best = lambda kept=kept, weight=weight: kept.append(float(weight.detach()))
        loop.run()
        assert loop.log is not None
        last = [entry for entry in loop.log.read() if "heldout_loss" in entry][-1]
        assert last["heldout_ema_loss"] > last["heldout_loss"] == pytest.approx(float(weight.detach()))
        assert kept[0] == (
            pytest.approx(last["heldout_loss"], rel=0.2) if better == "weight" else pytest.approx(1, abs=0.2)
        )
        assert loop.progress.best == (last["heldout_loss"] if better == "weight" else kept[0])


def test_the_average_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    def average_after(folder: Path, *ends: int) -> float:
        folder.mkdir()
        for end in ends:
            loop = build(folder, Numbers(num_epochs=99), ema_decay=0.9, config={"max_steps": end}, changeable=["end"])
            loop.identity = {"end": end}
            loop.resume()
            loop.run()
        assert loop.average is not None
        return float(loop.average.state_dict()["average"][0])

    whole = average_after(tmp_path / "whole", 24)
    assert average_after(tmp_path / "cut", 11, 24) == whole
    assert whole != pytest.approx(1)


def test_a_checkpoint_without_an_average_begins_one(tmp_path: Path) -> None:
    build(tmp_path, Numbers(num_epochs=99), config={"max_steps": 11}).run()
    loop = build(tmp_path, Numbers(num_epochs=99), ema_decay=0.9, config={"max_steps": 12})
    assert loop.resume()
    assert loop.average is not None and loop.log is not None
    weight = loop.model.weight
    assert isinstance(weight, nn.Parameter)
    assert float(loop.average.state_dict()["average"][0]) == float(weight.detach()) < 1
    assert loop.log.read()[-1] == {"step": 11, "average": "begun: the checkpoint has none"}
