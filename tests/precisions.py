"""Which precisions this machine can compute in."""

import torch

from elmokit.errors import ConfigError
from elmokit.model.engines.choose import InferencePrecision, resolve_precision


def rounding_precisions() -> list[InferencePrecision]:
    """Precisions other than float32: int8, and bfloat16 where the processor has instructions for it."""
    found: list[InferencePrecision] = []
    for name in ("int8", "bfloat16"):
        try:
            found.append(resolve_precision(name, torch.empty(0)))
        except ConfigError:
            continue
    return found
