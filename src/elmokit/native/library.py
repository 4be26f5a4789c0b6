"""Load the native library, and select the kind of processor to run.

It is called through ctypes, which lets other threads run meanwhile, and is independent of Python and torch: functions
take sizes and addresses, allocate nothing, and keep nothing. A library that is missing, damaged or of another version
is ignored.

`ELMOKIT_NATIVE=0` switches it off. `ELMOKIT_CPU` names the best kind that it may use, for tests and comparisons.
"""

import ctypes
import os
import struct
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmokit.errors import ConfigError
from elmokit.native.build import LIBRARY, source_hash

Precision = Literal["float32", "bfloat16", "int8"]
"""Precision of products in inference; sums are float32, or exact (int8)."""
FEATURES = {
    1: "AVX2",
    64: "AVX-VNNI",
    2: "AVX-512",
    4: "AVX512-VNNI",
    8: "AVX512-BF16",
    16: "AMX-BF16",
    32: "AMX-INT8",
}
"""What `elmokit_features` reports, by bit."""
LIMITS = {
    "baseline": 0,
    "avx2": 1,
    "avxvnni": 1 | 64,
    "avx512": 1 | 2,
    "vnni": 1 | 2 | 4 | 64,
    "avx512bf16": 1 | 2 | 4 | 8 | 64,
    "amx": 127,
}
"""The features that each value of `ELMOKIT_CPU` allows."""
KINDS: dict[Precision, tuple[tuple[str, int], ...]] = {
    "float32": (("avx512", 2), ("avx2", 1), ("neon", 0), ("baseline", 0)),
    "bfloat16": (("amxbf16", 16 | 8), ("avx512bf16", 8)),
    "int8": (
        ("int8amx", 32),
        ("int8vnni", 4),
        ("int8avx512", 2),
        ("int8avxvnni", 64),
        ("int8avx2", 1),
        ("int8baseline", 0),
    ),
}
"""The kinds of each precision and the features that they need, best first."""
_BLOCK_GATES, _BLOCK_MEMORY = 512, 128
"""Inputs that share a scale in int8; see factors.h."""
_UNLIMITED = float("inf")


class UnusableLibraryError(Exception):
    """The library cannot be used; the message is the reason."""


