"""What a biLM takes, refuses, and leaves alone."""

import copy
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmokit.config import ElmoConfig
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM, batch_to_ids
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from tests import strategies
from tests.conftest import CONFIGS, KINDS, SENTENCES, WORDS, build_tiny
from tests.formats.makers import assert_one_sentence

Tiny = Callable[[str], BiLM]
MODELS = {kind: build_tiny(kind) for kind in ("characters", "tied", "bare")}


def refusal(bilm: BiLM, char_ids: Tensor) -> str:
    with pytest.raises(InputError) as caught:
        bilm(char_ids)
    assert_one_sentence(caught.value)
    return str(caught.value)


def put(char_ids: Tensor, place: tuple[int, ...], value: int) -> Tensor:
    changed = char_ids.clone()
    changed[place] = value
    return changed


@pytest.mark.parametrize("shape", [(5, 12), (12,), (), (1, 2, 3, 12)])
def test_wrong_dimensions(shape: tuple[int, ...], bilm: BiLM) -> None:
    assert "sentences × tokens × ids" in refusal(bilm, torch.ones(shape, dtype=torch.int64))


@pytest.mark.parametrize("columns", [0, 1, 11, 13, 50])
def test_wrong_columns(columns: int, bilm: BiLM) -> None:
    for value in (0, 5):
        text = refusal(bilm, torch.full((2, 3, columns), value))
        assert f"{columns} columns" in text and "12 columns" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool, torch.float16])
def test_wrong_numbers(dtype: torch.dtype, bilm: BiLM) -> None:
    assert str(dtype) in refusal(bilm, bilm.to_char_ids(SENTENCES).to(dtype))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16])
def test_smaller_integers_are_fine(dtype: torch.dtype, bilm: BiLM) -> None:
    char_ids = bilm.to_char_ids(SENTENCES)
    assert torch.equal(bilm(char_ids.to(dtype)).layers, bilm(char_ids).layers)


def test_integers_too_small_for_the_ids(bilm: BiLM) -> None:
    char_ids = bilm.to_char_ids(SENTENCES)
    assert bool(bilm(char_ids.to(torch.uint8)).layers.isfinite().all())  # wrapped around, but every id has a row
    assert "contain -" in refusal(bilm, char_ids.to(torch.int8))


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ((0, 0, 3), 262, "contain 262 where this model knows 0 to 261"),
        ((0, 4, 0), 262, "contain 262 where this model knows 0 to 261"),
        ((3, 1, 11), 2**40, f"contain {2**40}"),
        ((2, 0, 5), -1, "contain -1"),
        ((0, 0, 0), -(2**40), f"contain {-(2**40)}"),
    ],
)
def test_ids_beyond_the_table(place: tuple[int, ...], value: int, words: str, bilm: BiLM) -> None:
    assert words in refusal(bilm, put(bilm.to_char_ids(SENTENCES), place, value))


@pytest.mark.parametrize("value", [11, -1, 2**40])
def test_words_beyond_the_table(value: int, tiny: Tiny) -> None:
    bilm = tiny("tied")
    text = refusal(bilm, put(bilm.to_char_ids(SENTENCES), (0, 1, 0), value))
    assert f"contain {value} where this model knows 1 to 10" in text


@pytest.mark.parametrize("position", [0, 1, 3])
def test_a_hole_before_the_last_token(position: int, bilm: BiLM) -> None:
    char_ids = bilm.to_char_ids([["a"], ["a", "b", "c", "d", "e"]])
    assert "row 1 of char_ids has an all-zero position" in refusal(bilm, put(char_ids, (1, position), 0))


def test_a_zero_inside_a_token_is_no_hole(bilm: BiLM) -> None:
    char_ids = put(bilm.to_char_ids([["abc"]]), (0, 0, 2), 0)
    output = bilm(char_ids)
    assert output.mask.tolist() == [[True]] and bool(output.layers.isfinite().all())


@pytest.mark.parametrize("rows", [1, 3, 5, 0])
def test_a_state_of_another_batch_size(rows: int, bilm: BiLM) -> None:
    with pytest.raises(InputError, match=f"remembers {rows} rows, but the batch has 4") as caught:
        bilm(bilm.to_char_ids(SENTENCES), bilm.zero_state(rows))
    assert_one_sentence(caught.value)
    state = bilm.zero_state(rows).resized(4)
    assert torch.equal(bilm(bilm.to_char_ids(SENTENCES), state).layers, bilm(bilm.to_char_ids(SENTENCES)).layers)


