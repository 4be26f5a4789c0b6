"""The embedder: the same vectors as the plain model, in any company, order and number of threads."""

import threading
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import elmokit
from elmokit.config import TokenizerConfig
from elmokit.embedding import sentence_runner, word_cache
from elmokit.embedding.embedder import Embedded, Embedder
from elmokit.errors import ConfigError, ElmokitWarning, InputError, WeightsError
from elmokit.model.bilm import BiLM
from elmokit.native.library import find_library
from elmokit.text.vocabulary import Vocabulary
from tests.formats.makers import assert_one_sentence
from tests.tolerances import ACROSS_BATCHES_PACKAGED, assert_close

pytestmark = pytest.mark.usefixtures("engine_mode")

SENTENCES = [
    ["The", "play", "was", "cancelled", "."],
    ["They", "play"],
    [],
    ["été", "🎭", "<S>", "x" * 80, "\ud800", "\x00"],
    ["They", "play"],
    ["word"] * 40,
    ["."],
]


def plain(bilm: BiLM, sentence: list[str], state=None) -> np.ndarray:
    """All layers of one sentence by the reference path, (L, T, D)."""
    with torch.no_grad():
        return bilm(bilm.to_char_ids([sentence]), state).layers[:, 0].numpy()


@pytest.fixture
def embedder(tiny_bilm: BiLM) -> Embedder:
    return Embedder(tiny_bilm, threads=2)


@pytest.mark.parametrize("kind", ["characters", "softmax", "tokens", "tied", "bare", "one-layer"])
def test_equals_the_plain_model(kind: str, tiny) -> None:
    bilm = tiny(kind)
    for sentence, vectors in zip(SENTENCES, Embedder(bilm, threads=2).embed(SENTENCES), strict=True):
        assert_close(vectors, plain(bilm, sentence))
        assert vectors.dtype == np.float32


def test_raw_text_for_a_model_of_another_tokenizer(tiny_bilm: BiLM) -> None:
    tiny_bilm.config = tiny_bilm.config.model_copy(update={"tokenizer": TokenizerConfig(name="elmokit", version=99)})
    embedder = Embedder(tiny_bilm, threads=1)
    embedder.embed(SENTENCES)  # tokens, of which nobody knows where they are from
    with pytest.warns(ElmokitWarning, match="trained with version 99 of elmokit's tokenizer, but raw text is") as told:
        embedder.embed(["They play.", ["They", "play"]])
    assert len(told) == 1
    embedder.encode("They play.")  # it was said once
    with pytest.warns(ElmokitWarning, match="version 99"):
        Embedder(tiny_bilm, threads=1).encode("They play.")


def test_alone_in_any_batch_in_any_order_with_any_threads(tiny_bilm: BiLM) -> None:
    one, two = Embedder(tiny_bilm, threads=1), Embedder(tiny_bilm, threads=2)
    together = one.embed(SENTENCES)
    for vectors in (two.embed(SENTENCES), one.embed(SENTENCES)):
        for first, second in zip(together, vectors, strict=True):
            np.testing.assert_array_equal(first, second)
    for number, sentence in enumerate(SENTENCES):
        assert_close(two.embed([sentence])[0], together[number])
    for first, second in zip(together, reversed(two.embed(SENTENCES[::-1])), strict=True):
        assert_close(first, second)
    for size in (1, 2, 3):
        for first, second in zip(together, two.embed(SENTENCES, batch_size=size), strict=True):
            assert_close(first, second)


@pytest.mark.slow
def test_the_packaged_model_in_any_company() -> None:
    """The tolerance that the documents state."""
    prose = (Path(__file__).parents[1] / "fixtures/prose.txt").read_text(encoding="utf-8")
    sentences = [line.split()[:40] for line in prose.splitlines() if line.strip()][1:13]
    embedder = Embedder.from_pretrained("mini", threads=1)
    together = embedder.embed(sentences)
    largest = max(float(np.abs(vectors).max()) for vectors in together)
    assert largest > 1
    for sentence, vectors in zip(sentences, together, strict=True):
        assert_close(embedder.embed([sentence])[0], vectors, atol=ACROSS_BATCHES_PACKAGED)
    for batch_size in (2, 5):
        for vectors, other in zip(together, embedder.embed(sentences, batch_size=batch_size), strict=True):
            assert_close(other, vectors, atol=ACROSS_BATCHES_PACKAGED)


