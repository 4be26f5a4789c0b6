"""elmokit against AllenNLP 2.10.1's own modules, on random weights in files that both read.

Small models are compared in float32 and, sharply, in float64; a model of the original's size in float32, where the
order of summation alone makes a difference (see the bounds there).
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import elmokit
from elmokit.model.bilm import remove_boundaries
from tests import reference
from tests.parity.allennlp_peer import importable, load_peer, quiet, requires_peer

pytestmark = requires_peer

FLOAT32: dict[str, Any] = {"atol": 2e-6, "rtol": 2e-6}  # of both, because a sum's rounding grows with its numbers
FLOAT64: dict[str, Any] = {"atol": 1e-12, "rtol": 0}
GRADIENTS: dict[str, Any] = {"atol": 1e-11, "rtol": 1e-11}
PRECISIONS = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, FLOAT32), (torch.float64, FLOAT64)], ids=["float32", "float64"]
)

TOKENS = ["The", "cat", "", "é", "日本語", "🙂", "<S>", "</S>", "<UNK>", "\ud800lone", "a b"]
TOKENS += ["x" * 48, "x" * 49, "xé" * 17]  # just fits; cut; cut inside a character
BATCHES: list[list[list[str]]] = [
    [["The", "cat", "sat", "."], ["play"], ["an", "é", "日本語", "x" * 60, "<S>"]],
    [["They", "play"], []],  # smaller
    [[], ["", "b"], ["c"], [], ["the"] * 8, ["z", "z"]],  # larger
    [[]],
    [["again"], ["and", "again"], ["."], ["</S>", "?"]],
]

SETTINGS = {
    "default": {},
    "tanh": {"activation": "tanh"},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "no highway": {"n_highway": 0},
    "three highways": {"n_highway": 3},
    "null clips": {"cell_clip": None, "proj_clip": None},
    "wide filters": {"filters": ((1, 3), (7, 9), (50, 4))},
    "projection wider than the cell": {"dim": 4},
}
ORIGINAL = {
    "char_dim": 16,
    "filters": ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    "n_highway": 2,
    "dim": 4096,
    "projection_dim": 512,
    "cell_clip": 3,
    "proj_clip": 3,
}


def random_model(seed=7, **settings):
    """A random model for both; the peer reads 50 characters per token only.

    The peer adds the forget bias of 1 to the stored one in float32. Biases with few digits make that exact, so that
    a comparison in float64 sees no rounding.
    """
    options, arrays = reference.random_bilm(seed, **{"max_characters": 50} | settings)
    arrays = {name: np.round(array * 4096) / 4096 if name.endswith("/B") else array for name, array in arrays.items()}
    return options, arrays


def write_files(directory, **settings):
    options, arrays = random_model(**settings)
    weights = reference.write_bilm(directory, options, arrays)
    return str(weights.parent / "options.json"), str(weights)


@pytest.fixture
def files(tmp_path):
    return write_files(tmp_path)


def build_peer_bilm(files, **keywords):
    with quiet():
        return load_peer()._ElmoBiLm(*files, **keywords).eval()


def run_peer(bilm, char_ids):
    """Layers (L, B, T + 2, 2P) and mask; the module itself carries the state."""
    with quiet():
        output = bilm(char_ids)
    return torch.stack(output["activations"]), output["mask"]


def run_ours(bilm, char_ids, state=None):
    before = None if state is None else state.resized(len(char_ids))
    layers, mask, after = bilm(char_ids, before, keep_boundaries=True)
    return layers, mask, after if state is None else state.updated(after)


def assert_same_state(state, peer_bilm, tolerance):
    """The peer keeps h and c of both directions side by side."""
    h, c = peer_bilm._elmo_lstm._states
    torch.testing.assert_close(torch.cat([state.forward.h, state.backward.h], -1), h, **tolerance)
    torch.testing.assert_close(torch.cat([state.forward.c, state.backward.c], -1), c, **tolerance)


# --- Ids -------------------------------------------------------------------------------------------------------------


def test_batch_to_ids():
    sentences = [TOKENS, ["one"], [], TOKENS[::-1]]
    torch.testing.assert_close(elmokit.batch_to_ids(sentences), load_peer().batch_to_ids(sentences), rtol=0, atol=0)


@pytest.mark.parametrize("token", TOKENS, ids=ascii)
def test_reference_ids_equal_the_mapper(token):
    assert reference.token_char_ids(token, 50) == load_peer().ELMoCharacterMapper().convert_word_to_char_ids(token)


# --- The biLM --------------------------------------------------------------------------------------------------------


@pytest.mark.engine
@PRECISIONS
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@torch.no_grad()
def test_layers_and_state(settings, dtype, tolerance, tmp_path):
    files = write_files(tmp_path, **settings)
    ours, theirs = elmokit.load(files[1]).to(dtype), build_peer_bilm(files).to(dtype)
    state = None
    for batch in BATCHES:
        char_ids = elmokit.batch_to_ids(batch)
        layers, mask, state = run_ours(ours, char_ids, state)
        expected, expected_mask = run_peer(theirs, char_ids)
        torch.testing.assert_close(mask, expected_mask)
        torch.testing.assert_close(layers, expected, **tolerance)  # zeros at padding included
        assert_same_state(state, theirs, tolerance)


@torch.no_grad()
def test_the_reference_equals_the_peer_too(files):
    options, arrays = random_model()
    theirs = build_peer_bilm(files).double()
    state: list[Any] = []
    for batch in BATCHES:
        results, state = reference.run_bilm(options, arrays, batch, state)
        expected, _ = run_peer(theirs, elmokit.batch_to_ids(batch))
        np.testing.assert_allclose(reference.pad(results)[0], expected.numpy(), **FLOAT64)


@pytest.mark.engine
@torch.no_grad()
def test_without_boundaries(files):
    ours, theirs = elmokit.load(files[1]).double(), build_peer_bilm(files).double()
    char_ids = elmokit.batch_to_ids(BATCHES[2])
    layers, mask, _ = ours(char_ids)
    expected, expected_mask = run_peer(theirs, char_ids)
    for layer, expected_layer in zip(layers, expected, strict=True):
        removed, removed_mask = load_peer().remove_sentence_boundaries(expected_layer, expected_mask)
        torch.testing.assert_close(mask, removed_mask)
        torch.testing.assert_close(layer, removed, **FLOAT64)


@pytest.fixture(scope="module")
def original_size():
    """Both models at the size of the original ELMo, from one pair of files that is deleted at once."""
    with tempfile.TemporaryDirectory(prefix="elmokit-parity-") as directory:
        files = write_files(Path(directory), **ORIGINAL)
        yield elmokit.load(files[1]), build_peer_bilm(files)


@pytest.mark.slow
@torch.no_grad()
def test_original_size(original_size):
    """At most 5e-5 anywhere and 5e-6 in relative RMS per layer, over two batches with the state carried."""
    ours, theirs = original_size
    assert round(ours.num_parameters / 1e6, 1) == 93.6
    state = None
    for batch in (
        [["The", "play", "was", "cancelled", "."], ["They", "play"], []],
        [["Never", "again"], ["A", "café", "日本語", "!"], ["x"]],
    ):
        char_ids = elmokit.batch_to_ids(batch)
        layers, _, state = run_ours(ours, char_ids, state)
        expected, _ = run_peer(theirs, char_ids)
        difference = layers - expected  # (L, B, T + 2, 2P)
        assert difference.abs().max() <= 5e-5
        rms = difference.square().mean((1, 2, 3)).sqrt() / expected.square().mean((1, 2, 3)).sqrt()  # (L,)
        assert rms.max() <= 5e-6
        assert_same_state(state, theirs, {"atol": 5e-5, "rtol": 0})


# --- Elmo: mixes on top ----------------------------------------------------------------------------------------------

MIXES = [([0.7, -1.3, 0.4], 1.7), ([0.0, 2.0, -1.0], 0.5)]


def build_peer_elmo(files, num_outputs, **keywords):
    with quiet():
        elmo = load_peer().Elmo(*files, num_outputs, dropout=0.0, **keywords).eval()
    for k, (weights, gamma) in enumerate(MIXES[:num_outputs]):
        mix = getattr(elmo, f"scalar_mix_{k}")
        for parameter, weight in zip(mix.scalar_parameters, weights, strict=True):
            parameter.data.fill_(weight)
        mix.gamma.data.fill_(gamma)
    return elmo


def build_our_elmo(files, num_outputs, **keywords):
    elmo = elmokit.Elmo(elmokit.load(files[1]), num_outputs=num_outputs, dropout=0.0, **keywords).eval()
    for mix, (weights, gamma) in zip(elmo.mixes.mixes, MIXES, strict=False):
        mix.weights.data.copy_(torch.tensor(weights))
        mix.gamma.data.fill_(gamma)
    return elmo


@pytest.mark.engine
@PRECISIONS
@pytest.mark.parametrize("keep_boundaries", [False, True], ids=["without boundaries", "with boundaries"])
@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer norm"])
@pytest.mark.parametrize("num_outputs", [1, 2])
@torch.no_grad()
def test_elmo(num_outputs, layer_norm, keep_boundaries, dtype, tolerance, files):
    """The peer normalizes over the batch with its boundaries, then removes them; ours is set to do the same."""
    theirs = build_peer_elmo(files, num_outputs, do_layer_norm=layer_norm, keep_sentence_boundaries=keep_boundaries).to(
        dtype
    )
    ours = build_our_elmo(files, num_outputs, layer_norm="batch" if layer_norm else False, keep_boundaries=True)
    ours, state = ours.to(dtype), None
    if layer_norm and dtype == torch.float64:
        tolerance = {"atol": 1e-10, "rtol": 0}  # their epsilon is 1e-13, ours 1e-12
    for batch in BATCHES:
        char_ids = elmokit.batch_to_ids(batch)
        with quiet():
            expected = theirs(char_ids)
        out = ours(char_ids, None if state is None else state.resized(len(batch)))
        state = out.state if state is None else state.updated(out.state)
        mask = out.mask if keep_boundaries else remove_boundaries(out.representations[0], out.mask)[1]
        torch.testing.assert_close(mask, expected["mask"])
        assert len(out.representations) == len(expected["elmo_representations"]) == num_outputs
        for our_mix, their_mix in zip(out.representations, expected["elmo_representations"], strict=True):
            if not keep_boundaries:
                our_mix, _ = remove_boundaries(our_mix, out.mask)
            torch.testing.assert_close(our_mix, their_mix, **tolerance)  # padding included


@torch.no_grad()
def test_elmo_of_four_dimensions(files):
    ours, theirs = build_our_elmo(files, 2), build_peer_elmo(files, 2)
    char_ids = elmokit.batch_to_ids([["a", "b"], ["c"], [], ["d", "e", "f"], ["g"], ["h", "i"]])
    char_ids = char_ids.unflatten(0, (3, 2))  # (B, K, T, C)
    with quiet():
        expected = theirs(char_ids)
    out = ours(char_ids)
    torch.testing.assert_close(out.mask, expected["mask"])
    for our_mix, their_mix in zip(out.representations, expected["elmo_representations"], strict=True):
        assert our_mix.shape == (3, 2, 3, 12)
        torch.testing.assert_close(our_mix, their_mix, **FLOAT32)


@pytest.mark.parametrize("layer_norm", [False, True], ids=["plain", "layer norm"])
def test_mixes_on_the_same_layers(layer_norm):
    generator = torch.Generator().manual_seed(2)
    layers = torch.randn(3, 4, 5, 6, generator=generator, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    weights, gamma = MIXES[0]
    with quiet():
        theirs = load_peer().ScalarMix(3, do_layer_norm=layer_norm, initial_scalar_parameters=weights).double()
    ours = elmokit.ScalarMix(3, layer_norm="batch" if layer_norm else False, initial_weights=weights).double()
    for mix in (ours, theirs):
        mix.gamma.data.fill_(gamma)
    expected = theirs(list(layers), mask)
    mixed = ours(layers, mask)
    torch.testing.assert_close(mixed, expected, atol=1e-10, rtol=0)
    cotangent = torch.randn(mixed.shape, generator=generator, dtype=torch.float64)
    for output in (mixed, expected):
        (output * cotangent).sum().backward()
    their_gradient = torch.cat([parameter.grad for parameter in theirs.scalar_parameters])
    torch.testing.assert_close(ours.weights.grad, their_gradient, atol=1e-9, rtol=0)
    torch.testing.assert_close(ours.gamma.grad, theirs.gamma.grad[0], atol=1e-9, rtol=0)


@torch.no_grad()
def test_cached_words(files):
    """The peer's cache of word vectors gives what the characters give, so ours needs no such switch for parity."""
    words = ["<pad>", "The", "cat", "sat"]
    with quiet(), importable():
        theirs = load_peer().Elmo(*files, 1, dropout=0.0, vocab_to_cache=words).eval()
        expected = theirs(elmokit.batch_to_ids([["The", "cat", "sat"]]), torch.tensor([[1, 2, 3]]))
    out = elmokit.Elmo(elmokit.load(files[1]), dropout=0.0)(elmokit.batch_to_ids([["The", "cat", "sat"]]))
    torch.testing.assert_close(out.representations[0], expected["elmo_representations"][0], **FLOAT32)


