"""An embedder whose model is trained meanwhile: it never mixes old and new weights."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch

import elmokit
from elmokit.embedding.embedder import Embedder
from elmokit.model.bilm import BiLM

TEXTS = [["the", "play"], ["naïve", "."]]


def halve(bilm: BiLM) -> None:
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.mul_(0.5)


def replace_data(bilm: BiLM) -> None:
    for parameter in bilm.parameters():
        parameter.data = parameter.data / 2


def load_other(bilm: BiLM) -> None:
    bilm.load_state_dict({name: tensor / 2 for name, tensor in bilm.state_dict().items()})


@pytest.mark.parametrize("change", [halve, replace_data, load_other])
@pytest.mark.parametrize("state", ["reset", "warm"])
def test_vectors_are_those_of_the_weights_of_the_moment(bilm: BiLM, change: Callable[[BiLM], None], state: str) -> None:
    embedder = Embedder(bilm, state=state)  # type: ignore[arg-type]
    before, name = embedder.embed(TEXTS), embedder.fingerprint
    change(bilm)
    fresh = Embedder(copy.deepcopy(bilm), state=state)  # type: ignore[arg-type]
    for ours, expected, old in zip(embedder.embed(TEXTS), fresh.embed(TEXTS), before, strict=True):
        np.testing.assert_array_equal(ours, expected)
        assert not np.allclose(ours, old)
    assert embedder.fingerprint == fresh.fingerprint != name


def test_nothing_is_computed_again_while_nothing_changes(bilm: BiLM) -> None:
    embedder = Embedder(bilm)
    runner = embedder.runner
    embedder.embed(TEXTS)
    assert embedder.runner is runner


def test_learned_weights_choose_layers(bilm: BiLM) -> None:
    mix = elmokit.ScalarMix(bilm.config.num_layers, initial_weights=[1.0, 2.0, 3.0])
    embedder = Embedder(bilm)
    ours = embedder.embed(TEXTS, layers=mix.layer_weights)  # type: ignore[arg-type]
    expected = embedder.embed(TEXTS, layers=mix.layer_weights.tolist())
    np.testing.assert_array_equal(ours[0], expected[0])


def test_half_precision_models_give_vectors(bilm: BiLM) -> None:
    expected = Embedder(bilm).embed(TEXTS)
    for dtype in (torch.bfloat16, torch.float16):
        (first, _) = Embedder(copy.deepcopy(bilm).to(dtype)).embed(TEXTS)
        assert first.dtype == np.float32
        np.testing.assert_allclose(first, expected[0], atol=0.1)
