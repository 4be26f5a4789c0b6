"""Several processes that train one model: their ranks, and sums over all of them.

`torchrun` starts the processes and gives each its rank; without it there is one process. Gradients are summed
explicitly once per step, not by torch's DistributedDataParallel: the two directions compute theirs in separate threads,
and only the softmax rows that a step used are exchanged.
"""

import os
from collections.abc import Iterable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from elmokit.errors import ConfigError, ElmokitError

_FLAT_BYTES = 64 * 2**20
_TIMEOUT = timedelta(hours=2)
_LOST = (
    "another process of this run has ended or cannot be reached: look at its own message, then repeat the command with "
    "--resume; the number of processes may change."
)


class Processes:
    """The processes of this run."""

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank = rank
        self.size = size

    @property
    def is_first(self) -> bool:
        """Whether this is the main process, which writes the files."""
        return self.rank == 0

    def own_rows(self, num_rows: int) -> range:
        """The rows of this process, of `num_rows` in total, which the number of processes must divide."""
        if num_rows % self.size:
            raise ConfigError(
                f"batch_size ({num_rows}) cannot be split evenly over {self.size} processes: make it a multiple of "
                f"{self.size}."
            )
        share = num_rows // self.size
        return range(self.rank * share, (self.rank + 1) * share)

    def all_reduce(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in few large messages."""
        if self.size == 1:
            return
        waiting: list[Tensor] = []
        for tensor in tensors:
            waiting.append(tensor)
            if sum(one.numel() * one.element_size() for one in waiting) >= _FLAT_BYTES:
                _reduce(waiting)
                waiting = []
        if waiting:
            _reduce(waiting)

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace each gradient by its sum over all processes; sparse ones have the same rows in every process."""
        if self.size > 1:
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            self.all_reduce(g._values() if g.is_sparse else g for g in gradients)

    def wait(self) -> None:
        """Wait until all processes have reached this call."""
        self.all_reduce([torch.zeros(1)])

    def any_of(self, *flags: bool) -> list[bool]:
        """For each flag, whether it is set in any process."""
        raised = torch.tensor(flags, dtype=torch.float32)
        self.all_reduce([raised])
        return [bool(flag) for flag in raised.tolist()]

    def broadcast_from_main(self, value: float) -> float:
        """The value that the main process passed."""
        number = torch.tensor([value if self.is_first else 0.0], dtype=torch.float64)
        self.all_reduce([number])
        return float(number)

    def gather(self, tensor: Tensor, dim: int) -> Tensor:
        """The tensors of all processes, concatenated along a dimension."""
        if self.size == 1:
            return tensor
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        try:
            dist.all_gather(parts, tensor.contiguous())
        except RuntimeError as error:
            raise ElmokitError(_LOST) from error
        return torch.cat(parts, dim)


def _reduce(tensors: list[Tensor]) -> None:
    flat = torch.cat([tensor.flatten() for tensor in tensors])
    try:
        dist.all_reduce(flat)
    except RuntimeError as error:
        raise ElmokitError(_LOST) from error
    for tensor, summed in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        tensor.copy_(summed.view_as(tensor))


def init_distributed(device: str = "cpu") -> Processes:
    """Join the process group if torchrun started this process."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Processes()
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo", timeout=_TIMEOUT)
    return Processes(dist.get_rank(), size)


def own_device(device: str) -> str:
    """The device of this process: with several processes on "cuda", each has its own GPU."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device


def shutdown_distributed() -> None:
    """End the process group, if there is one."""
    if dist.is_initialized():
        dist.destroy_process_group()
