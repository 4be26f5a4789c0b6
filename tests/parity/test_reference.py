"""elmokit against the independent float64 implementation in `tests/reference.py`, over every setting of both formats.

Models are random and small, written in the foreign layout and read by `elmokit.load`. Batches of changing size run
with the state carried by the peers' rules. In float64 the two agree to 1e-12, so that nothing hides in rounding.
"""

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import elmokit
from tests import reference

pytestmark = pytest.mark.engine

FLOAT32: dict[str, Any] = {"atol": 1e-5, "rtol": 0}
FLOAT64: dict[str, Any] = {"atol": 1e-12, "rtol": 0}

VOCABULARY = ["<S>", "</S>", "<UNK>", "the", "The", "cat", "sat", ".", "é", "日本", "play"]
SIZE = len(VOCABULARY)

# Carried-state order: a batch that starts, a smaller one, a larger one with empty sentences, only an empty one, again.
BATCHES: list[list[list[str]]] = [
    [["The", "cat", "sat", "."], ["play"], ["an", "overlong-token-of-many-characters", "é", "cat"]],
    [["日本語日本語", "cat"], []],
    [[], ["<S>", "x", "</S>"], ["", "<UNK>", "cat"], ["the"] * 7, ["Ünïcode", "🙂🙂🙂🙂"]],
    [[]],
    [["\ud800lone", "sat"], ["<bos>", "cat", "<eos>"], ["on", "the", "cat"], ["."]],
]

BILM_SETTINGS = {
    "default": {},
    "tanh": {"activation": "tanh"},
    "no highway key": {"n_highway": None},
    "no highway": {"n_highway": 0},
    "three highways": {"n_highway": 3},
    "tanh without highway": {"activation": "tanh", "n_highway": 0},
    "one filter": {"filters": ((2, 9),)},
    "filter as wide as a token": {"filters": ((1, 3), (9, 4), (12, 5))},
    "repeated width": {"filters": ((3, 4), (1, 2), (3, 5))},
    "no CNN projection": {"filters": ((1, 2), (3, 4))},
    "no CNN projection, no highway": {"filters": ((1, 2), (3, 4)), "n_highway": 0},
    "no LSTM projection": {"dim": 6},
    "no projection at all": {"filters": ((1, 2), (3, 4)), "dim": 6, "cell_clip": None},
    "projection wider than the cell": {"dim": 4},
    "one character vector": {"char_dim": 1},
    "five characters per token": {"max_characters": 5},
    "fifty characters per token": {"max_characters": 50},
    "null clips": {"cell_clip": None, "proj_clip": None},
    "no clip keys": {"clip_keys": False},
    "cell clip only": {"proj_clip": None},
    "projection clip only": {"cell_clip": None},
    "no skip": {"skip": False},
    "no skip, three layers": {"skip": False, "n_layers": 3},
    "three layers": {"n_layers": 3},
    "one layer": {"n_layers": 1},
    "one layer, bilm-tf's layout": {"n_layers": 1, "one_layer_layout": True},
    "one layer, bilm-tf's layout, no projection": {"n_layers": 1, "one_layer_layout": True, "dim": 6},
    "training options": {"n_characters": 261},
    "softmax": {"softmax_size": SIZE},
    "token input": {"vocabulary_size": SIZE},
    "token input, softmax": {"vocabulary_size": SIZE, "softmax_size": SIZE, "skip": False},
    "token input, tied softmax": {"vocabulary_size": SIZE, "softmax_size": SIZE, "tied": True},
    "token input, no LSTM projection": {"vocabulary_size": SIZE, "dim": 6, "n_layers": 3},
}

MANY_LANGS_SETTINGS = {
    "default": {},
    "no word part": {"word_dim": 0},
    "no character part": {"char_dim": 0},
    "tanh": {"activation": "tanh"},
    "no highway": {"n_highway": 0},
    "one layer": {"n_layers": 1},
    "three layers": {"n_layers": 3},
    "null clips": {"cell_clip": None, "proj_clip": None},
    "no classifier": {"classifier": False},
    "seven characters per token": {"max_characters": 7},
    "fifty characters per token": {"max_characters": 50, "filters": ((1, 4), (7, 5))},
}

