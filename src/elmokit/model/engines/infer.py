"""The fast engines for embedding on a CPU: one in C, and one in torch operations.

Differences from the plain engine: the input's part of the gates is computed by a matrix product before the loop, once
for each distinct token where tokens repeat, and products write into existing memory. They compute no gradients. A call
runs on the calling thread; `workers` distributes directions and batches over threads.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmokit.model.cell import LayerWeights
from elmokit.model.engines.packed import BlockedMatrix, Packer
from elmokit.native.library import NativeLibrary, order_gates

_CHUNK_BYTES = 32 * 2**20
"""Memory for the inputs' part of the gates, a few steps at a time: 512 tokens for the original model, which is enough
for a matrix product at full speed."""
_TABLE_BYTES = 48 * 2**20
"""Memory for the inputs' part of the gates of tokens that repeat within a batch, most frequent first."""


class _Steps(NamedTuple):
    """A few steps of a layer, whose inputs' part of the gates is in memory."""

    sizes: Sequence[int]
    tokens: slice  # which of the packed tokens (N,)
    inputs: Tensor  # (…, 4H)
    places: Tensor | None  # (n,) row of `inputs` for each token; None: in order


class InferEngine(ABC):
    """What both have in common: how a layer is divided into steps and where their inputs come from."""

    def __init__(self) -> None:
        self._scratch = threading.local()

    def run_layer(
        self,
        weights: LayerWeights,
        x: Tensor,
        batch_sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        index: Tensor | None = None,
        starts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Engine.run_layer`."""
        y = x.new_empty(sum(batch_sizes), h.shape[1])  # (N, P)
        first, state = (h.contiguous(), c.contiguous()), (h.clone(), c.clone())
        for steps in self._divide(weights, x, batch_sizes, index):
            part = None if starts is None else starts[steps.tokens]
            self._run_steps(weights, steps, part, first, state, y[steps.tokens])
        return y, *state

    @abstractmethod
    def _run_steps(
        self,
        weights: LayerWeights,
        steps: _Steps,
        starts: Tensor | None,
        first: tuple[Tensor, Tensor],
        state: tuple[Tensor, Tensor],
        y: Tensor,
    ) -> None:
        """Run steps: `state` is updated, y (n, P) receives the outputs."""

    @abstractmethod
    def _input_part(self, weights: LayerWeights, x: Tensor, rows: Tensor | None, out: Tensor) -> None:
        """The input's part of the gates of some rows of x (…, P), in order if None."""

    @abstractmethod
    def _gates_width(self, weights: LayerWeights) -> int:
        """Columns of the input's part."""

    def _divide(
        self, weights: LayerWeights, x: Tensor, batch_sizes: Sequence[int], index: Tensor | None
    ) -> Iterator[_Steps]:
        """Divide a layer into parts whose inputs fit into memory.

        Repeated tokens have their row in a table; the others are computed a few steps at a time and stored after it.
        """
        width = self._gates_width(weights)
        room = max(1, _CHUNK_BYTES // (4 * width))
        if index is None:
            for first, last, begin, end in _chunks(batch_sizes, batch_sizes, room):
                inputs = self._borrow("inputs", end - begin, width)
                self._input_part(weights, x[begin:end], None, inputs)
                yield _Steps(batch_sizes[first:last], slice(begin, end), inputs, None)
            return
        table, places = _repeated(index, max(1, _TABLE_BYTES // (4 * width)))  # (F,), (N,)
        fresh = [int((part < 0).sum()) for part in places.split(list(batch_sizes))]
        chunks = list(_chunks(batch_sizes, fresh, room))
        most = max((sum(fresh[first:last]) for first, last, _, _ in chunks), default=0)
        inputs = self._borrow("inputs", len(table) + most, width)  # (F and a chunk, 4H)
        self._input_part(weights, x, table, inputs[: len(table)])
        for first, last, begin, end in chunks:
            chunk = places[begin:end]
            new = (chunk < 0).nonzero()[:, 0]
            self._input_part(weights, x, index[begin:end][new], inputs[len(table) : len(table) + len(new)])
            chunk[new] = torch.arange(len(table), len(table) + len(new))
            yield _Steps(batch_sizes[first:last], slice(begin, end), inputs, chunk)

    def _borrow(self, name: str, rows: int, columns: int) -> Tensor:
        """Reusable memory of this thread for (rows, columns): new pages would cost more than the products."""
        flat: Tensor | None = getattr(self._scratch, name, None)
        if flat is None or flat.numel() < rows * columns:
            flat = torch.empty(rows * columns, dtype=torch.float32)
            setattr(self._scratch, name, flat)
        return flat[: rows * columns].view(rows, columns)


class NativeEngine(InferEngine):
    """Everything in C. A token's numbers do not depend on the batch, on threads or on the processor: see infer.c."""

    def __init__(self, library: NativeLibrary) -> None:
        super().__init__()
        self.library = library
        self._gates, self._packed = Packer(library.pack_gates), Packer(library.pack)

    def _run_steps(
        self,
        weights: LayerWeights,
        steps: _Steps,
        starts: Tensor | None,
        first: tuple[Tensor, Tensor],
        state: tuple[Tensor, Tensor],
        y: Tensor,
    ) -> None:
        projection = weights.projection_weight
        self.library.steps(
            (self._gates(weights.recurrent_weight), None if projection is None else self._packed(projection)),
            (weights.cell_clip, weights.projection_clip),
            steps.inputs,
            steps.places,
            torch.tensor(steps.sizes),
            starts,
            first,
            state,
            y,
        )

    def _input_part(self, weights: LayerWeights, x: Tensor, rows: Tensor | None, out: Tensor) -> None:
        panels = self._gates(weights.input_weight)
        self.library.product(x, panels, out, start=order_gates(weights.bias), index=rows)

    def _gates_width(self, weights: LayerWeights) -> int:
        return 64 * -(-weights.bias.numel() // 64)


class PortableEngine(InferEngine):
    """Torch operations."""

    def __init__(self) -> None:
        super().__init__()
        self._packed = Packer(BlockedMatrix)

    def _run_steps(
        self,
        weights: LayerWeights,
        steps: _Steps,
        starts: Tensor | None,
        first: tuple[Tensor, Tensor],
        state: tuple[Tensor, Tensor],
        y: Tensor,
    ) -> None:
        h, c = state
        rows = max(steps.sizes)
        gates, memory = self._borrow("gates", rows, weights.bias.numel()), self._borrow("memory", rows, c.shape[1])
        begin = 0
        for n in steps.sizes:
            now = slice(begin, begin + n)
            if starts is not None and starts[now].any():
                new = starts[now].nonzero()[:, 0]
                h[new], c[new] = first[0][new], first[1][new]
            self._step(weights, h[:n], steps, now, gates[:n], c[:n], memory[:n])
            if weights.projection_weight is None:
                y[now].copy_(memory[:n])
            else:
                self._packed(weights.projection_weight).multiply(memory[:n], y[now])
                if weights.projection_clip is not None:
                    y[now].clamp_(-weights.projection_clip, weights.projection_clip)
            h[:n] = y[now]
            begin += n

    def _step(
        self, weights: LayerWeights, h: Tensor, steps: _Steps, now: slice, gates: Tensor, c: Tensor, out: Tensor
    ) -> None:
        """One time step: c (n, H) is updated, out (n, H) receives the unprojected output."""
        places = None if steps.places is None else steps.places[now]
        gates = steps.inputs[now] if places is None else torch.index_select(steps.inputs, 0, places, out=gates)
        self._packed(weights.recurrent_weight).accumulate(h, gates)
        i, f, o = gates[:, : 3 * c.shape[1]].sigmoid_().chunk(3, dim=1)  # 3 × (n, H)
        j = gates[:, 3 * c.shape[1] :].tanh_()  # (n, H)
        c.mul_(f).addcmul_(i, j)
        if weights.cell_clip is not None:
            c.clamp_(-weights.cell_clip, weights.cell_clip)
        torch.tanh(c, out=out).mul_(o)

    def _input_part(self, weights: LayerWeights, x: Tensor, rows: Tensor | None, out: Tensor) -> None:
        self._packed(weights.input_weight).multiply_many(x if rows is None else x[rows], out).add_(weights.bias)

    def _gates_width(self, weights: LayerWeights) -> int:
        return weights.bias.numel()


def _repeated(index: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """The numbers (F,) that repeat in (N,), most frequent first; and the position there of each of (N,), or −1."""
    types, inverse, counts = torch.unique(index, return_inverse=True, return_counts=True)  # (K,), (N,), (K,)
    order = counts.argsort(descending=True, stable=True)[: min(limit, int((counts > 1).sum()))]  # (F,)
    place = torch.full_like(types, -1)  # (K,)
    place[order] = torch.arange(len(order), device=index.device)
    return types[order], place[inverse]


def _chunks(batch_sizes: Sequence[int], costs: Sequence[int], limit: int) -> Iterator[tuple[int, int, int, int]]:
    """Split steps into chunks of limited cost, at least one step each: their steps, and their packed tokens."""
    first, begin, end, cost = 0, 0, 0, 0
    for step, (n, more) in enumerate(zip(batch_sizes, costs, strict=True)):
        if step > first and cost + more > limit:
            yield first, step, begin, end
            first, begin, cost = step, end, 0
        end, cost = end + n, cost + more
    if batch_sizes:
        yield first, len(batch_sizes), begin, end
