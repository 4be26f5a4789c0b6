"""Further training of a model: what is kept, what is added, and that nothing gets worse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.errors import ConfigError
from elmokit.formats import load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.scoring.perplexity import measure_perplexity
from elmokit.text.vocabulary import SPECIALS, Vocabulary, write_vocabulary
from elmokit.training.config import FinetuneConfig, preset_names, read_run
from elmokit.training.finetuning import add_softmax, extend_vocabulary, finetune
from elmokit.training.run_files import RunFiles, RunResult
from tests.conftest import SENTENCES, WORDS
from tests.contracts.format import assert_bit_equal
from tests.formats.makers import write_many_langs
from tests.training.adaptive import build_adaptive

Tiny = Callable[[str], BiLM]

pytestmark = pytest.mark.usefixtures("one_thread")


def layers_of(bilm: BiLM) -> Tensor:
    with torch.no_grad():
        layers: Tensor = bilm(bilm.to_char_ids([*SENTENCES, ["zebra", "the", "yak"]])).layers
    return layers


def log_probs_of(bilm: BiLM) -> Tensor:
    h = torch.randn(20, bilm.config.lstm.output_dim, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        return bilm.logits(h).log_softmax(-1)


# --- A larger vocabulary ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["softmax", "untied", "tied"])
def test_more_words_share_what_was_unknown(kind: str, tiny: Tiny) -> None:
    bilm, known = tiny(kind), len(WORDS)
    before = {name: tensor.clone() for name, tensor in bilm.state_dict().items()}
    larger = extend_vocabulary(bilm, ["zebra", "the", "yak", "zebra", "<S>"])
    assert larger.vocabulary == Vocabulary([*WORDS.tokens, "zebra", "yak"])
    assert larger.config == bilm.config.model_copy(update={"vocab_size": known + 2})
    assert not larger.training
    for name, tensor in bilm.state_dict().items():
        assert torch.equal(tensor, before[name]), "the model given must not change"
        if name != "softmax.bias":
            assert torch.equal(larger.state_dict()[name][: len(tensor)], tensor), name
    assert torch.equal(layers_of(larger), layers_of(bilm))

    old, new = log_probs_of(bilm), log_probs_of(larger)
    others = [word for word in range(known) if word != WORDS.unknown_id]
    torch.testing.assert_close(new[:, others], old[:, others])
    share = new[:, [WORDS.unknown_id, known, known + 1]]
    torch.testing.assert_close(share, (old[:, WORDS.unknown_id] - torch.tensor(3.0).log())[:, None].expand(-1, 3))


def test_no_new_word_is_the_same_model(bilm: BiLM) -> None:
    assert extend_vocabulary(bilm, ["the", "play", *SPECIALS]) is bilm


def test_a_new_word_can_be_read_and_told_from_others_by_a_token_model(tiny: Tiny) -> None:
    larger = extend_vocabulary(tiny("tied"), ["zebra"])
    assert larger.to_char_ids([["zebra"]]).item() == len(WORDS) + 1
    assert larger.softmax is not None and larger.softmax.weight is None
    assert larger.token_table is not None and len(larger.token_table) == len(WORDS) + 1


def test_what_cannot_be_extended(tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match="no softmax"):
        extend_vocabulary(tiny("characters"), ["a"])
    with pytest.raises(ConfigError, match="adaptive softmax cannot be extended"):
        extend_vocabulary(build_adaptive(), ["zebra"])


# --- A new softmax ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["characters", "tokens", "one-layer"])
def test_a_model_gets_a_softmax_and_keeps_the_rest(kind: str, tiny: Tiny) -> None:
    bilm = tiny(kind)
    vocabulary = WORDS if kind == "tokens" else Vocabulary([*SPECIALS, "zebra", "yak"])
    found = add_softmax(bilm, vocabulary, seed=3)
    assert found.config.softmax and found.config.vocab_size == len(vocabulary)
    assert found.vocabulary == vocabulary
    assert torch.equal(layers_of(found), layers_of(bilm))
    for name, tensor in bilm.state_dict().items():
        assert torch.equal(found.state_dict()[name], tensor), name
    assert set(found.state_dict()) - set(bilm.state_dict()) == {"softmax.weight", "softmax.bias"}
    assert torch.isfinite(log_probs_of(found)).all()
    assert_bit_equal(add_softmax(bilm, vocabulary, seed=3), found)
    assert fingerprint(add_softmax(bilm, vocabulary, seed=4)) != fingerprint(found)


def test_a_model_over_a_table_of_characters_keeps_its_table(tmp_path: Path) -> None:
    bilm = load(write_many_langs(tmp_path / "m", classifier=False))
    found = extend_vocabulary(add_softmax(bilm, Vocabulary([*SPECIALS, "zebra"])), ["yak"])
    assert found.indexer is bilm.indexer
    assert torch.equal(layers_of(found), layers_of(bilm))


def test_a_softmax_that_does_not_fit(bilm: BiLM, tiny: Tiny) -> None:
    with pytest.raises(ConfigError, match="has a softmax already"):
        add_softmax(bilm, WORDS)
    with pytest.raises(ConfigError, match="give its own vocabulary"):
        add_softmax(tiny("tokens"), Vocabulary([*SPECIALS, "zebra"]))


# --- A whole run -----------------------------------------------------------------------------------------------------

Tune = Callable[..., RunResult]


@pytest.fixture
def tune(tmp_path: Path) -> Tune:
    """Fine-tune a model on a few dozen words of which it knows most; more settings by dotted name."""
    (tmp_path / "train.txt").write_text("the play was new .\nthe zebra was the play .\nwas the play new ?\n" * 5)
    (tmp_path / "heldout.txt").write_text("the play was the zebra .\nthe play was .\n")
    small = {"batch_size": 2, "unroll_steps": 5, "num_epochs": 2, "dropout": 0.0, "loss.kind": "full"}
    small |= {"optimizer.learning_rate": 0.02, "optimizer.warmup_steps": 0, "loop.evaluate_every": 10}

    def run(bilm: BiLM, *, extend_vocab: bool = False, vocab: Path | None = None, **changes: Any) -> RunResult:
        save(bilm, tmp_path / "given", overwrite=True)
        values = small | {name.replace("__", "."): value for name, value in changes.items()}
        config = read_run(FinetuneConfig, "default", {name: json.dumps(value) for name, value in values.items()})
        files = RunFiles(
            [str(tmp_path / "train.txt")], [str(tmp_path / "heldout.txt")], tmp_path / "run", vocab, threads=1
        )
        return finetune(str(tmp_path / "given"), config, files, extend_vocab=extend_vocab)

    return run


def heldout_text() -> list[str]:
    return ["the play was the zebra .", "the play was ."]


def assert_result(done: RunResult, given: BiLM | None = None) -> BiLM:
    """The model on disk has the perplexities that the result says; with `given`, those before are its."""
    found = load(done.model_path)
    assert fingerprint(found) == done.fingerprint
    for figures, bilm in ((done.heldout, found), (done.before, given)):
        assert set(figures) == {"carry", "reset"}
        if bilm is not None:
            for state in figures:
                expected = measure_perplexity(bilm, heldout_text(), carry=state == "carry").to_dict()
                assert figures[state] == expected
    assert json.loads((done.model_path.parent / "result.json").read_text())["before"] == done.before
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "loss"), [("softmax", "full"), ("softmax", "sampled"), ("tied", "sampled")])
def test_a_run_makes_the_model_better(kind: str, loss: str, tiny: Tiny, tune: Tune) -> None:
    done = tune(tiny(kind), loss__kind=loss, loss__num_negatives=8)
    found = assert_result(done, tiny(kind))
    assert found.vocabulary == WORDS
    assert done.best_step > 0
    assert done.heldout["carry"]["average"] < done.before["carry"]["average"]
    changed = [n for n, t in tiny(kind).state_dict().items() if not torch.equal(t, found.state_dict()[n])]
    assert changed == list(found.state_dict())


@pytest.mark.slow
def test_an_adaptive_softmax_is_trained_as_one(tune: Tune) -> None:
    done = tune(build_adaptive(), loss__kind="adaptive")
    found = assert_result(done, build_adaptive())
    assert done.heldout["carry"]["average"] < done.before["carry"]["average"]
    assert found.softmax is not None and found.softmax.clusters == ((5, 8), (8, 10))


@pytest.mark.parametrize("kind", ["full", "sampled"])
def test_an_adaptive_softmax_takes_no_other_loss(kind: str, tune: Tune) -> None:
    with pytest.raises(ConfigError, match=rf"adaptive softmax.*'{kind}'.*'adaptive'"):
        tune(build_adaptive(), loss__kind=kind, loss__num_negatives=2)


def test_a_plain_softmax_takes_no_adaptive_loss(bilm: BiLM, tune: Tune) -> None:
    with pytest.raises(ConfigError, match="needs a model with an adaptive softmax"):
        tune(bilm, loss__kind="adaptive")


PARTS = {"encoder": ("encoder.",), "lstm": ("forward_lstm.", "backward_lstm."), "softmax": ("softmax.",)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "loss", "freeze"),
    [
        ("softmax", "full", ("encoder",)),
        ("softmax", "sampled", ("lstm",)),
        ("softmax", "full", ("softmax",)),
        ("softmax", "sampled", ("softmax",)),
        ("softmax", "sampled", ("encoder", "lstm")),
        ("softmax", "full", ("lstm", "softmax")),
        ("tied", "full", ("softmax",)),
        ("tied", "sampled", ("encoder",)),
    ],
)
def test_frozen_parts_stay_as_they_are(kind: str, loss: str, freeze: tuple[str, ...], tiny: Tiny, tune: Tune) -> None:
    """To the bit, with a weight decay that would show; a tied softmax is frozen with the table it shares."""
    settings = {"loss__kind": loss, "loss__num_negatives": 4, "optimizer__weight_decay": 0.1}
    done = tune(tiny(kind), freeze=list(freeze), **settings)
    assert done.best_step > 0, "nothing was learned, so nothing can be seen"
    before, after = tiny(kind).state_dict(), load(done.model_path).state_dict()
    prefixes = tuple(prefix for part in freeze for prefix in PARTS[part])
    prefixes += ("encoder.",) if kind == "tied" and "softmax" in freeze else ()
    for name in before:
        assert torch.equal(before[name], after[name]) == name.startswith(prefixes), name


@pytest.mark.parametrize(
    ("kind", "freeze"), [("softmax", ["encoder", "lstm", "softmax"]), ("tied", ["lstm", "softmax"])]
)
def test_something_must_be_left_to_train(kind: str, freeze: list[str], tiny: Tiny, tune: Tune) -> None:
    with pytest.raises(ConfigError, match="nothing to train"):
        tune(tiny(kind), freeze=freeze)


def test_a_part_that_does_not_exist(bilm: BiLM, tune: Tune) -> None:
    with pytest.raises(ConfigError, match=r"freeze.*'encoder', 'lstm' or 'softmax'.*head"):
        tune(bilm, freeze=["head"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["softmax", "tied"])
def test_a_run_may_learn_the_words_of_its_text(kind: str, tiny: Tiny, tune: Tune) -> None:
    found = assert_result(done := tune(tiny(kind), extend_vocab=True))
    assert found.vocabulary is not None
    assert found.vocabulary.tokens[: len(WORDS)] == WORDS.tokens
    assert set(found.vocabulary.tokens[len(WORDS) :]) == {"zebra", "new", "?"}
    assert (done.before["reset"]["oov_rate"], done.before["reset"]["vocab_size"]) == (0, len(WORDS) + 3)
    log = (done.model_path.parent / "log.jsonl").read_text().splitlines()
    assert "vocabulary extended by 3 words" in json.loads(log[0])["note"]


@pytest.mark.parametrize("kind", ["characters", "tokens"])
def test_a_model_without_a_softmax_gets_one(kind: str, tiny: Tiny, tune: Tune) -> None:
    """Over the words of the text; a model over words predicts those that it reads."""
    found = assert_result(done := tune(tiny(kind)))
    assert found.softmax is not None and found.vocabulary is not None
    words = {"the", "play", "was", "new", "zebra", ".", "?"}
    assert set(found.vocabulary.tokens) == ({*SPECIALS, *words} if kind == "characters" else set(WORDS.tokens))
    assert done.heldout["carry"]["average"] < done.before["carry"]["average"]


@pytest.mark.slow
def test_a_vocabulary_is_taken_where_one_is_missing(tiny: Tiny, tune: Tune, tmp_path: Path) -> None:
    """As the words of a new softmax, or as words to add; a model that has its own keeps it."""
    write_vocabulary(Vocabulary([*SPECIALS, "the", "zebra"]), tmp_path / "words")
    with pytest.raises(ConfigError, match="has a vocabulary: leave --vocab out"):
        tune(tiny("softmax"), vocab=tmp_path / "words")
    with pytest.raises(ConfigError, match="has a vocabulary: leave --vocab out"):
        tune(tiny("tokens"), vocab=tmp_path / "words")
    assert load(tune(tiny("characters"), vocab=tmp_path / "words").model_path).vocabulary == Vocabulary(
        [*SPECIALS, "the", "zebra"]
    )


@pytest.mark.slow
def test_a_run_that_goes_wrong_gives_back_what_it_was_given(bilm: BiLM, tiny: Tiny, tune: Tune) -> None:
    done = tune(bilm, optimizer__learning_rate=30.0, optimizer__schedule="constant", loop__patience=2)
    assert_bit_equal(assert_result(done, tiny("softmax")), tiny("softmax"))
    assert (done.best_step, done.reason) == (0, "patience")
    assert done.heldout == done.before


# --- Settings --------------------------------------------------------------------------------------------------------


def test_every_preset_is_valid() -> None:
    assert "default" in preset_names(FinetuneConfig)
    for name in preset_names(FinetuneConfig):
        assert read_run(FinetuneConfig, name).num_epochs >= 1


@pytest.mark.slow
def test_a_draw_larger_than_the_vocabulary_becomes_the_full_softmax(tiny: Tiny, tune: Any, tmp_path: Path) -> None:
    done: RunResult = tune(tiny("softmax"), loss__kind="sampled", loss__num_negatives=2048)
    first = json.loads((done.model_path.parent / "log.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert first["loss_kind"] == "full"
    assert "fewer words than loss.num_negatives" in first["note"]
