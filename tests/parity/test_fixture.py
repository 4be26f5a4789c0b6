"""Parity with vectors that bilm-tf itself computed, on TensorFlow, from a trained model.

Origin: bilm-tf's own test fixture. Three streams of ten sentences ran as batches of three with the state carried;
`lm_embeddings_{k}.hdf5` holds the forward and backward top layer of stream k without boundaries.
"""

import json
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from bench.places import FIXTURES

import elmokit
from elmokit.embedding.embedder import Embedder
from tests import reference

FIXTURE = FIXTURES / "bilm-tf"
NUM_STREAMS, NUM_SENTENCES = 3, 10
TOLERANCE: dict[str, Any] = {"atol": 1e-6, "rtol": 1e-5}

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not (FIXTURE / "lm_weights.hdf5").is_file(),
        reason=f"no bilm-tf fixture at {FIXTURE}: set ELMOKIT_FIXTURES to the folder that holds bilm-tf/",
    ),
]


@pytest.fixture(scope="module")
def batches():
    """Ten batches; batch i has the i-th sentence of every stream."""
    streams = json.loads((FIXTURE / "lm_embeddings_sentences.json").read_text())
    assert [len(stream) for stream in streams] == [NUM_SENTENCES] * NUM_STREAMS
    return [[stream[i].split(" ") for stream in streams] for i in range(NUM_SENTENCES)]


@pytest.fixture(scope="module")
def expected():
    """expected[i][k]: sentence i of stream k, (T, 2P)."""
    files = []
    for k in range(NUM_STREAMS):
        with h5py.File(FIXTURE / f"lm_embeddings_{k}.hdf5") as file:
            files.append([np.concatenate(list(file[str(i)][()]), axis=-1) for i in range(NUM_SENTENCES)])
    return [list(row) for row in zip(*files, strict=True)]


@pytest.fixture(scope="module")
def of_reference(batches):
    """of_reference[i][k]: all layers of the float64 reference, (L, T, 2P)."""
    options = json.loads((FIXTURE / "options.json").read_text())
    arrays = reference.read_arrays(FIXTURE / "lm_weights.hdf5")
    results: list[Any] = []
    state: list[Any] = []
    for batch in batches:
        layers, state = reference.run_bilm(options, arrays, batch, state)
        results.append([reference.without_boundaries(sentence) for sentence in layers])
    return results


def run_elmokit(batches, bilm):
    """results[i][k]: all layers of elmokit, (L, T, 2P), the state carried from batch to batch."""
    results, state = [], None
    for batch in batches:
        with torch.no_grad():
            layers, mask, state = bilm(bilm.to_char_ids(batch), state)
        assert mask.sum(1).tolist() == [len(sentence) for sentence in batch]
        results.append([layers[:, row, : len(sentence)].numpy() for row, sentence in enumerate(batch)])
    return results


@pytest.fixture(scope="module")
def of_elmokit(batches):
    return run_elmokit(batches, elmokit.load(FIXTURE / "lm_weights.hdf5"))


def pairs(left, right):
    found = [pair for ours, theirs in zip(left, right, strict=True) for pair in zip(ours, theirs, strict=True)]
    assert len(found) == NUM_STREAMS * NUM_SENTENCES
    return found


def test_top_layer_equals_bilm_tf(of_elmokit, expected):
    for ours, theirs in pairs(of_elmokit, expected):
        np.testing.assert_allclose(ours[-1], theirs, **TOLERANCE)


def test_the_embedder_equals_bilm_tf(engine_mode, batches, expected):
    embedder = Embedder(elmokit.load(FIXTURE / "lm_weights.hdf5"), state="carry", threads=1)
    assert embedder.runner.engine_name.startswith(engine_mode)
    found = embedder.embed([sentence for batch in batches for sentence in batch], layers="top", batch_size=NUM_STREAMS)
    for ours, theirs in zip(found, [vectors for row in expected for vectors in row], strict=True):
        np.testing.assert_allclose(ours, theirs, **TOLERANCE)


@pytest.mark.slow
def test_reference_equals_bilm_tf(of_reference, expected):
    for reference_layers, theirs in pairs(of_reference, expected):
        np.testing.assert_allclose(reference_layers[-1], theirs, **TOLERANCE)


def test_all_layers_equal_the_reference(of_elmokit, of_reference):
    for ours, reference_layers in pairs(of_elmokit, of_reference):
        np.testing.assert_allclose(ours, reference_layers, **TOLERANCE)


def test_in_float64_all_layers_equal_the_reference_sharply(batches, of_reference):
    of_elmokit = run_elmokit(batches, elmokit.load(FIXTURE / "lm_weights.hdf5").double())
    for ours, reference_layers in pairs(of_elmokit, of_reference):
        np.testing.assert_allclose(ours, reference_layers, atol=1e-12, rtol=0)


def test_the_state_matters(batches, expected):
    """Guards the tests above: without the carried state the second batch is far off."""
    bilm = elmokit.load(FIXTURE / "lm_weights.hdf5")
    without_state = run_elmokit(batches[1:2], bilm)[0]
    assert max(np.abs(ours[-1] - theirs).max() for ours, theirs in zip(without_state, expected[1], strict=True)) > 1e-2