CASES = [pytest.param("bilm", settings, id=f"bilm: {name}") for name, settings in BILM_SETTINGS.items()] + [
    pytest.param("many-langs", settings, id=f"many-langs: {name}") for name, settings in MANY_LANGS_SETTINGS.items()
]


class BilmCase:
    """A random bilm-tf model: the file on disk, and how the reference runs it."""

    def __init__(self, directory, settings, seed=1):
        self.options, self.arrays = reference.random_bilm(seed, **settings)
        self.has_softmax = "lm/softmax/b" in self.arrays
        needs_vocabulary = self.has_softmax or "embedding" in self.arrays
        self.vocabulary = VOCABULARY if needs_vocabulary else None
        self.path = reference.write_bilm(directory, self.options, self.arrays, self.vocabulary)

    def run(self, sentences, state=None):
        return reference.run_bilm(self.options, self.arrays, sentences, state, self.vocabulary)

    def log_probabilities(self, layers, vocabulary):
        assert list(vocabulary.tokens) == VOCABULARY
        return reference.bilm_log_probabilities(self.arrays, layers)


class ManyLangsCase:
    """The same for a random ELMoForManyLangs model."""

    def __init__(self, directory, settings, seed=1):
        self.model = reference.random_many_langs(seed, **settings)
        self.has_softmax = bool(self.model.classifier)
        self.path = reference.write_many_langs(directory, self.model)

    def run(self, sentences, state=None):
        return reference.run_many_langs(self.model, sentences, state)

    def log_probabilities(self, layers, vocabulary):
        """In the order of elmokit's vocabulary, which puts its own three special words first."""
        words = ["<bos>", "<eos>", "<oov>", *vocabulary.tokens[3:]]
        order = [self.model.words[word] for word in words]
        assert sorted(order) == list(range(len(self.model.words)))
        both = reference.many_langs_log_probabilities(self.model, layers)
        return {direction: values[:, order] for direction, values in both.items()}


def make_case(kind, directory, settings):
    return (BilmCase if kind == "bilm" else ManyLangsCase)(directory, settings)


@pytest.fixture
def case(request, tmp_path):
    return make_case("bilm", tmp_path, getattr(request, "param", {}))


@torch.no_grad()
def run_batch(bilm, sentences, state=None, keep_boundaries=True):
    """One batch by the peers' rules: first rows used and updated, further rows from zero."""
    before = None if state is None else state.resized(len(sentences))
    layers, mask, after = bilm(bilm.to_char_ids(sentences), before, keep_boundaries=keep_boundaries)
    return layers, mask, after if state is None else state.updated(after)


def state_rows(state):
    """elmokit's state in the reference's form: rows of directions of layers of (c, h)."""
    return [
        {
            name: [(c[row].numpy(), h[row].numpy()) for h, c in zip(side.h, side.c, strict=True)]
            for name, side in zip(reference.DIRECTIONS, state, strict=True)
        }
        for row in range(state.num_rows)
    ]


def assert_same_state(ours, theirs, tolerance):
    ours = state_rows(ours)
    assert len(ours) == len(theirs) > 0
    for our_row, their_row in zip(ours, theirs, strict=True):
        for direction in reference.DIRECTIONS:
            for our_pair, their_pair in zip(our_row[direction], their_row[direction], strict=True):
                for our_vector, their_vector in zip(our_pair, their_pair, strict=True):
                    np.testing.assert_allclose(our_vector, their_vector, **tolerance)


