"""The drop-in against AllenNLP's own modules: same arguments, same numbers, same names, same memory."""

import copy
import io
import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import elmokit
from elmokit.errors import ConfigError, ElmokitWarning, FormatError, InputError
from elmokit.formats import save
from elmokit.integrations import allennlp
from elmokit.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids
from elmokit.model.bilm import BiLM
from tests.parity.allennlp_peer import importable, load_peer, quiet, requires_peer
from tests.reference import random_bilm, write_bilm

BATCHES = [
    [["The", "play", "was", "cancelled", "."], ["They", "play", "."], []],
    [["A", "smaller", "batch"]],
    [["Now"], ["more", "rows", "than"], ["ever"], ["été", "🎭", "<S>", "x" * 60], ["five", "."]],
    [["Back", "to"], ["three", "rows", "now", "."], ["!"]],
]
Files = tuple[str, str]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("bilm")
    write_bilm(folder, *random_bilm(3, max_characters=50))
    (options,), (weights,) = folder.glob("*.json"), folder.glob("*.hdf5")
    return str(options), str(weights)


def assert_equal(ours: dict, theirs: dict) -> None:
    assert sorted(ours) == sorted(theirs)
    assert len(ours["elmo_representations"]) == len(theirs["elmo_representations"]) > 0
    assert torch.equal(ours["mask"], theirs["mask"].bool())
    for one, other in zip(ours["elmo_representations"], theirs["elmo_representations"], strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)


def both(files: Files, **settings) -> tuple[Elmo, torch.nn.Module]:
    with quiet(), importable():
        theirs = load_peer().Elmo(*files, **settings)
    return Elmo(*files, **settings).eval(), theirs.eval()


