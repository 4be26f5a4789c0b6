"""How this process computes: what torch, oneDNN and MKL say of themselves, and the bits of a few fixed results.

    python -m tests.cpus.probe

The results go to standard error as one line of JSON; standard output belongs to the libraries, which speak there if
`ONEDNN_VERBOSE` and `MKL_VERBOSE` are set. `tests.cpus.switches` reads both.
"""

import hashlib
import json
import sys

import numpy as np
import torch
from torch import Tensor

from elmokit.native.library import find_library


def observe() -> dict[str, str]:
    """What can be seen from inside."""
    generator = torch.Generator().manual_seed(0)
    left, right = torch.randn(37, 203, generator=generator), torch.randn(203, 67, generator=generator)
    signal, filters = torch.randn(8, 16, 20, generator=generator), torch.randn(32, 16, 3, generator=generator)
    native = find_library()
    return {
        "torch's vectors": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "native library": "none" if native is None else native.kind,
        "bits of float32 products": _digest(left @ right),
        "bits of float64 products": _digest(left.double() @ right.double()),
        "bits of convolutions": _digest(torch.nn.functional.conv1d(signal, filters)),
        "bits of sums": _digest(left.sum(1)),
        "numpy's vectors": _numpy_features(),
    }


def _numpy_features() -> str:
    found = np.show_config("dicts")["SIMD Extensions"].get("found", [])
    return " ".join(found)


def _digest(result: Tensor) -> str:
    return hashlib.sha256(result.contiguous().numpy().tobytes()).hexdigest()[:8]


if __name__ == "__main__":
    sys.stderr.write(json.dumps(observe()) + "\n")
