"""Where gradients go and where they must not, and that they are right."""

from typing import Any

import pytest
import torch
from torch.autograd import gradcheck

import elmokit
from elmokit import BiLM, Elmo, ElmoConfig
from elmokit.model.bilm import BiLMState
from elmokit.model.cell import LayerWeights
from elmokit.model.engines.plain import PlainEngine
from elmokit.model.lstm import Lstm, LstmLayer, LstmState
from elmokit.text.vocabulary import Vocabulary

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."]
SENTENCES = [["the", "cat", "sat", "."], ["cat"], [], ["unseen", "the"]]
CHARACTERS = {"kind": "characters", "char_dim": 4, "filters": [[1, 4], [3, 6]], "num_highway": 2, "max_characters": 8}
LSTM = {"num_layers": 2, "cell_dim": 8, "projection_dim": 6}


def build_bilm(*, input=CHARACTERS, seed=1, **values):
    """A tiny float64 biLM whose parameters are all away from zero: no gradient vanishes by symmetry."""
    config = {"input": input, "lstm": LSTM} | values
    vocabulary = Vocabulary(WORDS) if "vocab_size" in config else None
    bilm = BiLM(ElmoConfig.model_validate(config), vocabulary=vocabulary, seed=seed).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in bilm.parameters():
        parameter.data = 0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return bilm


def without_gradient(module):
    return [name for name, p in module.named_parameters() if p.grad is None or not p.grad.any()]


def weighted_sum(tensor, seed=3):
    generator = torch.Generator().manual_seed(seed)
    return (tensor * torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)).sum()


# --- Frozen and tuned ------------------------------------------------------------------------------------------------


def backward_through_elmo(elmo):
    out = elmo(elmo.bilm.to_char_ids(SENTENCES))
    sum(weighted_sum(representation, seed) for seed, representation in enumerate(out.representations)).backward()
    return out


@pytest.mark.parametrize("input", [CHARACTERS, {"kind": "tokens"}], ids=["characters", "tokens"])
@pytest.mark.parametrize("layer_norm", [False, "token", "batch"])
def test_a_trainable_elmo_sends_gradients_to_every_parameter(input, layer_norm):
    bilm = build_bilm(input=input, vocab_size=len(WORDS))
    elmo = Elmo(bilm, num_outputs=2, dropout=0.0, layer_norm=layer_norm, trainable=True).double()
    backward_through_elmo(elmo)
    assert len(list(elmo.parameters())) > 10
    assert without_gradient(elmo) == []


def test_a_frozen_elmo_sends_them_to_its_mixes_only():
    elmo = Elmo(build_bilm(), num_outputs=2, dropout=0.0).double()
    backward_through_elmo(elmo)
    assert [name for name, p in elmo.bilm.named_parameters() if p.grad is not None] == []
    assert without_gradient(elmo.mixes) == []
    assert len(list(elmo.mixes.parameters())) == 4


def mixed_layers(elmo):
    """The layers that the mixes of an Elmo receive."""
    received = []
    elmo.mixes.register_forward_pre_hook(lambda module, inputs: received.append(inputs[0]))
    elmo(elmo.bilm.to_char_ids(SENTENCES))
    return received[0]


def test_only_a_trainable_elmo_keeps_a_graph_of_its_bilm():
    for trainable in (False, True):
        elmo = Elmo(build_bilm(), dropout=0.0, trainable=trainable).double()
        assert mixed_layers(elmo).requires_grad is trainable


def test_both_kinds_give_the_same_mix_gradients():
    gradients = []
    for trainable in (False, True):
        elmo = Elmo(build_bilm(), dropout=0.0, trainable=trainable).double()
        backward_through_elmo(elmo)
        gradients.append([parameter.grad for parameter in elmo.mixes.parameters()])
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-14)


