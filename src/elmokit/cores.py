"""How much of the machine there is for this process, and what its processor says of itself."""

import os
from itertools import takewhile
from pathlib import Path

CPU = Path("/proc/cpuinfo")


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_processor(cpu: Path = CPU) -> dict[str, str]:
    """What Linux says of the first processor, by name; nothing elsewhere."""
    try:
        with cpu.open(encoding="utf-8", errors="replace") as lines:
            pairs = [line.partition(":") for line in takewhile(str.strip, lines)]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in pairs}
