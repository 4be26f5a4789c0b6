"""Layers against what they mean, worked out the long way."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmokit.tasks.layers import BiRnn, Crf, Dropout, InputDropout, trace_back

LENGTHS = (4, 1, 3, 2)


def build_crf(num_tags: int, seed: int, *, constrained: bool = False) -> Crf:
    generator = torch.Generator().manual_seed(seed)
    constraints: dict[str, Tensor] = {}
    if constrained:
        allowed = torch.rand(num_tags, num_tags, generator=generator) < 0.5
        allowed[0, 0] = True
        may_start, may_end = (torch.rand(2, num_tags, generator=generator) < 0.5).unbind()
        may_start[0] = may_end[0] = True  # so that every length has a way
        constraints = {"allowed": allowed, "may_start": may_start, "may_end": may_end}
    crf = Crf(num_tags, **constraints).double()
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return crf


def inputs(num_tags: int, seed: int, lengths: tuple[int, ...] = LENGTHS) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 + seed)
    shape = (len(lengths), max(lengths))
    scores = 2 * torch.randn(*shape, num_tags, generator=generator, dtype=torch.float64)
    tags = torch.randint(num_tags, shape, generator=generator)
    mask = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    return scores, tags, mask


def score(crf: Crf, scores: Tensor, tags: tuple[int, ...]) -> Tensor:
    """Of one sequence of tags, from its scores (T, K)."""
    total = crf.start[tags[0]] + crf.end[tags[-1]]
    for place, tag in enumerate(tags):
        total = total + scores[place, tag]
        if place:
            total = total + crf.transitions[tags[place - 1], tag]
    return total


def is_allowed(crf: Crf, tags: tuple[int, ...]) -> bool:
    steps = all(bool(crf.allowed[pair]) for pair in itertools.pairwise(tags))
    return steps and bool(crf.may_start[tags[0]]) and bool(crf.may_end[tags[-1]])


@pytest.mark.parametrize(("num_tags", "seed"), [(1, 0), (2, 1), (3, 2), (4, 3)])
def test_crf_loss_is_minus_the_logarithm_of_the_golds_share(num_tags: int, seed: int) -> None:
    crf = build_crf(num_tags, seed)
    scores, tags, mask = inputs(num_tags, seed)
    expected = torch.zeros((), dtype=torch.float64)
    for own, gold, length in zip(scores, tags.tolist(), LENGTHS, strict=True):
        every = [score(crf, own, ways) for ways in itertools.product(range(num_tags), repeat=length)]
        expected = expected + torch.stack(every).logsumexp(0) - score(crf, own, tuple(gold[:length]))
    torch.testing.assert_close(crf.loss(scores, tags, mask), expected)


def test_crf_gradients() -> None:
    crf = build_crf(3, 5)
    scores, tags, mask = inputs(3, 5)

    def loss(scores: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
        values = {"transitions": transitions, "start": start, "end": end}
        found: Tensor = torch.func.functional_call(_Loss(crf), {f"crf.{n}": v for n, v in values.items()}, scores)
        return found

    class _Loss(torch.nn.Module):
        def __init__(self, crf: Crf) -> None:
            super().__init__()
            self.crf = crf

        def forward(self, scores: Tensor) -> Tensor:
            return self.crf.loss(scores, tags, mask)

    leaves = [t.detach().clone().requires_grad_() for t in (scores, crf.transitions, crf.start, crf.end)]
    assert torch.autograd.gradcheck(loss, tuple(leaves))
    (gradient,) = torch.autograd.grad(loss(*leaves), leaves[0])
    assert not gradient[~mask].any()
    assert gradient[mask].any(-1).all()


@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize(("num_tags", "seed"), [(1, 0), (2, 1), (3, 2), (4, 3), (4, 4)])
def test_crf_decodes_the_best_allowed_tags(num_tags: int, seed: int, constrained: bool) -> None:
    crf = build_crf(num_tags, seed, constrained=constrained)
    scores, _, mask = inputs(num_tags, seed)
    found = crf.decode(scores, mask)
    assert len(found) == len(LENGTHS)
    for own, tags, length in zip(scores, found, LENGTHS, strict=True):
        ways = [w for w in itertools.product(range(num_tags), repeat=length) if is_allowed(crf, w)]
        assert 0 < len(ways) <= num_tags**length
        assert tuple(tags) == max(ways, key=lambda way: score(crf, own, way).item())


def test_constraints_change_the_answer() -> None:
    """Or the test above would say nothing of them."""
    free, bound = (build_crf(4, 3, constrained=constrained) for constrained in (False, True))
    bound.load_state_dict(free.state_dict())
    scores, _, mask = inputs(4, 3)
    assert free.decode(scores, mask) != bound.decode(scores, mask)


def test_a_crf_does_not_see_what_stands_at_padding() -> None:
    crf = build_crf(3, 6, constrained=True)
    scores, tags, mask = inputs(3, 6)
    changed, other = scores.clone(), tags.clone()
    changed[~mask] = 1e3
    other[~mask] = 2
    torch.testing.assert_close(crf.loss(changed, other, mask), crf.loss(scores, tags, mask))
    assert crf.decode(changed, mask) == crf.decode(scores, mask)


def test_constraints_are_not_part_of_the_weights() -> None:
    assert set(build_crf(3, 0, constrained=True).state_dict()) == {"transitions", "start", "end"}


def test_tracing_back() -> None:
    assert trace_back([[1, 0], [1, 1], [0, 1]], last=0, length=3) == [0, 1, 0]
    assert trace_back([], last=4, length=1) == [4]


# --- Recurrent layers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_a_sequence_has_the_same_output_alone_and_in_a_batch(kind: str, num_layers: int) -> None:
    torch.manual_seed(1)
    rnn = BiRnn(5, 4, num_layers=num_layers, kind=kind)
    mask = torch.arange(6) < torch.tensor([3, 6, 1])[:, None]
    x = torch.randn(3, 6, 5)
    found = rnn(x, mask)
    assert found.shape == (3, 6, rnn.dim) == (3, 6, 8)
    assert not found[~mask].any()
    for row, length in enumerate(mask.sum(1).tolist()):
        alone = rnn(x[row : row + 1, :length], torch.ones(1, length, dtype=torch.bool))
        torch.testing.assert_close(found[row, :length], alone[0])
    changed = x.clone()
    changed[~mask] = 1e4
    assert torch.equal(rnn(changed, mask), found)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("lengths", [(3, 6, 1), (1,)])
def test_what_packed_sequences_give(kind: str, lengths: tuple[int, ...]) -> None:
    torch.manual_seed(6)
    packing = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[kind](5, 4, batch_first=True, bidirectional=True).double()
    values = dict(packing.named_parameters())
    rnn = BiRnn(5, 4, kind=kind).double()
    rnn.load_state_dict(from_packing(kind, values))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    x = torch.randn(*mask.shape, 5, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(*mask.shape, 8, dtype=torch.float64)
    packed = pack_padded_sequence(x, mask.sum(1), batch_first=True, enforce_sorted=False)
    expected, _ = pad_packed_sequence(packing(packed)[0], batch_first=True)
    found = rnn(x, mask)
    torch.testing.assert_close(found, expected)
    dx, *gradients = torch.autograd.grad((expected * weights).sum(), [x, *values.values()])
    own_dx, *own = torch.autograd.grad((found * weights).sum(), [x, *rnn.parameters()])
    torch.testing.assert_close(own_dx, dx)
    expected_own = from_packing(kind, dict(zip(values, gradients, strict=True)))
    torch.testing.assert_close(
        {name: value for (name, _), value in zip(rnn.named_parameters(), own, strict=True)}, expected_own
    )


def from_packing(kind: str, values: dict[str, Tensor]) -> dict[str, Tensor]:
    """What `torch.nn` has for both directions, under the names and in the shapes of `BiRnn`."""
    if kind == "lstm":
        ends = {"": "ahead", "_reverse": "back"}
        return {
            f"layers.0.{ends[name.partition('l0')[2]]}.{name.removesuffix('_reverse')}": value
            for name, value in values.items()
        }
    own = {"input_weight": "weight_ih", "recurrent_weight": "weight_hh"}
    own |= {"input_bias": "bias_ih", "recurrent_bias": "bias_hh"}
    both = {name: [values[f"{key}_l0{end}"] for end in ("", "_reverse")] for name, key in own.items()}
    return {
        f"layers.0.{name}": torch.stack([half.T if half.dim() == 2 else half[None] for half in halves])
        for name, halves in both.items()
    }


def test_padding_behind_all_sequences_stays() -> None:
    mask = torch.tensor([[True, True, False]])
    assert BiRnn(2, 3)(torch.randn(1, 3, 2), mask).shape == (1, 3, 6)


def test_both_directions_reach_every_token() -> None:
    torch.manual_seed(2)
    rnn = BiRnn(2, 3)
    x = torch.randn(1, 4, 2, requires_grad=True)
    mask = torch.ones(1, 4, dtype=torch.bool)
    for half, seen in ((slice(3), [True, True, False, False]), (slice(3, 6), [False, True, True, True])):
        (gradient,) = torch.autograd.grad(rnn(x, mask)[0, 1, half].sum(), x)
        assert gradient[0].any(-1).tolist() == seen


# --- Dropout ---------------------------------------------------------------------------------------------------------


def test_one_mask_for_all_tokens_of_an_example() -> None:
    torch.manual_seed(3)
    x = torch.ones(40, 7, 50)
    dropped = InputDropout(0.3)(x)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.7))}
    assert (dropped == 0).float().mean().item() == pytest.approx(0.3, abs=0.05)
    assert not torch.equal(dropped[0], dropped[1])


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_every_number_is_dropped_by_itself(rate: float) -> None:
    torch.manual_seed(5)
    x = torch.ones(101, 203, requires_grad=True)  # of no multiple of four
    dropped = Dropout(rate)(x)
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(1 / (1 - rate)))}
    gone = (dropped == 0).float()
    for share in (gone.mean(), *(gone.flatten()[place::4].mean() for place in range(4))):
        assert share.item() == pytest.approx(rate, abs=0.03)
    assert torch.corrcoef(torch.stack([gone.flatten()[:-1], gone.flatten()[1:]]))[0, 1].abs() < 0.03
    assert not torch.equal(dropped, Dropout(rate)(x))
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, dropped)


@pytest.mark.parametrize("kind", [Dropout, InputDropout])
def test_no_dropout_outside_training_or_at_rate_zero(kind: type[Dropout] | type[InputDropout]) -> None:
    x = torch.randn(2, 3, 4)
    assert kind(0.0)(x) is x
    assert kind(0.9).eval()(x) is x


def test_dropout_follows_the_seed() -> None:
    x, drop = torch.ones(50, 3), Dropout(0.5)
    outcomes = []
    for _ in range(2):
        torch.manual_seed(1)
        outcomes.append(drop(x))
    first, second = outcomes
    assert torch.equal(first, second)


def test_a_recurrent_layer_drops_its_input() -> None:
    torch.manual_seed(4)
    rnn, x, mask = BiRnn(6, 3, dropout=0.5), torch.randn(2, 3, 6), torch.ones(2, 3, dtype=torch.bool)
    assert not torch.equal(rnn(x, mask), rnn(x, mask))
    rnn.eval()
    assert torch.equal(rnn(x, mask), rnn(x, mask))