def test_bits_do_not_depend_on_what_was_embedded_before(whole_bilm: BiLM) -> None:
    expected = Embedder(whole_bilm).embed(SENTENCES)
    apart = [[[word]] for sentence in SENTENCES for word in sentence]  # so that every word meets the CNN alone
    for earlier in ([[["other", "words"], ["play", "x"], ["They"]]], apart):
        used = Embedder(whole_bilm)
        for sentences in earlier:
            used.embed(sentences)
        for first, second in zip(expected, used.embed(SENTENCES), strict=True):
            np.testing.assert_array_equal(first, second)


def test_layers_and_pooling(embedder: Embedder, tiny_bilm: BiLM) -> None:
    sentence = SENTENCES[0]
    full = plain(tiny_bilm, sentence)
    expected: dict[Any, Any] = {
        "all": full,
        "top": full[-1],
        "average": full.mean(0),
        0: full[0],
        1: full[1],
        np.int64(2): full[2],
    }
    for layers, layer in expected.items():
        for pooling, reduced in ((None, layer), ("mean", layer.mean(-2)), ("max", layer.max(-2))):
            (vectors,) = embedder.embed([sentence], layers=layers, pooling=pooling)
            assert_close(vectors, reduced)
            assert vectors.shape == reduced.shape
    (mixed,) = embedder.embed([sentence], layers=[0.2, 0.0, 1.5])
    assert_close(mixed, 0.2 * full[0] + 1.5 * full[2])


@pytest.mark.parametrize(
    ("layers", "computed"), [("all", 2), ("top", 2), (0, 0), (1, 1), ([0.5, 0.5, 0], 1), ("average", 2)]
)
def test_only_the_layers_asked_for_are_computed(layers, computed: int, embedder: Embedder, monkeypatch) -> None:
    calls = []
    inner = embedder.runner.engine.run_layer
    monkeypatch.setattr(embedder.runner.engine, "run_layer", lambda *a, **k: calls.append(1) or inner(*a, **k))
    embedder.embed(SENTENCES, layers=layers)
    assert len(calls) == 2 * computed


def test_identical_sentences_and_words_are_computed_once(embedder: Embedder, monkeypatch) -> None:
    encoded, tokens = [], []
    encoder, engine = embedder.bilm.encoder, embedder.runner.engine
    encode, run = encoder.encode_types, engine.run_layer
    monkeypatch.setattr(encoder, "encode_types", lambda ids: encoded.append(len(ids)) or encode(ids))
    monkeypatch.setattr(
        engine, "run_layer", lambda w, x, sizes, *a, **k: tokens.append(sum(sizes)) or run(w, x, sizes, *a, **k)
    )
    embedder.embed([["a", "b"]] * 50 + [["b", "a", "c"]])
    assert tokens == [4 + 5] * 4
    blocks = len(encoded)
    embedder.embed([["c", "b", "a"]])
    assert len(encoded) == blocks


def test_raw_text_is_split_and_joined(embedder: Embedder, tiny_bilm: BiLM) -> None:
    text = "They didn't play. The play ended!  "
    (record,) = embedder.embed([text], with_tokens=True)
    assert isinstance(record, Embedded)
    assert record.tokens == ("They", "did", "n't", "play", ".", "The", "play", "ended", "!")
    assert [text[start:end] for start, end in record.offsets] == list(record.tokens)
    parts = [plain(tiny_bilm, list(record.tokens[:5])), plain(tiny_bilm, list(record.tokens[5:]))]
    assert_close(record.vectors, np.concatenate(parts, axis=1))
    (whole,) = embedder.embed([text], split_sentences=False)
    assert_close(whole, plain(tiny_bilm, list(record.tokens)))
    assert embedder.embed([["They"]], with_tokens=True)[0].offsets is None


