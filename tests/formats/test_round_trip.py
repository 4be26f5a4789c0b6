"""Any small model through every format that is written, bit for bit."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmokit.config import ElmoConfig
from elmokit.formats import SAVE_FORMATS, SaveFormat, load
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import Vocabulary
from tests import strategies
from tests.contracts.format import assert_bit_equal, save_quietly

ODD = np.array([0.0, -0.0, 1e-45, -1e-38, 3.4e38, np.inf, -np.inf, np.nan], dtype=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("format", SAVE_FORMATS)
@given(strategies.models(), st.integers(0, 2**32))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_round_trip(format: SaveFormat, model: tuple[ElmoConfig, Vocabulary | None], seed: int) -> None:
    config, vocabulary = model
    bilm = BiLM(config, vocabulary=vocabulary, seed=seed).eval()
    generator = np.random.default_rng(seed)
    with torch.no_grad():
        for parameter in bilm.parameters():
            odd = torch.from_numpy(generator.choice(ODD, parameter.shape))
            chosen = torch.from_numpy(generator.random(parameter.shape) < 0.1)
            parameter.copy_(torch.where(chosen, odd, parameter))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.zip"
        save_quietly(bilm, path, format=format)
        loaded = load(path)
    assert_bit_equal(loaded, bilm)
    lost = set() if format == "native" else {"languages"}  # options.json has no place for them
    assert loaded.config.model_dump(exclude=lost) == config.model_dump(exclude=lost)
    assert loaded.vocabulary == vocabulary
    assert fingerprint(loaded) == fingerprint(bilm)
