"""Where a model can run."""

import torch

from elmokit.errors import ConfigError


def check_device(device: str) -> None:
    """Refuse a device that this machine does not have, or that computes nothing ("meta")."""
    try:
        reason = "it computes nothing" if torch.empty(1, device=device).is_meta else None
    except (RuntimeError, AssertionError) as error:  # torch raises the latter where it has no CUDA
        reason = str(error).splitlines()[0][:120]
    if reason is not None:
        raise ConfigError(f"device {device!r} cannot be used here ({reason}): choose cpu, or a GPU that is there.")