@pytest.mark.parametrize("blank", ["", "  \n ", []])
def test_texts_without_tokens(embedder: Embedder, blank) -> None:
    width = embedder.bilm.config.output_dim
    record, other = embedder.embed([blank, ["word"]], with_tokens=True)
    assert record.vectors.shape == (3, 0, width)
    assert record.tokens == ()
    assert other.vectors.shape == (3, 1, width)
    with pytest.warns(ElmokitWarning, match="1 text without tokens"):
        pooled = embedder.embed([blank, ["word"]], layers="top", pooling="mean")
    assert not pooled[0].any()
    assert pooled[0].shape == (width,)
    assert pooled[1].any()


def test_dtypes_and_tensors(embedder: Embedder) -> None:
    (half,) = embedder.embed([["They", "play"]], dtype="float16")
    (full,) = embedder.embed([["They", "play"]])
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, full.astype(np.float16))
    (tensor,) = embedder.embed([["They", "play"]], convert_to_tensor=True)
    assert torch.equal(tensor, torch.from_numpy(full))
    assert not tensor.requires_grad


def test_streams_are_read_no_further_than_a_window(embedder: Embedder) -> None:
    taken = []

    def endless() -> Iterator[list[str]]:
        number = 0
        while True:
            taken.append(number)
            yield [f"w{number % 7}", "x"]
            number += 1

    first = list(islice(embedder.embed_stream(endless(), layers="top", window=16), 20))
    assert len(taken) == 32
    assert_close(first[7], embedder.embed([["w0", "x"]], layers="top")[0])
    assert list(embedder.embed_stream([])) == []


def test_results_own_their_memory(embedder: Embedder) -> None:
    vectors = embedder.embed([["a", "b"], ["c"]] * 3)
    assert all(array.base is None or array.base.nbytes == array.nbytes for array in vectors)


def test_encode_is_sentence_transformers_alias(embedder: Embedder) -> None:
    texts = ["They play.", "The play ended.", "It was good. Very good."]
    vectors = embedder.encode(texts)
    width = embedder.bilm.config.output_dim
    assert vectors.shape == (3, width) and vectors.dtype == np.float32
    for text, vector in zip(texts, vectors, strict=True):
        assert_close(embedder.encode(text), vector)
        (all_layers,) = embedder.embed([text])
        assert_close(all_layers.mean((0, 1)), vector)
    unit = embedder.encode(
        texts, batch_size=2, show_progress_bar=False, convert_to_tensor=True, normalize_embeddings=True
    )
    assert isinstance(unit, torch.Tensor)
    torch.testing.assert_close(unit.norm(dim=1), torch.ones(3))
    with pytest.warns(ElmokitWarning):
        assert not embedder.encode("", normalize_embeddings=True).any()
    assert embedder.encode([]).shape == (0, width)


