"""The devices that a model can run on."""

from typing import Any

import torch

from elmokit.errors import ConfigError


def check_device(device: Any) -> torch.device:
    """Check that a device exists on this machine and can compute ("meta" cannot).

    Args:
        device: a name such as "cpu" or "cuda:1", or a `torch.device`.

    Raises:
        ConfigError: if it is not the name of a device, or cannot be used here.
    """
    if not isinstance(device, str | int | torch.device) or isinstance(device, bool):
        raise ConfigError(f"device {str(device)!r} is not the name of a device: give one such as cpu, cuda or cuda:1.")
    try:
        found = torch.device(device)
        reason = "it computes nothing" if torch.empty(1, device=found).is_meta else None
    # Without CUDA torch raises an AssertionError; a device that was not built in is a NotImplementedError.
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")[:120]
    if reason is not None:
        raise ConfigError(f"device {str(device)!r} cannot be used here ({reason}): choose cpu, or a GPU that is there.")
    return found
