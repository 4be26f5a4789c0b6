"""What `make test-cpus` says of switches that work, that do nothing, and that break tests."""

import sys
from pathlib import Path

import pytest

from tests.cpus import run, switches
from tests.cpus.run import Row, check, exit_code, format_table, run_tests
from tests.cpus.switches import Environment, Observed, ProbeFailed, Switch, all_switches, differences, is_offered

PLAIN = {"torch's vectors": "AVX2", "MKL's mode": "OFF", "bits of sums": "0a"}
WORKS, IDLE = Switch("works", {"WORKS": "1"}), Switch("idle", {"IDLE": "1"})


def see(environment: Environment) -> Observed:
    return PLAIN | ({"MKL's mode": "COMPATIBLE", "bits of sums": "1b"} if "WORKS" in environment else {})


def quiet(_: str) -> None:
    pass


def test_tests_run_only_under_a_switch_that_takes_effect() -> None:
    ran: list[str] = []

    def tests(switch: Switch) -> tuple[bool, str]:
        ran.append(switch.name)
        return True, "7 passed"

    rows = check([WORKS, IDLE], see, tests, quiet)
    assert ran == ["works"]
    assert [row.outcome for row in rows] == ["passed", "skipped"]
    assert rows[0] == Row("works", "passed", "MKL's mode OFF → COMPATIBLE; other bits of sums", "7 passed")
    assert "changes nothing" in rows[1].shown
    assert exit_code(rows) == 0


def test_a_failure_under_any_switch_is_exit_code_1() -> None:
    rows = check([WORKS, Switch("also", {"WORKS": "2"})], see, lambda s: (s.name == "also", "1 failed"), quiet)
    assert [row.outcome for row in rows] == ["failed", "passed"]
    assert exit_code(rows) == 1


def test_nothing_that_ran_is_no_success() -> None:
    assert exit_code(check([IDLE], see, lambda _: (True, ""), quiet)) == 1


def test_a_probe_that_dies_is_a_failure() -> None:
    def dies(environment: Environment) -> Observed:
        if environment:
            raise ProbeFailed("the probe ended with -4: it said nothing")
        return PLAIN

    (row,) = check([WORKS], dies, lambda _: pytest.fail("ran"), quiet)
    assert (row.outcome, row.shown) == ("failed", "the probe ended with -4: it said nothing")


def test_what_differs_without_the_switch_says_nothing() -> None:
    unsteady = [PLAIN, PLAIN | {"bits of sums": "2c"}]
    assert differences(unsteady, PLAIN | {"bits of sums": "3d"}) == []
    assert differences([PLAIN, PLAIN], PLAIN | {"bits of sums": "3d"}) == ["other bits of sums"]


@pytest.mark.parametrize(
    ("have", "offered"),
    [
        ("DEFAULT", ["default"]),
        ("AVX2", ["default", "avx2"]),
        ("AVX512", ["default", "avx2", "avx512"]),
        ("SVE256", []),
    ],
)
def test_torch_is_never_asked_for_more_than_there_is(have: str, offered: list[str]) -> None:
    observed = PLAIN | {"torch's vectors": have}
    names = [f"ATEN_CPU_CAPABILITY={level}" for level in ("default", "avx2", "avx512")]
    found = [switch.name for switch in all_switches() if switch.name in names and is_offered(switch, observed)]
    assert found == [f"ATEN_CPU_CAPABILITY={level}" for level in offered]
    rows = check(all_switches(), lambda _: observed, lambda _: (True, ""), quiet)
    refused = {row.name for row in rows if "offers no more" in row.shown}
    assert refused == set(names) - set(found)


def test_what_libraries_print_of_themselves() -> None:
    output = (
        "onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:1\n"
        "onednn_verbose,v1,info,cpu,isa:Intel AVX2\n"
        "MKL_VERBOSE SGEMM(N,N,67,37,203) 144.13us CNR:OFF Dyn:1 FastMM:1 TID:0  NThr:1\n"
        "MKL_VERBOSE DGEMM(N,N,67,37,203) 144.13us CNR:AUTO Dyn:1 FastMM:1 TID:0  NThr:1\n"
    )
    assert switches.read_verbose(output) == {"oneDNN's vectors": "Intel AVX2", "MKL's mode": "AUTO/OFF"}
    assert set(switches.read_verbose("").values()) == {"unknown"}


def test_the_users_own_switches_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("ELMOKIT_NATIVE", "0")
    full = switches.full_environment({"DNNL_MAX_CPU_ISA": "AVX2"})
    assert not {"MKL_CBWR", "ELMOKIT_NATIVE"} & set(full)
    assert (full["DNNL_MAX_CPU_ISA"], full["OMP_NUM_THREADS"]) == ("AVX2", "1")
    assert "PATH" in full


def test_all_switches_make_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run, "probe", lambda environment: PLAIN | {"threads": environment.get("OMP_NUM_THREADS", "1")})
    monkeypatch.setattr(run, "run_tests", lambda switch: (True, "3 passed"))
    assert run.main([]) == 0
    table = capsys.readouterr().out.partition("switch ")[2].splitlines()
    assert sum("3 passed" in line for line in table) == 2  # one thread and two
    assert run.main(["nothing has this name"]) == 1


def test_the_table_has_a_line_a_switch() -> None:
    lines = format_table([Row("a", "passed", "why", "2 passed"), Row("longer", "skipped", "because")]).splitlines()
    assert lines[1:] == ["a       passed   2 passed  why", "longer  skipped  –         because"]


@pytest.mark.slow
def test_pytest_is_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real run, in the switch's environment, with its exit code."""
    path = tmp_path / "test_it.py"
    path.write_text("import os\ndef test_it():\n    assert os.environ['WANTED'] == 'yes'\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    plain = ("-c", str(tmp_path / "pytest.ini"))
    for value, passed in (("yes", True), ("no", False)):
        found = run_tests(Switch("x", {"WANTED": value}), [*plain, str(path)])
        assert found[0] is passed
        assert found[1].startswith("1 passed" if passed else "1 failed")
    assert "assert 'no' == 'yes'" in capsys.readouterr().out
    assert run_tests(Switch("x", {"WANTED": "yes"}), [*plain, "-k", "no_such_test", str(path)])[0] is False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="torch's own switch is probed on Linux")
def test_a_real_switch_shows_and_an_invented_one_does_not() -> None:
    without = [switches.probe({}) for _ in range(2)]
    assert differences(without, switches.probe({"ELMOKIT_NO_SUCH_SWITCH": "1"})) == []
    assert "threads 1 → 2" in differences(without, switches.probe({"OMP_NUM_THREADS": "2"}))
    if without[0]["torch's vectors"] != "DEFAULT":
        shown = differences(without, switches.probe({"ATEN_CPU_CAPABILITY": "default"}))
        assert any(line.startswith("torch's vectors") for line in shown)
    with pytest.raises(ProbeFailed, match="ended with 1"):
        switches.probe({"PYTHONPATH": "", "PYTHONHOME": "/nowhere"})
