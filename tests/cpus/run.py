"""Run the tests that depend on the processor under every switch that takes effect here.

python -m tests.cpus.run                  # all switches; `make test-cpus`
python -m tests.cpus.run MKL_CBWR         # those whose name contains a word
"""

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.cpus.switches import (
    ROOT,
    Observed,
    Probe,
    ProbeFailed,
    Switch,
    all_switches,
    differences,
    full_environment,
    is_offered,
    probe,
)

SELECTION = ("-m", "engine and not extended", "-n", "2")
"""What pytest runs under each switch."""


@dataclass(frozen=True)
class Row:
    """What became of a switch."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    shown: str
    """What showed that the switch took effect, or why it was skipped."""
    summary: str = ""
    """pytest's last line."""


Tests = Callable[[Switch], tuple[bool, str]]


def check(switches: Sequence[Switch], see: Probe, run: Tests, say: Callable[[str], None] = print) -> list[Row]:
    """Run the tests under each switch that changes something."""
    references: dict[tuple[tuple[str, str], ...], list[Observed]] = {}
    rows = []
    for switch in switches:
        key = tuple(sorted(switch.reference.items()))
        try:
            if key not in references:
                references[key] = [see(switch.reference) for _ in range(2)]
            row = _check_one(switch, references[key], see, run)
        except ProbeFailed as error:
            row = Row(switch.name, "failed", str(error))
        say(f"{row.name}: {row.outcome}. {row.shown}{f' ({row.summary})' if row.summary else ''}")
        rows.append(row)
    return rows


def _check_one(switch: Switch, without: list[Observed], see: Probe, run: Tests) -> Row:
    if not is_offered(switch, without[0]):
        have = without[0]["torch's vectors"]
        return Row(switch.name, "skipped", f"this processor offers no more than {have}")
    found = differences(without, see(switch.environment))
    if not found:
        return Row(switch.name, "skipped", "it changes nothing here: the same vectors, modes and bits as without it")
    passed, summary = run(switch)
    return Row(switch.name, "passed" if passed else "failed", "; ".join(found), summary)


def run_tests(switch: Switch, selection: Sequence[str] = SELECTION) -> tuple[bool, str]:
    """Whether pytest passes in a switch's environment, and its last line; what failed is printed."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += selection
    done = subprocess.run(command, cwd=ROOT, env=full_environment(switch.environment), capture_output=True, text=True)
    lines = (done.stdout + done.stderr).strip().splitlines() or ["pytest said nothing"]
    if done.returncode:
        print("\n".join(lines[-80:]))  # noqa: T201
    return done.returncode == 0, lines[-1].strip("= ")


def format_table(rows: Sequence[Row]) -> str:
    """One line for each switch, in columns."""
    cells = [("switch", "outcome", "tests", "what showed that it took effect, or why it was skipped")]
    cells += [(row.name, row.outcome, row.summary or "–", row.shown) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(3)]
    return "\n".join("  ".join([*(line[k].ljust(widths[k]) for k in range(3)), line[3]]) for line in cells)


def exit_code(rows: Sequence[Row]) -> int:
    """1 if anything failed, or if nothing ran."""
    outcomes = {row.outcome for row in rows}
    return int("failed" in outcomes or "passed" not in outcomes)


def main(words: Sequence[str]) -> int:
    """Print a table; the exit code is 1 if tests failed."""
    started = time.monotonic()
    switches = [switch for switch in all_switches() if not words or any(word in switch.name for word in words)]
    rows = check(switches, probe, run_tests)
    print(f"\n{format_table(rows)}\n\n{time.monotonic() - started:.0f} s")  # noqa: T201
    return exit_code(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
