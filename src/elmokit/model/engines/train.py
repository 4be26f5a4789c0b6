"""The engine for training: one differentiable operation per layer instead of one per step.

Autograd over the plain loop keeps a node and a copy for every small operation. Here the backward pass through time is
written by hand: a step reads its token and the row's last output in one product, and in the backward pass all its
products run while its gates are still in the cache. It gives the plain engine's numbers and gradients within float
rounding, on any device and in any precision.

Notation: N packed tokens, n rows of a step, B rows of the state, P output width, H cell width.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from elmokit.model.cell import LayerWeights
from elmokit.model.engines.products import PLAIN_PRODUCTS, Products
from elmokit.native.library import NativeLibrary


class TrainEngine:
    """See the module's docstring.

    Args:
        library: computes the elementwise half of a step for float32 on the CPU; None uses torch operations.
        products: computes products of float32 matrices on the CPU; None uses torch.
    """

    def __init__(self, library: NativeLibrary | None = None, products: Products | None = None) -> None:
        self._library, self._products = library, products

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
        x = x if index is None else x[index]  # (N, P)
        new = None if starts is None else starts[:, None].to(x.dtype)  # (N, 1)
        fast = x.dtype == torch.float32 and x.device.type == "cpu"
        y, last_h, last_c = _Layer.apply(
            x,
            h,
            c,
            weights.input_weight,
            weights.recurrent_weight,
            weights.bias,
            weights.projection_weight,
            new,
            tuple(batch_sizes),
            (weights.cell_clip, weights.projection_clip),
            (fast and self._library) or PORTABLE_CELL,
            (fast and self._products) or PLAIN_PRODUCTS,
        )
        return y, last_h, last_c


class _Layer(torch.autograd.Function):
    """One layer over packed tokens, with its backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        starts: Tensor | None,
        batch_sizes: tuple[int, ...],
        clips: tuple[float | None, float | None],
        cell: "NativeLibrary | PortableCell",
        products: Products,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs (N, P) and the state after each row's end."""
        cell_clip, projection_clip = clips
        num_tokens, width, cell_dim = len(x), h.shape[1], c.shape[1]
        weight = torch.cat([input_weight, recurrent_weight])  # (2P, 4H)
        inputs = x.new_empty(num_tokens, 2 * width)  # (N, 2P): token, and the row's last output
        inputs[:, :width] = x
        gates = x.new_empty(num_tokens, 4 * cell_dim)  # (N, 4H), as activations
        before_c, tanh_c, out = (x.new_empty(num_tokens, cell_dim) for _ in range(3))  # 3 × (N, H)
        y = out if projection is None else x.new_empty(num_tokens, width)  # (N, P)
        first_h, first_c, h, c = h, c, h.clone(), c.clone()
        to_gates = products.prepare(weight)
        to_output = None if projection is None else products.prepare(projection)
        for begin, end in pairwise(accumulate(batch_sizes, initial=0)):
            n, step = end - begin, slice(begin, end)
            if starts is not None:
                h[:n].lerp_(first_h[:n], starts[step])
                c[:n].lerp_(first_c[:n], starts[step])
            inputs[step, width:], before_c[step] = h[:n], c[:n]
            to_gates.multiply(inputs[step], gates[step], bias)
            cell.activate(gates[step], c[:n], tanh_c[step], out[step], cell_clip)
            if to_output is not None:
                to_output.multiply(out[step], y[step])
                if projection_clip is not None:
                    y[step].clamp_(-projection_clip, projection_clip)
            h[:n] = y[step]
        ctx.save_for_backward(inputs, y, gates, before_c, tanh_c, out, weight, projection, starts)
        ctx.batch_sizes, ctx.clips, ctx.cell, ctx.products = batch_sizes, clips, cell, products
        return y, h, c

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dh: Tensor, dc: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the input tensors; each step's products run while its numbers are in the cache."""
        inputs, y, gates, before_c, tanh_c, out, weight, projection, starts = ctx.saved_tensors
        cell_clip, projection_clip = ctx.clips
        width, most = dy.shape[1], max(ctx.batch_sizes, default=0)
        products: Products = ctx.products
        to_inputs = products.prepare(weight.T)  # (4H, 2P)
        to_memory = None if projection is None else products.prepare(projection.T)  # (P, H)
        weight_sum = products.sum_transposed(inputs, weight.shape[1])  # (2P, 4H)
        projection_sum = None if projection is None else products.sum_transposed(out, width)  # (H, P)
        dbias = weight.new_zeros(weight.shape[1])  # (4H,)
        dinputs = torch.empty_like(inputs)  # (N, 2P)
        dgates, dout = gates.new_empty(most, gates.shape[1]), out.new_empty(most, out.shape[1])  # (n, 4H), (n, H)
        dy, dh, dc = dy.clone(memory_format=torch.contiguous_format), dh.clone(), dc.clone()
        first_dh, first_dc = torch.zeros_like(dh), torch.zeros_like(dc)
        for begin, end in reversed(list(pairwise(accumulate(ctx.batch_sizes, initial=0)))):
            n, step = end - begin, slice(begin, end)
            dy[step] += dh[:n]
            if to_memory is None or projection_sum is None:
                step_dout = dy[step]  # (n, H)
            else:
                if projection_clip is not None:
                    dy[step].masked_fill_(y[step].abs() >= projection_clip, 0)
                step_dout = to_memory.multiply(projection_sum.add(step, dy[step]), dout[:n])  # (n, H)
            ctx.cell.differentiate(gates[step], before_c[step], tanh_c[step], step_dout, dc[:n], dgates[:n], cell_clip)
            dbias += dgates[:n].sum(0)
            to_inputs.multiply(weight_sum.add(step, dgates[:n]), dinputs[step])
            dh[:n] = dinputs[step, width:]
            if starts is not None:
                for gradient, first in ((dh, first_dh), (dc, first_dc)):
                    part = gradient[:n] * starts[step]
                    first[:n] += part
                    gradient[:n] -= part
        dweight = weight_sum.total()  # (2P, 4H)
        dprojection = None if projection_sum is None else projection_sum.total()  # (H, P)
        return (
            *(dinputs[:, :width], dh + first_dh, dc + first_dc),
            *(dweight[:width], dweight[width:], dbias, dprojection),
            *(None, None, None, None, None),
        )


