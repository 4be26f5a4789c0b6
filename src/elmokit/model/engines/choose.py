"""The one place that chooses engines: by purpose, device, data type and precision.

- Embedding and scoring: `inference_engine` and `word_encoder`.
- Pretraining: `choose_arithmetic`. There is no silent fallback: `Arithmetic.label` describes what runs, for the log,
  and a precision for which the processor has no instructions gives a warning.
- Task networks: `training_engine` for a biLM that is tuned, `training_cell` for LSTMs of their own.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from elmokit.amx import refuse_hidden_tiles, tiles_are_hidden
from elmokit.arguments import shown
from elmokit.cores import describe_processor
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.model.char_encoder import CharEncoder, TypeEncoder
from elmokit.model.engines import Engine
from elmokit.model.engines.infer import NativeEngine, PortableEngine
from elmokit.model.engines.native_encoder import NativeEncoder
from elmokit.model.engines.native_products import NativeProducts
from elmokit.model.engines.plain import PlainEngine
from elmokit.model.engines.products import PLAIN_PRODUCTS, ROUNDED_PRODUCTS, Products
from elmokit.model.engines.tiles import TileProducts
from elmokit.model.engines.train import PORTABLE_CELL, PortableCell, TrainEngine
from elmokit.model.engines.train_encoder import TrainEncoder
from elmokit.native import library as native
from elmokit.native.library import NativeLibrary, find_library, require_library

Precision = Literal["float32", "bfloat16", "float16"]
"""Precision of products in training."""
InferencePrecision = native.Precision
"""Precision of products in embedding and scoring."""


def resolve_precision(precision: str, like: Tensor) -> InferencePrecision:
    """The precision to embed in: "auto" is the fastest that this machine and weights like these allow.

    Raises:
        ConfigError: if the precision is unknown, or not available for these weights on this machine.
    """
    if precision == "auto":
        try:
            return resolve_precision("bfloat16", like)
        except ConfigError:
            return "float32"
    if precision == "float32":
        return "float32"
    if precision not in ("bfloat16", "int8"):
        raise ConfigError(f"precision {shown(precision)} is unknown: choose float32, bfloat16, int8 or auto.")
    if not _is_fast(like):
        raise ConfigError(f"{precision} runs float32 models on a CPU, but this one is {like.dtype} on {like.device}.")
    chosen: InferencePrecision = "int8" if precision == "int8" else "bfloat16"
    require_library(chosen)
    return chosen


def inference_engine(like: Tensor, precision: InferencePrecision = "float32") -> Engine:
    """The fastest engine that computes no gradients, for weights like these."""
    if not _is_fast(like):
        return PlainEngine()
    library = require_library("int8") if precision == "int8" else _library_for(like, precision)
    return PortableEngine() if library is None else NativeEngine(library)


def word_encoder(encoder: TypeEncoder, precision: InferencePrecision = "float32") -> Callable[[Tensor], Tensor]:
    """The fastest way to compute the vectors (N, P) of token rows (N, C) without gradients.

    With int8, they are computed in float32.
    """
    library = _library_for(next(encoder.parameters()), precision)
    if library is None or not isinstance(encoder, CharEncoder):
        return encoder.encode_types
    return NativeEncoder(encoder, library)


def training_engine(like: Tensor) -> TrainEngine:
    """The engine for tuning a biLM inside a task, in the precision of its weights."""
    return TrainEngine(_library_for(like))


def training_cell(like: Tensor) -> NativeLibrary | PortableCell:
    """The elementwise half of an LSTM step, forward and back, for tensors like this one."""
    return _library_for(like) or PORTABLE_CELL


def _is_fast(like: Tensor) -> bool:
    """Whether the engines for the CPU run weights like these."""
    return like.device.type == "cpu" and like.dtype == torch.float32


def _library_for(like: Tensor, precision: InferencePrecision = "float32") -> NativeLibrary | None:
    if precision == "bfloat16":
        return require_library("bfloat16")
    return find_library() if _is_fast(like) else None


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
    library: NativeLibrary | None = None
    """Computes convolutions and activations of the character encoder; None leaves them to torch."""

    def type_encoder(self, encoder: TypeEncoder) -> Callable[[Tensor], Tensor] | None:
        """Computes the vectors of distinct tokens; None if nothing is faster than the encoder itself."""
        if self.library is None or not isinstance(encoder, CharEncoder):
            return None
        return TrainEncoder(encoder, self.library, self.products)


def choose_arithmetic(precision: Precision, device: torch.device, dtype: torch.dtype) -> Arithmetic:
    """Choose the fastest way to compute in a precision on this machine.

    Args:
        precision: precision of the products; weights and sums keep theirs.
        device: device of the weights.
        dtype: data type of the weights.

    Raises:
        ConfigError: if the device does not support the precision, or using it would crash the process.
    """
    on_cpu = device.type == "cpu"
    library = find_library() if on_cpu else None
    if precision == "float32":
        return _exact_arithmetic(library, device, dtype)
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
    if library is not None and library.tile_functions is not None:
        tiles = TileProducts(library.tile_functions)
        return Arithmetic("bfloat16 by AMX tiles, native cell", TrainEngine(library, tiles), tiles, library=library)
    if (rounding := find_library("bfloat16")) is not None:
        products = NativeProducts(rounding)
        return Arithmetic("bfloat16 by AVX512-BF16, native", TrainEngine(library, products), products, library=library)
    refuse_hidden_tiles("precision 'bfloat16'")
    instructions = bfloat16_instructions(with_tiles=not tiles_are_hidden())
    if not instructions:
        warnings.warn(
            "this processor has no instructions for bfloat16 (AVX512-BF16 or AMX), so that precision 'bfloat16' is "
            "computed slowly: set precision to float32 or auto, which a resumed run may do too.",
            ElmokitWarning,
            stacklevel=2,
        )
    label = f"bfloat16 by torch ({instructions or 'without instructions for it'}), {_cell_label(library, device)}"
    return Arithmetic(label, TrainEngine(library, ROUNDED_PRODUCTS), ROUNDED_PRODUCTS, casts_encoder=True)


def _exact_arithmetic(library: NativeLibrary | None, device: torch.device, dtype: torch.dtype) -> Arithmetic:
    """Training in the precision of the weights."""
    if library is None or not library.same_bits or dtype != torch.float32:
        return Arithmetic(f"float32, {_cell_label(library, device)}", TrainEngine(library), PLAIN_PRODUCTS)
    products = NativeProducts(library)
    return Arithmetic("float32, native", TrainEngine(library, products), products, library=library)


def bfloat16_instructions(*, with_tiles: bool = True) -> str:
    """The instructions for bfloat16 that the processor announces, "" if it has none.

    Args:
        with_tiles: whether AMX counts; torch does not use it on machines that hide the size of the tiles.
    """
    flags = describe_processor().get("flags", "").split()
    names = {"amx_bf16": "AMX", "avx512_bf16": "AVX512-BF16"}
    return " and ".join(name for flag, name in names.items() if flag in flags and (with_tiles or name != "AMX"))


def _cell_label(library: NativeLibrary | None, device: torch.device) -> str:
    if device.type != "cpu":
        return f"torch on {device}"
    return "portable cell" if library is None else "native cell"
