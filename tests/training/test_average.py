"""The running average of the weights against the rule by hand."""

import pytest
import torch
from torch import nn

from elmokit.training.average import WeightAverage


def test_the_average_by_hand() -> None:
    weight = nn.Parameter(torch.zeros(2))
    average = WeightAverage([weight], 0.9)
    expected = 0.0
    for step in range(1, 201):
        with torch.no_grad():
            weight.add_(1)
        average.update(step)
        if step % 8 == 0:
            kept = min(0.9, (1 + step) / (10 + step)) ** 8
            expected = kept * expected + (1 - kept) * step
    (found,) = average.state_dict()["average"]
    torch.testing.assert_close(found, torch.full((2,), expected))
    assert 185 < expected < 200  # about ten steps behind


def test_the_model_has_the_average_meanwhile_and_its_own_weights_after_an_error() -> None:
    weight = nn.Parameter(torch.ones(1))
    average = WeightAverage([weight], 0.5)
    with torch.no_grad():
        weight.fill_(3)
    with pytest.raises(ZeroDivisionError), average.in_model():
        assert weight.item() == 1
        raise ZeroDivisionError
    assert weight.item() == 3
    assert average.state_dict()["average"][0].item() == 1


def test_restart_forgets_all_but_the_present_weights() -> None:
    weight = nn.Parameter(torch.ones(1))
    average = WeightAverage([weight], 0.5)
    with torch.no_grad():
        weight.fill_(3)
    average.restart()
    assert average.state_dict()["average"][0].item() == 3
    with torch.no_grad():
        weight.fill_(4)
    assert average.state_dict()["average"][0].item() == 3  # a copy