def test_no_grad_outside_wins_over_trainable():
    elmo = Elmo(build_bilm(), dropout=0.0, trainable=True).double()
    with torch.no_grad():
        assert not mixed_layers(elmo).requires_grad


def test_a_mix_that_does_not_learn_gets_none():
    mix = elmokit.ScalarMix(3, trainable=False)
    assert [parameter.requires_grad for parameter in mix.parameters()] == [False, False]


# --- The carried state -----------------------------------------------------------------------------------------------


def test_a_state_that_comes_out_has_no_history():
    bilm = build_bilm()
    layers, _, state = bilm(bilm.to_char_ids(SENTENCES))
    assert layers.requires_grad
    assert [tensor.requires_grad for side in state for tensor in side] == [False] * 4


def test_gradients_of_a_batch_ignore_the_batch_before():
    """The same numbers as from a state given as constants."""
    gradients = []
    for constant in (False, True):
        bilm = build_bilm()
        char_ids = bilm.to_char_ids(SENTENCES)
        _, _, state = bilm(char_ids)
        if constant:
            state = BiLMState(*(LstmState(*(tensor.clone().detach() for tensor in side)) for side in state))
        weighted_sum(bilm(char_ids, state).layers).backward()
        gradients.append([parameter.grad for parameter in bilm.parameters()])
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


# --- The plain engine's derivative -----------------------------------------------------------------------------------

BATCH_SIZES = (3, 3, 2, 1)  # lengths 4, 3, 2, packed
CELL, OUT = 3, 2


