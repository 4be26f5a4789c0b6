"""Switches that make one processor compute as others do, and whether each takes effect here.

A switch is an environment. It counts only if a probe (`tests.cpus.probe`) in that environment observes something else
than one without it; otherwise tests under it would show nothing, so it is skipped, with what was looked at.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LEVELS = ("default", "avx2", "avx512")
"""Of ATEN_CPU_CAPABILITY, lowest first. Torch does not check it, and crashes if the processor has less."""
_VARIABLES = {
    "ATEN_CPU_CAPABILITY": _LEVELS,
    "DNNL_MAX_CPU_ISA": ("SSE41", "AVX2", "AVX512_CORE"),
    "MKL_ENABLE_INSTRUCTIONS": ("SSE4_2", "AVX2"),
    "MKL_CBWR": ("COMPATIBLE", "AVX2"),
    "NPY_DISABLE_CPU_FEATURES": ("X86_V3 X86_V4 AVX512_ICL AVX512_SPR",),
    "ELMOKIT_CPU": ("baseline", "avx2", "avx512"),
    "ELMOKIT_NATIVE": ("0",),
}
_NO_CACHE = os.path.join(os.devnull, "no-cache")

Environment = Mapping[str, str]
Observed = dict[str, str]
Probe = Callable[[Environment], Observed]


class ProbeFailed(Exception):
    """The probe ended otherwise than it should."""


@dataclass(frozen=True)
class Switch:
    """One environment to run tests in, and the one that it must differ from."""

    name: str
    environment: Environment
    reference: Environment = field(default_factory=dict)


def all_switches() -> list[Switch]:
    """Every switch that we know of."""
    return [
        Switch("one thread", {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "2"}),
        Switch("two threads", {"OMP_NUM_THREADS": "2"}, {"OMP_NUM_THREADS": "1"}),
        *(Switch(f"{name}={value}", {name: value}) for name, values in _VARIABLES.items() for value in values),
    ]


def full_environment(environment: Environment) -> dict[str, str]:
    """That of this process without switches of the user's, with one thread and no cache; then what is given.

    Threads that wait sleep: where tests run beside each other, spinning would take the cores that others wait for.
    """
    own = {name: value for name, value in os.environ.items() if name not in _VARIABLES}
    return own | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "ELMOKIT_CACHE": _NO_CACHE} | dict(environment)


def is_offered(switch: Switch, without: Observed) -> bool:
    """Whether the processor has what a switch asks torch to use."""
    level = switch.environment.get("ATEN_CPU_CAPABILITY")
    have = without["torch's vectors"].lower()
    return level is None or (have in _LEVELS and _LEVELS.index(level) <= _LEVELS.index(have))


def probe(environment: Environment) -> Observed:
    """What a process in this environment observes."""
    full = full_environment({"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"} | dict(environment))
    command = [sys.executable, "-m", "tests.cpus.probe"]
    done = subprocess.run(command, cwd=ROOT, env=full, capture_output=True, text=True, timeout=300)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ProbeFailed(f"the probe ended with {done.returncode}: {reason}")
    return json.loads(done.stderr.strip().splitlines()[-1]) | read_verbose(done.stdout)


def read_verbose(output: str) -> Observed:
    """What oneDNN and MKL print of themselves."""
    isa = re.search(r"^onednn_verbose.*,cpu,isa:(.+)$", output, re.MULTILINE)
    modes = sorted(set(re.findall(r"^MKL_VERBOSE .*\bCNR:(\S+)", output, re.MULTILINE)))
    return {"oneDNN's vectors": isa[1] if isa else "unknown", "MKL's mode": "/".join(modes) or "unknown"}


def differences(without: Sequence[Observed], within: Observed) -> list[str]:
    """What a switch changed; what differs among probes without it (`without`) says nothing."""
    first = without[0]
    steady = [name for name in first if all(other[name] == first[name] for other in without)]
    changed = [name for name in steady if within[name] != first[name]]
    plain = [f"{name} {first[name]} → {within[name]}" for name in changed if not name.startswith("bits of ")]
    return plain + [f"other {name}" for name in changed if name.startswith("bits of ")]
