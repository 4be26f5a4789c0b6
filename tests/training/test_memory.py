"""What the machine has, and what a run needs of it."""

from pathlib import Path

import pytest

from elmokit import cores
from elmokit.errors import ConfigError
from elmokit.formats.parts import empty_model
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from elmokit.training import memory
from elmokit.training.config import PretrainConfig, read_run


def test_the_memory_of_the_machine_is_known() -> None:
    found = cores.usable_memory()
    assert found is None or found > 100_000_000


def test_the_limit_of_a_container_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [tmp_path / name for name in ("missing", "max", "limit")]
    limits[1].write_text("max\n")
    limits[2].write_text("1234567\n")
    monkeypatch.setattr(cores, "MEMORY_LIMITS", limits)
    assert cores.usable_memory() == 1_234_567


def build(config: PretrainConfig, num_words: int) -> BiLM:
    words = Vocabulary([*SPECIALS, *(f"w{number}" for number in range(num_words - len(SPECIALS)))])
    return empty_model(config.build_model(num_words), words, None)


@pytest.mark.parametrize("preset", ["tiny", "tiny-token", "mini"])
def test_the_estimate_is_more_than_the_weights_and_less_than_ten_times_as_much(
    preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_run(PretrainConfig, preset, {"batch_size": "1", "unroll_steps": "1"})
    bilm = build(config, 1000)
    weights = bilm.num_parameters * 4
    monkeypatch.setattr(memory, "usable_memory", lambda: 10 * weights)
    memory.check_model(bilm, 1000, config)
    monkeypatch.setattr(memory, "usable_memory", lambda: weights)
    with pytest.raises(ConfigError, match="this run needs at least"):
        memory.check_model(bilm, 1000, config)


def test_large_vocabularies_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    config = read_run(PretrainConfig, "tiny")
    monkeypatch.setattr(memory, "usable_memory", lambda: 10**9)
    with pytest.raises(ConfigError, match=r"make corpus\.max_vocab \(10,000,000 words\) smaller"):
        memory.check_model(build(config, 1000), 10_000_000, config)


def test_rows_are_spread_over_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    config = read_run(PretrainConfig, "tiny", {"batch_size": "1000000"})
    bilm = build(config, 10)
    monkeypatch.setattr(memory, "usable_memory", lambda: 10**10)
    with pytest.raises(ConfigError, match="batch_size"):
        memory.check_model(bilm, 10, config)
    memory.check_model(bilm, 10, config, num_processes=10)


def test_what_cannot_be_known_refuses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = read_run(PretrainConfig, "tiny", {"batch_size": "16000000"})
    monkeypatch.setattr(memory, "usable_memory", lambda: None)
    memory.check_settings(config)
