"""What a precision comes to on a machine, and that nothing falls back in silence."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.model.bilm import BiLM
from elmokit.model.engines import choose as choosing
from elmokit.model.engines.choose import choose_arithmetic
from elmokit.model.engines.products import PLAIN_PRODUCTS, ROUNDED_PRODUCTS
from elmokit.training import trial
from elmokit.training.config import LossConfig
from elmokit.training.step import LanguageModelStep
from elmokit.training.trial import choose_precision
from tests.training.runs import read_log, run, settings, write_corpus

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _portable(engine_environment: pytest.MonkeyPatch) -> None:
    """What is chosen depends on torch alone."""
    engine_environment.setenv("ELMOKIT_NATIVE", "0")


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the processor announce some features."""

    def announce(names: str) -> None:
        monkeypatch.setattr(choosing, "describe_processor", lambda: {"flags": names})

    return announce


def test_float32_is_plain(flags: Callable[[str], None]) -> None:
    flags("")
    found = choose_arithmetic("float32", CPU, torch.float32)
    assert found.products is PLAIN_PRODUCTS
    assert not found.casts_encoder and not found.casts_layers
    assert found.label == "float32, portable cell"


@pytest.mark.parametrize(("names", "label"), [("avx2 avx512_bf16", "AVX512-BF16"), ("amx_tile amx_bf16", "AMX")])
def test_bfloat16_says_by_which_instructions(flags: Callable[[str], None], names: str, label: str) -> None:
    flags(names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = choose_arithmetic("bfloat16", CPU, torch.float32)
    assert found.products is ROUNDED_PRODUCTS
    assert found.label == f"bfloat16 by torch ({label}), portable cell"


def test_bfloat16_without_instructions_is_no_secret(flags: Callable[[str], None]) -> None:
    flags("avx2 fma")
    with pytest.warns(ElmokitWarning, match=r"no instructions for bfloat16.*float32 or auto"):
        found = choose_arithmetic("bfloat16", CPU, torch.float32)
    assert "without instructions" in found.label


def test_float16_needs_a_gpu() -> None:
    with pytest.raises(ConfigError, match="needs a GPU"):
        choose_arithmetic("float16", CPU, torch.float32)


def test_hidden_tiles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.amx.tiles_are_hidden", lambda: True)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    with pytest.raises(ConfigError, match="does not describe its tiles"):
        choose_arithmetic("bfloat16", CPU, torch.float32)


# --- auto ------------------------------------------------------------------------------------------------------------


def choose(bilm: BiLM, speeds: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """What `auto` chooses if the precisions had these speeds."""

    def build(precision: Any) -> LanguageModelStep:
        return LanguageModelStep(bilm, LossConfig(kind="full"), num_rows=2, num_steps=3, precision=precision, threads=1)

    def measure(step: LanguageModelStep, *others: Any) -> float:
        return speeds[step.arithmetic.label.split(" ")[0].strip(",")]

    monkeypatch.setattr(trial, "_measure", measure)
    assert bilm.vocabulary is not None
    return choose_precision(build, bilm.vocabulary, torch.ones(len(bilm.vocabulary)))


@pytest.mark.parametrize(("rounded", "expected"), [(200.0, "bfloat16"), (105.0, "float32"), (50.0, "float32")])
def test_auto_takes_what_is_clearly_faster(
    rounded: float,
    expected: str,
    tiny: Callable[[str], BiLM],
    flags: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flags("avx512_bf16")
    speeds = {"float32": 100.0, "bfloat16": rounded}
    precision, reason = choose(tiny("softmax"), speeds, monkeypatch)
    assert precision == expected
    assert f"{rounded:.0f} tokens/s, against 100 in float32" in reason


def test_auto_says_why_there_is_no_choice(
    tiny: Callable[[str], BiLM], flags: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags("avx2")
    assert choose(tiny("softmax"), {}, monkeypatch) == (
        "float32",
        "this processor has no instructions for bfloat16",
    )


def test_a_trial_changes_nothing(tiny: Callable[[str], BiLM], flags: Callable[[str], None]) -> None:
    flags("avx512_bf16")
    bilm = tiny("softmax")
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}

    def build(precision: Any) -> LanguageModelStep:
        return LanguageModelStep(bilm, LossConfig(kind="full"), num_rows=2, num_steps=3, precision=precision, threads=1)

    assert bilm.vocabulary is not None
    found = choose_precision(build, bilm.vocabulary, torch.zeros(len(bilm.vocabulary)))
    assert "tokens/s" in found.reason
    assert all(torch.equal(tensor, before[name]) for name, tensor in bilm.state_dict().items())
    assert all(parameter.grad is None for parameter in bilm.parameters())


@pytest.mark.slow
def test_a_run_says_what_it_chose_and_may_change_it(
    tmp_path: Path, flags: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, lines = write_corpus(tmp_path), list[str]()
    flags("")
    run(settings(precision="auto", loop={"max_steps": 4}), corpus, tmp_path / "run", notify=lines.append)
    assert lines == ["precision float32: this processor has no instructions for bfloat16"]
    first = read_log(tmp_path / "run")[0]
    assert first["arithmetic"] == "float32, portable cell"
    assert first["why"] == "this processor has no instructions for bfloat16"
    flags("avx512_bf16")
    run(settings(precision="bfloat16", loop={"max_steps": 8}), corpus, tmp_path / "run", resume=True)
    added = [entry for entry in read_log(tmp_path / "run") if "changed" in entry or "arithmetic" in entry][1:]
    assert added == [
        {"step": 4, "changed": {"loop.max_steps": ["4", "8"], "precision": ['"auto"', '"bfloat16"']}},
        {"step": 4, "arithmetic": "bfloat16 by torch (AVX512-BF16), portable cell"},
    ]


@pytest.mark.slow
def test_a_machine_that_computes_otherwise_says_so(tmp_path: Path, flags: Callable[[str], None]) -> None:
    corpus, lines = write_corpus(tmp_path), list[str]()
    flags("avx512_bf16")
    run(settings(precision="bfloat16", loop={"max_steps": 2}), corpus, tmp_path / "run", notify=lines.append)
    flags("")
    with pytest.warns(ElmokitWarning, match="no instructions for bfloat16"):
        run(settings(precision="bfloat16", loop={"max_steps": 4}), corpus, tmp_path / "run", resume=True)
    run(settings(precision="auto", loop={"max_steps": 4}), corpus, tmp_path / "run", resume=True, notify=lines.append)
    slow = "bfloat16 by torch (without instructions for it), portable cell"
    assert lines == [
        "precision float32: this processor has no instructions for bfloat16",
        f"from step 4 on the run computes in float32, portable cell, before: {slow}",
        'from step 4 on precision = "auto", before: "bfloat16"',
    ]
    found = [entry for entry in read_log(tmp_path / "run") if "arithmetic" in entry]
    assert [(entry["step"], entry["arithmetic"]) for entry in found[1:]] == [(2, slow), (4, "float32, portable cell")]
    assert found[2]["why"] == "this processor has no instructions for bfloat16"


def test_auto_takes_no_precision_that_is_refused(
    tiny: Callable[[str], BiLM], flags: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags("amx_tile amx_bf16 avx512_bf16")
    monkeypatch.setattr("elmokit.amx.tiles_are_hidden", lambda: True)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    precision, reason = choose(tiny("softmax"), {}, monkeypatch)
    assert precision == "float32"
    assert "does not describe its tiles" in reason


def test_hidden_tiles_that_torch_leaves_alone(flags: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    flags("amx_tile amx_bf16 avx512_bf16")
    monkeypatch.setattr(choosing, "tiles_are_hidden", lambda: True)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
    found = choose_arithmetic("bfloat16", CPU, torch.float32)
    assert found.label == "bfloat16 by torch (AVX512-BF16), portable cell"
