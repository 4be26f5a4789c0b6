"""The fused cell and tiles in C: built on request by the machine's compiler, used if available, never required.

The library is in the cache folder under a name that depends on its source, the compiler's flags and the CPU, so a new
elmokit or another machine never uses a stale one. It is called through ctypes, which lets other threads run meanwhile,
and is independent of Python and torch.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from elmokit.cache import cache_directory
from elmokit.cores import describe_processor
from elmokit.errors import ConfigError, ElmokitError
from elmokit.model.cell import LayerWeights
from elmokit.model.engines.tiles import TileProducts

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("cell.c", "tiles.c"))
_FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC")


class NativeCell:
    """The loaded library."""

    def __init__(self, path: Path) -> None:
        self.path = path
        library = ctypes.CDLL(str(path))
        self._cell, self._steps = library.elmokit_cell, library.elmokit_steps
        self._cell.argtypes = [ctypes.c_int64] * 4 + [ctypes.c_void_p] * 6 + [ctypes.c_float]
        pointers = [ctypes.c_void_p] * 12
        self._steps.argtypes = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *pointers]
        self._steps.argtypes += [ctypes.c_float, ctypes.c_float]
        self._train, self._back = library.elmokit_train_cell, library.elmokit_train_back
        self._train.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 4 + [ctypes.c_float]
        self._back.argtypes = [ctypes.c_int64] * 2 + [ctypes.c_void_p] * 6 + [ctypes.c_float]
        self._cell.restype = self._steps.restype = self._train.restype = self._back.restype = None
        self.tiles = TileProducts(library) if library.elmokit_tiles_ready() else None
        """Products in bfloat16, on processors that have AMX."""

    def __call__(
        self,
        gates: Tensor,
        inputs: Tensor,
        rows: Tensor | None,
        bias: Tensor,
        c: Tensor,
        out: Tensor,
        clip: float | None,
        offset: int = 0,
    ) -> None:
        """Complete a step: `c` (n, H) and `out` (n, H) from the recurrent part (n, 4H) and rows of inputs (…, 4H).

        With fewer gates, (n, 4w), only the cells from `offset` to `offset` + w are computed. All tensors are contiguous
        float32 on the CPU, `rows` (n,) is int64; `c` is updated, `out` is overwritten.
        """
        self._cell(
            len(c),
            gates.shape[1] // 4,
            c.shape[1],
            offset,
            gates.data_ptr(),
            inputs.data_ptr(),
            None if rows is None else rows.data_ptr(),
            bias.data_ptr(),
            c.data_ptr(),
            out.data_ptr(),
            clip or 0.0,
        )

    def run_steps(
        self,
        weights: LayerWeights,
        inputs: Tensor,
        sizes: Tensor,
        starts: Tensor | None,
        first: tuple[Tensor, Tensor],
        state: tuple[Tensor, Tensor],
        y: Tensor,
    ) -> None:
        """Run whole steps of a layer for a few rows: `state` is updated, `y` (N, P) receives the outputs.

        `inputs` (N, 4H) is the input's part of the gates without bias, `sizes` the number of active rows at each step.
        """
        cell_dim = state[1].shape[1]
        scratch = torch.empty(5 * cell_dim, dtype=torch.float32)
        pointers = (
            *(inputs, starts, weights.bias, weights.recurrent_weight, weights.projection_weight),
            *(*first, *state, y, scratch, scratch[4 * cell_dim :]),
        )
        self._steps(
            len(sizes),
            sizes.data_ptr(),
            cell_dim,
            y.shape[1],
            *(None if tensor is None else tensor.data_ptr() for tensor in pointers),
            weights.cell_clip or 0.0,
            weights.projection_clip or 0.0,
        )

    def activate(self, gates: Tensor, c: Tensor, tanh_c: Tensor, out: Tensor, clip: float | None) -> None:
        """A step in training: gates (n, 4H) become activations, c (n, H) the new memory; writes the rest."""
        pointers = (tensor.data_ptr() for tensor in (gates, c, tanh_c, out))
        self._train(len(c), c.shape[1], *pointers, clip or 0.0)

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
        """The backward pass of a step: dc (n, H) changes from after to before the step; writes dgates (n, 4H)."""
        pointers = (tensor.data_ptr() for tensor in (gates, before_c, tanh_c, dout, dc, dgates))
        self._back(len(dc), dc.shape[1], *pointers, clip or 0.0)


def library_path() -> Path:
    """The path of the library for this version and this machine, whether built or not."""
    key = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES))
    key.update(" ".join((*_FLAGS, platform.machine(), _cpu_features())).encode())
    return cache_directory() / "engine" / f"cell-{key.hexdigest()[:16]}.so"


def _cpu_features() -> str:
    entries = describe_processor()
    return entries.get("flags") or entries.get("Features") or platform.processor()


@cache
def find_native_cell() -> NativeCell | None:
    """The fused cell, if it has been built for this machine and is not disabled (`ELMOKIT_NATIVE=0`)."""
    path = library_path()
    if os.environ.get("ELMOKIT_NATIVE") == "0" or not path.exists():
        return None
    try:
        return NativeCell(path)
    except (OSError, AttributeError):
        return None


def build_native_cell() -> Path:
    """Compile the fused cell into the cache folder."""
    found = (shutil.which(name) for name in (os.environ.get("CC", "cc"), "gcc", "clang"))
    compiler = next((path for path in found if path), None)
    if compiler is None:
        raise ConfigError("no C compiler was found ($CC, cc, gcc, clang): install one, or do without the fused cell.")
    path = library_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        command = [compiler, *_FLAGS, *map(str, _SOURCES), "-o", str(temporary)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
            raise ElmokitError(f"{compiler} could not build the fused cell ({reason}): elmokit also works without it.")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    find_native_cell.cache_clear()
    return path
