"""Perplexities, scores and substitutes against a float64 computation of one step after the other."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.corpus.windows import Window
from elmokit.errors import ConfigError, InputError
from elmokit.formats import load
from elmokit.model.bilm import BiLM
from elmokit.scoring import log_probs, scorer
from elmokit.scoring.perplexity import measure_perplexity
from elmokit.scoring.sentences import score_sentences
from elmokit.scoring.substitutes import find_substitutes
from elmokit.text.lines import read_text
from elmokit.text.vocabulary import SPECIALS
from tests.precisions import rounding_precisions
from tests.reference import DIRECTIONS, bilm_log_probabilities, random_bilm, run_bilm, write_bilm
from tests.training.adaptive import build_adaptive

Tiny = Callable[[str], BiLM]
KINDS = ("softmax", "tied", "untied", "adaptive")
SENTENCES = [
    ["the", "play", "was", "unheard", "of", "."],
    ["."],
    ["the", "模型", "was", "naïve"],
    ["play", "play", "<UNK>", "the"],
    ["nobody", "knows"],
]
TEXT = [" ".join(sentence) for sentence in SENTENCES]


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, tiny: Tiny) -> BiLM:
    """A model of each kind of softmax."""
    return build_adaptive() if request.param == "adaptive" else tiny(request.param)


# --- An explicit computation -----------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """Targets of both directions in their reading order, and the log-probability of each."""

    targets: list[list[int]]
    log_probs: list[list[float]]

    def perplexity(self, side: int, *, known: bool = False) -> float:
        values = [p for p, t in zip(self.log_probs[side], self.targets[side], strict=True) if not known or t != 2]
        return math.exp(-math.fsum(values) / len(values))


def compute(bilm: BiLM, sentences: Sequence[Sequence[str]], *, carry: bool) -> Expected:
    """One row, one token at a time, in float64: a direction reads `<S> w1 … wN` (`</S> wN … w1`) and nothing else."""
    exact = copy.deepcopy(bilm).double()
    assert exact.vocabulary is not None
    indexer = exact.indexer
    found = Expected([[], []], [[], []])
    for side, lstm in enumerate((exact.forward_lstm, exact.backward_lstm)):
        state = lstm.zero_state(1)
        for sentence in sentences:
            words = list(sentence)[:: 1 - 2 * side]
            rows = np.stack([(indexer.begin, indexer.end)[side], *indexer.to_char_ids(words)])
            targets = exact.vocabulary.to_ids([*words, ("</S>", "<S>")[side]]).tolist()
            state = state if carry else lstm.zero_state(1)
            for row, target in zip(rows, targets, strict=True):
                with torch.no_grad():
                    vector = exact.encoder.encode_types(torch.from_numpy(row[None]))  # (1, P)
                    outputs, state = lstm(vector, [1], state)
                    log_probs = exact.logits(outputs[-1][0]).log_softmax(-1)  # (V,)
                found.targets[side].append(target)
                found.log_probs[side].append(float(log_probs[target]))
    return found


def assert_figures(bilm: BiLM, expected: Expected, *, carry: bool, num_rows: int = 1) -> None:
    found = measure_perplexity(bilm, TEXT, carry=carry, num_rows=num_rows)
    for side, score in enumerate((found.forward, found.backward)):
        assert score.perplexity == pytest.approx(expected.perplexity(side), rel=1e-5)
        assert score.perplexity_known == pytest.approx(expected.perplexity(side, known=True), rel=1e-5)
        assert score.num_predictions == 22
    averages = (math.sqrt(expected.perplexity(0, known=k) * expected.perplexity(1, known=k)) for k in (False, True))
    assert (found.average, found.average_known) == pytest.approx(tuple(averages), rel=1e-5)
    assert (found.num_sentences, found.num_predictions, found.vocab_size) == (5, 22, 10)
    assert found.oov_rate == pytest.approx(5 / 17)  # unheard of <UNK> nobody knows
    assert found.state == ("carry" if carry else "reset")
    assert found.to_dict()["forward"]["num_predictions"] == 22


# --- Perplexity ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("carry", [True, False], ids=["carry", "reset"])
def test_figures_are_those_of_one_step_after_the_other(model: BiLM, carry: bool) -> None:
    assert_figures(model, compute(model, SENTENCES, carry=carry), carry=carry)


def test_carrying_is_not_resetting(bilm: BiLM) -> None:
    assert compute(bilm, SENTENCES, carry=True) != compute(bilm, SENTENCES, carry=False)


@pytest.mark.parametrize("num_steps", [1, 3, 22, 100])
def test_where_windows_are_cut_does_not_matter(bilm: BiLM, num_steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "_NUM_STEPS", num_steps)
    assert_figures(bilm, compute(bilm, SENTENCES, carry=True), carry=True)


def test_two_rows_read_each_its_half(bilm: BiLM) -> None:
    halves = [compute(bilm, part, carry=True) for part in (SENTENCES[:3], SENTENCES[3:])]
    whole = Expected(*([one[side] + two[side] for side in (0, 1)] for one, two in zip(*halves, strict=True)))
    assert_figures(bilm, whole, carry=True, num_rows=2)


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("num_rows", [1, 2, 5, 64])
def test_the_number_of_rows_does_not_matter_to_a_reset(bilm: BiLM, num_rows: int) -> None:
    assert_figures(bilm, compute(bilm, SENTENCES, carry=False), carry=False, num_rows=num_rows)


def test_with_a_row_a_sentence_there_is_nothing_to_carry(bilm: BiLM) -> None:
    many = measure_perplexity(bilm, ["the play"] * 5, carry=True, num_rows=64)
    assert many.average == pytest.approx(measure_perplexity(bilm, ["the play"], carry=False).average, rel=1e-5)


def test_against_the_reference_implementation(tmp_path: Path) -> None:
    """The numpy model runs whole sentences from zero; ours must give its −log p, boundaries included."""
    words = [*SPECIALS, "a", "b", "c"]
    options, arrays = random_bilm(3, softmax_size=len(words))
    write_bilm(tmp_path, options, arrays, words)
    bilm = load(tmp_path)
    sentences = [["a", "b", "zzz"], ["c"], ["b", "b", "c", "a"]]
    results, _ = run_bilm(options, arrays, sentences)
    values: dict[str, list[float]] = {name: [] for name in DIRECTIONS}
    for sentence, layers in zip(sentences, results, strict=True):
        ids = [words.index(word) if word in words else 2 for word in ["<S>", *sentence, "</S>"]]
        log_probs = bilm_log_probabilities(arrays, layers)
        for place, token in enumerate(ids[1:]):
            values["forward"].append(log_probs["forward"][place, token])
        for place, token in enumerate(ids[:-1]):
            values["backward"].append(log_probs["backward"][place + 1, token])
    found = measure_perplexity(bilm, [" ".join(sentence) for sentence in sentences], carry=False)
    assert found.forward.perplexity == pytest.approx(np.exp(-np.mean(values["forward"])), rel=1e-5)
    assert found.backward.perplexity == pytest.approx(np.exp(-np.mean(values["backward"])), rel=1e-5)
    scores = list(score_sentences(bilm, sentences))
    for name, score in zip(DIRECTIONS, zip(*((s.forward, s.backward) for s in scores), strict=True), strict=True):
        np.testing.assert_allclose(np.concatenate(score), values[name], rtol=1e-4, atol=1e-5)


def test_a_text_of_known_words(bilm: BiLM) -> None:
    found = measure_perplexity(bilm, ["the play was ."])
    assert found.oov_rate == 0
    assert found.average_known == found.average


def test_text_is_read_in_order_up_to_a_number_of_predictions(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("a  b\n\nc\n")
    (tmp_path / "2").write_text("It's late. Why?\n")
    files = [tmp_path / "1", tmp_path / "2"]
    assert read_text(files, input="tokens") == ["a b", "c", "It's late. Why?"]
    assert read_text(files, input="text") == ["a b", "c", "It 's late .", "Why ?"]
    assert read_text(files, input="tokens", max_predictions=4) == ["a b", "c"]


def test_no_text_and_no_softmax_are_one_sentence(tiny: Tiny, bilm: BiLM) -> None:
    with pytest.raises(InputError, match=r"no sentence: give"):
        measure_perplexity(bilm, [])
    for kind in ("characters", "tokens"):
        for run in (
            lambda model: measure_perplexity(model, TEXT),
            lambda model: list(score_sentences(model, SENTENCES)),
            lambda model: find_substitutes(model, ["the"], 0),
        ):
            with pytest.raises(ConfigError, match=r"this model has no softmax.*elmokit finetune"):
                run(tiny(kind))


def test_a_model_in_ruins_has_no_perplexity(bilm: BiLM) -> None:
    """It is infinite rather than an overflow or a nan, so that it is never the best."""
    assert bilm.softmax is not None
    bilm.softmax.bias.data[:] = torch.linspace(0, 1e6, 10)
    assert measure_perplexity(bilm, TEXT).average == math.inf
    bilm.softmax.bias.data[:] = math.nan
    assert measure_perplexity(bilm, TEXT).average == math.inf


# --- Scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("block", [2, 1000])
def test_scores_are_in_input_order(model: BiLM, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "_BLOCK_SENTENCES", block)
    monkeypatch.setattr(scorer, "_BATCH_PREDICTIONS", 10)
    sentences = [*SENTENCES, [], ["the"] * 12]
    found = list(score_sentences(model, iter(sentences)))
    assert [score.tokens for score in found] == sentences
    for sentence, score in zip(sentences, found, strict=True):
        forward, backward = compute(model, [sentence], carry=False).log_probs
        np.testing.assert_allclose(score.forward, forward, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(score.backward, backward[::-1], rtol=1e-4, atol=1e-5)
        assert score.perplexity == pytest.approx(math.exp(-np.mean(forward + backward)), rel=1e-5)


def test_an_empty_sentence_is_one_prediction_a_direction(bilm: BiLM) -> None:
    (score,) = score_sentences(bilm, [[]])
    assert score.forward.shape == score.backward.shape == (1,)
    assert list(score_sentences(bilm, [])) == []


def test_scores_come_while_sentences_still_do(bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "_BLOCK_SENTENCES", 3)
    taken = []

    def endless() -> Iterator[list[str]]:
        while True:
            taken.append(1)
            yield ["the"]

    scores = score_sentences(bilm, endless())
    next(scores)
    assert len(taken) == 3


def test_no_more_is_read_ahead_than_a_block(bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks grow from a few sentences, and end early where sentences are long."""
    monkeypatch.setattr(scorer, "_FIRST_SENTENCES", 2)
    monkeypatch.setattr(scorer, "_BLOCK_SENTENCES", 6)
    monkeypatch.setattr(scorer, "_BLOCK_PREDICTIONS", 9)
    taken = []

    def endless() -> Iterator[list[str]]:
        while True:
            taken.append(1)
            yield ["the"] * (1 if len(taken) < 13 else 8)

    scores = score_sentences(bilm, endless())
    ahead = []
    for number in range(15):
        next(scores)
        ahead.append(len(taken) - number)
    assert ahead == [2, 1, 4, 3, 2, 1, 5, 4, 3, 2, 1, 2, 1, 1, 1]  # 2, 4, 5 of 2 predictions (not 6), 2 …, 1 of 9


