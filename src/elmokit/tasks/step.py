"""A training step of a task: from a batch to gradients, and the running average of the weights."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from elmokit.tasks.base import TaskModel
from elmokit.training.loop import StepResult


class TaskStep:
    """Adds the gradients of a batch to a task model, and optionally keeps the running average of its weights."""

    def __init__(self, model: TaskModel, *, average: float) -> None:
        self.model = model
        self._decay = average
        self._average: dict[str, Tensor] = {}

    def __call__(self, batch: Any, number: int) -> StepResult:
        """Add the gradients of a batch; `number` counts steps."""
        self._follow(number)
        texts, gold = batch
        loss = self.model.loss(texts, gold)
        (loss + self.model.inputs.regularization()).backward()
        return StepResult(float(loss.detach()), {}, len(texts[0].mask))

    def _follow(self, number: int) -> None:
        """Update the average with the weights of the last step; the decay is smaller at first."""
        if not self._decay:
            return
        decay = min(self._decay, (1 + number) / (10 + number))
        for name, parameter in self.model.trainable_parameters():
            if name in self._average:
                self._average[name].lerp_(parameter.detach(), 1 - decay)
            else:
                self._average[name] = parameter.detach().clone()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with its averaged weights."""
        own = {
            name: parameter.detach().clone()
            for name, parameter in self.model.trainable_parameters()
            if name in self._average
        }
        self._put(self._average)
        try:
            yield
        finally:
            self._put(own)

    def _put(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self.model.trainable_parameters():
                if name in weights:
                    parameter.copy_(weights[name])

    def state_dict(self) -> dict[str, Any]:
        """The average."""
        return {"average": self._average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved average."""
        self._average = state["average"]

    def overflowed(self) -> bool:
        """Never: gradients are not scaled."""
        return False
