"""Virtual machines that report AMX and hide its tiles: a one-sentence error, or a setting for oneDNN in time."""

import os
from pathlib import Path

import pytest

from elmokit import amx
from elmokit.errors import ConfigError

HIDDEN = "processor : 0\ncpuid level : 28\nflags : fpu avx512f amx_bf16 amx_tile amx_int8\n"


@pytest.fixture
def cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cpuinfo"
    path.write_text(HIDDEN)
    monkeypatch.setattr(amx.tiles_are_hidden, "__defaults__", (path,))
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    return path


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        (HIDDEN, True),
        (HIDDEN.replace("28", "32"), False),
        (HIDDEN.replace("amx_tile", "avx512_fp16"), False),
        ("Processor : something else\n", False),
    ],
)
def test_hidden_tiles_are_told_by_flags_and_level(cpu: Path, text: str, hidden: bool) -> None:
    cpu.write_text(text)
    assert amx.tiles_are_hidden() == hidden


def test_no_description_of_the_processor_hides_nothing(tmp_path: Path) -> None:
    assert not amx.tiles_are_hidden(tmp_path / "none")


def test_a_use_is_refused_with_the_remedy_and_taken_with_it(cpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"):
        amx.refuse_hidden_tiles("this")
    amx.avoid_hidden_tiles()
    amx.refuse_hidden_tiles("this")
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")


def test_a_limit_of_the_users_own_stays(cpu: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    amx.avoid_hidden_tiles()
    assert os.environ["ONEDNN_MAX_CPU_ISA"] == "AVX2"
