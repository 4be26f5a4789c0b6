"""One window of language modeling: both directions, their loss, their gradients.

The directions share only the token vectors below and the softmax above, so each runs forward and backward in its own
thread, on one core, and the gradients of what they share are summed afterwards. All randomness is a function of (seed,
step, global row), so it does not depend on the number of processes or threads.

Notation: R rows of this process, T steps, N = R·T positions in step order, K distinct tokens, P width of a direction.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from elmokit.cores import usable_cores
from elmokit.corpus.windows import NO_TARGET, Window
from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.engines.choose import Precision, choose_arithmetic
from elmokit.model.engines.workers import compute_on_one_core
from elmokit.model.lstm import Lstm, LstmState
from elmokit.training.config import LossConfig
from elmokit.training.distributed import Processes
from elmokit.training.full_softmax import softmax_loss
from elmokit.training.loop import StepResult
from elmokit.training.optim import sparse_gradient
from elmokit.training.sampled_softmax import LogUniformSampler, sampled_loss
from elmokit.training.type_vectors import TypeVectors, accumulate

_NEGATIVES, _DROPOUT = 1, 2
_FIRST_LOSS_SCALE = 2.0**14
Result = TypeVar("Result")


class RowDropout:
    """Inverted dropout with masks that depend on the global row; every call draws new masks.

    torch's dropout draws one mask for all rows, which would depend on the number of processes.
    """

    def __init__(self, rate: float, key: tuple[int, ...], rows: range, num_steps: int) -> None:
        self._rate, self._key, self._rows, self._num_steps = rate, key, rows, num_steps
        self._calls = 0

    def __call__(self, x: Tensor) -> Tensor:
        """Apply dropout to (N, P), where the rows of each step are adjacent."""
        size = self._num_steps * x.shape[1]
        draws = np.empty((len(self._rows), self._num_steps, x.shape[1]), dtype=np.uint16)  # (R, T, P)
        for draw, row in zip(draws, self._rows, strict=True):
            bits = np.random.Philox(key=_philox_key(self._key), counter=[0, 0, self._calls, row])
            draw[:] = bits.random_raw(-(-size // 4)).view(np.uint16)[:size].reshape(draw.shape)
        self._calls += 1
        keep = torch.from_numpy(draws.swapaxes(0, 1) >= round(self._rate * 2**16)).reshape(x.shape)  # (N, P)
        return x * keep.to(x) / (1 - self._rate)


def _philox_key(key: tuple[int, ...]) -> Any:
    return np.random.SeedSequence(key).generate_state(2, np.uint64)


class _Side(NamedTuple):
    """The results of one direction."""

    loss: Tensor
    token_grad: Tensor | None  # (K, P) gradient of the token vectors
    add_softmax_grads: Callable[[], None]
    """Adds this direction's gradients to the softmax, which both directions share."""
    state: LstmState


