"""The layers against plain steps that autograd follows, in float64."""

import pytest
import torch
from torch import Tensor

from elmokit.tasks.highway_lstm import HighwayLayer, InterleavedLstm

LENGTHS = [
    pytest.param([4, 1, 6, 6, 3], id="any order"),
    pytest.param([5], id="one row"),
    pytest.param([1, 1, 1], id="single tokens"),
]


def plain_layer(layer: HighwayLayer, x: Tensor, kept: Tensor) -> Tensor:
    """The equations of one layer over one row (T, E), from its first token to its last."""
    width = len(layer.recurrent_weight)
    h, c = x.new_zeros(width), x.new_zeros(width)
    outputs = []
    for token in x:
        read = token @ layer.input_weight  # (6H,)
        i, f, o, j, r = (read[: 5 * width] + h @ layer.recurrent_weight + layer.bias).chunk(5)
        c = f.sigmoid() * c + i.sigmoid() * j.tanh()
        r = r.sigmoid()
        h = kept * (r * o.sigmoid() * c.tanh() + (1 - r) * read[5 * width :])
        outputs.append(h)
    return torch.stack(outputs)


def plain(model: InterleavedLstm, x: Tensor, lengths: list[int], kept: list[Tensor]) -> Tensor:
    """All layers, row by row; `kept` has a (B, H) for each layer, rows in the order of x."""
    rows = []
    for number, length in enumerate(lengths):
        own = x[number, :length]
        for place, layer in enumerate(model.layers):
            assert isinstance(layer, HighwayLayer)
            own = own.flip(0) if place % 2 else own
            own = plain_layer(layer, own, kept[place][number])
            own = own.flip(0) if place % 2 else own
        rows.append(torch.cat([own, own.new_zeros(x.shape[1] - length, own.shape[1])]))
    return torch.stack(rows)


def build(num_layers: int, dropout: float = 0.0, dtype: torch.dtype = torch.float64) -> InterleavedLstm:
    """Layers with all weights random, so that nothing is right by chance."""
    torch.manual_seed(num_layers)
    model = InterleavedLstm(5, 4, num_layers=num_layers, dropout=dropout).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.7)
    return model


def batch(lengths: list[int], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Random tokens, in the padding too, with a column of padding that no row reaches."""
    x = torch.randn(len(lengths), max(lengths) + 1, 5, dtype=dtype, generator=torch.Generator().manual_seed(1))
    return x.requires_grad_(), torch.arange(x.shape[1]) < torch.tensor(lengths)[:, None]


def gradients(y: Tensor, x: Tensor, model: InterleavedLstm) -> list[Tensor]:
    weights = torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return list(torch.autograd.grad((y * weights.to(y.dtype)).sum(), [x, *model.parameters()]))


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_values_and_gradients_are_those_of_plain_steps(lengths: list[int], num_layers: int) -> None:
    model = build(num_layers)
    x, mask = batch(lengths)
    ours, theirs = model(x, mask), plain(model, x, lengths, [torch.ones(len(lengths), 4).double()] * num_layers)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    assert not ours[~mask].any()
    for own, other in zip(gradients(ours, x, model), gradients(theirs, x, model), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)


def test_a_dropped_number_is_gone_from_all_steps_and_from_the_recurrence(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = [3, 6, 4]
    longest_first = torch.tensor([1, 2, 0])
    model = build(3, dropout=0.5)
    x, mask = batch(lengths)
    drawn: list[Tensor] = []
    own_draw = model._draw

    def draw(*arguments: object) -> Tensor | None:
        drawn.append(own_draw(*arguments))  # type: ignore[arg-type]
        return drawn[-1]

    monkeypatch.setattr(model, "_draw", draw)
    ours = model(x, mask)
    assert {0.0, 2.0} == set(torch.stack(drawn).flatten().tolist())
    theirs = plain(model, x, lengths, [kept[longest_first.argsort()] for kept in drawn])
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for own, other in zip(gradients(ours, x, model), gradients(theirs, x, model), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-10)
    model.eval()
    torch.testing.assert_close(model(x, mask), plain(model, x, lengths, [torch.ones(3, 4).double()] * 3))


@pytest.mark.usefixtures("engine_mode")
def test_float32_is_float64_within_rounding() -> None:
    lengths = [7, 2, 5]
    single, double = build(2, dtype=torch.float32), build(2)
    double.load_state_dict(single.state_dict())
    x, mask = batch(lengths, torch.float32)
    wide = x.detach().double().requires_grad_()
    ours, theirs = single(x, mask), double(wide, mask)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-5)
    for own, other in zip(gradients(ours, x, single), gradients(theirs, wide, double), strict=True):
        torch.testing.assert_close(own.double(), other, rtol=1e-3, atol=1e-3)


def test_padding_and_neighbours_change_nothing() -> None:
    model = build(4)
    x, mask = batch([2, 6])
    alone = model(x[:1, :2], mask[:1, :2])
    torch.testing.assert_close(model(x, mask)[:1, :2], alone)


def test_first_weights() -> None:
    model = InterleavedLstm(7, 3, num_layers=2)
    for layer, in_dim in zip(model.layers, (7, 3), strict=True):
        assert isinstance(layer, HighwayLayer)
        for block in (*layer.input_weight.chunk(6, 1), *layer.recurrent_weight.chunk(5, 1)):
            torch.testing.assert_close(block.T @ block, torch.eye(3), rtol=0, atol=1e-5)
        assert layer.input_weight.shape == (in_dim, 18)
        assert layer.bias.tolist() == [0, 0, 0, 1, 1, 1, *[0] * 9]
