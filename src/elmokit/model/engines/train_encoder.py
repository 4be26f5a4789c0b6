"""The character encoder in training, with the native library: the numbers and gradients of `CharEncoder`.

The gradient of a maximum reaches only the characters under it, so the backward pass of a convolution visits one place
per word and filter instead of every place. Both products of a highway are computed as one.

Notation: N tokens, C characters of a token, D width of a character's vector, F filters, P output width.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmokit.model.char_encoder import Affine, CharEncoder, Highway
from elmokit.model.engines.products import Matrix, Products
from elmokit.native.library import NativeLibrary

_Grads = tuple[Tensor | None, ...]


class TrainEncoder:
    """Computes what `CharEncoder.encode_types` does, for float32 on the CPU, with gradients.

    It prepares the weights for products once, so it is made anew after every change of the weights.

    Args:
        encoder: encoder to run.
        library: computes convolutions and activations.
        products: computes the products of the highways and of the projection.
    """

    def __init__(self, encoder: CharEncoder, library: NativeLibrary, products: Products) -> None:
        self._encoder, self._library = encoder, library
        highways = [highway for highway in encoder.highways if isinstance(highway, Highway)]
        self._highways = [_Factor(products, [highway.transform, highway.carry]) for highway in highways]
        self._projection = None if encoder.projection is None else _Factor(products, [encoder.projection])

    def __call__(self, char_ids: Tensor) -> Tensor:
        """The vectors (N, P) of token rows (N, C), none of which is padding."""
        return self._encoder.join(char_ids, self._convolve, self._project if self._projection is not None else None)

    def _convolve(self, characters: Tensor) -> Tensor:
        parameters = [parameter for group in self._encoder.groups() for parameter in (group.weight, group.bias)]
        x: Tensor = _Convolve.apply(characters, self._library, self._encoder.activation == "relu", *parameters)
        for factor in self._highways:
            x = _HighwayGate.apply(x, factor, self._library, *factor.parameters)
        return x  # (N, F)

    def _project(self, x: Tensor) -> Tensor:
        assert self._projection is not None
        projected: Tensor = _Product.apply(x, self._projection, *self._projection.parameters)
        return projected  # (N, P)


class _Factor:
    """The matrices of affine maps of one input, side by side, prepared for products in both directions."""

    def __init__(self, products: Products, maps: Sequence[Affine]) -> None:
        self.products = products
        self.parameters = [parameter for one in maps for parameter in (one.weight, one.bias)]
        self.widths = [one.bias.numel() for one in maps]
        matrix = torch.cat([one.weight.detach() for one in maps], dim=1)  # (in, out)
        self._bias = torch.cat([one.bias.detach() for one in maps])  # (out,)
        self._matrix: Matrix = products.prepare(matrix)
        self._transposed: Matrix = products.prepare(matrix.T)
        self._shape = matrix.shape

    def multiply(self, x: Tensor) -> Tensor:
        """Rows (N, in) @ matrix + bias → (N, out)."""
        return self._matrix.multiply(x, x.new_empty(len(x), self._shape[1]), self._bias)

    def input_gradient(self, dy: Tensor) -> Tensor:
        """The gradient (N, in) of the input from that of the output (N, out)."""
        return self._transposed.multiply(dy, dy.new_empty(len(dy), self._shape[0]))

    def gradients(self, x: Tensor, dy: Tensor, wanted: Sequence[bool]) -> list[Tensor | None]:
        """The gradients of the parameters that are wanted."""
        if not any(wanted):
            return [None] * len(wanted)
        total = self.products.sum_transposed(x, dy.shape[1])
        total.add(slice(0, len(x)), dy)
        weights = total.total().split(self.widths, dim=1)  # (in, out) each
        biases = dy.sum(0).split(self.widths)  # (out,) each
        return [part for pair in zip(weights, biases, strict=True) for part in pair]


class _Product(torch.autograd.Function):
    """An affine map."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: _Factor, *parameters: Tensor) -> Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.factor = factor
        return factor.multiply(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> _Grads:
        (x,) = ctx.saved_tensors
        dy, factor = dy.contiguous(), ctx.factor
        dx = factor.input_gradient(dy) if ctx.needs_input_grad[0] else None
        return dx, None, *factor.gradients(x, dy, ctx.needs_input_grad[2:])


class _HighwayGate(torch.autograd.Function):
    """A highway: y = g·relu(transform(x)) + (1 − g)·x with g = σ(carry(x))."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: _Factor, library: NativeLibrary, *parameters: Tensor) -> Tensor:
        x = x.contiguous()
        gates = factor.multiply(x)  # (N, 2F)
        y = torch.empty_like(x)
        library.train_highway(gates, x, y)
        ctx.save_for_backward(x, gates)
        ctx.factor, ctx.library = factor, library
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> _Grads:
        x, gates = ctx.saved_tensors
        dgates, dx = torch.empty_like(gates), torch.empty_like(x)  # (N, 2F), (N, F)
        ctx.library.train_highway_back(gates, x, dy.contiguous(), dgates, dx)
        if ctx.needs_input_grad[0]:
            dx += ctx.factor.input_gradient(dgates)
        return dx, None, None, *ctx.factor.gradients(x, dgates, ctx.needs_input_grad[3:])


class _Convolve(torch.autograd.Function):
    """All groups of filters: their largest products over the characters of each token, activated."""

    @staticmethod
    def forward(ctx: Any, characters: Tensor, library: NativeLibrary, relu: bool, *parameters: Tensor) -> Tensor:
        characters = characters.contiguous()  # (N, C, D)
        weights, biases = parameters[::2], parameters[1::2]
        widths = [len(bias) for bias in biases]
        out = characters.new_empty(len(characters), sum(widths))  # (N, F)
        places = torch.empty_like(out, dtype=torch.int32)  # (N, F)
        columns = zip(weights, biases, out.split(widths, dim=1), places.split(widths, dim=1), strict=True)
        for weight, bias, part, place in columns:
            library.train_convolve(characters, weight, bias, part, place, relu=relu)
        ctx.save_for_backward(characters, out, places, *weights)
        ctx.library, ctx.relu, ctx.widths = library, relu, widths
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dout: Tensor) -> _Grads:
        characters, out, places, *weights = ctx.saved_tensors
        dcharacters, dout = torch.zeros_like(characters), dout.contiguous()
        found: list[Tensor | None] = []
        split = [tensor.split(ctx.widths, dim=1) for tensor in (out, dout, places)]
        for weight, *columns in zip(weights, *split, strict=True):
            filters = weight.flatten(0, 1).T.contiguous()  # (f, width·D)
            dfilters, dbias = torch.zeros_like(filters), filters.new_zeros(len(filters))
            ctx.library.train_convolve_back(
                characters, len(weight), filters, *columns, (dfilters, dbias, dcharacters), relu=ctx.relu
            )
            found += [dfilters.T.contiguous().view(weight.shape), dbias]
        return dcharacters, None, None, *found