class NativeLibrary:
    """The loaded library, for one kind of processor.

    Args:
        path: the library's file.
        limit: the best kind that it may use, a key of `LIMITS`.
        precision: precision of products; sums are float32.

    Raises:
        UnusableLibraryError: if the file is missing, damaged or of another version, or lacks the precision.
    """

    def __init__(self, path: Path = LIBRARY, limit: str | None = None, precision: Precision = "float32") -> None:
        self.precision = precision
        if not path.exists():
            raise UnusableLibraryError("it was not built when elmokit was installed (needs a C compiler)")
        try:
            if not _is_complete(path):
                raise UnusableLibraryError("it is damaged (its end is missing)")
            library = ctypes.CDLL(str(path))
            library.elmokit_source.restype = ctypes.c_char_p
            library.elmokit_features.restype = ctypes.c_int64
            version = library.elmokit_source().decode("ascii", "replace")
            if version != source_hash():
                raise UnusableLibraryError("it was built from other sources; install elmokit again")
            self.features: int = library.elmokit_features() & LIMITS[limit or "amx"]
            self.kind = self._best_kind(library)
            self._functions = self._declare(library)
        except (OSError, AttributeError) as error:
            raise UnusableLibraryError(f"it is damaged ({error})") from error
        self._library = library
        has_tiles = self.features & 16 and _tiles_ready(library)
        self.tile_functions = library if has_tiles else None
        """The library, where products by AMX tiles can be used."""

    def _best_kind(self, library: ctypes.CDLL) -> str:
        kinds = [kind for kind, needed in KINDS[self.precision] if self.features & needed == needed]
        if not kinds:
            raise UnusableLibraryError("this processor has no instructions for bfloat16 (AVX512-BF16)")
        for kind in kinds:
            uses_tiles = "amx" in kind
            if hasattr(library, f"elmokit_product_{kind}") and not (uses_tiles and not _tiles_ready(library)):
                return kind
        if self.precision == "bfloat16":
            raise UnusableLibraryError("the compiler that built the library does not know AVX512-BF16")
        raise UnusableLibraryError(f"it has no {self.precision} products for this kind of processor")

    def _declare(self, library: ctypes.CDLL) -> dict[str, Any]:
        """The functions of the selected kind, by name."""
        size, pointer, number = ctypes.c_int64, ctypes.c_void_p, ctypes.c_float
        arguments = {
            "product": [size] * 3 + [pointer] * 2 + [size] + [pointer] * 3 + [size, number, pointer],
            "steps": [size, pointer, size, size] + [pointer] * 12 + [number] * 2,
            "convolve": [size] * 5 + [pointer] * 4 + [size, ctypes.c_int, pointer],
            "highway": [size] + [pointer] * 3,
            "pack": [size] * 2 + [pointer] + [size] * 4 + [pointer],
            "transpose": [size] * 2 + [pointer, size, pointer],
            "train_convolve": [size] * 5 + [pointer] * 5 + [size, ctypes.c_int],
            "train_convolve_back": [size] * 5 + [pointer] * 5 + [size] + [pointer] * 3 + [ctypes.c_int],
            "train_highway": [size] * 2 + [pointer] * 3,
            "train_highway_back": [size] * 2 + [pointer] * 5,
            "train_cell": [size] * 2 + [pointer] * 4 + [number],
            "train_back": [size] * 2 + [pointer] * 6 + [number],
        }
        functions = {}
        for name, types in arguments.items():
            if self.precision == "int8" and name not in ("product", "steps"):
                continue  # words are computed in float32
            kind = "avx512bf16" if self.kind == "amxbf16" and name not in ("product", "steps") else self.kind
            function = getattr(library, f"elmokit_{name}_{kind}")
            function.argtypes, function.restype = types, None
            functions[name] = function
        return functions

    @property
    def same_bits(self) -> bool:
        """Whether float32 and int8 vectors have the promised bits: the baseline has no fused multiply-add."""
        return self.kind not in ("baseline", "int8baseline")

    def product(
        self,
        rows: Tensor,
        panels: Tensor,
        out: Tensor,
        *,
        start: Tensor | None = None,
        index: Tensor | None = None,
        limit: float | None = None,
    ) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M), each sum begun at `start`.

        Args:
            rows: rows to multiply.
            panels: the packed matrix.
            out: receives the result; its rows may be part of a wider matrix.
            start: one number for each column of the panels; None begins at zero.
            index: which rows (n,) to use; None uses all in order.
            limit: clamp the result to ± this.
        """
        number = len(rows) if index is None else len(index)
        room = self._room(number, rows.shape[1])
        self._functions["product"](
            number,
            rows.shape[1],
            out.shape[1],
            rows.data_ptr(),
            _address(index),
            rows.stride(0),
            panels.data_ptr(),
            _address(start),
            out.data_ptr(),
            out.stride(0),
            _UNLIMITED if limit is None else limit,
            _address(room),
        )
        return out

    def steps(
        self,
        panels: tuple[Tensor, Tensor | None],
        clips: tuple[float | None, float | None],
        inputs: Tensor,
        places: Tensor | None,
        sizes: Tensor,
        starts: Tensor | None,
        first: tuple[Tensor, Tensor],
        state: tuple[Tensor, Tensor],
        y: Tensor,
    ) -> None:
        """Run steps of a layer: `state` (B, P), (B, H) is updated, `y` (N, P) receives the outputs.

        Args:
            panels: the layer's recurrent matrix and its projection, packed.
            clips: limits of the memory and of the projected output.
            inputs: the gates after bias and input, in the order of the panels.
            places: the row of `inputs` for each token (N,); None uses them in order.
            sizes: number of active rows at each step.
            starts: which tokens (N,) return their row to `first`.
            first: state at the start of a sentence.
            state: state of each row.
            y: receives the outputs.
        """
        h, c = state
        memory = self._room(len(c), c.shape[1], planes=2)
        pointers = (inputs, places, starts, *panels, *first, h, c, y, memory, self._room(len(h), h.shape[1]))
        self._functions["steps"](
            len(sizes),
            sizes.data_ptr(),
            c.shape[1],
            h.shape[1],
            *map(_address, pointers),
            *(_UNLIMITED if clip is None else clip for clip in clips),
        )

    def convolve(self, words: Tensor, width: int, panels: Tensor, bias: Tensor, out: Tensor, *, relu: bool) -> None:
        """One group of filters over the characters of words (n, C, D) → out (n, M), activated."""
        pointers = (words.data_ptr(), panels.data_ptr(), bias.data_ptr(), out.data_ptr())
        room = self._room(words.shape[0] * words.shape[1], words.shape[2])
        self._functions["convolve"](*words.shape, width, out.shape[1], *pointers, out.stride(0), relu, _address(room))

    def pack(self, matrix: Tensor) -> Tensor:
        """A matrix (K, M) in panels of 64 columns; see pack.c. In int8, one for the outputs of cells."""
        if self.precision == "int8":
            return _pack_bytes(matrix, _BLOCK_MEMORY, self._per_factor)
        panels = self.new_panels(*matrix.shape)
        self.pack_rows(matrix, panels)
        return panels

    def new_panels(self, depth: int, width: int) -> Tensor:
        """Memory for a packed matrix (depth, width), in bfloat16 with whole pairs, and whole tiles if there are any."""
        if self.precision == "float32":
            return torch.empty(-(-width // 64), depth, 64)
        pairs = -(-depth // 32) * 16 if self.kind == "amxbf16" else -(-depth // 2)
        panels = torch.empty(-(-width // 64), pairs, 64, dtype=torch.int32)
        panels[:, depth // 2 :] = 0  # what fills up the last pair or tile
        return panels

    def pack_rows(self, matrix: Tensor, panels: Tensor, first: int = 0) -> None:
        """Pack a matrix (K, M), of any strides, as the rows from `first` of the panels."""
        self._functions["pack"](
            *matrix.shape, matrix.data_ptr(), *matrix.stride(), panels.shape[1], first, panels.data_ptr()
        )

    def transpose(self, matrix: Tensor) -> Tensor:
        """The transpose (M, K) of a matrix (K, M) whose rows may be apart, as rows in memory."""
        turned = matrix.new_empty(matrix.shape[1], matrix.shape[0])
        self._functions["transpose"](*matrix.shape, matrix.data_ptr(), matrix.stride(0), turned.data_ptr())
        return turned

    def pack_gates(self, matrix: Tensor) -> Tensor:
        """A layer's matrix (P, 4H) in panels, each with the four gates of 16 cells."""
        if self.precision == "int8":
            return _pack_bytes(order_gates(matrix), _BLOCK_GATES, self._per_factor)
        return self.pack(order_gates(matrix))

    def pack_filters(self, weight: Tensor) -> Tensor:
        """The filters (width, D, F) of the character CNN in panels."""
        if self.precision == "float32":
            return self.pack(weight.flatten(0, 1))
        filters = pad(weight, (0, 0, 0, weight.shape[1] % 2)).flatten(0, 1)  # (width · D, F)
        panels = torch.empty(-(-filters.shape[1] // 64), len(filters) // 2, 64, dtype=torch.int32)  # no tiles
        self.pack_rows(filters, panels)
        return panels

    @property
    def _per_factor(self) -> int:
        """Numbers of a row that an int8 kind multiplies at once."""
        return 4 if self.kind in ("int8amx", "int8vnni", "int8avxvnni") else 2

    def _room(self, rows: int, width: int, planes: int = 1) -> Tensor | None:
        """Memory for rows of factors: those that the library rounds, or the outputs of cells (`planes` = 2)."""
        if self.precision == "float32":
            return torch.empty(rows, width, dtype=torch.float32) if planes == 2 else None
        if self.precision == "bfloat16":
            return torch.empty(_round_up(rows, 16), _round_up(width, 32) // 2, dtype=torch.int32)
        size = _round_up(rows * planes, 16) * (_round_up(width, 64) // self._per_factor)
        return torch.empty(size + rows, dtype=torch.int32)  # a scale for each row

    def highway(self, transform: Tensor, carry: Tensor, x: Tensor) -> None:
        """Update x (n, F) from the two products (n, F) of a highway."""
        self._functions["highway"](x.numel(), transform.data_ptr(), carry.data_ptr(), x.data_ptr())

    def train_convolve(
        self, words: Tensor, weight: Tensor, bias: Tensor, out: Tensor, places: Tensor, *, relu: bool
    ) -> None:
        """Filters (width, D, f) over words (n, C, D): `out` (n, f) is activated; `places` (n, f) has the maxima.

        `out` and `places` may be the same columns of wider matrices.
        """
        panels = self.pack(weight.flatten(0, 1))  # a name keeps it alive during the call
        pointers = map(_address, (words, panels, bias, out, places))
        self._functions["train_convolve"](*words.shape, len(weight), len(bias), *pointers, out.stride(0), relu)

    def train_convolve_back(
        self,
        words: Tensor,
        width: int,
        filters: Tensor,
        out: Tensor,
        dout: Tensor,
        places: Tensor,
        gradients: tuple[Tensor, Tensor, Tensor],
        *,
        relu: bool,
    ) -> None:
        """Add the gradients of filters (f, K), biases (f,) and words (n, C, D), from that of `out` (n, f)."""
        pointers = map(_address, (words, filters, out, dout, places))
        self._functions["train_convolve_back"](
            *words.shape, width, len(filters), *pointers, out.stride(0), *map(_address, gradients), relu
        )

    def train_highway(self, gates: Tensor, x: Tensor, y: Tensor) -> None:
        """Write the output y (n, F) of a highway, from x and both products (n, 2F), which become activations."""
        self._functions["train_highway"](*x.shape, *map(_address, (gates, x, y)))

    def train_highway_back(self, gates: Tensor, x: Tensor, dy: Tensor, dgates: Tensor, dx: Tensor) -> None:
        """The gradients of the products (n, 2F), and the direct part of that of x (n, F)."""
        self._functions["train_highway_back"](*x.shape, *map(_address, (gates, x, dy, dgates, dx)))

    def activate(self, gates: Tensor, c: Tensor, tanh_c: Tensor, out: Tensor, clip: float | None) -> None:
        """A step in training: gates (n, 4H) become activations, c (n, H) the new memory; writes the rest."""
        pointers = map(_address, (gates, c, tanh_c, out))
        self._functions["train_cell"](*c.shape, *pointers, _UNLIMITED if clip is None else clip)

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
        pointers = map(_address, (gates, before_c, tanh_c, dout, dc, dgates))
        self._functions["train_back"](*dc.shape, *pointers, _UNLIMITED if clip is None else clip)


def _is_complete(path: Path) -> bool:
    """Whether an ELF file is as long as its header says; to load a shorter one would end the process."""
    with path.open("rb") as file:
        header = file.read(64)
        size = file.seek(0, os.SEEK_END)
    if len(header) < 64 or header[:4] != b"\x7fELF":
        return False
    (offset,), (each, number) = struct.unpack_from("<Q", header, 0x28), struct.unpack_from("<HH", header, 0x3A)
    return bool(offset + each * number <= size)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _tiles_ready(library: ctypes.CDLL) -> bool:
    """Whether the library has tiles and the operating system lets this process use them."""
    return hasattr(library, "elmokit_tiles_ready") and bool(library.elmokit_tiles_ready())


def _round_up(size: int, to: int) -> int:
    return -(-size // to) * to


@cache
def _load(precision: Precision = "float32") -> tuple[NativeLibrary | None, str]:
    if os.environ.get("ELMOKIT_NATIVE") == "0":
        return None, "switched off (ELMOKIT_NATIVE=0)"
    limit = os.environ.get("ELMOKIT_CPU") or None
    if limit is not None and limit not in LIMITS:
        raise ConfigError(f"ELMOKIT_CPU is {limit!r}: choose {', '.join(LIMITS)}, or leave it out.")
    try:
        library = NativeLibrary(limit=limit, precision=precision)
    except UnusableLibraryError as error:
        return None, str(error)
    if library.kind == "neon":
        return library, "neon, which every AArch64 processor has"
    names = ", ".join(name for bit, name in FEATURES.items() if library.features & bit) or "nothing beyond x86-64"
    return library, f"{library.kind}; the processor has {names}" + (f" (ELMOKIT_CPU={limit})" if limit else "")


def find_library(precision: Precision = "float32") -> NativeLibrary | None:
    """The native library for a precision, or None where it cannot be used."""
    return _load(precision)[0]


def require_library(precision: Precision) -> NativeLibrary:
    """The native library for a precision that only it computes.

    Raises:
        ConfigError: if it cannot be used here.
    """
    library, reason = _load(precision)
    if library is None:
        raise ConfigError(f"precision {precision!r} is not available: {reason}; choose float32 or auto.")
    return library


def describe_library() -> str:
    """What is active, or why the library is not, in one line."""
    library, reason = _load()
    return f"native library: {reason}" if library else f"portable path: the native library is not used, {reason}"


def forget_library() -> None:
    """Look for the library again at the next call; for tests that change the environment."""
    _load.cache_clear()


def order_gates(gates: Tensor) -> Tensor:
    """Columns (…, 4H) in the order of the panels: the four gates of 16 cells, then those of the next."""
    parts = gates.unflatten(-1, (4, -1))  # (…, 4, H)
    cells: Tensor = pad(parts, (0, -parts.shape[-1] % 16)).unflatten(-1, (-1, 16))  # (…, 4, panels, 16)
    return cells.transpose(-3, -2).flatten(-3).contiguous()  # (…, panels · 64)


def _pack_bytes(matrix: Tensor, block: int, per_factor: int) -> Tensor:
    """A matrix (K, M) as bytes in panels, as factors.h describes; each column has a scale per block of inputs."""
    padded = pad(matrix, (0, -matrix.shape[1] % 64, 0, -len(matrix) % 64))
    panels = padded.unflatten(1, (-1, 64)).transpose(0, 1)  # (panels, K, 64)
    parts = []
    for part in panels.split(block, dim=1):
        largest = part.abs().amax(1)  # (panels, 64)
        scales = torch.where(largest < torch.inf, largest / 127, torch.nan)
        steps = torch.where(scales > 0, scales, 1)[:, None]
        rounded = (part / steps).round().nan_to_num_(0, 0, 0).to(torch.int8)  # (panels, block, 64)
        offset = 128 if per_factor == 4 else 0
        corrections = rounded.sum(1, dtype=torch.int32) * -offset  # (panels, 64)
        factors = rounded.unflatten(1, (-1, per_factor)).transpose(2, 3).contiguous()  # (panels, …, 64, per_factor)
        parts += [corrections.view(torch.int8), scales.view(torch.int8), factors.flatten(1)]
    return torch.cat(parts, dim=1)
