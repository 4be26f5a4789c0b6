"""Virtual machines that announce AMX but hide how large its tiles are.

oneDNN then uses tiles of size zero for 8-bit and bfloat16 products, and the process dies of an illegal instruction.
An environment variable, which oneDNN reads at its first product, makes it ignore AMX.
"""

import os
from pathlib import Path

from elmokit.cores import CPU, describe_processor
from elmokit.errors import ConfigError

_TILE_LEAF = 0x1D
"""The CPUID leaf that describes tiles."""
_LIMIT, _WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"


def tiles_are_hidden(cpu: Path = CPU) -> bool:
    """Whether this machine's processor announces tiles but does not describe them."""
    entries = describe_processor(cpu)
    level = entries.get("cpuid level", "")
    return "amx_tile" in entries.get("flags", "").split() and level.isdigit() and int(level) < _TILE_LEAF


def avoid_hidden_tiles() -> None:
    """Make oneDNN ignore such tiles; programs call this before they import torch."""
    if tiles_are_hidden():
        os.environ.setdefault(_LIMIT, _WITHOUT_AMX)


def refuse_hidden_tiles(what: str) -> None:
    """Raise an error if `what` would crash the process."""
    if tiles_are_hidden() and _LIMIT not in os.environ:
        raise ConfigError(
            f"{what} would end this process: the machine announces AMX but does not describe its tiles; start Python "
            f"with {_LIMIT}={_WITHOUT_AMX} in the environment, or leave {what} out."
        )
