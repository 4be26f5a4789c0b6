"""The running average of a task model's weights."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from elmokit.tasks.base import TaskModel
from elmokit.tasks.batches import TokenBatch
from elmokit.tasks.step import TaskStep


class Counting(TaskModel):
    """A model whose gradients do not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2))
        self.fixed = torch.nn.Parameter(torch.ones(2), requires_grad=False)

    def loss(self, texts: Sequence[TokenBatch], gold: Any) -> torch.Tensor:
        raise NotImplementedError

    def predict(self, texts: Sequence[TokenBatch], gold: Any) -> list[Any]:
        raise NotImplementedError


def test_the_average_is_put_in_place_and_taken_away_again() -> None:
    model = Counting()
    step = TaskStep(model, average=0.5)
    values = [0.0, 10.0, 20.0, 40.0]
    expected = values[0]
    for number, value in enumerate(values):
        model.weight.data.fill_(value)
        step._follow(number)
        decay = min(0.5, (1 + number) / (10 + number))  # young averages forget more
        expected = decay * expected + (1 - decay) * value if number else value
    model.weight.data.fill_(99.0)
    with step.averaged():
        assert model.weight.tolist() == pytest.approx([expected] * 2)
    assert model.weight.tolist() == [99.0, 99.0]
    with pytest.raises(ZeroDivisionError), step.averaged():
        raise ZeroDivisionError
    assert model.weight.tolist() == [99.0, 99.0]
    again = TaskStep(model, average=0.5)
    again.load_state_dict(step.state_dict())
    with again.averaged():
        assert model.weight.tolist() == pytest.approx([expected] * 2)
    assert model.fixed.tolist() == [1.0, 1.0]


def test_without_an_average_nothing_is_copied() -> None:
    model = Counting()
    step = TaskStep(model, average=0.0)
    step._follow(0)
    assert step.state_dict() == {"average": {}}
    with step.averaged():
        assert model.weight.tolist() == [0.0, 0.0]