@requires_peer
@pytest.mark.parametrize(
    "settings",
    [
        {"num_output_representations": 1},
        {"num_output_representations": 2, "do_layer_norm": True},
        {"num_output_representations": 1, "keep_sentence_boundaries": True},
        {"num_output_representations": 1, "keep_sentence_boundaries": True, "do_layer_norm": True},
        {"num_output_representations": 2, "scalar_mix_parameters": [-1.0, 0.5, 2.0]},
        {"num_output_representations": 1, "requires_grad": True, "dropout": 0.1},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_stateful_over_batches_of_changing_size(files: Files, settings: dict) -> None:
    ours, theirs = both(files, **settings)
    with torch.no_grad():
        for module in (ours, theirs):
            for name, parameter in module.named_parameters():
                if "gamma" in name:
                    parameter.fill_(0.7)
        for batch in BATCHES:
            ids = batch_to_ids(batch)
            with quiet():
                expected = theirs(ids)
            assert_equal(ours(ids), expected)


@requires_peer
def test_batch_to_ids(files: Files) -> None:
    with quiet():
        peer = load_peer()
        for batch in BATCHES:
            assert torch.equal(batch_to_ids(batch), peer.batch_to_ids(batch))


@requires_peer
def test_inputs_of_four_and_five_dimensions(files: Files) -> None:
    ours, theirs = both(files, num_output_representations=1)
    ids = batch_to_ids([["a", "b"], ["c"], ["d", "e"], ["f", "g"]])
    for shape in ((2, 2), (2, 1, 2)):
        deep = ids.view(*shape, *ids.shape[1:])
        with quiet():
            assert_equal(ours(deep), theirs(deep))


@requires_peer
def test_cached_words(files: Files) -> None:
    words = ["<pad>", "the", "play", "ended", "."]
    ours, theirs = both(files, num_output_representations=1, vocab_to_cache=words)
    word_ids = torch.tensor([[1, 2, 3, 4], [1, 2, 0, 0]])
    ids = batch_to_ids([["the", "play", "ended", "."], ["the", "play"]])
    unknown = torch.tensor([[1, 9, 3, 4], [1, 2, 0, 0]])  # not cached: both fall back to the characters
    deep = (ids.unsqueeze(1), word_ids.unsqueeze(1))
    for inputs in ((ids, word_ids), (ids, unknown), deep, (ids,)):
        with quiet():
            assert_equal(ours(*inputs), theirs(*inputs))


@requires_peer
def test_state_dicts_are_interchangeable(files: Files, tmp_path: Path) -> None:
    settings = {"num_output_representations": 2, "dropout": 0.0, "vocab_to_cache": ["<pad>", "play"]}
    ours, theirs = both(files, **settings)
    mine, peers = ours.state_dict(), theirs.state_dict()
    assert {name: t.shape for name, t in mine.items()} == {name: t.shape for name, t in peers.items()}
    for name, tensor in mine.items():
        torch.testing.assert_close(tensor, peers[name], atol=1e-6, rtol=0)
    changed = {name: tensor + 0.01 * torch.randn_like(tensor) for name, tensor in peers.items()}
    changed["_elmo_lstm._token_embedder._char_embedding_weights"][0] = 0
    for module in (ours, theirs):
        assert not any(module.load_state_dict(changed))
    ids = batch_to_ids(BATCHES[0])
    with quiet():
        assert_equal(ours(ids), theirs(ids))


def test_unknown_keys_in_a_state_dict_are_reported(files: Files) -> None:
    elmo = Elmo(*files, 1)
    with pytest.raises(RuntimeError, match="nonsense"):
        elmo.load_state_dict(elmo.state_dict() | {"_elmo_lstm.nonsense": torch.zeros(1)})
    partial = {name: tensor for name, tensor in elmo.state_dict().items() if "forward_layer_0" not in name}
    with pytest.raises((RuntimeError, elmokit.ElmokitError), match="forward"):
        elmo.load_state_dict(partial)


@requires_peer
@pytest.mark.parametrize("stateful", [True, False])
def test_users_can_switch_the_memory_off(files: Files, stateful: bool) -> None:
    ours, theirs = both(files, num_output_representations=1)
    ids = batch_to_ids([["They", "play"]])
    for module in (ours, theirs):
        module._elmo_lstm._elmo_lstm.stateful = stateful
    first, second = (ours(ids)["elmo_representations"][0] for _ in range(2))
    assert torch.equal(first, second) is not stateful
    if not stateful:
        return
    ours._elmo_lstm._elmo_lstm.reset_states()
    assert torch.equal(ours(ids)["elmo_representations"][0], first)
    with quiet():
        theirs(ids)
        for module in (ours, theirs):
            module(batch_to_ids([["a"], ["b"]]))
            module._elmo_lstm._elmo_lstm.reset_states(torch.tensor([True, False]))
        pair = batch_to_ids([["c"], ["d"]])
        theirs._elmo_lstm._elmo_lstm.reset_states()
        ours._elmo_lstm._elmo_lstm.reset_states()
        assert_equal(ours(pair), theirs(pair))
        for module in (ours, theirs):
            module._elmo_lstm._elmo_lstm.reset_states(torch.tensor([True, False]))
        assert_equal(ours(pair), theirs(pair))


@requires_peer
def test_parameters_have_the_peers_names(files: Files) -> None:
    """Regularizers and parameter groups look for them by pattern. The halves of a highway are two tensors here."""
    settings = {"num_output_representations": 2, "requires_grad": True, "vocab_to_cache": ["<pad>", "play"]}
    ours, theirs = both(files, **settings)
    names = {name: parameter.requires_grad for name, parameter in ours.named_parameters()}
    carry = {name for name in names if name.endswith("_carry")}
    assert all("_token_embedder._highways._layers." in name for name in carry) and len(carry) == 2
    expected = {name: parameter.requires_grad for name, parameter in theirs.named_parameters()}
    del expected["_elmo_lstm._word_embedding.weight"]  # is trained there together with the biLM
    assert {name: names[name] for name in names.keys() - carry - {"_elmo_lstm._word_embedding.weight"}} == {
        name: trained or "_token_embedder._char_embedding_weights" in name for name, trained in expected.items()
    }
    for pattern in ("scalar_parameters", r"_elmo_lstm\._elmo_lstm\.forward_layer_0"):
        assert sum(bool(re.search(pattern, name)) for name in names) == (6 if "scalar" in pattern else 4)


@requires_peer
def test_a_group_of_parameters_can_be_trained(files: Files) -> None:
    """What an optimizer changes by these names is what the model computes with, also after a copy and a conversion."""
    elmo = copy.deepcopy(Elmo(*files, 1, requires_grad=True, dropout=0.0)).double()
    ids = batch_to_ids(BATCHES[0])
    before = elmo(ids)["elmo_representations"][0]
    assert before.dtype == torch.float64
    group = [p for name, p in elmo.named_parameters() if "_elmo_lstm.forward_layer_0" in name]
    rest = {name: p.clone() for name, p in elmo.named_parameters() if "forward_layer_0" not in name}
    before.sum().backward()
    with torch.no_grad():
        for parameter in group:
            assert parameter.grad is not None
            parameter.sub_(parameter.grad, alpha=0.1)
    for module in elmo.modules():
        if getattr(module, "stateful", False):
            module.reset_states()
    after = elmo(ids)["elmo_representations"][0]
    assert not torch.equal(after, before)
    assert all(torch.equal(p, rest[name]) for name, p in elmo.named_parameters() if name in rest)


@requires_peer
@pytest.mark.parametrize("how", ["modules", "none", "saved"])
def test_the_ways_in_which_clients_reset_the_state(files: Files, how: str) -> None:
    ours, theirs = both(files, num_output_representations=1)
    first, second = batch_to_ids([["They", "play"], ["a"]]), batch_to_ids([["Now", "more"], ["rows"]])
    with quiet():
        for module in (ours, theirs):
            module(first)
            lstm = module._elmo_lstm._elmo_lstm
            kept = lstm._states
            module(second)
            if how == "modules":  # as in AllenNLP's own `forward_on_instances` and trainers
                for part in module.modules():
                    if getattr(part, "stateful", False):
                        part.reset_states()
                assert lstm._states is None
            else:
                lstm._states = kept if how == "saved" else None
        states: list[tuple] = [module._elmo_lstm._elmo_lstm._states or () for module in (ours, theirs)]  # type: ignore
        for one, other in zip(*states, strict=True):
            torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-5)
        assert_equal(ours(second), theirs(second))


def test_states_of_another_shape_are_refused(files: Files) -> None:
    lstm = Elmo(*files, 1)._elmo_lstm._elmo_lstm
    with pytest.raises(InputError, match="_states are None or tensors"):
        lstm._states = (torch.zeros(1, 2, 3), torch.zeros(1, 2, 3))
    assert lstm._states is None


@requires_peer
def test_the_parts_that_clients_call(files: Files) -> None:
    """The token embedder of the biLM, its cached words, and a mix of a list of layers."""
    ours, theirs = both(files, num_output_representations=1, do_layer_norm=True, vocab_to_cache=["<pad>", "play"])
    ids = batch_to_ids(BATCHES[0])
    with quiet():
        one, other = (module._elmo_lstm._token_embedder(ids) for module in (ours, theirs))
    assert torch.equal(one["mask"], other["mask"].bool())
    mask = one["mask"]
    torch.testing.assert_close(one["token_embedding"][mask], other["token_embedding"][mask], atol=2e-6, rtol=1e-5)
    words = [module._elmo_lstm._word_embedding(torch.tensor([1])) for module in (ours, theirs)]
    torch.testing.assert_close(*words, atol=2e-6, rtol=1e-5)
    layers = [torch.randn(2, 4, 5) for _ in range(3)]
    some = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]]).bool()
    mixes = [module.scalar_mix_0 for module in (ours, theirs)]
    for mix in mixes:
        with torch.no_grad():
            mix.scalar_parameters[1].fill_(0.7)
            mix.gamma.fill_(1.5)
        mix.scalar_parameters[0].requires_grad_(False)
    torch.testing.assert_close(*(mix(layers, some) for mix in mixes), atol=2e-6, rtol=1e-5)


