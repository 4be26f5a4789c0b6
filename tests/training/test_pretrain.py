"""Pretraining from text to model: what a run reads, keeps, refuses and leaves."""

import dataclasses
import importlib.util
import json
import math
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

import elmokit
from elmokit.errors import ConfigError, ElmokitError, ElmokitWarning, InputError
from elmokit.formats import fingerprint, load, save
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.loop import Loop, StepResult
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles
from elmokit.training.step import LanguageModelStep
from tests.parity.allennlp_peer import load_peer, quiet, requires_peer
from tests.small_disk import small_disk
from tests.training.runs import count_predictions, outcome, read_log, run, settings, write_corpus, write_sentences


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, list[str]]:
    return write_corpus(tmp_path)


def last_checkpoint(output: Path) -> dict[str, Any]:
    content = Checkpoints(output / "checkpoints", keep=1).load_last()
    assert content is not None
    return content


# --- What a run leaves -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_prediction_of_every_epoch_is_made_once(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    done = run(settings(num_epochs=3), corpus, tmp_path / "run")
    assert done.predictions == 3 * count_predictions(corpus["train"])
    assert done.reason == "end of data"
    assert read_log(tmp_path / "run")[-2]["count"] == done.predictions


@pytest.mark.slow
def test_the_best_model_is_the_result(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings("full", optimizer={"learning_rate": 0.3}, loop={"evaluate_every": 1}, heldout_tokens=None)
    done = run(config, corpus, tmp_path / "run")
    perplexities = {e["step"]: e["heldout_perplexity"] for e in read_log(tmp_path / "run") if "heldout_perplexity" in e}
    assert len(perplexities) == done.steps
    assert done.best_step == min(perplexities, key=perplexities.__getitem__) < done.steps
    assert done.heldout["carry"]["average"] == pytest.approx(perplexities[done.best_step])
    assert fingerprint(load(done.model_path)) == fingerprint(load(tmp_path / "run/best")) == done.fingerprint
    last = last_checkpoint(tmp_path / "run")["model"]
    assert any(not torch.equal(last[name], tensor) for name, tensor in load(done.model_path).state_dict().items())


@pytest.mark.slow
def test_a_run_without_heldout_text_leaves_its_last_model(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    done = run(settings(), {**corpus, "heldout": []}, tmp_path / "run")
    assert done.heldout == {}
    assert not (tmp_path / "run/best").exists()
    last = last_checkpoint(tmp_path / "run")["model"]
    assert all(torch.equal(last[name], tensor) for name, tensor in load(done.model_path).state_dict().items())


@pytest.mark.slow
def test_max_steps_goes_beyond_the_epochs(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    done = run(settings(num_epochs=1, loop={"max_steps": 30}), corpus, tmp_path / "run")
    assert (done.steps, done.reason) == (30, "max_steps")
    assert done.predictions > 2 * count_predictions(corpus["train"])


def test_the_settings_and_the_text_are_on_record(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings(loop={"max_steps": 2})
    done = run(config, corpus, tmp_path / "run")
    record = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))
    assert type(config).model_validate(record["config"]) == config
    assert record["train"] == corpus["train"]
    text = json.loads((tmp_path / "run/corpus.json").read_text(encoding="utf-8"))
    assert text["num_predictions"] == count_predictions(corpus["train"])
    assert json.loads((tmp_path / "run/result.json").read_text(encoding="utf-8")) == done.to_dict()


@pytest.mark.slow
def test_bfloat16_on_the_cpu_is_close_to_float32(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    rhythm = {"max_steps": 4, "log_every": 1}
    for precision in ("float32", "bfloat16"):
        run(settings("full", precision=precision, loop=rhythm), corpus, tmp_path / precision)
    plain, half = ([e["loss"] for e in read_log(tmp_path / p) if "loss" in e] for p in ("float32", "bfloat16"))
    assert half == pytest.approx(plain, rel=5e-3)
    assert half != plain


@pytest.mark.slow
def test_evaluates_at_the_end_of_each_epoch_if_asked(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    run(settings(loop={"evaluate_every": 0}, num_epochs=3), corpus, tmp_path / "run")
    assert sum("heldout_perplexity" in entry for entry in read_log(tmp_path / "run")) in (3, 4)


def test_a_new_model_expects_words_by_their_frequency(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    """After one step that changes nothing; bilm-tf's zeros are there for those who ask."""
    still = {"kind": "adamw", "learning_rate": 1e-12}
    for first_bias in ("unigram", "zero"):
        loss = {"kind": "full", "first_bias": first_bias}
        run(settings(loop={"max_steps": 1}, optimizer=still, loss=loss), corpus, tmp_path / first_bias)
    counts = [int(line) for line in (tmp_path / "unigram/counts.txt").read_text().split()]
    words = [word for path in corpus["train"] for word in Path(path).read_text(encoding="utf-8").split()]
    found = load(tmp_path / "unigram/model")
    assert found.vocabulary is not None and found.softmax is not None
    assert counts[3:] == [words.count(word) for word in found.vocabulary.tokens[3:]]
    assert counts[:3] == [count_predictions(corpus["train"]) - len(words) >> 1] * 2 + [len(words) - sum(counts[3:])]
    expected = torch.tensor(counts) + 1
    torch.testing.assert_close(found.softmax.bias.detach().exp(), expected / expected.sum(), rtol=1e-3, atol=1e-6)
    zero = load(tmp_path / "zero/model")
    assert zero.softmax is not None and zero.softmax.bias.abs().max() < 1e-6


# --- Going on from weights alone -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_init_and_skip_tokens(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    first = run(settings(loop={"max_steps": 4}), corpus, tmp_path / "first")
    rhythm = {"max_steps": 1, "log_every": 1}
    frozen: dict[str, Any] = {"optimizer": {"kind": "adamw", "learning_rate": 1e-12}}
    extra = {"init": str(first.model_path), "skip_tokens": 50}
    run(settings(loop=rhythm, **frozen), corpus, tmp_path / "next", **extra)
    start, entry = read_log(tmp_path / "next")[:2]
    expected = "fresh optimizer, warm-up of 100 steps, 50 predictions passed over"
    assert start["note"] == f"weights from {first.model_path}, {expected}"
    assert entry["count"] == 20
    content, given = last_checkpoint(tmp_path / "next"), load(first.model_path).state_dict()
    assert all(torch.allclose(tensor, given[name], atol=1e-6) for name, tensor in content["model"].items())
    states = [state for one in content["optimizer"]["optimizers"] for state in one["state"].values()]
    assert {int(state["step"] if "step" in state else state["steps"].max()) for state in states} == {1}

    run(settings(loop=rhythm, **frozen), corpus, tmp_path / "unskipped", init=str(first.model_path))
    assert read_log(tmp_path / "unskipped")[1]["loss"] != entry["loss"]
    passed = content["batches"]["sentences"]["num_sentences"]
    plain = last_checkpoint(tmp_path / "unskipped")["batches"]["sentences"]["num_sentences"]
    assert passed > plain + 4


@pytest.mark.slow
def test_skipped_predictions_are_not_made(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    total = count_predictions(corpus["train"]) * 2
    done = run(settings(), corpus, tmp_path / "run", skip_tokens=total // 2)
    assert total // 2 - 10 <= done.predictions <= total // 2
    with pytest.raises(ConfigError, match=rf"--skip-tokens {total + 1:,} passes over all {total:,} predictions"):
        run(settings(), corpus, tmp_path / "other", skip_tokens=total + 1)


def test_models_that_cannot_be_gone_on_with(corpus: dict[str, list[str]], tmp_path: Path, tiny: Any) -> None:
    save(tiny("characters"), tmp_path / "bare")
    save(tiny("softmax"), tmp_path / "other-words")
    with pytest.raises(ConfigError, match="no softmax to train further: use elmokit finetune"):
        run(settings(), corpus, tmp_path / "run", init=str(tmp_path / "bare"))
    with pytest.raises(ConfigError, match="no word of the training text is in the vocabulary of"):
        run(settings(), corpus, tmp_path / "run", init=str(tmp_path / "other-words"))
    with pytest.raises(ConfigError, match=r"loss\.kind cannot be 'adaptive'"):
        run(settings("adaptive"), corpus, tmp_path / "run", init=str(tmp_path / "other-words"))
    with pytest.raises(ConfigError, match="leave --vocab out"):
        run(settings(), corpus, tmp_path / "run", init=str(tmp_path / "other-words"), vocab=tmp_path / "words")


# --- Bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "extra", "message"),
    [
        ({}, {"train": ["empty.txt"]}, r"training text \(1 file, empty\.txt …\) has no word: give files with text"),
        ({}, {"vocab": Path("klingon.txt")}, r"no word of the training text is in klingon\.txt: .*leave --vocab out"),
        ({"corpus": {"min_count": 1000}}, {}, "no word occurs 1000 times or more .* smaller min_count"),
        ({}, {"heldout": ["empty.txt"]}, r"held-out text \(empty\.txt\) has no sentence"),
        ({"loss": {"num_negatives": 500}}, {}, r"loss.num_negatives \(500\) .* words of the vocabulary: lower it"),
        ({"precision": "float16"}, {}, "'float16' needs a GPU: take bfloat16 or float32"),
        ({}, {"device": "abacus"}, "device 'abacus' cannot be used here .*: choose cpu"),
        ({}, {"train": []}, "no training files: name at least one"),
        ({}, {"train": ["nowhere.txt"]}, "no file matches 'nowhere.txt'"),
    ],
)
def test_bad_input(
    changes: dict[str, Any],
    extra: dict[str, Any],
    message: str,
    corpus: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n \n", encoding="utf-8")
    Path("klingon.txt").write_text("<S>\n</S>\n<UNK>\nQapla\n", encoding="utf-8")
    with pytest.raises(ElmokitError, match=message):
        run(settings(**changes), {**corpus, **extra}, tmp_path / "run")


def test_a_folder_that_holds_a_run_is_not_touched(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings(loop={"max_steps": 2})
    run(config, corpus, tmp_path / "run")
    with pytest.raises(ConfigError, match="holds a run already: repeat the command with --resume"):
        run(config, corpus, tmp_path / "run")


def test_heldout_text_that_is_part_of_the_training_text(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    lines = Path(corpus["train"][0]).read_text(encoding="utf-8").splitlines()
    long = [line for line in lines if len(line.split()) >= 5]
    Path(corpus["heldout"][0]).write_text("\n".join([*long[:2], "an own line of many words"]), encoding="utf-8")
    with pytest.warns(
        ElmokitWarning, match="2 of 3 held-out sentences of five tokens or more are also in the training"
    ):
        assert run(settings(loop={"max_steps": 1}), corpus, tmp_path / "run").steps == 1


@pytest.mark.slow
def test_a_loss_that_is_no_number(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run names step, file and line, and leaves the last good weights for another one."""
    original = LanguageModelStep.__call__

    def fail(self: LanguageModelStep, window: Any, number: int) -> StepResult:
        result = original(self, window, number)
        return dataclasses.replace(result, loss=math.nan) if number == 7 else result

    config = settings()
    with monkeypatch.context() as patch, pytest.raises(ElmokitError) as raised:
        patch.setattr(LanguageModelStep, "__call__", fail)
        run(config, corpus, tmp_path / "run")
    message = str(raised.value)
    assert "the loss is nan at step 8 (corpus: " in message
    assert any(f"{path}, line " in message for path in corpus["train"])
    assert f"the weights of step 5 are in {tmp_path / 'run/rescued'}" in message
    content = last_checkpoint(tmp_path / "run")
    assert content["step"] == 5
    rescued = load(tmp_path / "run/rescued").state_dict()
    assert all(torch.equal(rescued[name], tensor) for name, tensor in content["model"].items())
    assert f"--skip-tokens {content['progress']['count']} " in message
    run(config, corpus, tmp_path / "next", init=str(tmp_path / "run/rescued"), skip_tokens=100)

    with monkeypatch.context() as patch, pytest.raises(ElmokitError, match="no checkpoint yet: begin anew"):
        patch.setattr(LanguageModelStep, "__call__", fail)
        run(settings(loop={"checkpoint_every": 50}), corpus, tmp_path / "early")


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings()
    run(config, corpus, tmp_path / "whole")
    original = Loop._save

    def save_on_full_disk(self: Loop, *args: Any) -> None:
        with small_disk(2**40 if self.progress.step == 5 else 8192):
            original(self, *args)

    with monkeypatch.context() as patch, pytest.raises(ElmokitError) as raised:
        patch.setattr(Loop, "_save", save_on_full_disk)
        run(config, corpus, tmp_path / "cut")
    assert "step-000000010.pt cannot be written (File too large); those before it are whole: free" in str(raised.value)
    assert [path.name for path in (tmp_path / "cut/checkpoints").iterdir()] == ["step-000000005.pt"]
    run(config, corpus, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


@pytest.mark.slow
def test_a_file_that_vanishes_on_the_way(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings("tied", loop={"checkpoint_every": 100})
    run(config, corpus, tmp_path / "whole")
    shard, away = Path(corpus["train"][1]), tmp_path / "away"
    original = Loop._take_step

    def take_step(self: Loop, batches: list[Any]) -> None:
        original(self, batches)
        if self.progress.step == 2:
            shard.rename(away)

    with monkeypatch.context() as patch, pytest.raises(InputError, match=rf"{shard} cannot be read: .* resumed when"):
        patch.setattr(Loop, "_take_step", take_step)
        run(config, corpus, tmp_path / "cut")
    assert last_checkpoint(tmp_path / "cut")["step"] >= 2
    with pytest.raises(ElmokitError, match=r"b\.txt"):
        run(config, corpus, tmp_path / "cut", resume=True)
    away.rename(shard)
    run(config, corpus, tmp_path / "cut", resume=True)
    cut, whole = outcome(tmp_path / "cut"), outcome(tmp_path / "whole")
    for part in ("log", "model", "result"):
        assert cut[part] == whole[part]


@pytest.mark.slow
def test_a_text_that_changes_between_two_sittings(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    config = settings(loop={"max_steps": 5})
    run(config, corpus, tmp_path / "run")
    vocabulary = (tmp_path / "run/vocab.txt").read_bytes()
    with pytest.raises(ConfigError, match=r'train = \["a.txt", "b.txt"\], but now train = \["a.txt"\]'):
        run(config, {**corpus, "train": corpus["train"][:1]}, tmp_path / "run", resume=True)
    write_sentences(Path(corpus["train"][0]), 40)
    with pytest.raises(InputError, match="sizes of the files are not those of the run to resume"):
        run(config, corpus, tmp_path / "run", resume=True)
    assert (tmp_path / "run/vocab.txt").read_bytes() == vocabulary


# --- Export ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model that AllenNLP can read: 50 characters a token."""
    folder = tmp_path_factory.mktemp("trained")
    characters = {"kind": "characters", "char_dim": 4, "filters": [[1, 4], [2, 4]], "num_highway": 1}
    config = settings(model={"input": characters}, loop={"max_steps": 5})
    return run(config, write_corpus(folder), folder / "run").model_path


@pytest.mark.slow
@requires_peer
def test_a_trained_model_runs_in_allennlp(model: Path, tmp_path: Path) -> None:
    bilm = load(model)
    save(bilm, tmp_path / "bilm", format="bilm")
    weights, options = next((tmp_path / "bilm").glob("*.hdf5")), next((tmp_path / "bilm").glob("*.json"))
    char_ids = elmokit.batch_to_ids([["wa", "wb", "neu"], [], ["wc"]])
    with quiet(), torch.no_grad():
        peer = load_peer()._ElmoBiLm(str(options), str(weights)).eval()
        expected = torch.stack(peer(char_ids)["activations"])
        layers = bilm(char_ids, keep_boundaries=True)[0]
    torch.testing.assert_close(layers, expected, atol=2e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["model.zip", "bilm"])
def test_a_trained_model_comes_back_from_other_formats(target: str, model: Path, tmp_path: Path) -> None:
    bilm = load(model)
    save(bilm, tmp_path / target, format="nlpl" if target.endswith("zip") else "bilm")
    char_ids = elmokit.batch_to_ids([["wa", "wb", "neu"], ["wc"]])
    with torch.no_grad():
        torch.testing.assert_close(load(tmp_path / target)(char_ids)[0], bilm(char_ids)[0], rtol=0, atol=0)


# --- TensorBoard -----------------------------------------------------------------------------------------------------


def test_tensorboard_that_is_missing(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ElmokitError, match=r'run pip install "elmokit\[track\]", or leave it out'):
        run(settings(), corpus, tmp_path / "run", tensorboard=True)


@pytest.mark.slow
def test_tensorboard_hears_every_figure(
    corpus: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    class Writer:
        def __init__(self, directory: str, purge_step: int) -> None:
            calls.append((directory, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            calls.append((name, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            calls.append(("closed",))

    module = types.SimpleNamespace(SummaryWriter=Writer)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    config = settings(loop={"max_steps": 4})
    for resume in (False, True):
        run(config, corpus, tmp_path / "run", tensorboard=True, resume=resume)
    folder = str(tmp_path / "run/tensorboard")
    assert calls[0] == (folder, 0)
    assert {("loss", 3), ("loss", 4), ("heldout_perplexity", 4)} <= set(calls)
    assert calls[-2:] == [(folder, 5), ("closed",)]


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="needs elmokit[track]")
def test_tensorboard_files(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    run(settings(loop={"max_steps": 2}), corpus, tmp_path / "run", tensorboard=True)
    assert list((tmp_path / "run/tensorboard").glob("events.*"))


def test_reading_is_reported(corpus: dict[str, list[str]], tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    files = RunFiles(corpus["train"], [], tmp_path / "run", threads=1)
    pretrain(settings(loop={"max_steps": 1}), files, reading=lambda *pair: seen.append(pair))
    assert seen[-1][0] == seen[-1][1] > 0