def test_progress_goes_to_stderr(embedder: Embedder, capsys) -> None:
    embedder.encode(["They play."], show_progress_bar=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "embedding" in captured.err


@pytest.mark.parametrize("batch_size", [1, 2, 3, 50])
def test_carry_equals_the_peers_order(tiny_bilm: BiLM, batch_size: int) -> None:
    embedder = Embedder(tiny_bilm, state="carry", threads=2)
    got = embedder.embed(SENTENCES, batch_size=batch_size) + embedder.embed(SENTENCES[:2], batch_size=batch_size)
    state, expected = None, []
    for stream in (SENTENCES, SENTENCES[:2]):
        for start in range(0, len(stream), batch_size):
            part = stream[start : start + batch_size]
            full = (state or tiny_bilm.zero_state(0)).resized(max(len(part), state.num_rows if state else 0))
            with torch.no_grad():
                output = tiny_bilm(tiny_bilm.to_char_ids(part), full.resized(len(part)))
            state = full.updated(output.state)
            expected += [output.layers[:, row, : len(s)].numpy() for row, s in enumerate(part)]
    for ours, theirs in zip(got, expected, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("layers", [0, 1, "top"])
def test_carry_goes_on_in_all_layers_whichever_are_asked_for(tiny_bilm: BiLM, layers) -> None:
    whole, part = (Embedder(tiny_bilm, state="carry") for _ in range(2))
    expected = whole.embed(SENTENCES, batch_size=2)
    got = part.embed(SENTENCES[:3], layers=layers, batch_size=2)
    depth = 2 if layers == "top" else layers
    for ours, theirs in zip(got, expected, strict=False):
        assert_close(ours, theirs[depth])
    assert part.runner.carried is not None
    assert part.runner.carried.forward.h.shape[0] == 2


def test_carry_keeps_its_batches_over_windows(tiny_bilm: BiLM) -> None:
    whole, parts = (Embedder(tiny_bilm, state="carry") for _ in range(2))
    first = whole.embed(SENTENCES * 3, batch_size=3)
    second = list(parts.embed_stream(SENTENCES * 3, batch_size=3, window=4))
    for one, other in zip(first, second, strict=True):
        assert_close(one, other)


def test_warm_starts_every_sentence_from_the_same_state(tiny_bilm: BiLM) -> None:
    embedder = Embedder(tiny_bilm, state="warm")
    with torch.no_grad():
        state = tiny_bilm(tiny_bilm.to_char_ids([sentence_runner.WARM_PREFIX])).state
    for sentence, vectors in zip(SENTENCES, embedder.embed(SENTENCES), strict=True):
        assert_close(vectors, plain(tiny_bilm, sentence, state))
    assert not np.allclose(embedder.embed([["play"]])[0][1:], plain(tiny_bilm, ["play"])[1:], atol=1e-3)


def test_threads_are_no_side_effect(tiny_bilm: BiLM) -> None:
    before = torch.get_num_threads()
    Embedder(tiny_bilm, threads=1).embed(SENTENCES)
    assert torch.get_num_threads() == before
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert seen == [before]
    assert torch.is_grad_enabled()


def test_an_embedder_may_be_used_from_several_threads(tiny_bilm: BiLM) -> None:
    embedder = Embedder(tiny_bilm, threads=2)
    expected = embedder.embed(SENTENCES)
    got: list[Any] = [None] * 6

    def work(number: int) -> None:
        got[number] = embedder.embed(SENTENCES)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(got))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in got:
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
def test_many_words_pass_through_a_small_cache(tiny_bilm: BiLM, monkeypatch) -> None:
    monkeypatch.setattr(sentence_runner, "CACHE_BYTES", 4 * tiny_bilm.config.lstm.output_dim * 10)
    embedder = Embedder(tiny_bilm)
    stream = [[f"w{number % 37}", f"v{number}", "the"] for number in range(200)]
    for sentence, vectors in zip(stream, embedder.embed_stream(stream, window=7), strict=True):
        assert_close(vectors, plain(tiny_bilm, sentence))
    assert len(embedder.runner.types._slots) == 10
    assert len(embedder.runner.types._vectors) <= 10


def test_more_tokens_than_a_batch_holds(tiny_bilm: BiLM, monkeypatch) -> None:
    monkeypatch.setattr(sentence_runner, "MAX_ROWS", 3)
    for sentence, vectors in zip(SENTENCES, Embedder(tiny_bilm, batch_tokens=20).embed(SENTENCES), strict=True):
        assert_close(vectors, plain(tiny_bilm, sentence))


@pytest.mark.slow
def test_long_sentences_work(tiny_bilm: BiLM) -> None:
    (vectors,) = Embedder(tiny_bilm).embed([["a", "b", "c", "."] * 1000], layers="top", pooling="mean")
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda e: e.embed("one str"), InputError, "list of texts"),
        (lambda e: e.embed([["a", 3]]), InputError, "tokens are str"),
        (lambda e: e.embed([["a"]], layers="best"), ConfigError, "all, top, average"),
        (lambda e: e.embed([["a"]], layers=3), ConfigError, "no layer 3.*0 to 2"),
        (lambda e: e.embed([["a"]], layers=-1), ConfigError, "no layer -1"),
        (lambda e: e.embed([["a"]], layers=True), ConfigError, "no layer True"),
        (lambda e: e.embed([["a"]], layers=[1, 2]), ConfigError, "2 weights"),
        (lambda e: e.embed([["a"]], layers=[1, float("nan"), 0]), ConfigError, "finite"),
        (lambda e: e.embed([["a"]], layers=[0, 0, 0]), ConfigError, "not all zero"),
        (lambda e: e.embed([["a"]], pooling="sum"), ConfigError, "mean, max"),
        (lambda e: e.embed([["a"]], dtype="int8"), ConfigError, "float32 or float16"),
        (lambda e: e.embed([["a"]], batch_size=0), ConfigError, "batch_size"),
        (lambda e: Embedder(e.bilm, state="keep"), ConfigError, "reset, carry or warm"),  # type: ignore[arg-type]
        (lambda e: Embedder(e.bilm, threads=0), ConfigError, "threads"),
        (lambda e: Embedder(e.bilm, batch_tokens=0), ConfigError, "batch_tokens"),
        (lambda e: Embedder(e.bilm.double(), int8=True), ConfigError, "float32"),
    ],
)
def test_bad_arguments(embedder: Embedder, call, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(embedder)


def test_other_precisions_run_the_plain_engine(tiny_bilm: BiLM) -> None:
    expected = plain(tiny_bilm, SENTENCES[0])
    (vectors,) = Embedder(tiny_bilm.double()).embed([SENTENCES[0]])
    assert_close(vectors, expected)


def test_int8_is_close_and_independent_of_company(tiny_bilm: BiLM) -> None:
    if find_library() is None:
        pytest.skip("int8 needs the native library")
    exact, rounded = Embedder(tiny_bilm).embed(SENTENCES), Embedder(tiny_bilm, int8=True)
    together = rounded.embed(SENTENCES)
    for number, sentence in enumerate(SENTENCES):
        assert_close(rounded.embed([sentence])[0], together[number])
    joined, expected = np.concatenate(together, 1), np.concatenate(exact, 1)
    error = np.sqrt(((joined - expected) ** 2).mean((1, 2)) / (expected**2).mean((1, 2)))
    assert error[0] == 0
    assert (error[1:] > 1e-5).all()
    assert (error[1:] < 0.05).all()


def test_from_pretrained_names_the_model(tiny_bilm: BiLM, tmp_path) -> None:
    elmokit.save(tiny_bilm, tmp_path / "m")
    embedder = Embedder.from_pretrained(tmp_path / "m", device="cpu", threads=1)
    assert embedder.name == str(tmp_path / "m")
    assert embedder.fingerprint == elmokit.formats.fingerprint(tiny_bilm)
    assert_close(embedder.embed([["play"]])[0], plain(tiny_bilm, ["play"]))


def test_token_input_models_count_unknown_words_as_one(tiny) -> None:
    bilm = tiny("tokens")
    vocabulary = bilm.vocabulary
    assert isinstance(vocabulary, Vocabulary)
    one, other, known = Embedder(bilm).embed([["never-seen"], ["nor-this"], ["play"]])
    np.testing.assert_array_equal(one[0], other[0])  # a row of the table, no product
    assert_close(one, other)
    assert np.abs(one - known).max() > 0.01


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.integers(0, 5), max_size=9), min_size=1, max_size=12), st.integers(1, 6))
def test_a_batch_plan_gives_every_token_a_place(sentences: list[list[int]], max_rows: int) -> None:
    rows = [[0, *(token + 2 for token in sentence), 1] for sentence in sentences]
    for numbers, places in sentence_runner._cut(rows, max_rows, 30):
        batch = sentence_runner.Batch.plan([rows[number] for number in numbers], places, torch.device("cpu"))
        total = sum(len(rows[number]) for number in numbers)
        assert sum(batch.batch_sizes) == total
        assert list(batch.batch_sizes) == sorted(batch.batch_sizes, reverse=True)
        assert max(batch.batch_sizes) <= max_rows
        for place in (batch.forward_place, batch.backward_place):
            assert sorted(place.tolist()) == list(range(total))
        forward = batch.forward_place[batch.bounds[:-1]]
        backward = batch.backward_place[torch.from_numpy(batch.bounds[1:]) - 1]
        assert torch.equal(forward, backward)
        assert sorted(forward.tolist()) == batch.starts.nonzero()[:, 0].tolist()


