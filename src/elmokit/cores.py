"""The cores and memory available to this process, and the description of its processor."""

import os
from contextlib import suppress
from itertools import takewhile
from pathlib import Path

CPU = Path("/proc/cpuinfo")
MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usable_memory() -> int | None:
    """Bytes of memory of the machine, or of the container that this process runs in; None if unknown."""
    found = []
    if hasattr(os, "sysconf"):
        with suppress(OSError, ValueError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for limit in MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # without a limit it says "max"
            found.append(int(limit.read_text(encoding="ascii")))
    return min((size for size in found if size > 0), default=None)


def describe_processor(cpu: Path = CPU) -> dict[str, str]:
    """The fields that Linux reports for the first processor; empty on other systems."""
    try:
        with cpu.open(encoding="utf-8", errors="replace") as lines:
            pairs = [line.partition(":") for line in takewhile(str.strip, lines)]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in pairs}
