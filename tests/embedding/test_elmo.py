"""`Elmo`: a biLM, given or loaded by name, with mixes on top."""

from pathlib import Path

import pytest
import torch

import elmokit
from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM


def test_a_name_or_a_path_is_loaded(bilm: BiLM, tmp_path: Path) -> None:
    elmokit.save(bilm, tmp_path / "m")
    char_ids = bilm.to_char_ids([["the", "play"], ["was"]])
    expected = elmokit.Elmo(bilm, num_outputs=2, dropout=0.0).eval()(char_ids)
    for source in (tmp_path / "m", str(tmp_path / "m")):
        found = elmokit.Elmo(source, num_outputs=2, dropout=0.0).eval()(char_ids)
        assert len(found.representations) == 2
        for one, other in zip(found.representations, expected.representations, strict=True):
            assert torch.equal(one, other)


def test_a_bilm_is_shared_not_copied(bilm: BiLM) -> None:
    assert elmokit.Elmo(bilm).bilm is bilm


def test_mixes_of_nothing_have_nothing_to_regularize() -> None:
    """A task model without ELMo is built as one with it."""
    mixes = elmokit.ElmoMixes(3, 0)
    assert mixes(torch.zeros(3, 1, 2, 4), torch.ones(1, 2)) == ()
    assert mixes.regularization(1.0).item() == 0


@pytest.mark.parametrize("dropout", [0, 0.0, 0.999])
def test_the_bounds_of_dropout(bilm: BiLM, dropout: float) -> None:
    assert elmokit.Elmo(bilm, dropout=dropout).mixes.dropout.p == dropout
    with pytest.raises(ConfigError, match=r"dropout \(1\) must be a number of at least 0 and below 1"):
        elmokit.Elmo(bilm, dropout=1)


def test_a_frozen_bilm_has_nothing_to_learn(bilm: BiLM) -> None:
    elmo = elmokit.Elmo(bilm, num_outputs=2)
    assert all(name.startswith("mixes.") for name, one in elmo.named_parameters() if one.requires_grad)
    assert not any(one.requires_grad for one in bilm.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixes_work_under_autocast(bilm: BiLM, dtype: torch.dtype) -> None:
    ids = bilm.to_char_ids([["the", "play"]])
    with torch.autocast("cpu", dtype):
        (out,) = elmokit.Elmo(bilm, dropout=0)(ids).representations
    (plain,) = elmokit.Elmo(bilm, dropout=0)(ids).representations
    torch.testing.assert_close(out.float(), plain, atol=0.05, rtol=0.05)