def test_types_are_encoded_in_full_blocks(tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch, engine_mode: str) -> None:
    if engine_mode == "native":
        pytest.skip("the native library needs no full blocks: a word's bits do not depend on the others")
    sizes = []
    encode = tiny_bilm.encoder.encode_types
    monkeypatch.setattr(tiny_bilm.encoder, "encode_types", lambda ids: sizes.append(len(ids)) or encode(ids))
    Embedder(tiny_bilm).embed([[f"w{number}" for number in range(word_cache.BLOCK + 3)]])
    assert sizes == [word_cache.BLOCK] * 3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_other_devices(tiny_bilm: BiLM) -> None:
    expected = Embedder(tiny_bilm).embed(SENTENCES)
    for ours, theirs in zip(Embedder(tiny_bilm.cuda()).embed(SENTENCES), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_name_or_a_path_is_loaded(bilm: BiLM, tmp_path: Path) -> None:
    elmokit.save(bilm, tmp_path / "m")
    expected = Embedder(bilm).embed([["play"]])[0]
    for source in (tmp_path / "m", str(tmp_path / "m")):
        embedder = Embedder(source)
        assert embedder.name == str(source)
        assert not any(parameter.requires_grad for parameter in embedder.bilm.parameters())
        np.testing.assert_array_equal(embedder.embed([["play"]])[0], expected)
    assert Embedder(tmp_path / "m", name="mine").name == "mine"
    for wrong in (None, 3, b"mini", bilm.state_dict(), Embedder(bilm)):
        with pytest.raises(ConfigError, match=r"^Embedder\(\) was given .*: give a loaded model, or the name or path"):
            Embedder(wrong)  # type: ignore[arg-type]


def test_a_stream_is_refused_before_it_is_read(embedder: Embedder) -> None:
    for call in (embedder.embed, embedder.embed_stream):
        with pytest.raises(InputError, match=r"^inputs is the str 'abc': give a list of texts"):
            call("abc")
    for wrong in ({"layers": 9}, {"window": 0}, {"batch_size": "8"}, {"dtype": "int4"}, {"with_tokens": "yes"}):
        with pytest.raises(ConfigError, match=next(iter(wrong)).removesuffix("s")):
            embedder.embed_stream([], **wrong)


def test_empty_cells_are_named_by_their_place(embedder: Embedder) -> None:
    with pytest.raises(InputError, match=r"^text 1500 is nan \(float\)"):
        embedder.embed([*["a"] * 1500, float("nan")], layers=0)  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"^token 1 of text 0 is 0 \(int\)"):
        embedder.embed([["a", 0]])  # type: ignore[list-item]