class LanguageModelStep:
    """Computes a window's loss and adds its gradients to the parameters; carries the LSTM state from window to window.

    Args:
        bilm: a model with a softmax; parameters that do not require gradients are not trained.
        dropout: dropout rate on the input of every layer and on the top output.
        seed: random seed for negative samples and dropout masks.
        precision: precision of products; weights and losses stay in float32. `arithmetic` says how it is computed.
        threads: cores for the two directions; None uses two if available.
    """

    def __init__(
        self,
        bilm: BiLM,
        loss: LossConfig,
        *,
        num_rows: int,
        num_steps: int,
        dropout: float = 0.0,
        seed: int = 0,
        processes: Processes | None = None,
        precision: Precision = "float32",
        threads: int | None = None,
    ) -> None:
        if bilm.softmax is None:
            raise ConfigError("this model has no softmax to train with: build one for it first.")
        self.bilm = bilm
        self.processes = processes or Processes()
        self.rows = self.processes.own_rows(num_rows)
        self.num_steps = num_steps
        self.dropout = dropout
        self.seed = seed
        self.state = bilm.zero_state(len(self.rows))
        self.loss_scale = _FIRST_LOSS_SCALE if precision == "float16" else 1.0
        like = next(bilm.parameters())
        self.device, self._dtype = like.device, like.dtype
        self._precision = precision
        self.arithmetic = choose_arithmetic(precision, self.device, self._dtype)
        self._sampler = (
            LogUniformSampler(len(bilm.softmax.bias), loss.num_negatives) if loss.kind == "sampled" else None
        )
        if threads is None:
            threads = 2 if self.processes.size == 1 and usable_cores() > 1 else 1
        threaded = threads > 1 and self.device.type == "cpu"
        self._pool = ThreadPoolExecutor(2, "elmokit-side", initializer=compute_on_one_core) if threaded else None

    def parameters(self) -> tuple[list[tuple[str, nn.Parameter]], list[tuple[str, nn.Parameter]]]:
        """The parameters to train, by name: first those with dense gradients, then those with sparse ones."""
        dense: list[tuple[str, nn.Parameter]] = []
        sparse: list[tuple[str, nn.Parameter]] = []
        for name, parameter in self.bilm.named_parameters():
            if parameter.requires_grad:
                own_rows = self._sampler is not None and name.startswith("softmax.")
                (sparse if own_rows else dense).append((name, parameter))
        return dense, sparse

    def __call__(self, window: Window, number: int) -> StepResult:
        """Compute the gradients of a window's loss: the mean of both directions, summed over the steps of a row.

        Each process has the share of its own rows; the shares are summed after all windows of a step.
        """
        types = self._encode(torch.from_numpy(window.char_ids).to(self.device))
        vectors = types.vectors.to(self._dtype)  # (K, P)
        num_predictions = window.num_predictions
        scale = self.loss_scale * self.num_steps / (2 * num_predictions)
        forward, backward = self._both(
            lambda side: self._run_side(side, window, number, vectors, scale, types.wants_gradient)
        )
        self.state = BiLMState(forward.state, backward.state)
        forward.add_softmax_grads()
        backward.add_softmax_grads()
        if forward.token_grad is not None and backward.token_grad is not None:
            types.backward(forward.token_grad + backward.token_grad)
        losses = torch.stack([forward.loss, backward.loss])  # (2,)
        self.processes.all_reduce([losses])
        ahead, back = (losses / num_predictions).tolist()
        return StepResult(
            (ahead + back) / 2, {"forward": ahead, "backward": back}, num_predictions, scale=1 / self.loss_scale
        )

    def overflowed(self) -> bool:
        """Whether a non-finite gradient can be fixed by a smaller scale; if so, lower the scale."""
        if self._precision != "float16" or self.loss_scale < 2:
            return False
        self.loss_scale /= 2
        return True

    def state_dict(self) -> dict[str, Any]:
        """The LSTM state of all rows of all processes."""
        names = ("forward_h", "forward_c", "backward_h", "backward_c")
        tensors = [self.processes.gather(tensor, 1).clone() for side in self.state for tensor in side]
        return {**dict(zip(names, tensors, strict=True)), "loss_scale": self.loss_scale}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore this process's rows from a state."""
        own = slice(self.rows.start, self.rows.stop)
        parts = {
            name: value[:, own].to(self.device, copy=True) for name, value in state.items() if name != "loss_scale"
        }
        self.state = BiLMState(
            LstmState(parts["forward_h"], parts["forward_c"]), LstmState(parts["backward_h"], parts["backward_c"])
        )
        saved = float(state["loss_scale"])
        if self._precision == "float16" and saved > 1:  # 1 was saved in another precision, which needs no scale
            self.loss_scale = saved

    def _encode(self, char_ids: Tensor) -> TypeVectors:
        """The vectors of the distinct tokens (K, C) of a window."""
        encode = self.arithmetic.type_encoder(self.bilm.encoder)
        cast = self._autocast(self.arithmetic.casts_encoder)
        return TypeVectors(self.bilm.encoder, char_ids, encode, self._both, cast)

    def _both(self, run: Callable[[int], Result]) -> tuple[Result, Result]:
        if self._pool is None:
            return run(0), run(1)
        first, second = self._pool.map(run, (0, 1))
        return first, second

    def _autocast(self, casts: bool) -> AbstractContextManager[Any]:
        if not casts:
            return nullcontext()
        return torch.autocast(self.device.type, getattr(torch, self._precision))

    def _run_side(
        self, side: int, window: Window, number: int, types: Tensor, scale: float, wants_types: bool
    ) -> _Side:
        """Run one direction forward and backward; gradients of its own layers go directly to the parameters."""
        lstm: Lstm = (self.bilm.forward_lstm, self.bilm.backward_lstm)[side]
        index = torch.from_numpy(window.inputs[side].T.reshape(-1)).to(self.device)  # (N,)
        x = types[index].requires_grad_(wants_types)  # (N, P)
        drop = None
        if self.dropout:
            drop = RowDropout(self.dropout, (self.seed, number, side, _DROPOUT), self.rows, self.num_steps)
        with self._autocast(self.arithmetic.casts_layers):
            outputs, state = lstm(
                x, [len(self.rows)] * self.num_steps, self.state[side], dropout=drop, engine=self.arithmetic.engine
            )
        top = outputs[-1].to(self._dtype)  # (N, P)
        top = top if drop is None else drop(top)  # (N, P)
        loss, leaves, add_softmax_grads = self._loss(top, side, window, number)
        own = [parameter for parameter in lstm.parameters() if parameter.requires_grad]
        wanted = [*([x] if wants_types else []), *own, *leaves]
        gradients = list(torch.autograd.grad(loss * scale, wanted)) if wanted else []
        token_grad = torch.zeros_like(types).index_add_(0, index, gradients.pop(0)) if wants_types else None  # (K, P)
        accumulate(own, gradients[: len(own)])
        return _Side(loss.detach(), token_grad, lambda: add_softmax_grads(gradients[len(own) :]), state.detach())

    def _loss(
        self, top: Tensor, side: int, window: Window, number: int
    ) -> tuple[Tensor, list[Tensor], Callable[[list[Tensor]], None]]:
        """The loss of outputs (N, P), the softmax tensors that it depends on, and a function for their gradients."""
        softmax, table = self.bilm.softmax, self.bilm.token_table
        assert softmax is not None
        places = window.own_targets[side].T.reshape(-1)  # (N,)
        if (places == NO_TARGET).any():
            kept = places != NO_TARGET
            top, places = top[torch.from_numpy(kept).to(self.device)], places[kept]
        weight = table if softmax.weight is None else softmax.weight
        assert weight is not None
        if self._sampler is None:
            used = (weight, softmax.bias, softmax.cluster_weight, softmax.cluster_bias)
            trained = [parameter for parameter in used if parameter is not None and parameter.requires_grad]
            targets = torch.from_numpy(places).to(self.device)  # (N,)
            return softmax_loss(top, targets, softmax, table), [*trained], lambda found: accumulate(trained, found)
        random = np.random.Generator(np.random.Philox(key=_philox_key((self.seed, number, side, _NEGATIVES))))
        every = np.unique(window.targets[side])
        candidates = self._sampler.draw(random, every[every != NO_TARGET])
        ids = torch.from_numpy(candidates.ids).to(self.device)  # (K,)
        rows, biases = (
            parameter.detach()[ids].requires_grad_(parameter.requires_grad) for parameter in (weight, softmax.bias)
        )
        own = torch.from_numpy(candidates.places(places)).to(self.device)  # (N,)
        loss = sampled_loss(top, own, rows, biases, candidates, self.arithmetic.products)
        trained = [parameter for parameter in (weight, softmax.bias) if parameter.requires_grad]

        def add_softmax_grads(gradients: list[Tensor]) -> None:
            for parameter, gradient in zip(trained, gradients, strict=True):
                if parameter is table:
                    parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                    parameter.grad.index_add_(0, ids, gradient)
                else:
                    accumulate([parameter], [sparse_gradient(ids, gradient, parameter)])

        return loss, [leaf for leaf in (rows, biases) if leaf.requires_grad], add_softmax_grads
