"""The fast engine for embedding on a CPU.

Differences from the plain engine: the input's part of the gates is computed by a matrix product before the loop, once
for each distinct token where tokens repeat; products write into existing memory; and the elementwise half of a step is
one fused pass if the native cell has been built, a few in-place operations otherwise. It computes no gradients. A call
runs on the calling thread; `workers` distributes directions and batches over threads.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import torch
from torch import Tensor

from elmokit.model.cell import LayerWeights
from elmokit.model.engines.native import NativeCell
from elmokit.model.engines.packed import BlockedMatrix, PackedMatrix, Packer

_CHUNK_BYTES = 32 * 2**20
"""Memory for the inputs' part of the gates, a few steps at a time: 512 tokens for the original model, which is enough
for a matrix product at full speed."""
_FEW_ROWS = 2
"""Number of rows for which calling a matrix product costs more than computing it."""
_TABLE_BYTES = 48 * 2**20
"""Memory for the inputs' part of the gates of tokens that repeat within a batch, most frequent first."""


def suits(like: Tensor) -> bool:
    """Whether the engine runs weights like these: float32 on the CPU."""
    return like.device.type == "cpu" and like.dtype == torch.float32


class InferEngine:
    """See the module's docstring.

    Without `native`, the fused cell, it uses torch operations; `pack` prepares a weight for its products.
    """

    def __init__(
        self, native: NativeCell | None = None, pack: Callable[[Tensor], PackedMatrix] = BlockedMatrix
    ) -> None:
        self.native = native
        self._packed = Packer(pack)
        self._exact = pack is BlockedMatrix
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
        num_tokens, cell_dim = sum(batch_sizes), c.shape[1]
        rows = max(batch_sizes, default=0)
        y = x.new_empty(num_tokens, h.shape[1])  # (N, P)
        first_h, first_c, h, c = h, c, h.clone(), c.clone()
        if self.native is not None and self._exact and 0 < rows <= _FEW_ROWS:
            self._run_few_rows(weights, x, batch_sizes, index, starts, (first_h, first_c), (h, c), y)
            return y, h, c
        resets = _resets(starts, batch_sizes)
        gates = self._borrow("gates", rows, 4 * cell_dim)
        memory = self._borrow("memory", rows, cell_dim)
        start = 0
        for number, (n, inputs, places) in enumerate(self._input_parts(weights, x, batch_sizes, index)):
            if number in resets:
                h[resets[number]] = first_h[resets[number]]
                c[resets[number]] = first_c[resets[number]]
            step, out = y[start : start + n], memory[:n]  # (n, P), (n, H)
            self._step(weights, h[:n], inputs, places, gates[:n], c[:n], out)
            if weights.projection_weight is None:
                step.copy_(out)
            else:
                self._packed(weights.projection_weight).multiply(out, step)
                if weights.projection_clip is not None:
                    step.clamp_(-weights.projection_clip, weights.projection_clip)
            h[:n] = step
            start += n
        return y, h, c

    def _run_few_rows(
        self,
        weights: LayerWeights,
        x: Tensor,
        batch_sizes: Sequence[int],
        index: Tensor | None,
        starts: Tensor | None,
        first: tuple[Tensor, Tensor],
        state: tuple[Tensor, Tensor],
        y: Tensor,
    ) -> None:
        """Run the whole loop in C, for one or a few sentences: writes y (N, P) and the state."""
        assert self.native is not None
        x = x if index is None else x[index]  # (N, P)
        width = weights.bias.numel()
        sizes, before = torch.tensor(batch_sizes), (first[0].contiguous(), first[1].contiguous())
        for step, last, begin, end in _chunks(batch_sizes, batch_sizes, max(1, _CHUNK_BYTES // (4 * width))):
            inputs = self._input_part(weights, x[begin:end], self._borrow("inputs", end - begin, width))
            part = None if starts is None else starts[begin:end]
            self.native.run_steps(weights, inputs, sizes[step:last], part, before, state, y[begin:end])

    def _step(
        self,
        weights: LayerWeights,
        h: Tensor,
        inputs: Tensor,
        places: Tensor | None,
        gates: Tensor,
        c: Tensor,
        out: Tensor,
    ) -> None:
        """One time step: c (n, H) is updated, out (n, H) receives the unprojected output."""
        if self.native is not None:
            matrix = self._packed(weights.recurrent_weight)
            for offset, part in matrix.multiply_gates(h, gates):
                self.native(part, inputs, places, weights.bias, c, out, weights.cell_clip, offset)
            return
        gates = inputs if places is None else torch.index_select(inputs, 0, places, out=gates)
        self._packed(weights.recurrent_weight).accumulate(h, gates)
        i, f, o = gates[:, : 3 * c.shape[1]].sigmoid_().chunk(3, dim=1)  # 3 × (n, H)
        j = gates[:, 3 * c.shape[1] :].tanh_()  # (n, H)
        c.mul_(f).addcmul_(i, j)
        if weights.cell_clip is not None:
            c.clamp_(-weights.cell_clip, weights.cell_clip)
        torch.tanh(c, out=out).mul_(o)

    def _input_parts(
        self, weights: LayerWeights, x: Tensor, batch_sizes: Sequence[int], index: Tensor | None
    ) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """For each step: its size, the input's part of the gates, and the rows of it to use (None: in order).

        Repeated tokens have their row in a table; the others are computed a few steps at a time and stored after it.
        """
        width = weights.bias.numel()
        room = max(1, _CHUNK_BYTES // (4 * width))
        if index is not None:
            table, places = _repeated(index, max(1, _TABLE_BYTES // (4 * width)))  # (F,), (N,)
            if len(table):
                yield from self._repeated_parts(weights, x, batch_sizes, index, (table, places), room)
                return
            x = x[index]  # (N, P)
        for first, last, begin, end in _chunks(batch_sizes, batch_sizes, room):
            inputs = self._input_part(weights, x[begin:end], self._borrow("inputs", end - begin, width))  # (chunk, 4H)
            sizes = batch_sizes[first:last]
            yield from zip(sizes, inputs.split(list(sizes)), repeat(None), strict=False)

    def _repeated_parts(
        self,
        weights: LayerWeights,
        x: Tensor,
        batch_sizes: Sequence[int],
        index: Tensor,
        repeated: tuple[Tensor, Tensor],
        room: int,
    ) -> Iterator[tuple[int, Tensor, Tensor | None]]:
        """Like `_input_parts`, with the result of `_repeated`."""
        table, places = repeated  # (F,), (N,)
        fresh = [int((part < 0).sum()) for part in places.split(list(batch_sizes))]
        chunks = list(_chunks(batch_sizes, fresh, room))
        most = max(sum(fresh[first:last]) for first, last, _, _ in chunks)
        inputs = self._borrow("inputs", len(table) + most, weights.bias.numel())  # (F and a chunk, 4H)
        self._input_part(weights, x[table], inputs[: len(table)])
        for first, last, begin, end in chunks:
            chunk = places[begin:end]
            new = (chunk < 0).nonzero()[:, 0]
            self._input_part(weights, x[index[begin:end][new]], inputs[len(table) : len(table) + len(new)])
            chunk[new] = torch.arange(len(table), len(table) + len(new))
            sizes = batch_sizes[first:last]
            yield from zip(sizes, repeat(inputs), chunk.split(list(sizes)), strict=False)

    def _input_part(self, weights: LayerWeights, x: Tensor, out: Tensor) -> Tensor:
        """The input's part of the gates, with the bias unless the native cell adds it."""
        self._packed(weights.input_weight).multiply_many(x, out)
        return out if self.native is not None else out.add_(weights.bias)

    def _borrow(self, name: str, rows: int, columns: int) -> Tensor:
        """Reusable memory of this thread for (rows, columns): new pages would cost more than the products."""
        flat: Tensor | None = getattr(self._scratch, name, None)
        if flat is None or flat.numel() < rows * columns:
            flat = torch.empty(rows * columns, dtype=torch.float32)
            setattr(self._scratch, name, flat)
        return flat[: rows * columns].view(rows, columns)


def _resets(starts: Tensor | None, batch_sizes: Sequence[int]) -> dict[int, Tensor]:
    """The rows that begin a sentence, by step, except the first step, which needs no reset."""
    if starts is None:
        return {}
    parts = torch.split(starts, list(batch_sizes))
    return {number: part.nonzero()[:, 0] for number, part in enumerate(parts) if number and bool(part.any())}


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