# --- Gradients -------------------------------------------------------------------------------------------------------


def to_our_gates(tensor):
    """i, f, j, o → i, f, o, j."""
    i, f, j, o = tensor.chunk(4)
    return torch.cat([i, f, o, j])


def translated_gradients(peer_bilm, num_filters, num_highway, num_layers):
    """The peer's gradients under our names: highway [transform; −carry], a table row for the mask."""
    theirs = {name: parameter.grad for name, parameter in peer_bilm.named_parameters()}
    assert all(gradient is not None for gradient in theirs.values())
    table = theirs["_token_embedder._char_embedding_weights"]
    assert not table[0].any()
    ours = {"encoder.char_table": table[1:]}
    for name, tensor in theirs.items():
        if name.startswith("_token_embedder") and tensor.dim() == 3:
            theirs[name] = tensor.permute(2, 1, 0)  # our kernels stand the other way round
    for part in ("weight", "bias"):
        for i in range(num_filters):
            ours[f"encoder.convolutions.{i}.{part}"] = theirs[f"_token_embedder.char_conv_{i}.{part}"]
        for k in range(num_highway):
            transform, minus_carry = theirs[f"_token_embedder._highways._layers.{k}.{part}"].chunk(2)
            ours[f"encoder.highways.{k}.transform.{part}"] = transform.t()
            ours[f"encoder.highways.{k}.carry.{part}"] = -minus_carry.t()
        ours[f"encoder.projection.{part}"] = theirs[f"_token_embedder._projection.{part}"].t()
    for direction in reference.DIRECTIONS:
        for layer in range(num_layers):
            name, their_name = f"{direction}_lstm.layers.{layer}", f"_elmo_lstm.{direction}_layer_{layer}"
            ours[f"{name}.input_weight"] = to_our_gates(theirs[f"{their_name}.input_linearity.weight"]).t()
            ours[f"{name}.recurrent_weight"] = to_our_gates(theirs[f"{their_name}.state_linearity.weight"]).t()
            ours[f"{name}.bias"] = to_our_gates(theirs[f"{their_name}.state_linearity.bias"])
            ours[f"{name}.projection_weight"] = theirs[f"{their_name}.state_projection.weight"].t()
    return ours