class PortableCell:
    """The elementwise half of a step in torch operations; `NativeLibrary` has the same in C."""

    def activate(self, gates: Tensor, c: Tensor, tanh_c: Tensor, out: Tensor, clip: float | None) -> None:
        """The forward pass of the cell: gates (n, 4H) become activations, c (n, H) the new memory; writes the rest."""
        cell_dim = c.shape[1]
        i, f, o = gates[:, : 3 * cell_dim].sigmoid_().chunk(3, dim=1)  # 3 × (n, H)
        j = gates[:, 3 * cell_dim :].tanh_()  # (n, H)
        c.mul_(f).addcmul_(i, j)
        if clip is not None:
            c.clamp_(-clip, clip)
        torch.tanh(c, out=tanh_c)
        torch.mul(tanh_c, o, out=out)

    def differentiate(
        self,
        gates: Tensor,
        before_c: Tensor,
        tanh_c: Tensor,
        dout: Tensor,
        dc: Tensor,
        dgates: Tensor,
        clip: float | None,
    ) -> None:
        """The backward pass of the cell: dc (n, H) changes from after to before the step; writes dgates (n, 4H)."""
        i, f, o, j = gates.chunk(4, dim=1)  # 4 × (n, H)
        di, df, do, dj = dgates.chunk(4, dim=1)  # 4 × (n, H)
        dc.addcmul_(dout * o, 1 - tanh_c * tanh_c)
        if clip is not None:  # no gradient flows where the memory was clipped
            dc.masked_fill_((before_c * f).addcmul_(i, j).abs_() > clip, 0)
        torch.mul(dout * tanh_c, o * (1 - o), out=do)
        torch.mul(dc * j, i * (1 - i), out=di)
        torch.mul(dc * before_c, f * (1 - f), out=df)
        torch.mul(dc * i, 1 - j * j, out=dj)
        dc.mul_(f)


PORTABLE_CELL = PortableCell()
