"""The NEON kernels on an emulated AArch64 processor: the same bits as those of the AVX2 kernels.

Calls of the library are recorded on this machine, limited to AVX2, with the memory that they read and write. A program
for AArch64 (replay.c) repeats them with a library that was compiled for AArch64. Both must leave the same bits.
"""

import ctypes
import platform
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from elmokit.embedding.verify import verify_bits
from elmokit.native import build
from elmokit.native.library import NativeLibrary, UnusableLibraryError, find_library

pytestmark = [pytest.mark.extended, pytest.mark.engine]

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
INTEGER, FLOAT = -1, -2
SIZES = (1, 2, 3, 5, 16, 17, 33, 64, 67)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library for AArch64 and the program that replays calls."""
    for program, package in ((COMPILER, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user")):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (Debian: {package})")
    folder = tmp_path_factory.mktemp("aarch64")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform, "machine", lambda: "aarch64")
        patch.setenv("CC", COMPILER)
        assert build.build_library(folder / "libelmokit.so") == ["neon"]
    source = Path(__file__).with_name("replay.c")
    subprocess.run([COMPILER, "-O1", "-Wall", "-Werror", source, "-o", folder / "replay", "-ldl"], check=True)
    return folder


class Recorder:
    """Records calls of a library, and the memory that they read and write."""

    def __init__(self, library: NativeLibrary, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[bytes] = []
        self.names: list[str] = []
        self.after: list[list[bytes]] = []
        self._storages: dict[int, torch.UntypedStorage] = {}
        own = Tensor.data_ptr

        def data_ptr(tensor: Tensor) -> int:
            storage = tensor.untyped_storage()
            self._storages[storage.data_ptr()] = storage
            return own(tensor)

        patch.setattr(Tensor, "data_ptr", data_ptr)
        recording = {name: partial(self._call, name, function) for name, function in library._functions.items()}
        patch.setattr(library, "_functions", recording)

    def _call(self, name: str, function: Any, *arguments: Any) -> None:
        addresses = [value for kind, value in zip(function.argtypes, arguments, strict=True) if kind is ctypes.c_void_p]
        storages = [item for item in self._storages.items() if any(_is_in(value, *item) for value in addresses)]
        coded = [self._code(kind, value, storages) for kind, value in zip(function.argtypes, arguments, strict=True)]
        before = [self._read(storage) for _, storage in storages]
        parts = [struct.pack("<32sqq", name.encode(), len(coded), len(before)), *coded]
        parts += [part for memory in before for part in (struct.pack("<q", len(memory)), memory)]
        function(*arguments)
        self.calls.append(b"".join(parts))
        self.names.append(name)
        self.after.append([self._read(storage) for _, storage in storages])
        self._storages.clear()

    @staticmethod
    def _code(kind: Any, value: Any, storages: list[tuple[int, torch.UntypedStorage]]) -> bytes:
        if kind is ctypes.c_float:
            return struct.pack("<qf4x", FLOAT, value)
        if kind is not ctypes.c_void_p or value is None:
            return struct.pack("<qq", INTEGER, value or 0)
        for number, (begin, storage) in enumerate(storages):
            if _is_in(value, begin, storage):
                return struct.pack("<qq", number, value - begin)
        raise AssertionError("an address that no tensor gave")

    @staticmethod
    def _read(storage: torch.UntypedStorage) -> bytes:
        return bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())

    def replay(self, foreign: Path, folder: Path) -> None:
        """Repeat all calls in emulation, and compare the bits that they leave."""
        (folder / "calls").write_bytes(b"".join(self.calls))
        command: list[str | Path] = [
            EMULATOR,
            "-L",
            "/usr/aarch64-linux-gnu",
            foreign / "replay",
            foreign / "libelmokit.so",
            "neon",
        ]
        done = subprocess.run(
            [*command, folder / "calls", folder / "results"], capture_output=True, text=True, timeout=500
        )
        assert (done.returncode, done.stderr) == (0, "")
        with (folder / "results").open("rb") as file:
            for name, after in zip(self.names, self.after, strict=True):
                for memory in after:
                    assert_same_bits(file.read(len(memory)), memory, name)
            assert not file.read(1)


def _is_in(address: int | None, begin: int, storage: torch.UntypedStorage) -> bool:
    return address is not None and begin <= address < begin + max(storage.nbytes(), 1)


def assert_same_bits(found: bytes, expected: bytes, name: str) -> None:
    """Equal, except for the bit pattern of NaN, which differs between makers of processors."""
    if found == expected:
        return
    assert len(found) == len(expected), name
    one, other = (np.frombuffer(memory[: len(memory) // 4 * 4], np.float32) for memory in (found, expected))
    differ = (one.view(np.uint32) != other.view(np.uint32)) & ~(np.isnan(one) & np.isnan(other))
    assert not differ.any(), f"{name}: {differ.sum()} of {differ.size} numbers differ"


@pytest.fixture
def recorder(engine_environment: pytest.MonkeyPatch) -> Iterator[Recorder]:
    engine_environment.delenv("ELMOKIT_NATIVE", raising=False)
    engine_environment.setenv("ELMOKIT_CPU", "avx2")
    library = find_library()
    if library is None or library.kind != "avx2":
        pytest.skip("this machine has no AVX2 kernels to compare with")
    yield Recorder(library, engine_environment)


def test_every_call_of_the_verification(foreign: Path, recorder: Recorder, tmp_path: Path) -> None:
    """All else on the way is indexing and concatenation, so the vectors have the promised bits too."""
    assert verify_bits(threads=1).outcome == "verified"
    assert {"product", "steps", "convolve", "highway"} <= set(recorder.names)
    recorder.replay(foreign, tmp_path)


def draw(*shape: int, odd: bool) -> Tensor:
    """Random numbers; `odd` adds denormals, large ones, infinities and NaN."""
    numbers = torch.randn(*shape)
    if odd and numbers.numel():
        special = torch.tensor(
            [0.0, -0.0, 1e-40, -1e-40, 1e-20, 3e38, -3e38, 40.0, -40.0, torch.inf, -torch.inf, torch.nan]
        )
        chosen = torch.rand(shape) < 0.05
        numbers[chosen] = special[torch.randint(len(special), (int(chosen.sum()),))]
    return numbers


def call_product(library: NativeLibrary, odd: bool, rows: int, depth: int, width: int) -> None:
    x, panels = draw(rows + 1, depth, odd=odd), library.pack(draw(depth, width, odd=odd))
    library.product(x[:rows], panels, torch.zeros(rows, width))
    index, start = torch.randint(0, rows + 1, (rows,)), draw(64 * -(-width // 64), odd=odd)
    library.product(x, panels, torch.zeros(rows, width + 3)[:, :width], start=start, index=index, limit=1.5)


def call_steps(library: NativeLibrary, odd: bool, rows: int, hidden: int, dim: int) -> None:
    sizes = torch.tensor([rows, rows, max(rows - 1, 1)])
    tokens = int(sizes.sum())
    for projected in (False, True):
        out = dim if projected else hidden
        panels = library.pack_gates(draw(out, 4 * hidden, odd=odd))
        projection = library.pack(draw(hidden, out, odd=odd)) if projected else None
        state = draw(rows, out, odd=odd), draw(rows, hidden, odd=odd)
        first = draw(rows, out, odd=odd), draw(rows, hidden, odd=odd)
        inputs = draw(tokens, 64 * -(-hidden // 16), odd=odd)
        for places, starts, clip in (
            (None, None, None),
            (torch.randint(tokens, (tokens,)), torch.rand(tokens) < 0.3, 3.0),
        ):
            y = torch.zeros(tokens, out)
            library.steps((panels, projection), (clip, clip), inputs, places, sizes, starts, first, state, y)


def call_words(library: NativeLibrary, odd: bool, words: int, dim: int, filters: int) -> None:
    for width in (1, 3):
        panels = library.pack_filters(draw(width, dim, filters, odd=odd))
        bias = draw(64 * -(-filters // 64), odd=odd)
        for relu in (False, True):
            out = torch.zeros(words, filters + 2)[:, :filters]
            library.convolve(draw(words, width + 8, dim, odd=odd), width, panels, bias, out, relu=relu)
    library.highway(*(draw(words, filters, odd=odd) for _ in range(3)))


def call_cells(library: NativeLibrary, odd: bool, rows: int, hidden: int, _: int) -> None:
    gates, c, out = draw(rows, 4 * hidden, odd=odd), draw(rows, hidden, odd=odd), torch.zeros(rows, hidden)
    before, tanh_c = c.clone(), torch.zeros(rows, hidden)
    library.activate(gates, c, tanh_c, out, None if odd else 0.5)
    dout, dc = draw(rows, hidden, odd=odd), draw(rows, hidden, odd=odd)
    library.differentiate(gates, before, tanh_c, dout, dc, torch.zeros(rows, 4 * hidden), 0.5)


@pytest.mark.parametrize("odd", [False, True], ids=["usual", "odd"])
@pytest.mark.parametrize("make", [call_product, call_steps, call_words, call_cells])
def test_calls_of_any_size(
    make: Callable[[NativeLibrary, bool, int, int, int], None],
    odd: bool,
    foreign: Path,
    recorder: Recorder,
    tmp_path: Path,
) -> None:
    library = find_library()
    assert library is not None
    torch.manual_seed(7)
    for number, first in enumerate(SIZES):
        for second in SIZES:
            make(library, odd, 1 + number, first, second)
    recorder.replay(foreign, tmp_path)


def test_a_library_for_another_processor_is_ignored(foreign: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("the library is for this processor")
    with pytest.raises(UnusableLibraryError, match="damaged"):
        NativeLibrary(foreign / "libelmokit.so")
