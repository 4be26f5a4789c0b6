"""AllenNLP's names for the tensors of a biLM, which ELMoForManyLangs also uses.

Matrices and kernels have their axes in reverse order, gates are packed i, f, j, o with the forget bias included, and a
highway is one matrix [transform; −carry].
"""

from collections.abc import Mapping
from typing import NoReturn

import torch
from torch import Tensor

from elmokit.errors import WeightsError

_CELL = (
    ("input_linearity.weight", "input_weight"),
    ("state_linearity.weight", "recurrent_weight"),
    ("state_linearity.bias", "bias"),
)
_DIRECTIONS = ("forward", "backward")


def read_lstms(tensors: Mapping[str, Tensor], *, forget_bias: float) -> dict[str, Tensor]:
    """Convert `{forward,backward}_layer_{l}.…` to our names and gate order; our cell will add `forget_bias`."""
    depths = range(len(numbered(tensors, "forward_layer_{}.state_projection.weight")))
    if not depths:
        _missing("forward_layer_0.state_projection.weight")
    ours: dict[str, Tensor] = {}
    for direction in _DIRECTIONS:
        for depth in depths:
            theirs, name = f"{direction}_layer_{depth}", f"{direction}_lstm.layers.{depth}"
            for source, target in _CELL:
                i, f, j, o = take(tensors, f"{theirs}.{source}").chunk(4)
                f = f - forget_bias if target == "bias" and forget_bias else f
                ours[f"{name}.{target}"] = _reversed_axes(torch.cat([i, f, o, j]))
            ours[f"{name}.projection_weight"] = _reversed_axes(take(tensors, f"{theirs}.state_projection.weight"))
    return ours


def write_lstms(ours: Mapping[str, Tensor], *, num_layers: int, forget_bias: float) -> dict[str, Tensor]:
    """The reverse of `read_lstms`."""
    tensors: dict[str, Tensor] = {}
    for direction in _DIRECTIONS:
        for depth in range(num_layers):
            theirs, name = f"{direction}_layer_{depth}", f"{direction}_lstm.layers.{depth}"
            for target, source in _CELL:
                i, f, o, j = _reversed_axes(ours[f"{name}.{source}"]).chunk(4)
                f = f + forget_bias if source == "bias" else f
                tensors[f"{theirs}.{target}"] = torch.cat([i, f, j, o])
            if f"{name}.projection_weight" in ours:
                tensors[f"{theirs}.state_projection.weight"] = _reversed_axes(ours[f"{name}.projection_weight"])
    return tensors


def read_characters(
    tensors: Mapping[str, Tensor], *, convolution: str, highway: str, projection: str
) -> dict[str, Tensor]:
    """Convert convolutions, highways and projection to our names, given the patterns of their names."""
    ours: dict[str, Tensor] = {}
    for part in ("weight", "bias"):
        for index, _ in enumerate(numbered(tensors, f"{convolution}.weight")):
            ours[f"encoder.convolutions.{index}.{part}"] = _reversed_axes(
                take(tensors, f"{convolution.format(index)}.{part}")
            )
        for depth, _ in enumerate(numbered(tensors, f"{highway}.weight")):
            transform, carry = take(tensors, f"{highway.format(depth)}.{part}").chunk(2)
            ours[f"encoder.highways.{depth}.transform.{part}"] = _reversed_axes(transform)
            ours[f"encoder.highways.{depth}.carry.{part}"] = -_reversed_axes(carry)
        if f"{projection}.{part}" in tensors:
            ours[f"encoder.projection.{part}"] = _reversed_axes(tensors[f"{projection}.{part}"])
    return ours


def write_characters(
    ours: Mapping[str, Tensor], *, convolution: str, highway: str, projection: str
) -> dict[str, Tensor]:
    """The reverse of `read_characters`."""
    tensors: dict[str, Tensor] = {}
    for part in ("weight", "bias"):
        for index, tensor in enumerate(numbered(ours, f"encoder.convolutions.{{}}.{part}")):
            tensors[f"{convolution.format(index)}.{part}"] = _reversed_axes(tensor)
        for depth, transform in enumerate(numbered(ours, f"encoder.highways.{{}}.transform.{part}")):
            carry = ours[f"encoder.highways.{depth}.carry.{part}"]
            tensors[f"{highway.format(depth)}.{part}"] = torch.cat([_reversed_axes(transform), -_reversed_axes(carry)])
        if f"encoder.projection.{part}" in ours:
            tensors[f"{projection}.{part}"] = _reversed_axes(ours[f"encoder.projection.{part}"])
    return tensors


def _reversed_axes(tensor: Tensor) -> Tensor:
    """The axes in reverse order: they multiply matrix by column, we multiply row by matrix."""
    return tensor.permute(*range(tensor.dim() - 1, -1, -1)).contiguous()


def numbered(tensors: Mapping[str, Tensor], pattern: str) -> list[Tensor]:
    """The tensors named `pattern` with 0, 1, 2 … inserted, up to the first that is missing."""
    found: list[Tensor] = []
    while pattern.format(len(found)) in tensors:
        found.append(tensors[pattern.format(len(found))])
    return found


def take(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    """The tensor with that name; raises an error that names it if it is missing."""
    return tensors[name] if name in tensors else _missing(name)


def _missing(name: str) -> NoReturn:
    raise WeightsError(f"the model lacks the tensor {name}: its files are incomplete; fetch them again.")