def test_numpy_dtypes_are_dtypes(embedder: Embedder) -> None:
    for dtype in (np.float16, np.dtype("float16"), "float16"):
        assert embedder.embed([["a"]], dtype=dtype)[0].dtype == np.float16  # type: ignore[arg-type]


# --- Numbers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 3e38])
@pytest.mark.parametrize("pooling", [None, "mean", "max"])
def test_vectors_that_are_not_finite_are_never_handed_out(tiny_bilm: BiLM, number: float, pooling: str | None) -> None:
    with torch.no_grad():
        tiny_bilm.encoder.projection.weight.fill_(number)
        tiny_bilm.encoder.projection.bias.fill_(3e38)
    embedder = Embedder(tiny_bilm, threads=1)
    cause = "its weights are too large" if np.isfinite(number) else r"its tensor encoder\.projection\.weight does"
    with pytest.raises(WeightsError, match=rf"^the vectors of text 1 hold NaN or infinite.* because {cause}") as caught:
        embedder.embed([[], ["play"], ["the"]], pooling=pooling)
    assert_one_sentence(caught.value)


def test_the_first_text_that_is_not_finite_is_named(tiny_bilm: BiLM) -> None:
    with torch.no_grad():
        tiny_bilm.encoder.char_table[ord("q")] = float("nan")
    embedder = Embedder(tiny_bilm, threads=1)
    good = [["the", "play"]] * 9
    assert len(embedder.embed(good)) == 9
    with pytest.raises(WeightsError, match=r"^the vectors of text 9 hold NaN or infinite numbers.*char_table"):
        list(embedder.embed_stream([*good, ["quay"], *good, ["q"]], window=2))


