"""Optimizers, their schedules, and gradient clipping."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer as TorchOptimizer

from elmokit.errors import ConfigError
from elmokit.training.config import OptimizerConfig


class Optimizer:
    """One optimizer for all parameters: schedule, clip and update in one call.

    Parameters with sparse gradients, which are the softmax rows under a sampled loss, are updated only in the rows that
    the gradient has. For Adagrad that equals a dense update; for Adam see `RowAdam`. Adadelta updates whole tables,
    because it decays the statistics of all rows at every step.

    Args:
        num_steps: length of the run, over which the schedule extends.
        shares: factors on the learning rate of dense parameters, by prefix of their names; 1 for all others.
    """

    def __init__(
        self,
        dense: Iterable[tuple[str, nn.Parameter]],
        sparse: Iterable[tuple[str, nn.Parameter]],
        config: OptimizerConfig,
        num_steps: int,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.config = config
        self.num_steps = num_steps
        dense, sparse = list(dense), list(sparse)
        self.parameters = [parameter for _, parameter in (*dense, *sparse)]
        self._optimizers = _build(dense, [parameter for _, parameter in sparse], config, shares or {})
        self._halvings = 0

    def update(self, step: int, scale: float = 1.0, decay_from: int | None = None) -> float:
        """Update the weights and return the norm of the gradient before clipping.

        If the norm is not finite, nothing changes, and the gradients are kept for inspection.

        `decay_from` is the step at which the decay of schedule wsd began, if it has begun.
        """
        gradients = []
        for parameter in self.parameters:
            if parameter.grad is not None:
                if parameter.grad.is_sparse:
                    whole = self.config.kind == "adadelta"
                    parameter.grad = parameter.grad.to_dense() if whole else parameter.grad.coalesce()
                gradients.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
        norm = float(nn.utils.get_total_norm(gradients)) * scale if gradients else 0.0
        if not math.isfinite(norm):
            return norm
        clip = self.config.clip_norm
        factor = scale * (clip / norm if clip is not None and norm > clip else 1.0)
        if factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        if (bound := self.config.clip_value) is not None:
            torch._foreach_clamp_min_(gradients, -bound)
            torch._foreach_clamp_max_(gradients, bound)
        rate = (
            self.config.learning_rate * rate_factor(self.config, step, self.num_steps, decay_from) / 2**self._halvings
        )
        with torch.sparse.check_sparse_tensor_invariants(False):  # the default, but torch warns unless it is chosen
            for optimizer in self._optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate * group.get("share", 1.0)
                optimizer.step()
        self.clear()
        return norm

    def observe(self, num_worse: int) -> None:
        """Halve the rate after every `halve_after` consecutive evaluations without improvement."""
        if self.config.halve_after and num_worse and num_worse % self.config.halve_after == 0:
            self._halvings += 1

    def clear(self) -> None:
        """Clear all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> dict[str, Any]:
        """The state of the optimizers."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self._optimizers], "halvings": self._halvings}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state of the optimizers."""
        for optimizer, own in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(own)
        self._halvings = state.get("halvings", 0)


def _build(
    dense: list[tuple[str, nn.Parameter]],
    sparse: list[nn.Parameter],
    config: OptimizerConfig,
    shares: Mapping[str, float],
) -> list[TorchOptimizer]:
    rate = config.learning_rate
    found: list[TorchOptimizer] = []
    if config.kind == "adagrad":
        settings: dict[str, Any] = {
            "lr": rate,
            "initial_accumulator_value": config.initial_accumulator,
            "eps": 0 if config.initial_accumulator else config.eps,
        }
        found += [torch.optim.Adagrad(_group(dense, shares), **settings)] if dense else []
        found += [torch.optim.Adagrad(sparse, **settings)] if sparse else []
        return found
    if config.kind == "adadelta":
        groups = [*_group(dense, shares), *([{"params": sparse}] if sparse else [])]
        return [torch.optim.Adadelta(groups, lr=rate, rho=config.betas[1], eps=config.eps)]
    if config.kind == "muon":
        matrices = [pair for pair in dense if _is_decayed(*pair) and pair[1].dim() == 2]
        dense = [pair for pair in dense if not (_is_decayed(*pair) and pair[1].dim() == 2)]
        if matrices:
            found.append(_build_muon(_group(matrices, shares), config))
    groups = [
        {**group, "weight_decay": config.weight_decay if decayed else 0.0}
        for decayed in (True, False)
        for group in _group([pair for pair in dense if _is_decayed(*pair) == decayed], shares)
    ]
    found += [torch.optim.AdamW(groups, lr=rate, betas=config.betas, eps=config.eps, fused=True)] if groups else []
    found += [RowAdam(sparse, lr=rate, betas=config.betas, eps=config.eps)] if sparse else []
    return found