def assert_same_run(bilm, case, tolerance):
    ours_state, theirs_state = None, None
    for batch in BATCHES:
        expected, theirs_state = case.run(batch, theirs_state)
        layers, mask, ours_state = run_batch(bilm, batch, ours_state)
        expected_layers, expected_mask = reference.pad(expected)
        np.testing.assert_array_equal(mask.numpy(), expected_mask)
        np.testing.assert_allclose(layers.numpy(), expected_layers, **tolerance)  # zeros at padding included
        assert_same_state(ours_state, theirs_state, tolerance)


@pytest.mark.parametrize(("kind", "settings"), CASES)
class TestGrid:
    def test_float32(self, kind, settings, tmp_path):
        case = make_case(kind, tmp_path, settings)
        assert_same_run(elmokit.load(case.path), case, FLOAT32)

    def test_float64(self, kind, settings, tmp_path):
        case = make_case(kind, tmp_path, settings)
        assert_same_run(elmokit.load(case.path).double(), case, FLOAT64)

    def test_without_boundaries(self, kind, settings, tmp_path):
        case = make_case(kind, tmp_path, settings)
        bilm = elmokit.load(case.path).double()
        for batch in BATCHES:
            layers, mask, _ = run_batch(bilm, batch, keep_boundaries=False)
            expected = [reference.without_boundaries(sentence) for sentence in case.run(batch)[0]]
            expected_layers, expected_mask = reference.pad(expected)
            np.testing.assert_array_equal(mask.numpy(), expected_mask)
            np.testing.assert_allclose(layers.numpy(), expected_layers, **FLOAT64)


SOFTMAX_CASES = [
    pytest.param("bilm", BILM_SETTINGS["softmax"], id="bilm: characters"),
    pytest.param("bilm", BILM_SETTINGS["token input, softmax"], id="bilm: tokens"),
    pytest.param("bilm", BILM_SETTINGS["token input, tied softmax"], id="bilm: tokens, tied"),
    pytest.param("many-langs", {}, id="many-langs"),
    pytest.param("many-langs", {"char_dim": 0}, id="many-langs: no characters"),
]


@pytest.mark.parametrize(("kind", "settings"), SOFTMAX_CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, FLOAT32), (torch.float64, FLOAT64)])
def test_log_probabilities(kind, settings, dtype, tolerance, tmp_path):
    case = make_case(kind, tmp_path, settings)
    assert case.has_softmax
    bilm = elmokit.load(case.path).to(dtype)
    batch = BATCHES[0]
    layers, _, _ = run_batch(bilm, batch)
    for row, sentence in enumerate(case.run(batch)[0]):
        expected = case.log_probabilities(sentence, bilm.vocabulary)
        halves = layers[-1, row, : sentence.shape[1]].chunk(2, dim=-1)
        for direction, half in zip(reference.DIRECTIONS, halves, strict=True):
            with torch.no_grad():
                ours = bilm.logits(half).log_softmax(-1).numpy()
            np.testing.assert_allclose(ours, expected[direction], **tolerance)


def test_ids_equal_the_reference(case):
    bilm = elmokit.load(case.path)
    for batch in BATCHES:
        ours = bilm.to_char_ids(batch).numpy()
        np.testing.assert_array_equal(ours, reference.batch_char_ids(batch, 12))
        np.testing.assert_array_equal(elmokit.batch_to_ids(batch).numpy(), reference.batch_char_ids(batch, 50))


@pytest.mark.parametrize("without", ["cell_clip", "proj_clip", "use_skip_connections"])
def test_clips_and_skips_bind_in_these_models(without, case):
    """Guards the grid: each of these settings changes the default model's output by far more than the tolerances."""
    expected = reference.pad(case.run(BATCHES[0])[0])[0]
    case.options["lstm"][without] = None
    assert np.abs(reference.pad(case.run(BATCHES[0])[0])[0] - expected).max() > 1e-2