def test_numbers_too_large_for_float16(tiny_bilm: BiLM) -> None:
    with torch.no_grad():
        tiny_bilm.encoder.projection.bias[2] = 1e6
    embedder = Embedder(tiny_bilm, threads=1)
    assert embedder.embed([["play"]], layers=0)[0].max() > 9e5
    with pytest.raises(ConfigError, match=r"^the vectors of text 0 reach 1e\+06, but float16 .* 65,504: ask for dtype"):
        embedder.embed([["play"]], layers=0, dtype="float16")


def test_a_large_sum_of_finite_numbers_is_fine(tiny_bilm: BiLM) -> None:
    with torch.no_grad():
        tiny_bilm.encoder.projection.bias.fill_(60_000)
    (vectors,) = Embedder(tiny_bilm).embed([["play"] * 20], layers=0, dtype="float16")
    assert np.isfinite(vectors).all() and vectors.max() > 5e4


# --- sentence-transformers' arguments --------------------------------------------------------------------------------


def test_encode_takes_sentence_transformers_arguments(embedder: Embedder) -> None:
    texts = ["The play was cancelled.", "They play", ""]
    with pytest.warns(ElmokitWarning, match="1 text without tokens"):
        expected = embedder.encode(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for given in (
            embedder.encode(sentences=texts),
            embedder.encode(sentences=np.array(texts)),
            embedder.encode(texts, convert_to_numpy=True, device="cpu", precision="float32", prompt=None),
            embedder.encode(texts, 8, False, False, False, output_value="sentence_embedding"),
        ):
            assert isinstance(given, np.ndarray)
            np.testing.assert_array_equal(given, expected)
        tensor = embedder.encode(texts, convert_to_tensor=True, convert_to_numpy=True)
        assert isinstance(tensor, torch.Tensor) and torch.equal(tensor, torch.from_numpy(expected))
        rows = embedder.encode(texts, convert_to_numpy=False)
        assert isinstance(rows, list) and torch.equal(torch.stack(rows), tensor)
        assert embedder.encode([]).shape == (0, expected.shape[1])
    assert embedder.encode(sentences="They play").shape == expected.shape[1:]


def test_encode_gives_token_embeddings(embedder: Embedder) -> None:
    texts = ["The play was cancelled.", "They play"]
    expected = embedder.embed(texts, layers="average")
    tokens = embedder.encode(texts, output_value="token_embeddings")
    assert [type(one) for one in tokens] == [torch.Tensor] * 2
    kinds: list[dict[str, Any]] = [{"convert_to_numpy": True}, {}]
    for kind in kinds:
        found = embedder.encode(texts, output_value="token_embeddings", **kind)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), other, atol=1e-6)
    assert embedder.encode("They play", output_value="token_embeddings").shape == expected[1].shape


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"texts": None}, InputError, "give one of the two"),
        ({"sentences": ["a"]}, InputError, "give one of the two"),
        ({"output_value": None}, ConfigError, "output_value None is unknown: choose sentence_embedding or token"),
        ({"precision": "int8"}, ConfigError, "precision 'int8' is not offered"),
        ({"prompt": "query: "}, ConfigError, "does not take prompt: ELMo was trained without prompts"),
        ({"prompt_name": "query"}, ConfigError, "does not take prompt_name"),
        ({"truncate_dim": 64}, ConfigError, "does not take truncate_dim"),
        ({"pool": {}}, ConfigError, "does not take pool: one process uses all cores"),
        ({"chunk_size": 8}, ConfigError, "does not take chunk_size"),
        ({"normalise": True}, TypeError, "unexpected keyword argument 'normalise'"),
        ({"device": "warp"}, ConfigError, "device 'warp'"),
        ({"device": "meta"}, ConfigError, "device 'meta'"),
        ({"batch_size": 0}, ConfigError, "batch_size"),
        ({"convert_to_tensor": "yes"}, ConfigError, "convert_to_tensor"),
        ({"output_value": "token_embeddings", "normalize_embeddings": True}, ConfigError, "normalize_embeddings"),
    ],
)
def test_encode_refuses_the_rest(embedder: Embedder, settings: dict, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        embedder.encode(**{"texts": ["a"], **settings})


def test_moving_keeps_the_runner_where_nothing_moves(embedder: Embedder) -> None:
    runner = embedder.runner
    assert embedder.to("cpu") is embedder and embedder.runner is runner
