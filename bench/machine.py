"""Measuring on a shared machine: interleaved rounds, and how busy other processes were during each."""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

_DISTURBED = 0.08


@dataclass
class Timing:
    """Seconds of each round, and the share of all cores that other processes used during it."""

    seconds: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)

    def quiet(self) -> list[float]:
        """The rounds that were not disturbed; all of them if every one was."""
        return [s for s, o in zip(self.seconds, self.others, strict=True) if o <= _DISTURBED] or self.seconds

    @property
    def median(self) -> float:
        return statistics.median(self.quiet())

    @property
    def disturbed(self) -> int:
        return sum(share > _DISTURBED for share in self.others)


def interleave(candidates: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Run the candidates in turn for several rounds."""
    timings = {name: Timing() for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            busy, own, start = _busy_cpu(), _own_cpu(), time.perf_counter()
            run()
            seconds = time.perf_counter() - start
            others = (_busy_cpu() - busy) - (_own_cpu() - own)
            timings[name].seconds.append(seconds)
            timings[name].others.append(max(0.0, others) / (seconds * (os.cpu_count() or 1)))
    return timings


def _busy_cpu() -> float:
    fields = [int(value) for value in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / os.sysconf("SC_CLK_TCK")


def _own_cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def gemm_rate(threads: int, size: int = 1536) -> float:
    """Floating-point operations per second of a large float32 matrix product with torch on these cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = float("inf")
    for _ in range(8):
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    torch.set_num_threads(before)
    return 2 * size**3 / best


def bandwidth(size: int = 2**28) -> float:
    """Bytes per second that one core reads from memory."""
    data = torch.zeros(size // 4)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        data.sum()
        best = min(best, time.perf_counter() - start)
    torch.set_num_threads(before)
    return size / best
