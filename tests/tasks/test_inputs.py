"""What a task model reads of tokens: each part is there, at its place, and learns if it shall."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM
from elmokit.tasks.batches import TokenBatch, TokenLookup, TokenTypes
from elmokit.tasks.config import ElmoSettings
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.words import WordTable

TABLE = WordTable(["the", "play", "was"])
L, D, E = 3, 5, 4
"""Layers, their width, and that of words."""


def batch(layers: Tensor | None = None) -> TokenBatch:
    """Two examples of three tokens and one."""
    plain = TokenLookup(TABLE).batch([(("the", "play", "x"),), (("was",),)])
    layers = torch.randn(L, 2, 3, D, generator=torch.Generator().manual_seed(1)) if layers is None else layers
    return TokenBatch(plain.mask, plain.word_rows, plain.types, layers, None)


def build_elmo(**settings: Any) -> ElmoInputs:
    return ElmoInputs(ElmoSettings(**{"dropout": 0.0, **settings}), num_layers=L, width=D)


def build(elmo: ElmoInputs | None = None, char_cnn: CharCnn | None = None, *, tune_words: bool = True) -> TokenInputs:
    vectors = torch.arange(float(len(TABLE) * E)).view(len(TABLE), E)
    return TokenInputs(vectors, tune_words=tune_words, char_cnn=char_cnn, elmo=elmo)


# --- Places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("filters", [0, 6])
@pytest.mark.parametrize(
    ("place", "dim", "extra"), [(None, E, 0), ("none", E, 0), ("input", E + D, 0), ("output", E, D), ("both", E + D, D)]
)
def test_places_have_their_widths(place: str | None, dim: int, extra: int, filters: int) -> None:
    char_cnn = CharCnn(char_dim=2, num_filters=filters, width=3) if filters else None
    inputs = build(None if place is None else build_elmo(place=place), char_cnn)
    assert (inputs.dim, inputs.extra_dim) == (dim + filters, extra)
    tokens, beside, mask = inputs(batch())
    assert tokens.shape == (2, 3, dim + filters)
    assert (None if beside is None else beside.shape) == ((2, 3, extra) if extra else None)
    assert mask.tolist() == [[True] * 3, [True, False, False]]
    assert inputs.regularization().item() == 0


def test_parts_stand_side_by_side() -> None:
    torch.manual_seed(0)
    char_cnn, elmo, given = CharCnn(char_dim=2, num_filters=6, width=3), build_elmo(place="both"), batch()
    inputs = build(elmo, char_cnn)
    with torch.no_grad():
        elmo.mixes.mixes[0].gamma.fill_(2.0)
        elmo.mixes.mixes[1].gamma.fill_(3.0)
    tokens, extra, _ = inputs(given)
    assert given.layers is not None
    assert torch.equal(tokens[..., :E], inputs.word_table[given.word_rows])
    assert torch.equal(tokens[..., E : E + 6], char_cnn(given.types))
    torch.testing.assert_close(tokens[..., E + 6 :], 2 * given.layers.mean(0))
    torch.testing.assert_close(extra, 3 * given.layers.mean(0))


# --- Layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("all", lambda x: x.mean(0)),
        ("average", lambda x: x.mean(0)),
        ("top", lambda x: x[2]),
        (0, lambda x: x[0]),
        (1, lambda x: x[1]),
        (2, lambda x: x[2]),
        ("concat", lambda x: torch.cat([x[0], x[1], x[2]], 2)),
    ],
)
def test_choices_of_layers(layers: Any, expected: Callable[[Tensor], Tensor]) -> None:
    elmo, given = build_elmo(layers=layers), batch()
    assert given.layers is not None
    (found,) = elmo(given)
    torch.testing.assert_close(found, expected(given.layers))
    assert build(elmo).dim == E + found.shape[2]
    assert [len(mix.weights) for mix in elmo.mixes._mixes()] == [3 if layers == "all" else 1]


def test_only_a_mix_of_all_layers_learns_their_weights() -> None:
    for layers, learns in (("all", True), ("average", False), ("concat", False), (1, False)):
        elmo = build_elmo(layers=layers)
        elmo(batch())[0].square().sum().backward()
        (mix,) = elmo.mixes._mixes()
        assert mix.weights.grad is not None and mix.gamma.grad is not None
        assert bool(mix.weights.grad.any()) == learns
        assert mix.gamma.grad.item() != 0


def test_a_layer_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^elmo\.layers is 3, but the biLM has layers 0 to 2\.$"):
        build_elmo(layers=3)


def test_a_fixed_gamma() -> None:
    for gamma in (True, False):
        elmo = build_elmo(gamma=gamma, place="both")
        learning = [name for name, parameter in elmo.named_parameters() if parameter.requires_grad]
        parts = ("weights", "gamma") if gamma else ("weights",)
        assert sorted(learning) == sorted(f"mixes.mixes.{mix}.{part}" for mix in (0, 1) for part in parts)


def test_regularization_is_lambda_times_the_squares_of_all_mixes() -> None:
    elmo = build_elmo(place="both", regularization=0.5)
    with torch.no_grad():
        for mix, values in zip(elmo.mixes._mixes(), ([1.0, 2.0, 0.0], [0.0, -3.0, 1.0]), strict=True):
            mix.weights.copy_(torch.tensor(values))
    assert build(elmo).regularization().item() == pytest.approx(0.5 * (1 + 4 + 9 + 1))


def test_layer_norm() -> None:
    (found,) = build_elmo(layer_norm=True, layers="top")(batch())
    torch.testing.assert_close(found.mean(-1), torch.zeros(2, 3), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.var(-1, correction=0), torch.ones(2, 3))


def test_dropout_is_only_in_training() -> None:
    elmo, given = build_elmo(dropout=0.5), batch(torch.ones(L, 2, 30, D))
    torch.manual_seed(0)
    assert set(elmo(given)[0].unique().tolist()) == {0.0, 2.0}
    assert set(elmo.eval()(given)[0].unique().tolist()) == {1.0}


# --- Learning --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("tuned", [True, False])
def test_a_live_model_has_gradients_unless_it_is_frozen(tuned: bool, bilm: BiLM) -> None:
    bilm.requires_grad_(tuned)
    settings = ElmoSettings(tuned=True, place="both", dropout=0.0)
    shape = {"num_layers": bilm.config.num_layers, "width": bilm.config.output_dim}
    inputs = build(ElmoInputs(settings, **shape, bilm=bilm))
    texts = [(("The", "play"), ("was", ".")), (("x",),)]
    given = TokenLookup(TABLE, indexer=bilm.indexer).batch(texts)
    tokens, extra, mask = inputs(given)
    assert extra is not None
    (tokens[mask].square().sum() + extra[mask].square().sum()).backward()
    unused = {"softmax.weight", "softmax.bias"}
    for name, parameter in bilm.named_parameters():
        learned = parameter.grad is not None and bool(parameter.grad.any())
        assert learned == (tuned and name not in unused), name
    assert all(mix.weights.grad.any() for mix in inputs.elmo.mixes._mixes())


@pytest.mark.parametrize("tuned", [True, False])
def test_words_learn_where_they_stand(tuned: bool) -> None:
    inputs = build(tune_words=tuned)
    tokens, _, mask = inputs(batch())
    if not tuned:
        assert not tokens.requires_grad
        return
    tokens[mask].sum().backward()
    gradient = inputs.word_table.grad
    assert gradient is not None and gradient.is_sparse
    assert gradient.to_dense().tolist() == [[1.0] * E] * 4  # each of the rows 0 to 3 occurs once


# --- Characters ------------------------------------------------------------------------------------------------------

TOKENS = ("a", "be", "sea", "deed", "a", "naïveté", "extraordinarily", "")


def types(*texts: tuple[str, ...]) -> TokenTypes:
    return TokenLookup(TABLE).batch([(text,) for text in texts]).types


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("bias", [-3.0, 0.0, 3.0])
def test_a_token_has_the_same_features_in_any_company(width: int, bias: float) -> None:
    """Also if the bias is larger than what the filters find, which is what they say of padding alone."""
    torch.manual_seed(1)
    cnn = CharCnn(char_dim=3, num_filters=40, width=width)
    with torch.no_grad():
        assert cnn.convolution.bias is not None
        cnn.convolution.bias.add_(bias)
    together = cnn(types(TOKENS, TOKENS[:2]))  # (B, T, 40)
    assert torch.equal(together[0, 0], together[0, 4]) and torch.equal(together[0, :2], together[1, :2])
    for place, token in enumerate(TOKENS):
        for company in ((token,), (token, "x" * 9)):
            torch.testing.assert_close(cnn(types(company))[0, 0], together[0, place], rtol=1e-5, atol=1e-6)
    assert bias < 0 or not torch.equal(together[0, 0], together[0, 1])
    assert not together.isnan().any()


def test_features_are_maxima_of_filters_over_the_padded_token() -> None:
    torch.manual_seed(2)
    cnn = CharCnn(char_dim=3, num_filters=4, width=3)
    weight, bias = cnn.convolution.weight, cnn.convolution.bias
    assert bias is not None
    vectors = torch.nn.functional.pad(cnn.table(torch.tensor([ord("h") + 1, ord("i") + 1])), (0, 0, 2, 2))  # (6, 3)
    found = [(weight * vectors[start : start + 3].T).sum((1, 2)) + bias for start in range(4)]
    torch.testing.assert_close(cnn(types(("hi", "there")))[0, 0], torch.stack(found).amax(0).relu())


def test_padding_characters_do_not_learn() -> None:
    cnn = CharCnn(char_dim=3, num_filters=4, width=3)
    cnn(types(("ab", "abcdef"))).sum().backward()
    gradient = cnn.table.weight.grad
    assert gradient is not None
    assert not gradient[0].any() and gradient[ord("a") + 1].any()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in cnn.parameters())
