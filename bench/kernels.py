"""Speed of the native library's products and LSTM steps, as a share of a core's own limit.

    python bench/kernels.py --json FILE

The limit is the same instruction in a bare loop (`peak.c`) on one core, measured in turns with them. Sizes are those of
the full model (4096/512). Steps include the activations of the cells, and the projection, which int8 computes twice
(high and low parts of rows). A step of one row reads all weights once, so it is given in bytes per second.
"""

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

from elmokit.native.library import KINDS, NativeLibrary, Precision, UnusableLibraryError

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.machine import bandwidth, interleave
from bench.provenance import provenance
from bench.results import write

PEAKS = {
    "avx2": "float32_avx2",
    "avx512": "float32_avx512",
    "avx512bf16": "bfloat16_avx512",
    "int8avx2": "int8_avx2",
    "int8avxvnni": "int8_avxvnni",
    "int8vnni": "int8_vnni",
}
"""The function of peak.c for each kind."""
H, P, ROWS, TOKENS = 4096, 512, 128, 512
TIMES = 2_000_000


def load_peaks(folder: str) -> ctypes.CDLL:
    library = Path(folder, "peak.so")
    compiler = shutil.which("cc") or "gcc"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", Path(__file__).with_name("peak.c"), "-o", library], check=True)
    return ctypes.CDLL(str(library))


def measure(precision: Precision, limit: str, peaks: ctypes.CDLL, rounds: int) -> dict[str, object]:
    """The best of several rounds of the bare loop, a product, steps of many rows and steps of one."""
    library = NativeLibrary(limit=limit, precision=precision)
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.05

    gates, projection = library.pack_gates(draw(P, 4 * H)), library.pack(draw(H, P))
    rows, inputs, start = draw(TOKENS, P), torch.empty(TOKENS, 4 * H), draw(4 * H)
    loop = getattr(peaks, PEAKS[library.kind])
    loop.argtypes, loop.restype = [ctypes.c_int64], ctypes.c_int64
    operations: list[int] = []

    def step(num_rows: int, num_steps: int) -> Callable[[], None]:
        places = torch.randint(0, TOKENS, (num_rows * num_steps,), generator=generator)
        first = torch.zeros(num_rows, P), torch.zeros(num_rows, H)
        state = torch.zeros(num_rows, P), torch.zeros(num_rows, H)
        y, sizes = torch.empty(num_rows * num_steps, P), torch.tensor([num_rows] * num_steps)
        return lambda: library.steps((gates, projection), (3.0, 3.0), inputs, places, sizes, None, first, state, y)

    timings = interleave(
        {
            "loop": lambda: operations.append(loop(TIMES)),
            "product": lambda: library.product(rows, gates, inputs, start=start),
            "steps": step(ROWS, 4),
            "one row": step(1, 22),
        },
        rounds,
    )
    best = {name: min(timing.seconds) for name, timing in timings.items()}
    peak = operations[0] * TIMES / best["loop"]
    product = 2 * TOKENS * P * 4 * H / best["product"]
    steps = 2 * 4 * ROWS * (P * 4 * H + H * P) / best["steps"]
    size = sum(panels.numel() * panels.element_size() for panels in (gates, projection))
    print(f"{library.kind:12} {peak / 1e9:5.0f} Gop/s, product {product / peak:.0%}, steps {steps / peak:.0%}")
    return {
        "peak_gop_per_second": round(peak / 1e9),
        "product_share": round(product / peak, 3),
        "steps_share": round(steps / peak, 3),
        "one_row_gb_per_second": round(22 * size / best["one row"] / 1e9, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    origin = provenance("kernels.py") if arguments.json else {}
    torch.set_num_threads(1)
    kinds: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        peaks = load_peaks(folder)
        for precision in KINDS:
            for limit in ("avx2", "avxvnni", "avx512", "vnni", "avx512bf16"):
                try:
                    kind = NativeLibrary(limit=limit, precision=precision).kind
                except UnusableLibraryError:
                    continue
                if kind in PEAKS and kind not in kinds:
                    kinds[kind] = measure(precision, limit, peaks, arguments.rounds)
    speed = bandwidth()
    print(f"one core reads {speed / 1e9:.1f} GB/s from memory")
    if arguments.json:
        write(arguments.json, origin | {"kinds": kinds, "one_core_gb_per_second": round(speed / 1e9, 1)})


if __name__ == "__main__":
    main()