def top_sum(layers):
    return layers[-1].sum()


def random_sum(layers):
    """Every element of every layer with its own weight: no sign or position can cancel out."""
    return (layers * torch.randn(layers.shape, generator=torch.Generator().manual_seed(4), dtype=layers.dtype)).sum()


@pytest.mark.engine
@pytest.mark.parametrize("loss", [top_sum, random_sum])
@pytest.mark.parametrize("settings", [{}, {"n_layers": 3, "n_highway": 2}, {"cell_clip": None, "proj_clip": None}])
def test_gradients(loss, settings, tmp_path):
    """Of the second batch, after a first one whose state is carried: neither side lets a gradient into it."""
    files = write_files(tmp_path, **settings)
    ours, theirs = elmokit.load(files[1]).double(), build_peer_bilm(files, requires_grad=True).double()
    state = None
    for batch in BATCHES[:1] + BATCHES[2:3]:
        char_ids = elmokit.batch_to_ids(batch)
        layers, _, state = run_ours(ours, char_ids, state)
        expected, _ = run_peer(theirs, char_ids)
    loss(layers).backward()
    loss(expected).backward()
    translated = translated_gradients(theirs, 3, settings.get("n_highway", 1), settings.get("n_layers", 2))
    gradients = {name: parameter.grad for name, parameter in ours.named_parameters()}
    assert gradients.keys() == translated.keys()
    for name, gradient in gradients.items():
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(gradient, translated[name], **GRADIENTS)