@requires_peer
def test_names_of_other_classes_and_of_the_default_model(files: Files) -> None:
    with quiet(), importable():
        theirs = load_peer()._ElmoBiLm(*files).eval()
        ours = allennlp._ElmoBiLm(*files).eval()
        mine, peers = (module(batch_to_ids(BATCHES[0])) for module in (ours, theirs))
    mask = mine["mask"]
    for one, other in zip(mine["activations"], peers["activations"], strict=True):
        torch.testing.assert_close(one[mask], other[mask], atol=2e-6, rtol=1e-5)
    elmo = Elmo(None, None, 1, dropout=0.0, module=ours)
    assert elmo._elmo_lstm is ours
    mix = allennlp.ScalarMix(2, initial_scalar_parameters=[0.0, 1.0], trainable=False)
    assert not any(parameter.requires_grad for parameter in mix.parameters())
    expected = torch.tensor([0.0, 1.0]).softmax(0)[1]
    torch.testing.assert_close(mix([torch.zeros(1, 1, 1), torch.ones(1, 1, 1)]), expected.reshape(1, 1, 1))
    assert allennlp.DEFAULT_OPTIONS_FILE.endswith("elmo_2x4096_512_2048cnn_2xhighway_options.json")
    assert allennlp.DEFAULT_WEIGHT_FILE.endswith("elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5")
    assert allennlp.DEFAULT_BATCH_SIZE == 64