def _build_muon(groups: list[dict[str, Any]], config: OptimizerConfig) -> TorchOptimizer:
    """Muon with steps as large as AdamW's, so that one learning rate works for both."""
    try:
        from torch.optim import Muon
    except ImportError:
        raise ConfigError(
            f"optimizer.kind 'muon' needs torch 2.9 or newer, but this is {torch.__version__}: take adamw."
        ) from None
    return Muon(
        groups,
        lr=config.learning_rate,
        momentum=config.betas[0],
        weight_decay=config.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )


def _group(named: list[tuple[str, nn.Parameter]], shares: Mapping[str, float]) -> list[dict[str, Any]]:
    """Group parameters by their share of the learning rate."""
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in named:
        share = next((share for begin, share in shares.items() if name.startswith(begin)), 1.0)
        groups.setdefault(share, []).append(parameter)
    return [{"params": parameters, "share": share} for share, parameters in groups.items()]


def _is_decayed(name: str, parameter: nn.Parameter) -> bool:
    """Whether weight decay applies: to matrices that every step uses in full, not to tables or the softmax."""
    return parameter.dim() > 1 and "table" not in name and not name.startswith("softmax.")


class RowAdam(TorchOptimizer):
    """Adam for matrices of which a step uses few rows; the moments of the other rows do not change.

    Every row counts its own steps. With one count for all, as in `torch.optim.SparseAdam`, the estimate of the squared
    gradients is too small for a rare row while it is new, and its steps are several times too large.
    """

    def __init__(self, params: list[nn.Parameter], *, lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the rows in the coalesced sparse gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group["lr"], group["betas"], group["eps"])

    def _update(self, parameter: nn.Parameter, rate: float, betas: tuple[float, float], eps: float) -> None:
        assert parameter.grad is not None
        rows, gradient = parameter.grad.indices()[0], parameter.grad.values()  # (K,), (K, …)
        state = self.state[parameter]
        if not state:
            state["steps"] = torch.zeros(len(parameter), device=parameter.device)
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        steps = state["steps"][rows] + 1  # (K,)
        mean = state["mean"][rows].lerp_(gradient, 1 - betas[0])  # (K, …)
        square = state["square"][rows].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])  # (K, …)
        state["steps"][rows], state["mean"][rows], state["square"][rows] = steps, mean, square
        steps = steps.view(-1, *[1] * (gradient.dim() - 1))  # (K, …)
        mean /= 1 - betas[0] ** steps
        square /= 1 - betas[1] ** steps
        parameter[rows] -= rate * mean / square.sqrt_().add_(eps)


def rate_factor(config: OptimizerConfig, step: int, num_steps: int, decay_from: int | None = None) -> float:
    """The share of the full learning rate at a step: linear warmup, constant phase, decay."""
    warmup = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    if config.schedule == "wsd":
        done = 0.0 if decay_from is None else min(1.0, max(0, step - decay_from) / config.decay_steps)
        return warmup * (config.floor + (1 - config.floor) * (1 - done))
    begin = max(config.hold * num_steps, config.warmup_steps)
    if config.schedule == "constant" or step < begin:
        return warmup
    done = min(1.0, (step - begin) / max(1.0, num_steps - begin))
    fall = (1 + math.cos(math.pi * done)) / 2 if config.schedule == "cosine" else 1 - done
    return warmup * (config.floor + (1 - config.floor) * fall)


def sparse_gradient(ids: Tensor, rows: Tensor, like: Tensor) -> Tensor:
    """The sparse gradient of a whole matrix or vector from the gradient of some of its rows (K, …)."""
    return torch.sparse_coo_tensor(ids[None], rows, like.shape, check_invariants=False)