@pytest.mark.parametrize("missing", ["architecture file", "keys"])
def test_many_langs_defaults(missing, tmp_path):
    """relu, clips of 3 and 50 characters where the JSON does not say."""
    model = reference.random_many_langs(5, activation="relu", cell_clip=3, proj_clip=3, max_characters=50)
    model.encoder = {name: 4 * array for name, array in model.encoder.items()}  # so that clips of 3 bind
    reference.write_many_langs(tmp_path, model)
    if missing == "architecture file":
        (tmp_path / "configs" / "cnn.json").unlink()
        (tmp_path / "config.json").write_text('{"config_path": "configs/cnn_50_100_512_4096_sample.json"}')
    else:
        (tmp_path / "configs" / "cnn.json").write_text('{"encoder": {"name": "elmo"}, "token_embedder": {}}')
    expected = reference.pad(reference.run_many_langs(model, BATCHES[0])[0])[0]
    layers, _, _ = run_batch(elmokit.load(tmp_path).double(), BATCHES[0])
    np.testing.assert_allclose(layers.numpy(), expected, atol=1e-11, rtol=0)  # weights are large, and so is rounding
    model.architecture["encoder"] |= {"cell_clip": None, "proj_clip": None}
    assert np.abs(reference.pad(reference.run_many_langs(model, BATCHES[0])[0])[0] - expected).max() > 1e-2


def test_many_langs_cuts_a_token_spelled_as_a_boundary_too(tmp_path):
    """The cut comes before both look-ups: where four characters fit, a token "<bos>" is the unknown word "<bos"."""
    case = ManyLangsCase(tmp_path, {"max_characters": 6})
    sentences = [["cat", "<bos>", "sat"]]
    layers, _, _ = run_batch(elmokit.load(case.path).double(), sentences)
    np.testing.assert_allclose(layers.numpy(), reference.pad(case.run(sentences)[0])[0], **FLOAT64)