def test_gradients(files: Files) -> None:
    ids = batch_to_ids([["They", "play"]])
    for requires_grad in (False, True):
        elmo = Elmo(*files, 1, requires_grad=requires_grad)
        elmo(ids)["elmo_representations"][0].sum().backward()
        elmo(ids)["elmo_representations"][0].sum().backward()  # the carried state has no history
        reached = {name for name, parameter in elmo.named_parameters() if parameter.grad is not None}
        mixes = {"scalar_mix_0.gamma", *(f"scalar_mix_0.scalar_parameters.{layer}" for layer in range(3))}
        assert reached == ({name for name, _ in elmo.named_parameters()} if requires_grad else mixes)


def test_own_module_and_bad_arguments(files: Files) -> None:
    class Own(torch.nn.Module):
        num_layers = 2

        def get_output_dim(self) -> int:
            return 4

        def forward(self, inputs, word_inputs=None):
            mask = torch.ones(len(inputs), inputs.shape[1] + 2, dtype=torch.bool)
            return {"activations": [torch.ones(*mask.shape, 4), torch.zeros(*mask.shape, 4)], "mask": mask}

    elmo = Elmo(None, None, 1, dropout=0.0, module=Own())
    assert elmo.get_output_dim() == 4
    assert torch.allclose(elmo(batch_to_ids([["a"]]))["elmo_representations"][0], torch.full((1, 1, 4), 0.5))
    with pytest.raises(ConfigError, match="module"):
        Elmo(*files, 1, module=Own())
    with pytest.raises(ConfigError, match="options_file"):
        Elmo(None, None, 1)
    with pytest.warns(ElmokitWarning, match="vocab_to_cache"):
        Elmo(*files, 1)(batch_to_ids([["a"]]), torch.ones(1, 1, dtype=torch.long))
    assert Elmo.from_params({"options_file": files[0], "weight_file": files[1], "num_output_representations": 1})
    with pytest.raises(elmokit.ElmokitError, match="does not exist"):
        Elmo("nowhere.json", "nowhere.hdf5", 1)


@requires_peer
@pytest.mark.usefixtures("engine_mode")
def test_embedder_equals_the_peers_layers(files: Files) -> None:
    embedder = ElmoEmbedder(*files)
    with quiet():
        peer = load_peer()._ElmoBiLm(*files)
    stream = [sentence for batch in BATCHES for sentence in batch]
    got = list(embedder.embed_sentences(stream, batch_size=4))
    assert len(got) == len(stream)
    with quiet(), torch.no_grad():
        for start in range(0, len(stream), 4):
            output = peer(batch_to_ids(stream[start : start + 4]))
            for row, sentence in enumerate(stream[start : start + 4]):
                expected = torch.stack(output["activations"])[:, row, 1 : len(sentence) + 1].numpy()
                assert got[start + row].shape == expected.shape
                np.testing.assert_allclose(got[start + row], expected, atol=2e-6, rtol=1e-5)


