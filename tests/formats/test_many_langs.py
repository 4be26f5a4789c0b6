import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.config import CharacterInput
from elmokit.errors import ConfigError, ElmokitError, FormatError, UnsafeFileError, VocabularyError, WeightsError
from elmokit.formats import detect_format, load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.characters import TableIndexer
from elmokit.text.vocabulary import SPECIALS
from tests.conftest import SENTENCES
from tests.formats.makers import (
    ARCHITECTURE,
    CHARACTERS,
    WORDS,
    assert_one_sentence,
    many_langs_tensors,
    refused,
    write_dictionary,
    write_many_langs,
)


def characters_of(bilm: BiLM) -> CharacterInput:
    assert isinstance(bilm.config.input, CharacterInput)
    return bilm.config.input


@pytest.mark.parametrize("zipped", [True, False])
def test_a_directory(zipped: bool, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m", zipped=zipped)
    assert detect_format(directory) == "many-langs"
    bilm = load(directory)
    characters, lstm = characters_of(bilm), bilm.config.lstm
    assert (characters.alphabet, characters.num_characters, characters.char_dim) == ("table", len(CHARACTERS), 4)
    assert (characters.num_words, characters.word_dim) == (len(WORDS), 3)
    assert characters.filters == ((1, 4), (2, 5)) and characters.num_highway == 1
    assert (characters.activation, characters.max_characters) == ("tanh", 9)
    assert (lstm.num_layers, lstm.cell_dim, lstm.projection_dim, lstm.forget_bias) == (2, 8, 6, 0.0)
    assert (lstm.cell_clip, lstm.projection_clip, lstm.skip_connections) == (2.0, 1.5, True)
    assert not bilm.config.softmax and bilm.vocabulary is None
    assert not bilm.training and all(p.dtype == torch.float32 for p in bilm.parameters())
    layers = bilm(bilm.to_char_ids(SENTENCES)).layers
    assert layers.shape == (3, 4, 5, 12) and bool(layers.isfinite().all())


def test_where_each_tensor_goes(tmp_path: Path) -> None:
    pickles = many_langs_tensors()
    state = load(write_many_langs(tmp_path / "m", pickles)).state_dict()
    embedder, encoder = pickles["token_embedder.pkl"], pickles["encoder.pkl"]
    assert torch.equal(state["encoder.char_table"], embedder["char_emb_layer.embedding.weight"])
    assert torch.equal(state["encoder.word_table"], embedder["word_emb_layer.embedding.weight"])
    assert torch.equal(state["encoder.convolutions.1.weight"], embedder["convolutions.1.weight"].permute(2, 1, 0))
    assert torch.equal(state["encoder.highways.0.transform.weight"], embedder["highways._layers.0.weight"][:9].T)
    assert torch.equal(state["encoder.highways.0.carry.bias"], -embedder["highways._layers.0.bias"][9:])
    i, f, j, o = encoder["backward_layer_1.state_linearity.bias"].split(8)
    assert torch.equal(state["backward_lstm.layers.1.bias"], torch.cat([i, f, o, j]))
    projection = encoder["forward_layer_0.state_projection.weight"]
    assert torch.equal(state["forward_lstm.layers.0.projection_weight"], projection.T)


@pytest.mark.parametrize("root", ["", "142/"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_zip(root: str, zipped: bool, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m", zipped=zipped)
    with zipfile.ZipFile(tmp_path / "142.zip", "w") as archive:
        for path in directory.rglob("*.*"):
            archive.write(path, root + str(path.relative_to(directory)))
    assert detect_format(tmp_path / "142.zip") == "many-langs"
    loaded = load(tmp_path / "142.zip")
    assert fingerprint(loaded) == fingerprint(load(directory))
    assert characters_of(loaded).max_characters == 9


@pytest.mark.parametrize("file", ["config.json", "encoder.pkl", "token_embedder.pkl"])
def test_any_file_names_the_model(file: str, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    assert fingerprint(load(directory / file)) == fingerprint(load(directory))


@pytest.mark.parametrize(
    ("config_path", "architecture_path"),
    [
        ("configs/cnn.json", "configs/cnn.json"),
        ("deep/er/cnn.json", "deep/er/cnn.json"),
        ("/home/somebody/configs/cnn.json", "cnn.json"),
        ("/home/somebody/cnn.json", "configs/cnn.json"),
        ("C:\\models\\cnn.json", "cnn.json"),
    ],
)
def test_where_the_architecture_is_looked_for(config_path: str, architecture_path: str, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m", config_path=config_path, architecture_path=architecture_path)
    assert characters_of(load(directory)).max_characters == 9


def test_the_named_place_comes_first_then_the_directory(tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")

    def put(path: Path, width: int) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"token_embedder": {"max_characters_per_token": width}}))

    put(tmp_path / "far" / "cnn.json", 11)
    put(directory / "cnn.json", 12)
    put(directory / "configs" / "cnn.json", 13)
    for config_path, width in ((str(tmp_path / "far" / "cnn.json"), 11), ("/no/cnn.json", 12), ("../far/cnn.json", 11)):
        (directory / "config.json").write_text(json.dumps({"config_path": config_path}))
        assert characters_of(load(directory)).max_characters == width
    (directory / "cnn.json").unlink()
    (directory / "config.json").write_text(json.dumps({"config_path": "/no/cnn.json"}))
    assert characters_of(load(directory)).max_characters == 13


@pytest.mark.parametrize("config_path", ["../../cnn.json", "{}/cnn.json", "configs/../../../cnn.json"])
def test_an_architecture_far_from_the_model_is_not_read(config_path: str, tmp_path: Path) -> None:
    (tmp_path / "cnn.json").write_text("{}")
    config_path = config_path.format(tmp_path)
    directory = write_many_langs(tmp_path / "models" / "m", config_path=config_path, architecture_path="mine.json")
    refused(directory, FormatError, "lacks its architecture file.*copy")


@pytest.mark.parametrize("config_path", ["/no/such.json", "x" * 5000, "nul\0nul", "", "configs\\mine.json"])
def test_a_missing_architecture_is_refused(config_path: str, tmp_path: Path) -> None:
    refused(write_many_langs(tmp_path / "m", config_path=config_path), FormatError, "lacks its architecture file.*copy")


@pytest.mark.parametrize("name", ["cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json"])
def test_released_models_come_without_their_architecture(name: str, tmp_path: Path) -> None:
    bilm = load(write_many_langs(tmp_path / "m", config_path=f"/home/somebody/configs/{name}"))
    assert (characters_of(bilm).activation, characters_of(bilm).max_characters) == ("relu", 50)
    assert (bilm.config.lstm.cell_clip, bilm.config.lstm.projection_clip) == (3.0, 3.0)


@pytest.mark.parametrize("part", ["encoder", "token_embedder"])
def test_another_family_is_refused(part: str, tmp_path: Path) -> None:
    architecture = ARCHITECTURE | {part: {"name": "LSTM"}}
    with pytest.raises(FormatError, match=f"{part} 'lstm'.*another family") as caught:
        load(write_many_langs(tmp_path / "m", architecture=architecture))
    assert_one_sentence(caught.value, tmp_path / "m" / "configs" / "cnn.json")


@pytest.mark.parametrize(
    ("architecture", "match"),
    [
        ([], "must hold an object"),
        ({"encoder": "elmo"}, "encoder must be an object"),
        ({"token_embedder": {"activation": "gelu"}}, r"input\.activation.*gelu"),
        ({"token_embedder": {"max_characters_per_token": 2}}, r"max_characters.*2"),
        ({"token_embedder": {"max_characters_per_token": 10**12}}, r"max_characters.*1000000000000"),
        ({"token_embedder": {"max_characters_per_token": "many"}}, r"max_characters.*many"),
        ({"token_embedder": {"max_characters_per_token": None}}, r"max_characters.*None"),
        ({"encoder": {"cell_clip": -3}}, r"cell_clip.*-3"),
        ({"encoder": {"proj_clip": float("nan")}}, r"projection_clip.*nan"),
    ],
)
def test_a_faulty_architecture(architecture: Any, match: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=match) as caught:
        load(write_many_langs(tmp_path / "m", architecture=architecture))
    assert_one_sentence(caught.value, tmp_path / "m")


@pytest.mark.parametrize("config", ["[]", "{}", '{"config_path": 3}', '{"config_path": null}'])
def test_config_without_config_path(config: str, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    (directory / "config.json").write_text(config)
    with pytest.raises(ConfigError, match="has no config_path") as caught:
        load(directory)
    assert_one_sentence(caught.value, directory / "config.json")


def test_null_clips(tmp_path: Path) -> None:
    architecture = {"encoder": {"cell_clip": None, "proj_clip": None}}
    lstm = load(write_many_langs(tmp_path / "m", architecture=architecture)).config.lstm
    assert (lstm.cell_clip, lstm.projection_clip) == (None, None)


@pytest.mark.parametrize(("char_dim", "word_dim"), [(4, 0), (0, 3)])
def test_only_characters_or_only_words(char_dim: int, word_dim: int, tmp_path: Path) -> None:
    pickles = many_langs_tensors(char_dim=char_dim, word_dim=word_dim)
    directory = write_many_langs(tmp_path / "m", pickles)
    (directory / ("word.dic" if char_dim else "char.dic")).unlink()
    bilm = load(directory)
    assert (characters_of(bilm).char_dim, characters_of(bilm).word_dim) == (char_dim, word_dim)
    assert bilm.indexer.width == (9 if char_dim else 1)
    assert bool(bilm(bilm.to_char_ids(SENTENCES)).layers.isfinite().all())
    save(bilm, tmp_path / "native")
    assert fingerprint(load(tmp_path / "native")) == fingerprint(bilm)


def test_neither_characters_nor_words(tmp_path: Path) -> None:
    pickles = many_langs_tensors(char_dim=0, word_dim=0)
    with pytest.raises(ConfigError, match="filters must name at least one group") as caught:
        load(write_many_langs(tmp_path / "m", pickles))
    assert_one_sentence(caught.value, tmp_path / "m")


def test_the_classifier_becomes_the_softmax_in_our_order(tmp_path: Path) -> None:
    pickles = many_langs_tensors()
    bilm = load(write_many_langs(tmp_path / "m", pickles, classifier=True))
    assert bilm.vocabulary is not None
    assert bilm.vocabulary.tokens == (*SPECIALS, "<pad>", "the", "cat")
    weight, bias = (pickles["classifier.pkl"][f"column_{part}.weight"] for part in ("emb", "bias"))
    rows = [1, 2, 0, 3, 4, 5]  # <bos> <eos> <oov>, then the rest as it was
    h = torch.randn(3, 6)
    torch.testing.assert_close(bilm.logits(h), h @ weight[rows].T + bias[rows, 0])


def test_classifiers_of_models_without_word_vectors(tmp_path: Path) -> None:
    pickles = many_langs_tensors(word_dim=0)
    bilm = load(write_many_langs(tmp_path / "m", pickles, classifier=True))
    assert bilm.vocabulary is not None and bilm.vocabulary.tokens[3:] == ("<pad>", "the", "cat")


def test_words_that_a_vocabulary_file_cannot_hold(tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m", classifier=True)
    write_dictionary(directory / "word.dic", ("<oov>", "<bos>", "<eos>", "<S>", "\u3000", "cat\u00a0"))
    bilm = load(directory)
    assert bilm.vocabulary is not None
    assert bilm.vocabulary.tokens == (*SPECIALS, "<unused-3>", "", "cat")
    save(bilm, tmp_path / "native")
    assert fingerprint(load(tmp_path / "native")) == fingerprint(bilm)


def test_a_classifier_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    pickles = many_langs_tensors() | {"classifier.pkl": {"hidden_to_tag.weight": torch.zeros(2, 6)}}
    assert not load(write_many_langs(tmp_path / "m", pickles, classifier=True)).config.softmax


@pytest.mark.parametrize("rows", [4, 7])
def test_a_classifier_of_another_size(rows: int, tmp_path: Path) -> None:
    pickles = many_langs_tensors()
    pickles["classifier.pkl"]["column_emb.weight"] = torch.zeros(rows, 6)
    with pytest.raises(WeightsError, match=rf"{rows} rows.*word\.dic does not fit") as caught:
        load(write_many_langs(tmp_path / "m", pickles, classifier=True))
    assert_one_sentence(caught.value, tmp_path / "m" / "classifier.pkl")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_other_precisions_are_read_as_float32(dtype: torch.dtype, tmp_path: Path) -> None:
    pickles = {
        file: {name: tensor.to(dtype) for name, tensor in tensors.items()}
        for file, tensors in many_langs_tensors().items()
    }
    state = load(write_many_langs(tmp_path / "m", pickles)).state_dict()
    assert all(tensor.dtype == torch.float32 for tensor in state.values())
    expected = pickles["token_embedder.pkl"]["projection.weight"].float()
    assert torch.equal(state["encoder.projection.weight"], expected.T)


def test_integers_are_no_weights(tmp_path: Path) -> None:
    pickles = many_langs_tensors()
    pickles["token_embedder.pkl"]["projection.bias"] = torch.zeros(6, dtype=torch.int64)
    with pytest.raises(WeightsError, match=r"projection\.bias holds torch\.int64") as caught:
        load(write_many_langs(tmp_path / "m", pickles))
    assert_one_sentence(caught.value, tmp_path / "m")


@pytest.mark.parametrize("file", ["token_embedder.pkl", "encoder.pkl"])
def test_no_missing_tensor_passes_for_a_smaller_model(file: str, tmp_path: Path) -> None:
    names = sorted(many_langs_tensors()[file])
    assert len(names) > 5
    for name in names:
        pickles = many_langs_tensors()
        del pickles[file][name]
        with pytest.raises(ElmokitError) as caught:
            load(write_many_langs(tmp_path / "m", pickles))
        assert_one_sentence(caught.value, tmp_path / "m")


@pytest.mark.parametrize(
    ("file", "name", "shape", "match"),
    [
        ("token_embedder.pkl", "char_emb_layer.embedding.weight", (10,), "2 dimensions"),
        ("token_embedder.pkl", "word_emb_layer.embedding.weight", (), "2 dimensions"),
        ("token_embedder.pkl", "convolutions.0.weight", (4, 4), "3 dimensions"),
        ("token_embedder.pkl", "highways._layers.0.weight", (17, 9), "2 equal parts"),
        ("token_embedder.pkl", "projection.weight", (6, 11), r"projection\.weight .*\(11, 6\).*\(12, 6\)"),
        ("token_embedder.pkl", "char_emb_layer.embedding.weight", (8, 4), "ids up to 9.*8 rows"),
        ("encoder.pkl", "forward_layer_0.input_linearity.weight", (3, 6), "4 equal parts"),
        ("encoder.pkl", "backward_layer_0.state_linearity.bias", (36,), r"\(36,\).*\(32,\)"),
        ("encoder.pkl", "forward_layer_1.state_projection.weight", (), "2 dimensions"),
        ("classifier.pkl", "column_bias.weight", (5, 1), "5 biases"),
        ("classifier.pkl", "column_emb.weight", (6,), "2 dimensions"),
    ],
)
def test_shapes_that_do_not_fit(file: str, name: str, shape: tuple[int, ...], match: str, tmp_path: Path) -> None:
    pickles = many_langs_tensors()
    pickles[file][name] = torch.zeros(shape)
    with pytest.raises(ElmokitError, match=match) as caught:
        load(write_many_langs(tmp_path / "m", pickles, classifier=True))
    assert_one_sentence(caught.value, tmp_path / "m")


def test_a_tensor_that_claims_more_than_it_holds(tmp_path: Path) -> None:
    pickles = many_langs_tensors()
    pickles["encoder.pkl"]["forward_layer_0.state_projection.weight"] = torch.zeros(1).expand(10**6, 10**6)
    with pytest.raises(UnsafeFileError, match=r"claims to be \(1000000, 1000000\)") as caught:
        load(write_many_langs(tmp_path / "m", pickles))
    assert_one_sentence(caught.value, tmp_path / "m" / "encoder.pkl")


@pytest.mark.parametrize("value", [[torch.zeros(2)], {"a": 1}, torch.zeros(3), {"a": {"b": torch.zeros(1)}}])
def test_pickles_of_something_else(value: Any, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    torch.save(value, directory / "encoder.pkl")
    with pytest.raises(WeightsError, match="no table of tensors") as caught:
        load(directory)
    assert_one_sentence(caught.value, directory / "encoder.pkl")


@pytest.mark.parametrize("sparse", [True, False])
def test_tensors_that_are_no_arrays(sparse: bool, tmp_path: Path) -> None:
    pickles: dict[str, dict[str, Any]] = {**many_langs_tensors()}
    odd = torch.eye(6).to_sparse() if sparse else torch.empty(6, 12, device="meta")
    pickles["token_embedder.pkl"]["projection.weight"] = odd
    with pytest.raises(WeightsError, match=r"projection\.weight is not a plain array") as caught:
        load(write_many_langs(tmp_path / "m", pickles))
    assert_one_sentence(caught.value, tmp_path / "m")


@pytest.mark.parametrize(
    ("file", "text", "match"),
    [
        ("char.dic", "", "lacks <bos>, <eos>, <bow>, <eow>, <oov>, <pad>"),
        ("word.dic", "", "lacks <bos>, <eos>, <oov>"),
        ("char.dic", "a\t0\n", "lacks <bos>"),
        ("word.dic", "the cat\n", "line 1: 'the cat' is not a token"),
        ("char.dic", "a\t" + "9" * 5000 + "\n", "line 1"),
        ("char.dic", "a\t999999999\n", "ids up to 999999999"),
        ("word.dic", "<oov>\t0\n<bos>\t1\n<eos>\t2\ncat\t6\n", "ids up to 6, but its table has 6 rows"),
    ],
)
def test_dictionaries_that_do_not_fit(file: str, text: str, match: str, tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    (directory / file).write_text(text)
    with pytest.raises(VocabularyError, match=match) as caught:
        load(directory)
    assert_one_sentence(caught.value, directory)


def test_missing_dictionaries(tmp_path: Path) -> None:
    directory = write_many_langs(tmp_path / "m")
    (directory / "char.dic").unlink()
    with pytest.raises(ElmokitError, match=r"char\.dic cannot be read: No such file") as caught:
        load(directory)
    assert_one_sentence(caught.value, directory / "char.dic")


@pytest.mark.parametrize("format", ["bilm", "nlpl"])
def test_saving_as_bilm_is_refused(format: Any, tmp_path: Path) -> None:
    bilm = load(write_many_langs(tmp_path / "m"))
    with pytest.raises(FormatError, match=r"table of characters.*save it as native") as caught:
        save(bilm, tmp_path / "out" / "x.zip", format=format)
    assert_one_sentence(caught.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_tables_are_the_files(tmp_path: Path) -> None:
    indexer = load(write_many_langs(tmp_path / "m")).indexer
    assert isinstance(indexer, TableIndexer)
    assert indexer.characters == {token: index for index, token in enumerate(CHARACTERS)}
    assert indexer.words == {token: index for index, token in enumerate(WORDS)}
