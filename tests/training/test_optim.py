"""Updates against their rules worked out by hand, for dense and for sparse gradients."""

import copy
import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from elmokit.training.config import OptimizerConfig
from elmokit.training.optim import Optimizer, rate_factor, sparse_gradient

pytestmark = pytest.mark.usefixtures("one_thread")


def settings(**values: Any) -> OptimizerConfig:
    return OptimizerConfig.model_validate({"learning_rate": 0.2, "clip_norm": None, **values})


def matrix(seed: int = 0, rows: int = 5) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, 3, generator=torch.Generator().manual_seed(seed)))


def gradients_of(ids: list[int], seed: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of some rows, repeated ones to be summed: as a sparse matrix and as a whole one."""
    rows = torch.randn(len(ids), like.shape[1], generator=torch.Generator().manual_seed(seed))
    dense = torch.zeros_like(like).index_add_(0, torch.tensor(ids), rows)
    return sparse_gradient(torch.tensor(ids), rows, like), dense


# --- Adagrad ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("initial", [1.0, 0.1])
def test_adagrad_is_bilm_tfs_rule(initial: float) -> None:
    """a += g², w −= rate · g / √a, with a from its initial value and nothing added to the root."""
    weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
    optimizer = Optimizer([("w", weight)], [], settings(initial_accumulator=initial), 10)
    w, a = [1.0, -2.0, 3.0], [initial] * 3
    for step, gradient in enumerate(([0.5, -1.0, 0.0], [2.0, 0.25, -3.0], [0.1, 0.0, 1.0])):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        norm = optimizer.update(step)
        assert norm == pytest.approx(math.hypot(*gradient))
        assert weight.grad is None
        for k, g in enumerate(gradient):
            a[k] += g * g
            w[k] -= 0.2 * g / math.sqrt(a[k])
        assert weight.tolist() == pytest.approx(w, rel=1e-12)


def test_adagrad_from_zero_does_not_divide_by_it() -> None:
    weight = matrix()
    optimizer = Optimizer([("w", weight)], [], settings(initial_accumulator=0.0), 10)
    weight.grad = torch.zeros_like(weight)
    optimizer.update(0)
    assert torch.equal(weight, matrix())


def test_sparse_adagrad_is_the_dense_one() -> None:
    one, other, bias = matrix(), matrix(), nn.Parameter(torch.ones(5))
    sparse = Optimizer([], [("one", one), ("bias", bias)], settings(clip_norm=1.0), 10)
    dense = Optimizer([("other", other), ("b", own := nn.Parameter(torch.ones(5)))], [], settings(clip_norm=1.0), 10)
    for step, ids in enumerate(([0, 3, 3], [3], [4, 0, 4, 1])):
        one.grad, other.grad = gradients_of(ids, step, one)
        rows = torch.arange(1.0, len(ids) + 1)
        bias.grad = sparse_gradient(torch.tensor(ids), rows, bias)
        own.grad = torch.zeros(5).index_add_(0, torch.tensor(ids), rows)
        assert sparse.update(step) == pytest.approx(dense.update(step))
        torch.testing.assert_close(one, other)
        torch.testing.assert_close(bias, own)
    assert torch.equal(one[2], matrix()[2])
    assert not torch.equal(one[3], matrix()[3])


# --- Adam ------------------------------------------------------------------------------------------------------------


def test_adamw_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([[2.0]], dtype=torch.float64))
    optimizer = Optimizer([("w", weight)], [], settings(kind="adamw", weight_decay=0.1, betas=(0.9, 0.99)), 10)
    w, m, v = 2.0, 0.0, 0.0
    for step, g in enumerate((1.0, -3.0, 0.5)):
        weight.grad = torch.tensor([[g]], dtype=torch.float64)
        optimizer.update(step)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        w *= 1 - 0.2 * 0.1
        w -= 0.2 * m / (1 - 0.9 ** (step + 1)) / (math.sqrt(v / (1 - 0.99 ** (step + 1))) + 1e-8)
        assert weight.item() == pytest.approx(w, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "decayed"),
    [
        ("forward_lstm.layers.0.input_weight", True),
        ("encoder.projection.weight", True),
        ("encoder.char_table", False),
        ("encoder.token_table", False),
        ("softmax.weight", False),
        ("softmax.cluster_weight", False),
    ],
)
def test_only_matrices_of_encoder_and_lstms_decay(name: str, decayed: bool) -> None:
    """Rows of a table or of the softmax would wither in all the steps that do not look at them."""
    weight, bias = matrix(), nn.Parameter(torch.ones(5))
    optimizer = Optimizer([(name, weight), ("b", bias)], [], settings(kind="adamw", weight_decay=0.5), 10)
    weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
    optimizer.update(0)
    torch.testing.assert_close(weight.detach(), matrix().detach() * (0.9 if decayed else 1.0))
    assert torch.equal(bias, torch.ones(5))


def test_sparse_adam_touches_only_the_rows_it_is_given() -> None:
    weight = matrix()
    optimizer = Optimizer([], [("softmax.weight", weight)], settings(kind="adamw", weight_decay=0.5), 10)
    for step, ids in enumerate(([0, 3, 3], [3], [4, 3])):
        before = weight.detach().clone()
        weight.grad, _ = gradients_of(ids, step, weight)
        optimizer.update(step)
        assert (weight != before).any(1).nonzero()[:, 0].tolist() == sorted(set(ids))


def test_each_row_has_the_steps_that_adam_would_give_it_alone() -> None:
    """However late a row is touched for the first time, and however seldom: nothing depends on the other rows."""
    generator = torch.Generator().manual_seed(4)
    table = torch.nn.Parameter(torch.randn(5, 3, generator=generator))
    alone = [torch.nn.Parameter(row.detach().clone()) for row in table]
    config = settings(kind="adamw", learning_rate=0.1, clip_norm=None)
    optimizer = Optimizer([], [("table", table)], config, 100)
    singles = [torch.optim.Adam([row], lr=0.1, betas=config.betas, eps=config.eps) for row in alone]
    for step in range(40):
        ids = [0, *([1] if step % 7 == 3 else []), *([2] if step > 30 else []), *([4, 0] if step % 2 else [])]
        rows = torch.randn(len(ids), 3, generator=generator)
        table.grad = sparse_gradient(torch.tensor(ids), rows, table)
        optimizer.update(step)
        for number, (row, single) in enumerate(zip(alone, singles, strict=True)):
            if number in ids:
                row.grad = torch.stack([part for own, part in zip(ids, rows, strict=True) if own == number]).sum(0)
                single.step()
    torch.testing.assert_close(table.detach(), torch.stack([row.detach() for row in alone]))


def test_sparse_adam_starts_as_adam_does() -> None:
    """The first step of the rows in play is that of Adam without decay."""
    one, other = matrix(), matrix()
    one.grad, other.grad = gradients_of([1, 4, 1], 0, one)
    Optimizer([], [("one", one)], settings(kind="adamw"), 10).update(0)
    Optimizer([("other", other)], [], settings(kind="adamw"), 10).update(0)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("fault", [{"eps": 0.0}, {"weight_decay": math.inf}, {"initial_accumulator": -1}])
def test_settings_that_no_optimiser_takes_are_refused(fault: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        settings(**fault)


# --- Adadelta --------------------------------------------------------------------------------------------------------


def test_adadelta_by_hand() -> None:
    """a = ρa + (1 − ρ)g², d = g · √(u + ε) / √(a + ε), u = ρu + (1 − ρ)d², w −= rate · d, with ρ the second beta."""
    weight = nn.Parameter(torch.tensor([2.0, -1.0], dtype=torch.float64))
    config = settings(kind="adadelta", learning_rate=0.5, betas=(0.1, 0.9), eps=1e-4)
    optimizer = Optimizer([("w", weight)], [], config, 10)
    w, a, u = [2.0, -1.0], [0.0, 0.0], [0.0, 0.0]
    for step, gradient in enumerate(([1.0, 0.0], [-3.0, 0.25], [0.5, 2.0])):
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        assert optimizer.update(step) == pytest.approx(math.hypot(*gradient))
        for k, g in enumerate(gradient):
            a[k] = 0.9 * a[k] + 0.1 * g * g
            d = g * math.sqrt(u[k] + 1e-4) / math.sqrt(a[k] + 1e-4)
            u[k] = 0.9 * u[k] + 0.1 * d * d
            w[k] -= 0.5 * d
        assert weight.tolist() == pytest.approx(w, rel=1e-12)


def test_adadelta_follows_the_schedule() -> None:
    weights = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    for weight, values in zip(weights, ({}, {"warmup_steps": 4}), strict=True):
        weight.grad = torch.ones(1)
        Optimizer([("w", weight)], [], settings(kind="adadelta", **values), 10).update(0)
    assert weights[1].item() == pytest.approx(weights[0].item() / 4)
    assert weights[0].item() != 0


def test_adadelta_of_sparse_gradients_is_that_of_whole_ones() -> None:
    """Also of rows that a step does not touch, whose sums go on to fade."""
    tables, other = [matrix(2), matrix(2)], matrix(1)
    config = settings(kind="adadelta", eps=1e-4, clip_norm=1.0)
    by_rows = Optimizer([("a", other)], [("b", tables[0])], config, 10)
    whole = Optimizer([("b", tables[1])], [], config, 10)
    for step, ids in enumerate(([0, 3, 3], [1], [3, 0])):
        tables[0].grad, tables[1].grad = gradients_of(ids, step, tables[0])
        assert by_rows.update(step) == pytest.approx(whole.update(step))
        torch.testing.assert_close(tables[0], tables[1], rtol=1e-6, atol=1e-7)
    moved = (tables[0] != matrix(2)).any(1)
    assert moved.tolist() == [True, True, False, True, False] and torch.equal(other, matrix(1))


# --- The clip --------------------------------------------------------------------------------------------------------


class Plain(Optimizer):
    """One that steps against the gradient itself, so that a test sees what the gradient became."""

    def __init__(self, dense: Any, sparse: Any, config: OptimizerConfig) -> None:
        super().__init__(dense, sparse, config, 10)
        self._optimizers = [torch.optim.SGD(self.parameters, lr=1.0)]


@pytest.mark.parametrize("clip", [None, 2.0, 1000.0])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_the_norm_is_that_of_all_gradients_together(clip: float | None, scale: float) -> None:
    """Rows that come twice are summed before they are squared; `scale` belongs to the gradient, so the clip sees it."""
    first, second, unused = matrix(1), matrix(2), matrix(3)
    optimizer = Plain([("a", first), ("c", unused)], [("b", second)], settings(learning_rate=1.0, clip_norm=clip))
    first.grad = 3 * torch.ones_like(first)
    second.grad, dense = gradients_of([2, 0, 2, 2], 7, second)
    norm = scale * float(torch.cat([first.grad, dense]).norm())
    factor = scale * (clip / norm if clip is not None and norm > clip else 1.0)
    assert 2 < norm < 1000
    assert optimizer.update(0, scale) == pytest.approx(norm)
    torch.testing.assert_close(first.detach(), matrix(1).detach() - factor * 3)
    torch.testing.assert_close(second.detach(), matrix(2).detach() - factor * dense)
    assert torch.equal(unused, matrix(3))
    assert [parameter.grad for parameter in optimizer.parameters] == [None] * 3


@pytest.mark.parametrize(("clip_norm", "factor"), [(None, 1.0), (2.0, 0.5)])
def test_single_numbers_are_bound_after_scale_and_norm(clip_norm: float | None, factor: float) -> None:
    first, second = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(2, 1))
    optimizer = Plain([("a", first)], [("b", second)], settings(learning_rate=1.0, clip_norm=clip_norm, clip_value=1.2))
    first.grad = torch.tensor([6.0, -4.0, 2.0])
    rows = torch.tensor([[-1.0], [-1.0], [2.0], [0.0]])
    second.grad = sparse_gradient(torch.tensor([0, 0, 1, 0]), rows, second)
    assert optimizer.update(0, 0.5) == pytest.approx(4)
    assert (-first).tolist() == pytest.approx([min(1.2, 3 * factor), max(-1.2, -2 * factor), factor])
    assert (-second[:, 0]).tolist() == pytest.approx([-factor, factor])


@pytest.mark.parametrize("kind", ["adagrad", "adamw"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_changes_nothing(kind: str, value: float) -> None:
    first, second = matrix(1), matrix(2)
    optimizer = Optimizer([("a", first)], [("b", second)], settings(kind=kind, clip_norm=1.0), 10)
    for step in range(2):
        first.grad, (second.grad, _) = torch.ones_like(first), gradients_of([0, 2], 3, second)
        if step:
            first.grad[1, 1] = value
        before: list[Any] = copy.deepcopy([first.detach(), second.detach(), optimizer.state_dict()])
        norm = optimizer.update(step)
        assert math.isfinite(norm) == (step == 0)
    assert torch.equal(first, before[0]) and torch.equal(second, before[1])
    assert flat(optimizer.state_dict()) == flat(before[2])
    optimizer.clear()
    assert first.grad is None and second.grad is None
    assert optimizer.update(2) == 0.0


def flat(state: Any) -> Any:
    """A state as values that can be compared."""
    if isinstance(state, dict):
        return {key: flat(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [flat(value) for value in state]
    return state.tolist() if isinstance(state, Tensor) else state


# --- Muon ------------------------------------------------------------------------------------------------------------


def test_muon_moves_matrices_in_all_directions_alike_and_the_rest_by_adam() -> None:
    lstm, table, bias = matrix(1), matrix(2), nn.Parameter(torch.zeros(3))
    before = [parameter.detach().clone() for parameter in (lstm, table, bias)]
    named = [("lstm.weight", lstm), ("encoder.char_table", table), ("lstm.bias", bias)]
    optimizer = Optimizer(named, [], settings(kind="muon", learning_rate=0.1), 10)
    for parameter in (lstm, table, bias):
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)) * 1e-3
    optimizer.update(0)
    moved = [old - parameter.detach() for old, parameter in zip(before, (lstm, table, bias), strict=True)]
    lengths = torch.linalg.svdvals(moved[0])  # an orthogonal matrix times a rate has them all equal
    assert lengths.max() / lengths.min() < 2
    assert 0.5 < float(moved[0].square().mean().sqrt()) / (0.1 * 0.2 * math.sqrt(5 / 3) / math.sqrt(5 / 3)) < 2
    for step in moved[1:]:  # the first step of Adam is the rate, whatever the gradient
        torch.testing.assert_close(step.abs(), torch.full_like(step, 0.1), rtol=1e-3, atol=0)


# --- The schedule ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {0: 1, 50: 1, 99: 1, 1000: 1}),
        ({"warmup_steps": 4}, {0: 0.25, 1: 0.5, 3: 1, 4: 1, 99: 1}),
        ({"schedule": "linear"}, {0: 1, 25: 0.75, 75: 0.25, 99: 0.01, 100: 0, 500: 0}),
        ({"schedule": "linear", "floor": 0.2}, {0: 1, 50: 0.6, 100: 0.2, 500: 0.2}),
        ({"schedule": "linear", "hold": 0.5}, {0: 1, 49: 1, 50: 1, 75: 0.5, 100: 0}),
        ({"schedule": "linear", "warmup_steps": 20}, {0: 0.05, 9: 0.5, 19: 1, 20: 1, 60: 0.5, 100: 0}),
        ({"schedule": "linear", "warmup_steps": 20, "hold": 0.6}, {9: 0.5, 20: 1, 59: 1, 60: 1, 80: 0.5}),
        ({"schedule": "cosine"}, {0: 1, 25: 0.5 + math.sqrt(0.5) / 2, 50: 0.5, 100: 0, 101: 0}),
        ({"schedule": "cosine", "hold": 0.2, "floor": 0.1}, {20: 1, 60: 0.55, 100: 0.1}),
        ({"schedule": "cosine", "warmup_steps": 200}, {0: 0.005, 99: 0.5, 199: 1}),
    ],
)
def test_the_shape_of_a_schedule(values: dict[str, Any], expected: dict[int, float]) -> None:
    found = {step: rate_factor(settings(**values), step, 100) for step in expected}
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("decay_from", "expected"),
    [
        (None, {0: 0.25, 3: 1, 50: 1, 99: 1, 1000: 1}),
        (40, {39: 1, 40: 1, 45: 0.6, 50: 0.2, 51: 0.2}),
        (0, {0: 0.25, 1: 0.5 * 0.92, 5: 0.6, 10: 0.2}),
    ],
)
def test_wsd_stays_until_its_decay_begins(decay_from: int | None, expected: dict[int, float]) -> None:
    config = settings(schedule="wsd", decay_steps=10, floor=0.2, warmup_steps=4)
    found = {step: rate_factor(config, step, 100, decay_from) for step in expected}
    assert found == pytest.approx(expected, abs=1e-12)


def test_a_step_is_made_at_the_rate_of_its_number() -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = Plain([("a", weight)], [], settings(learning_rate=0.5, schedule="linear", warmup_steps=2))
    moved = []
    for step in range(10):
        before = weight.item()
        weight.grad = torch.ones(1)
        optimizer.update(step)
        moved.append(before - weight.item())
    assert moved == pytest.approx([0.25, 0.5, *(0.5 * (10 - step) / 8 for step in range(2, 10))])


def steps_of(optimizer: Optimizer, weight: nn.Parameter, seen: list[int]) -> list[float]:
    """How far each step goes, if after each so many evaluations in a row were no better."""
    moved = []
    for step, num_worse in enumerate(seen):
        before = weight.item()
        weight.grad = torch.ones(1)
        optimizer.update(step)
        moved.append(before - weight.item())
        optimizer.observe(num_worse)
    return moved


@pytest.mark.parametrize(
    ("halve_after", "expected"),
    [
        (0, [1, 1, 1, 1, 1, 1, 1]),
        (1, [1, 1, 1 / 2, 1 / 4, 1 / 8, 1 / 8, 1 / 16]),
        (2, [1, 1, 1, 1 / 2, 1 / 2, 1 / 2, 1 / 2]),
    ],
)
def test_the_rate_is_halved_after_evaluations_that_were_no_better(halve_after: int, expected: list[float]) -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = Plain([("a", weight)], [], settings(learning_rate=0.5, halve_after=halve_after))
    assert steps_of(optimizer, weight, [0, 1, 2, 3, 0, 1, 2]) == pytest.approx([0.5 * share for share in expected])


def test_halving_comes_on_top_of_a_schedule() -> None:
    weight = nn.Parameter(torch.zeros(1))
    optimizer = Plain([("a", weight)], [], settings(learning_rate=1.0, schedule="linear", halve_after=1))
    assert steps_of(optimizer, weight, [0, 1, 0, 0]) == pytest.approx([1.0, 0.9, 0.8 / 2, 0.7 / 2])


# --- Going on --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["adagrad", "adamw", "muon"])
def test_a_state_goes_on_as_it_would_have(kind: str) -> None:
    config = settings(kind=kind, clip_norm=1.0, schedule="cosine", weight_decay=0.1)

    def take_steps(optimizer: Optimizer, steps: range) -> None:
        first, second = optimizer.parameters
        for step in steps:
            first.grad = gradients_of([0, 1, 4], step, first)[1]
            second.grad = gradients_of([2, step % 3], step, second)[0]
            optimizer.update(step)

    weights = matrix(1), matrix(2)
    whole = Optimizer([("a", weights[0])], [("b", weights[1])], config, 10)
    take_steps(whole, range(4))
    state = copy.deepcopy(whole.state_dict())
    copies = [nn.Parameter(weight.detach().clone()) for weight in weights]
    again = Optimizer([("a", copies[0])], [("b", copies[1])], config, 10)
    again.load_state_dict(state)
    assert flat(again.state_dict()) == flat(state)
    for optimizer in (whole, again):
        take_steps(optimizer, range(4, 8))
    for ours, theirs in zip(copies, weights, strict=True):
        assert torch.equal(ours, theirs)


def test_adadelta_and_halvings_go_on_as_they_would_have() -> None:
    config = settings(kind="adadelta", halve_after=1, eps=1e-4)

    def take_steps(optimizer: Optimizer, steps: range) -> None:
        (weight,) = optimizer.parameters
        for step in steps:
            weight.grad = gradients_of([0, 1, 4], step, weight)[1]
            optimizer.update(step)
            optimizer.observe(step % 3)

    weight = matrix(1)
    whole = Optimizer([("a", weight)], [], config, 10)
    take_steps(whole, range(4))
    state, copied = copy.deepcopy(whole.state_dict()), nn.Parameter(weight.detach().clone())
    assert state["halvings"] == 2
    again = Optimizer([("a", copied)], [], config, 10)
    again.load_state_dict(state)
    assert flat(again.state_dict()) == flat(state)
    for optimizer in (whole, again):
        take_steps(optimizer, range(4, 8))
    assert torch.equal(copied, weight)


@pytest.mark.parametrize("kind", ["adagrad", "adamw", "adadelta"])
def test_a_share_of_the_rate_moves_a_parameter_by_that_share(kind: str) -> None:
    names, start = ("task.w", "bilm.w", "bilm.bias"), torch.ones(2, 2, dtype=torch.float64)
    own = {name: nn.Parameter(start.clone() if name != "bilm.bias" else start[0].clone()) for name in names}
    config = settings(kind=kind, weight_decay=0.1, schedule="constant")
    optimizer = Optimizer(own.items(), [], config, 10, {"bilm.": 0.25})
    for step in range(3):
        for parameter in own.values():
            parameter.grad = torch.ones_like(parameter)
        optimizer.update(step)
    whole, bilm, bias = (1 - parameter.detach() for parameter in own.values())
    assert (whole > 0).all() and (bias > 0).all()
    torch.testing.assert_close(bilm, whole / 4, rtol=0.05, atol=0)  # decay follows the weight, which has moved less


def test_a_state_from_before_halvings_has_none() -> None:
    optimizer = Optimizer([("a", matrix())], [], settings(halve_after=1), 10)
    state = optimizer.state_dict()
    del state["halvings"]
    optimizer.observe(1)
    optimizer.load_state_dict(state)
    assert optimizer.state_dict()["halvings"] == 0


@pytest.mark.parametrize("kind", ["adagrad", "adamw", "adadelta", "muon"])
def test_everything_may_be_of_one_kind(kind: str) -> None:
    weight = matrix()
    for dense, sparse in (([("a", weight)], []), ([], [("a", weight)])):
        optimizer = Optimizer(dense, sparse, settings(kind=kind), 10)
        assert len(optimizer.state_dict()["optimizers"]) == 1