def test_embedder_remembers_and_handles_empty_sentences(files: Files) -> None:
    embedder = ElmoEmbedder(*files)
    width = embedder.elmo_bilm.get_output_dim()
    first = embedder.embed_sentence(["They", "play"])
    assert first.shape == (3, 2, width) and first.dtype == np.float32
    assert embedder.embed_sentence([]).shape == (3, 0, width)
    assert not np.array_equal(embedder.embed_sentence(["They", "play"]), first)
    layers, mask = embedder.batch_to_embeddings([["a", "b"], ["c"]])
    assert layers.shape == (2, 3, 2, width)
    assert mask.tolist() == [[True, True], [True, False]]


TEXT = "The play ended .\n\n  They play .  \na / b\nThe play ended .\n"


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_embed_file(files: Files, tmp_path: Path, output_format: str) -> None:
    ElmoEmbedder(*files).embed_file(io.StringIO(TEXT), str(tmp_path / "out.hdf5"), output_format, batch_size=2)
    lines = [line.strip() for line in TEXT.splitlines()]
    expected = list(ElmoEmbedder(*files).embed_sentences((line.split() for line in lines), batch_size=2))
    with h5py.File(tmp_path / "out.hdf5") as dump:
        assert set(dump) == {*"01234", "sentence_to_index"}
        assert json.loads(dump["sentence_to_index"][0]) == {line: str(i) for i, line in enumerate(lines)}
        for number, layers in enumerate(expected):
            reduced = {"all": layers, "top": layers[-1], "average": layers.mean(0)}[output_format]
            assert dump[str(number)].dtype == np.float32
            np.testing.assert_array_equal(dump[str(number)][...], reduced)


def test_embed_file_with_sentence_keys_and_without_index(files: Files, tmp_path: Path) -> None:
    source = io.StringIO("a / b\nThey play .\n")
    ElmoEmbedder(*files).embed_file(source, str(tmp_path / "keys.hdf5"), use_sentence_keys=True)
    assert source.closed
    with h5py.File(tmp_path / "keys.hdf5") as dump:
        assert dump["They play ."].shape[1] == 3
        assert dump["a / b"].shape[1] == 3
        assert "sentence_to_index" not in dump
    ElmoEmbedder(*files).embed_file(io.StringIO("a\n"), str(tmp_path / "bare.hdf5"), forget_sentences=True)
    with h5py.File(tmp_path / "bare.hdf5") as dump:
        assert set(dump) == {"0"}


def test_embed_file_leaves_nothing_behind_when_it_fails(files: Files, tmp_path: Path) -> None:
    embedder = ElmoEmbedder(*files)
    with pytest.raises(InputError, match="line 3"):
        embedder.embed_file(io.StringIO("a\nb\na\n"), str(tmp_path / "out.hdf5"), use_sentence_keys=True)
    with pytest.raises(ConfigError, match="output_format"):
        embedder.embed_file(io.StringIO("a\n"), str(tmp_path / "out.hdf5"), "best")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["input", "peer", "notes", "own"])
def test_embed_file_replaces_only_its_own_dumps(kind: str, bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m", format="bilm")
    embedder = ElmoEmbedder(str(tmp_path / "m/options.json"), str(tmp_path / "m/weights.hdf5"))
    source, output = tmp_path / "in.txt", tmp_path / "out.hdf5"
    source.write_text("the play\n", encoding="utf-8")
    if kind == "peer":
        with h5py.File(output, "w") as file:
            file["0"] = np.zeros((3, 2, 4), np.float32)
    elif kind == "notes":
        output.write_text("mine")
    elif kind == "own":
        embedder.embed_file(source.open(encoding="utf-8"), str(output))
    else:
        output = source
    before = output.read_bytes()
    if kind == "own":
        embedder.embed_file(source.open(encoding="utf-8"), str(output))
        return
    with source.open(encoding="utf-8") as file, pytest.raises(FormatError, match=r"left alone|is an input"):
        embedder.embed_file(file, str(output))
    assert output.read_bytes() == before