def test_raw_text_is_refused(bilm: BiLM) -> None:
    with pytest.raises(InputError, match="sentence 0 is the str") as caught:
        bilm.to_char_ids(["A sentence ."])
    assert_one_sentence(caught.value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep_boundaries", [False, True])
@pytest.mark.parametrize(("sentences", "rows"), [([], 0), ([[]], 1), ([[], [], []], 3)])
def test_batches_without_tokens(
    kind: str, keep_boundaries: bool, sentences: list[list[str]], rows: int, tiny: Tiny
) -> None:
    bilm = tiny(kind)
    char_ids = bilm.to_char_ids(sentences)
    assert char_ids.shape == (rows, 0, bilm.indexer.width)
    layers, mask, state = bilm(char_ids, keep_boundaries=keep_boundaries)
    steps = 2 if keep_boundaries else 0
    assert layers.shape == (bilm.config.num_layers, rows, steps, bilm.config.output_dim)
    assert mask.shape == (rows, steps) and bool(mask.all())
    assert state.num_rows == rows
    if rows:
        assert bool(state.forward.c.abs().sum() > 0), "an empty sentence runs as <S> </S>"


def test_padding_alone_is_an_empty_sentence(bilm: BiLM) -> None:
    layers, mask, state = bilm(torch.zeros(2, 3, 12, dtype=torch.int64))
    assert layers.shape == (3, 2, 3, 12) and not layers.any() and not mask.any()
    expected = bilm(bilm.to_char_ids([[], []])).state
    assert torch.equal(state.backward.h, expected.backward.h)


@pytest.mark.parametrize(
    "sentence",
    [
        ["x" * 10_000, "é" * 10_000, "👍" * 10_000],
        ["שלום", "עולם", "مرحبا", "\u202eevil\u202c"],
        ["e\u0301", "a" + "\u0301" * 200, "Z̷͛a̴l̷g̵o̴", "กำ", "한글", "👩‍👩‍👧‍👦"],
        ["\ud800", "a\udfffb", "\ud83d\udc4d"],
        ["\0", "", " ", "\n", "\u2028", "\ufeff", "\U0010ffff"],
        ["<S>", "</S>", "<UNK>", "<bos>", "!!!MAXTERMID"],
    ],
)
@pytest.mark.parametrize("kind", list(MODELS))
def test_odd_tokens_have_vectors(kind: str, sentence: list[str]) -> None:
    bilm = MODELS[kind]
    layers, mask, _ = bilm(bilm.to_char_ids([sentence, ["a"]]))
    assert mask[0].tolist() == [True] * len(sentence)
    assert bool(layers.isfinite().all())
    assert bool((layers[:, 0] != 0).any(-1).all())
    assert not layers[:, 1, 1:].any()


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(MODELS))
@given(st.lists(strategies.sentences, min_size=1, max_size=3))
@settings(max_examples=20, deadline=None)
def test_a_sentence_is_the_same_in_any_batch(kind: str, sentences: list[list[str]]) -> None:
    bilm = MODELS[kind]
    layers, mask, _ = bilm(bilm.to_char_ids(sentences))
    assert mask.sum(1).tolist() == [len(sentence) for sentence in sentences]
    for row, sentence in enumerate(sentences):
        alone = bilm(bilm.to_char_ids([sentence])).layers[:, 0]
        torch.testing.assert_close(layers[:, row, : len(sentence)], alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_initial_values_come_from_the_seed_alone(kind: str) -> None:
    config = CONFIGS[kind]
    words = WORDS if config.vocab_size else None
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = BiLM(config, vocabulary=words, seed=7).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = BiLM(config, vocabulary=words, seed=7).state_dict()
    other = BiLM(config, vocabulary=words, seed=8).state_dict()
    assert list(first) == list(again)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert all(bool(tensor.isfinite().all()) for tensor in first.values())


def test_running_leaves_ids_state_and_random_numbers_alone(bilm: BiLM) -> None:
    char_ids, state = bilm.to_char_ids(SENTENCES), bilm.zero_state(4)
    ids_before, rng_before = char_ids.clone(), torch.get_rng_state()
    bilm(char_ids, state)
    assert torch.equal(char_ids, ids_before)
    assert not any(tensor.any() for side in state for tensor in side)
    assert torch.equal(torch.get_rng_state(), rng_before)


def test_copies_are_independent(bilm: BiLM) -> None:
    twin = copy.deepcopy(bilm)
    char_ids = bilm.to_char_ids(SENTENCES)
    before = bilm(char_ids).layers
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(bilm(char_ids).layers, before)
    assert not twin(char_ids).layers.any()
    assert twin.config == bilm.config and twin.vocabulary == bilm.vocabulary


@pytest.mark.parametrize("kind", KINDS)
def test_double_precision(kind: str, tiny: Tiny) -> None:
    single, double = tiny(kind), tiny(kind).double()
    char_ids = single.to_char_ids(SENTENCES)
    layers, _, state = double(char_ids)
    assert layers.dtype == state.forward.h.dtype == torch.float64
    torch.testing.assert_close(single(char_ids).layers.double(), layers, rtol=0, atol=1e-5)


def test_models_that_predict_words(tiny: Tiny) -> None:
    for kind in ("softmax", "tied", "untied"):
        assert tiny(kind).logits(torch.zeros(2, 3, 6)).shape == (2, 3, 10)
    with pytest.raises(ConfigError, match="has no softmax") as caught:
        tiny("characters").logits(torch.zeros(6))
    assert_one_sentence(caught.value)


@pytest.mark.parametrize(
    ("kind", "vocabulary", "words"),
    [
        ("softmax", None, "needs its vocabulary"),
        ("tokens", None, "needs its vocabulary"),
        ("tied", Vocabulary([*SPECIALS, "a"]), "has 4 words, but the model has 10"),
    ],
)
def test_vocabularies_that_do_not_fit(kind: str, vocabulary: Vocabulary | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        BiLM(CONFIGS[kind], vocabulary=vocabulary)
    assert_one_sentence(caught.value)


def test_a_table_of_characters_needs_its_indexer() -> None:
    table = {"kind": "characters", "alphabet": "table", "num_characters": 9, "filters": [[1, 2]]}
    with pytest.raises(ConfigError, match="needs that table") as caught:
        BiLM(ElmoConfig.model_validate({"input": table, "lstm": {"cell_dim": 2, "projection_dim": 2}}))
    assert_one_sentence(caught.value)


def test_batch_to_ids_is_allennlps() -> None:
    char_ids = batch_to_ids([["the"], ["<S>", ""], []])
    assert char_ids.shape == (3, 2, 50) and char_ids.dtype == torch.int64
    assert char_ids[0, 0, :6].tolist() == [259, 117, 105, 102, 260, 261]
    assert char_ids[1, :, :4].tolist() == [[259, 257, 260, 261], [259, 260, 261, 261]]
    assert not char_ids[0, 1].any() and not char_ids[2].any()
