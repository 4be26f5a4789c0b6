"""The command line as a user meets it: what it prints, where, and its exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import elmokit
from elmokit.cli.main import app
from elmokit.formats import fingerprint
from elmokit.native.library import NativeLibrary
from tests.running import Done, assert_one_line

pytestmark = pytest.mark.slow  # each command is a process of its own


def run(*words: str, **extra: str) -> Done:
    environment = os.environ | {"NO_COLOR": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "100"} | extra
    return subprocess.run(
        [sys.executable, "-m", "elmokit", *words], capture_output=True, text=True, env=environment, timeout=120
    )


@pytest.fixture
def saved(tiny_bilm: elmokit.BiLM, tmp_path: Path) -> Path:
    elmokit.save(tiny_bilm, tmp_path / "model")
    return tmp_path / "model"


def test_version_and_help_name_the_commands() -> None:
    assert run("--version").stdout == f"elmokit {elmokit.__version__}\n"
    done = run("--help")
    assert done.returncode == 0
    for command in ("info", "convert", "embed"):
        assert command in done.stdout


@pytest.mark.parametrize("command", ["info", "convert", "embed"])
def test_every_help_ends_with_examples(command: str) -> None:
    done = run(command, "--help")
    assert "Examples:" in done.stdout
    assert f"elmokit {command} " in done.stdout


def test_info_tells_what_a_model_is(saved: Path, tiny_bilm: elmokit.BiLM) -> None:
    done = run("info", str(saved))
    assert done.returncode == 0
    assert done.stderr == ""
    for part in ("native", f"{tiny_bilm.num_parameters:,}", fingerprint(tiny_bilm), "model.safetensors"):
        assert part in done.stdout


def test_info_says_millions_only_where_there_are_some(saved: Path, tiny_bilm: elmokit.BiLM) -> None:
    assert tiny_bilm.num_parameters < 100_000
    small = CliRunner().invoke(app, ["info", str(saved)]).stdout
    assert f"parameters   {tiny_bilm.num_parameters:,}\n" in small
    large = CliRunner().invoke(app, ["info", "mini"]).stdout
    assert re.search(r"parameters +\d+,\d{3},\d{3} \(\d+\.\dM\)\n", large)


def test_info_as_json(saved: Path, tiny_bilm: elmokit.BiLM) -> None:
    found = json.loads(run("info", str(saved), "--json").stdout)
    assert found["format"] == "native"
    assert found["num_parameters"] == tiny_bilm.num_parameters
    assert found["fingerprint"] == fingerprint(tiny_bilm)
    assert elmokit.ElmoConfig.model_validate(found["config"]) == tiny_bilm.config
    assert set(found["files"]) >= {"config.json", "model.safetensors"}


@pytest.mark.parametrize(
    ("target", "flags", "format_"),
    [("a", [], "native"), ("b", ["--to", "bilm"], "bilm"), ("c.zip", [], "nlpl")],
)
def test_convert(
    saved: Path, tmp_path: Path, tiny_bilm: elmokit.BiLM, target: str, flags: list[str], format_: str
) -> None:
    done = run("convert", str(saved), str(tmp_path / target), *flags)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert elmokit.formats.detect_format(tmp_path / target) == format_
    for name, tensor in elmokit.load(tmp_path / target).state_dict().items():
        assert torch.equal(tensor, tiny_bilm.state_dict()[name])


def test_convert_refuses_to_overwrite(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/precious.txt").write_text("keep me")
    assert_one_line(run("convert", str(saved), str(tmp_path / "full")), "full already exists", "--overwrite")
    assert_one_line(run("convert", str(saved), str(tmp_path / "full"), "--overwrite"), "full", "it is left alone")
    assert (tmp_path / "full/precious.txt").read_text() == "keep me"


def test_info_of_the_engine(library: NativeLibrary) -> None:
    found = json.loads(run("info", "--engine", "--json").stdout)
    assert found["engine"].startswith(f"native library: {library.kind}")
    limited = run("info", "--engine", ELMOKIT_CPU="baseline")
    assert "native library: baseline" in limited.stdout
    off = run("info", "--engine", ELMOKIT_NATIVE="0")
    assert "switched off" in off.stdout
    assert_one_line(run("info", "--engine", ELMOKIT_CPU="sse"), "ELMOKIT_CPU is 'sse'", "choose baseline, avx2")


def test_unknown_names_suggest_near_ones() -> None:
    assert_one_line(run("info", "orginal"), "orginal", "did you mean original")


def test_offline_download_is_one_line(tmp_path: Path) -> None:
    assert_one_line(run("info", "original", ELMOKIT_CACHE=str(tmp_path)), "HF_HUB_OFFLINE")


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/version").exists(), reason="needs a path nobody can write")
def test_unwritable_target_is_one_line(saved: Path) -> None:
    assert_one_line(run("convert", str(saved), "/proc/elmokit/model"), "/proc/elmokit")


@pytest.mark.parametrize(
    "words", [["convert"], ["info"], ["nonsense"], ["info", "x", "--nonsense"], ["convert", "a", "b", "--to", "x"]]
)
def test_usage_errors_are_exit_code_2(words: list[str]) -> None:
    done = run(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_warnings_are_short_lines_on_stderr(tmp_path: Path, tiny_bilm: elmokit.BiLM) -> None:
    elmokit.save(tiny_bilm, tmp_path / "m", format="bilm")
    options = json.loads((tmp_path / "m/options.json").read_text())
    (tmp_path / "m/options.json").write_text(json.dumps(options | {"my_key": 1}))
    done = run("info", str(tmp_path / "m"))
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("elmokit: warning: ")
    assert "my_key" in done.stderr


def test_interrupt_is_130(saved: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal, elmokit.formats as f\n"
        "f.describe = lambda source: os.kill(os.getpid(), signal.SIGINT)\n"
        "import sys; sys.argv = ['elmokit', 'info', 'x']\n"
        "from elmokit.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode in (130, 128 + signal.SIGINT)
    assert "Traceback" not in done.stderr


def test_commands_work_in_process(saved: Path) -> None:
    assert CliRunner().invoke(app, ["info", str(saved)]).exit_code == 0
