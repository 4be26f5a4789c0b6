"""How a training step computes in a given precision: which engine, which products, which instructions.

There is no silent fallback: `Arithmetic.label` describes what runs, for the log, and a precision for which the
processor has no instructions gives a warning.
"""

import warnings
from dataclasses import dataclass
from typing import Literal

import torch

from elmokit.amx import refuse_hidden_tiles, tiles_are_hidden
from elmokit.cores import describe_processor
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.model.engines import Engine
from elmokit.model.engines.native import NativeCell, find_native_cell
from elmokit.model.engines.plain import PlainEngine
from elmokit.model.engines.products import PLAIN_PRODUCTS, ROUNDED_PRODUCTS, Products
from elmokit.model.engines.train import TrainEngine

Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Arithmetic:
    """How a training step computes."""

    label: str
    """One line for the log."""
    engine: Engine
    """Runs the LSTM layers."""
    products: Products
    """Computes the products of the sampled softmax."""
    casts_encoder: bool = False
    """Whether torch chooses the precision of products in the character encoder."""
    casts_layers: bool = False
    """Whether torch chooses the precision of products in the LSTM layers."""


def choose_arithmetic(precision: Precision, device: torch.device, dtype: torch.dtype) -> Arithmetic:
    """Choose the fastest way to compute in a precision on this machine.

    `precision` is that of the products; weights and sums keep theirs.

    Raises:
        ConfigError: if the device does not support the precision, or using it would crash the process.
    """
    on_cpu = device.type == "cpu"
    native = find_native_cell() if on_cpu else None
    if precision == "float32":
        return Arithmetic(f"float32, {_cell_label(native, device)}", TrainEngine(native), PLAIN_PRODUCTS)
    if precision == "float16" and on_cpu:
        raise ConfigError("precision 'float16' needs a GPU: take bfloat16 or float32 on the CPU.")
    if not on_cpu or dtype != torch.float32:
        casts = Arithmetic(
            f"{precision} chosen by torch on {device}",
            PlainEngine(),
            PLAIN_PRODUCTS,
            casts_encoder=True,
            casts_layers=True,
        )
        if on_cpu:
            refuse_hidden_tiles("precision 'bfloat16'")
        return casts
    if native is not None and native.tiles is not None:
        label = "bfloat16 by AMX tiles, fused cell"
        return Arithmetic(label, TrainEngine(native, native.tiles), native.tiles)
    refuse_hidden_tiles("precision 'bfloat16'")
    instructions = bfloat16_instructions(with_tiles=not tiles_are_hidden())
    if not instructions:
        warnings.warn(
            "this processor has no instructions for bfloat16 (AVX512-BF16 or AMX), so that precision 'bfloat16' is "
            "computed slowly: set precision to float32 or auto, which a resumed run may do too.",
            ElmokitWarning,
            stacklevel=2,
        )
    label = f"bfloat16 by torch ({instructions or 'without instructions for it'}), {_cell_label(native, device)}"
    return Arithmetic(label, TrainEngine(native, ROUNDED_PRODUCTS), ROUNDED_PRODUCTS, casts_encoder=True)


def bfloat16_instructions(*, with_tiles: bool = True) -> str:
    """The instructions for bfloat16 that the processor announces, "" if it has none.

    Args:
        with_tiles: whether AMX counts; torch does not use it on machines that hide the size of the tiles.
    """
    flags = describe_processor().get("flags", "").split()
    names = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}
    return " and ".join(name for flag, name in names.items() if flag in flags and (with_tiles or name != "AMX"))


def _cell_label(native: NativeCell | None, device: torch.device) -> str:
    if device.type != "cpu":
        return f"torch on {device}"
    return "portable cell" if native is None else "fused cell"