@pytest.mark.parametrize("format", ["native", "bilm"])
@pytest.mark.parametrize(
    "name", ["default", "no CNN projection", "one layer, bilm-tf's layout", "token input, softmax"]
)
def test_after_a_round_trip(format, name, tmp_path):
    """What elmokit writes still equals the reference on the original file."""
    case = BilmCase(tmp_path / "original", BILM_SETTINGS[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", elmokit.errors.ElmokitWarning)  # some exports are not for AllenNLP
        elmokit.save(elmokit.load(case.path), tmp_path / "again", format=format)
    assert_same_run(elmokit.load(tmp_path / "again").double(), case, FLOAT64)


# --- Mixes -----------------------------------------------------------------------------------------------------------

WEIGHTS, GAMMA = [0.7, -1.3, 0.4], 1.7
EPS = 1e-12


def set_mix(mix, weights=WEIGHTS, gamma=GAMMA):
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(weights, dtype=mix.weights.dtype))
        mix.gamma.fill_(gamma)


@pytest.fixture
def some_layers(case):
    """Layers and mask of a batch with padding, with boundaries."""
    return reference.pad(case.run(BATCHES[2])[0])


@pytest.mark.parametrize("layer_norm", [False, "token", "batch"])
def test_scalar_mix(layer_norm, some_layers):
    layers, mask = some_layers
    mix = elmokit.ScalarMix(3, layer_norm=layer_norm, eps=EPS).double()
    set_mix(mix)
    ours = mix(torch.from_numpy(layers), torch.from_numpy(mask)).detach().numpy()
    weights = np.array(WEIGHTS)
    expected = reference.mix(layers, mask, weights, GAMMA, layer_norm, EPS)
    np.testing.assert_allclose(ours[mask], expected[mask], **FLOAT64)
    if layer_norm != "token":  # the values at padding are part of AllenNLP's behavior
        np.testing.assert_allclose(ours, expected, **FLOAT64)


def test_layer_norm_true_is_per_token(some_layers):
    layers, mask = (torch.from_numpy(array) for array in some_layers)
    ours = [elmokit.ScalarMix(3, layer_norm=kind).double()(layers, mask) for kind in (True, "token")]
    torch.testing.assert_close(*ours, rtol=0, atol=0)


def test_elmo_mixes(some_layers):
    layers, mask = some_layers
    mixes = elmokit.ElmoMixes(3, num_outputs=2, layer_norm=False).double().eval()
    set_mix(mixes.mixes[0])
    set_mix(mixes.mixes[1], [0.0, 2.0, -1.0], 0.5)
    first, second = mixes(torch.from_numpy(layers), torch.from_numpy(mask))
    np.testing.assert_allclose(first.detach(), reference.mix(layers, mask, WEIGHTS, GAMMA), **FLOAT64)
    np.testing.assert_allclose(second.detach(), reference.mix(layers, mask, [0.0, 2.0, -1.0], 0.5), **FLOAT64)


@pytest.mark.parametrize("keep_boundaries", [False, True])
@pytest.mark.parametrize("layer_norm", [False, "token", "batch"])
def test_elmo(layer_norm, keep_boundaries, case):
    """Statistics over the batch are over what is returned: with boundaries as AllenNLP, without as bilm-tf."""
    bilm = elmokit.load(case.path)
    elmo = elmokit.Elmo(bilm, layer_norm=layer_norm, keep_boundaries=keep_boundaries).double().eval()
    set_mix(elmo.mixes.mixes[0])
    results, _ = case.run(BATCHES[2])
    results = results if keep_boundaries else [reference.without_boundaries(sentence) for sentence in results]
    layers, mask = reference.pad(results)
    out = elmo(bilm.to_char_ids(BATCHES[2]))
    expected = reference.mix(layers, mask, WEIGHTS, GAMMA, layer_norm, EPS)
    np.testing.assert_array_equal(out.mask.numpy(), mask)
    np.testing.assert_allclose(out.representations[0].detach().numpy()[mask], expected[mask], atol=1e-11, rtol=0)


def test_elmo_of_four_dimensions(case):
    """(B, K, T, C): K sentences to each example."""
    bilm = elmokit.load(case.path)
    elmo = elmokit.Elmo(bilm).double().eval()
    set_mix(elmo.mixes.mixes[0])
    sentences = [["The", "cat"], ["sat"], [], ["play", ".", "é"]]
    out = elmo(bilm.to_char_ids(sentences).unflatten(0, (2, 2)))
    layers, mask = reference.pad([reference.without_boundaries(sentence) for sentence in case.run(sentences)[0]])
    expected = reference.mix(layers, mask, WEIGHTS, GAMMA)
    assert out.mask.shape == (2, 2, 3)
    np.testing.assert_array_equal(out.mask.flatten(0, 1).numpy(), mask)
    np.testing.assert_allclose(out.representations[0].flatten(0, 1).detach().numpy(), expected, **FLOAT64)


# --- A sentence's vectors do not depend on its company ---------------------------------------------------------------

SENTENCES = [sentence for batch in BATCHES for sentence in batch]


@pytest.mark.parametrize("kind", ["bilm", "many-langs"])
@pytest.mark.parametrize("order", ["input", "reversed", "shuffled"])
def test_alone_or_in_any_batch(kind, order, tmp_path):
    bilm = elmokit.load(make_case(kind, tmp_path, {}).path)
    numbers = list(range(len(SENTENCES)))
    if order == "reversed":
        numbers.reverse()
    elif order == "shuffled":
        numbers = np.random.default_rng(3).permutation(numbers).tolist()
    together, mask, _ = run_batch(bilm, [SENTENCES[number] for number in numbers], keep_boundaries=False)
    for row, number in enumerate(numbers):
        length = len(SENTENCES[number])
        alone, _, _ = run_batch(bilm, [SENTENCES[number]], keep_boundaries=False)
        assert alone.shape[2] == length == int(mask[row].sum())
        torch.testing.assert_close(together[:, row, :length], alone[:, 0], atol=1e-6, rtol=0)
        assert not together[:, row, length:].any()