def test_a_long_sentence_runs_in_windows(bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorer, "_BATCH_PREDICTIONS", 4)
    monkeypatch.setattr(scorer, "_PIECE_PREDICTIONS", 3)
    sizes: list[int] = []
    run = scorer.Scorer._run

    def note(self: scorer.Scorer, window: Window, *rest: Any) -> Any:
        sizes.append(window.inputs[0].size)
        return run(self, window, *rest)

    monkeypatch.setattr(scorer.Scorer, "_run", note)
    sentence = [*SENTENCES[0], *SENTENCES[2]] * 2
    (found,) = score_sentences(bilm, [sentence])
    forward, backward = compute(bilm, [sentence], carry=False).log_probs
    np.testing.assert_allclose(found.forward, forward, rtol=1e-5)
    np.testing.assert_allclose(found.backward, backward[::-1], rtol=1e-5)
    assert max(sizes) == 4 and len(sizes) == 2 * 6


def test_what_sentences_share_is_computed_once(bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    original = log_probs._log_probs

    def note(h: Tensor, *rest: Any) -> Tensor:
        rows.append(len(h))
        return original(h, *rest)

    monkeypatch.setattr(log_probs, "_log_probs", note)
    sentences = [["the", "play", "."], ["the", "play", "was"], ["."], ["the", "play", "."]]
    found = list(score_sentences(bilm, sentences))
    assert sorted(rows) == [6, 7]  # "", the, the play, the play ., the play was, .;  "", ., . play, . play the, was …
    for sentence, score in zip(sentences, found, strict=True):
        forward, backward = compute(bilm, [sentence], carry=False).log_probs
        np.testing.assert_allclose(score.forward, forward, rtol=1e-5)
        np.testing.assert_allclose(score.backward, backward[::-1], rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_no_bit(bilm: BiLM, threads: int) -> None:
    for carry in (True, False):
        expected = measure_perplexity(bilm, TEXT, carry=carry)
        assert measure_perplexity(bilm, TEXT, carry=carry, threads=threads) == expected
    for found, other in zip(
        score_sentences(bilm, SENTENCES, threads=threads), score_sentences(bilm, SENTENCES), strict=True
    ):
        assert np.array_equal(found.forward, other.forward) and np.array_equal(found.backward, other.backward)


@pytest.mark.parametrize("carry", [True, False], ids=["carry", "reset"])
def test_progress_ends_at_all_predictions(bilm: BiLM, carry: bool) -> None:
    told: list[tuple[int, int]] = []
    measure_perplexity(bilm, TEXT, carry=carry, report=lambda *pair: told.append(pair))
    assert told[-1] == (22, 22) and told == sorted(told)


# --- Substitutes -----------------------------------------------------------------------------------------------------


def expected_scores(bilm: BiLM, tokens: list[str], place: int) -> NDArray[np.float64]:
    """The log-probabilities (2, V) at a place: each direction has read what is on its side and no more."""
    exact = copy.deepcopy(bilm).double()
    sides = []
    for side, context in enumerate((tokens[:place], tokens[:place:-1])):
        lstm = (exact.forward_lstm, exact.backward_lstm)[side]
        opening = (exact.indexer.begin, exact.indexer.end)[side]
        rows = np.stack([opening, *exact.indexer.to_char_ids(context)])
        with torch.no_grad():
            vectors = exact.encoder.encode_types(torch.from_numpy(rows))
            outputs, _ = lstm(vectors, [1] * len(rows), lstm.zero_state(1))
            sides.append(exact.logits(outputs[-1][-1]).log_softmax(-1).numpy())
    return np.stack(sides)


@pytest.mark.parametrize("place", [0, 2, 5])
def test_substitutes_are_the_words_that_both_sides_expect(model: BiLM, place: int) -> None:
    assert model.vocabulary is not None
    tokens, words = SENTENCES[0], model.vocabulary.tokens
    expected = expected_scores(model, tokens, place)  # (2, V)
    found = find_substitutes(model, tokens, place, number=100)
    best = sorted(range(3, 10), key=lambda word: -expected[:, word].sum())
    assert [one.word for one in found] == [words[word] for word in best]
    for one, word in zip(found, best, strict=True):
        assert (one.forward, one.backward) == pytest.approx(tuple(expected[:, word]), abs=1e-4)
        assert one.score == pytest.approx(expected[:, word].sum(), abs=1e-4)
    assert find_substitutes(model, tokens, place, number=2) == found[:2]
    assert find_substitutes(model, tokens, place - len(tokens), number=100) == found
    replaced = [*tokens[:place], "other", *tokens[place + 1 :]]
    for one, other in zip(find_substitutes(model, replaced, place, number=100), found, strict=True):
        assert one.word == other.word and one.score == pytest.approx(other.score, abs=1e-5)


def test_marks_are_never_offered(bilm: BiLM) -> None:
    assert bilm.softmax is not None
    bilm.softmax.bias.data[:3] = 50.0
    assert not {one.word for one in find_substitutes(bilm, ["the", "play"], 0, number=100)} & set(SPECIALS)


@pytest.mark.parametrize(
    ("tokens", "place", "number", "message"),
    [
        (["the", "play"], 2, 10, r"position 2 is outside the sentence of 2 tokens \(the play\): give one from 0 to 1"),
        (["the", "play"], -3, 10, "position -3"),
        ([], 0, 10, "no token"),
    ],
)
def test_a_place_that_is_not_there(bilm: BiLM, tokens: list[str], place: int, number: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_substitutes(bilm, tokens, place, number=number)
    for wrong in (0, -4):
        with pytest.raises(ConfigError, match=rf"number \({wrong}\) must be an integer of at least 1"):
            find_substitutes(bilm, ["the"], 0, number=wrong)


# --- Precision -------------------------------------------------------------------------------------------------------


def test_other_precisions_are_close_and_not_equal(tiny: Tiny) -> None:
    model = tiny("softmax")
    exact = measure_perplexity(model, TEXT)
    scores = [score.forward for score in score_sentences(model, SENTENCES)]
    for name in rounding_precisions():
        found = measure_perplexity(model, TEXT, precision=name)
        assert found.average == pytest.approx(exact.average, rel=0.02)
        rounded = [score.forward for score in score_sentences(model, SENTENCES, precision=name)]
        assert np.allclose(np.concatenate(rounded), np.concatenate(scores), atol=0.1)
        assert not np.array_equal(np.concatenate(rounded), np.concatenate(scores))


def test_an_unknown_precision_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match="'half' is unknown: choose float32, bfloat16, int8 or auto"):
        measure_perplexity(tiny("softmax"), TEXT, precision="half")