def draw(*shape, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()


def run_plain(cell_clip, projection_clip, x, h, c, input_weight, recurrent_weight, bias, projection_weight=None):
    weights = LayerWeights(input_weight, recurrent_weight, bias, projection_weight, cell_clip, projection_clip)
    return PlainEngine().run_layer(weights, x, BATCH_SIZES, h, c)


def layer_inputs(projected, seed=11):
    out = OUT if projected else CELL
    shapes = [(sum(BATCH_SIZES), out), (3, out), (3, CELL), (out, 4 * CELL), (out, 4 * CELL), (4 * CELL,)]
    shapes += [(CELL, OUT)] if projected else []
    return [draw(*shape, seed=seed + k) for k, shape in enumerate(shapes)]


def distance_to_kink(values, limit):
    return (values.abs() - limit).abs().min().item()


def memories_and_outputs(inputs, cell_clip, projection_clip):
    """What the two clips see at every step, before they cut, from the cell's equations written out."""
    x, h, c, input_weight, recurrent_weight, bias, projection_weight = (tensor.detach() for tensor in inputs)
    seen_c, seen_h = [], []
    for step, n in zip(x.split(BATCH_SIZES), BATCH_SIZES, strict=True):
        gates = step @ input_weight + h[:n] @ recurrent_weight + bias
        i, f, o, j = gates.chunk(4, dim=1)
        memory = f.sigmoid() * c[:n] + i.sigmoid() * j.tanh()
        seen_c.append(memory)
        memory = memory.clamp(-cell_clip, cell_clip)
        output = (o.sigmoid() * memory.tanh()) @ projection_weight
        seen_h.append(output)
        h, c = torch.cat([output.clamp(-projection_clip, projection_clip), h[n:]]), torch.cat([memory, c[n:]])
    return torch.cat(seen_c), torch.cat(seen_h)


@pytest.mark.parametrize("projected", [True, False])
def test_gradcheck_without_clips(projected):
    inputs = layer_inputs(projected)
    assert gradcheck(lambda *tensors: run_plain(None, None, *tensors), inputs)


def test_gradcheck_with_clips_that_bind():
    cell_clip, projection_clip = 0.4, 0.15
    inputs = layer_inputs(projected=True)
    memories, outputs = memories_and_outputs(inputs, cell_clip, projection_clip)
    for values, limit in ((memories, cell_clip), (outputs, projection_clip)):
        assert 0 < (values.abs() > limit).sum() < values.numel()  # binds on some values, not on all
        assert distance_to_kink(values, limit) > 1e-4  # and no step of the check crosses the edge
    assert gradcheck(lambda *tensors: run_plain(cell_clip, projection_clip, *tensors), inputs)


def test_a_clipped_value_stops_the_gradient():
    """With a clip that nothing escapes, the output no longer depends on the input."""
    x, *rest = layer_inputs(projected=True)
    y, _, _ = run_plain(None, 1e-9, x, *rest)
    y.sum().backward()
    assert y.abs().max() == 1e-9
    assert not x.grad.any()


@pytest.mark.slow
@pytest.mark.parametrize("skip_connections", [True, False])
@pytest.mark.parametrize("projection_dim", [OUT, None])
def test_gradcheck_of_a_stack(skip_connections, projection_dim):
    """Two layers with the forget bias added inside, by x, by the state and by every parameter."""
    settings: dict[str, Any] = {"cell_clip": None, "projection_clip": None, "forget_bias": 1.0}
    layers = [LstmLayer(cell_dim=CELL, projection_dim=projection_dim, **settings) for _ in range(2)]
    lstm = Lstm(layers, skip_connections=skip_connections).double()
    out = projection_dim or CELL
    names = [name for name, _ in lstm.named_parameters()]
    parameters = [draw(*p.shape, seed=31 + k, scale=0.5) for k, p in enumerate(lstm.parameters())]
    inputs = [draw(sum(BATCH_SIZES), out, seed=21), draw(2, 3, out, seed=22), draw(2, 3, CELL, seed=23)]

    def run(x, h, c, *values):
        arguments = (x, BATCH_SIZES, LstmState(h, c))
        outputs, state = torch.func.functional_call(lstm, dict(zip(names, values, strict=True)), arguments)
        return (*outputs, *state)

    assert gradcheck(run, [*inputs, *parameters])


# --- The softmax -----------------------------------------------------------------------------------------------------


def language_model_loss(bilm):
    layers, mask, _ = bilm(bilm.to_char_ids(SENTENCES), keep_boundaries=True)
    forward, backward = layers[-1][mask].chunk(2, dim=-1)
    targets = torch.arange(len(forward)) % len(WORDS)
    cross_entropy = torch.nn.functional.cross_entropy
    return sum(cross_entropy(bilm.logits(side), targets) for side in (forward, backward))


@pytest.mark.parametrize("input", [CHARACTERS, {"kind": "tokens"}], ids=["characters", "tokens"])
def test_the_softmax_sends_gradients_to_every_parameter(input):
    bilm = build_bilm(input=input, vocab_size=len(WORDS), softmax=True)
    language_model_loss(bilm).backward()
    assert {"softmax.weight", "softmax.bias"} <= {name for name, _ in bilm.named_parameters()}
    assert without_gradient(bilm) == []


def test_a_tied_softmax_adds_up_both_uses_of_its_table():
    """Its gradient = that of the embedding + that of the softmax in an untied model of the same weights."""
    tied = build_bilm(input={"kind": "tokens"}, vocab_size=len(WORDS), softmax=True, tied_softmax=True)
    untied = build_bilm(input={"kind": "tokens"}, vocab_size=len(WORDS), softmax=True)
    weights = tied.state_dict()
    untied.load_state_dict(weights | {"softmax.weight": weights["encoder.token_table"]})
    losses = [language_model_loss(bilm) for bilm in (tied, untied)]
    torch.testing.assert_close(*losses, rtol=0, atol=1e-14)
    for loss in losses:
        loss.backward()
    both = untied.encoder.token_table.grad + untied.softmax.weight.grad
    assert untied.encoder.token_table.grad.any() and untied.softmax.weight.grad.any()
    torch.testing.assert_close(tied.encoder.token_table.grad, both, rtol=0, atol=1e-14)
    assert without_gradient(tied) == []
