"""Runs over several files: older ones keep their order, held-out text comes from every file, weights make epochs."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError, InputError
from elmokit.formats import load
from elmokit.model.bilm import BiLM
from elmokit.scoring.perplexity import measure_parts, measure_perplexity
from elmokit.text.lines import read_text
from elmokit.training import run as run_module
from elmokit.training import run_text
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import FinetuneConfig, PretrainConfig
from elmokit.training.finetuning import finetune
from elmokit.training.heldout import evaluate_sample, first_predictions, read_heldout, sample_evenly
from elmokit.training.run import Run
from elmokit.training.run_files import RunFiles
from elmokit.training.run_folder import order_of_run
from tests.corpus.texts import count_opens
from tests.training.runs import count_predictions, outcome, run, settings, write_corpus, write_sentences
from tests.training.test_resume import Crash, crash_before

NEW_IN_STATES = ("mixed", "weights", "max_open_files")


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, Any]:
    """Two training files and two held-out ones, the second of which is the longer."""
    found = write_corpus(tmp_path)
    return {**found, "heldout": [*found["heldout"], str(write_sentences(tmp_path / "late.txt", 20, 5, prefix="v"))]}


# --- Runs that are older than the order ------------------------------------------------------------------------------


def make_old(output: Path) -> None:
    """Take out of a run's files what runs did not write before text was mixed."""
    record = json.loads((output / "run.json").read_text(encoding="utf-8"))
    survey = json.loads((output / "corpus.json").read_text(encoding="utf-8"))
    for corpus in (record["config"]["corpus"], survey["key"]["settings"]):
        del corpus["order"], corpus["weights"]
    del survey["by_file"], survey["epoch_predictions"]
    (output / "run.json").write_text(json.dumps(record), encoding="utf-8")
    (output / "corpus.json").write_text(json.dumps(survey), encoding="utf-8")
    checkpoints = Checkpoints(output / "checkpoints", keep=2)
    content = checkpoints.load_last()
    assert content is not None
    for name in ("corpus.order", "corpus.weights"):
        del content["identity"][name]
    for name in NEW_IN_STATES:
        del content["batches"]["sentences"][name]
    checkpoints.save(content["step"], content)


def cut_before(step: int, config: PretrainConfig, corpus: dict[str, Any], output: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        crash_before(step, patch)
        run(config, corpus, output)


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["nothing", "run.json", "corpus.json"])
def test_a_run_that_is_older_than_the_order_goes_on_file_by_file(
    lost: str, corpus: dict[str, Any], tmp_path: Path
) -> None:
    """With the held-out sample that it had, so that its evaluations stay comparable."""
    rhythm: dict[str, Any] = {"heldout_tokens": 30, "loop": {"evaluate_every": 2}}
    in_files = settings(**rhythm, corpus={"order": "files"})
    run(in_files, corpus, tmp_path / "whole")
    cut_before(8, in_files, corpus, tmp_path / "cut")
    make_old(tmp_path / "cut")
    (tmp_path / "cut" / lost).unlink(missing_ok=True)
    assert order_of_run(tmp_path / "cut") == "files"
    if lost == "nothing":
        with pytest.raises(InputError, match=r"in the order 'mixed', but 'files' in the run to resume"):
            run(settings(**rhythm, corpus={"order": "mixed"}), corpus, tmp_path / "cut", resume=True)
    run(settings(**rhythm), corpus, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")
    run(settings(**rhythm), corpus, tmp_path / "mixed")
    assert outcome(tmp_path / "mixed")["log"] != outcome(tmp_path / "whole")["log"]


@pytest.mark.slow
def test_a_run_in_either_order_is_resumed_in_its_own(corpus: dict[str, Any], tmp_path: Path) -> None:
    for order, other in (("mixed", "files"), ("files", "mixed")):
        output = tmp_path / order
        cut_before(6, settings(corpus={"order": order}), corpus, output)
        assert order_of_run(output) == order
        with pytest.raises(ConfigError, match=f'corpus.order = "{order}", but now corpus.order = "{other}"'):
            run(settings(corpus={"order": other}), corpus, output, resume=True)
        run(settings(), corpus, output, resume=True)
        run(settings(corpus={"order": order}), corpus, tmp_path / f"{order}-whole")
        assert outcome(output) == outcome(tmp_path / f"{order}-whole")


def test_the_order_of_folders_without_a_run(tmp_path: Path) -> None:
    assert order_of_run(tmp_path / "nowhere") is None
    (tmp_path / "run.json").write_text("{")
    assert order_of_run(tmp_path) is None
    (tmp_path / "run.json").write_text('{"config": {"corpus": {"order": "any"}}}')
    assert order_of_run(tmp_path) is None


@pytest.mark.slow
def test_fine_tuning_keeps_its_order_too(corpus: dict[str, Any], tmp_path: Path) -> None:
    model = run(settings(loop={"max_steps": 2}), corpus, tmp_path / "model").model_path
    plain = {"batch_size": 2, "unroll_steps": 5, "num_epochs": 2, "loop": {"checkpoint_every": 3, "patience": 0}}
    values: dict[str, Any] = {**plain, "loss": {"num_negatives": 1000}}  # more than words: settings change on the way

    def tune(output: Path, **extra: Any) -> None:
        config = FinetuneConfig.model_validate({**values, "corpus": extra.pop("corpus", {})})
        finetune(str(model), config, RunFiles(**corpus, output=output, threads=1, **extra))

    tune(tmp_path / "whole", corpus={"order": "files"})
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Crash):
        crash_before(8, patch)
        tune(tmp_path / "cut", corpus={"order": "files"})
    make_old(tmp_path / "cut")
    tune(tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut")["model"] == outcome(tmp_path / "whole")["model"]


# --- Held-out text ---------------------------------------------------------------------------------------------------


def test_every_heldout_file_gives_an_equal_share(tmp_path: Path) -> None:
    sizes = {"a": 100, "b": 5, "c": 40, "d": 100}
    files = {Path(name): [f"{name} {number}" for number in range(size)] for name, size in sizes.items()}

    def shares(num_predictions: int | None) -> list[int]:
        found = sample_evenly(files, num_predictions)
        assert found == sorted(found, key=lambda sentence: (sentence[0], int(sentence[2:])))
        return [sum(sentence.startswith(name) for sentence in found) for name in sizes]

    assert shares(60) == [5, 5, 5, 5]  # a sentence has three predictions
    assert shares(195) == [20, 5, 20, 20]
    assert shares(495) == [60, 5, 40, 60]
    assert shares(3) == [1, 1, 1, 0]
    assert shares(None) == shares(10_000) == list(sizes.values())
    only = {Path("a"): files[Path("a")]}
    assert sample_evenly(only, 50) == first_predictions(files[Path("a")], 50) == files[Path("a")][:17]
    assert sample_evenly({}, 50) == []


@pytest.mark.slow
def test_a_run_looks_at_every_heldout_file(
    corpus: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def evaluate(bilm: BiLM, text: Sequence[str]) -> dict[str, float]:
        seen.append(list(text))
        return evaluate_sample(bilm, text)

    monkeypatch.setattr(run_module, "evaluate_sample", evaluate)
    config = settings(heldout_tokens=40, loop={"max_steps": 2})
    run(config, corpus, tmp_path / "run")
    paths = sorted(map(Path, corpus["heldout"]))
    assert seen[0] == sample_evenly(read_heldout(paths, input="text"), 40)
    assert {word[0] for sentence in seen[0] for word in sentence.split()} == {"v", "w"}
    run(settings(heldout_tokens=40, loop={"max_steps": 2}, corpus={"order": "files"}), corpus, tmp_path / "files")
    assert seen[-1] == read_text(paths, input="text", max_predictions=40)


def test_figures_of_every_heldout_file(corpus: dict[str, Any], tmp_path: Path) -> None:
    done = run(settings(loop={"max_steps": 2}), corpus, tmp_path / "run")
    bilm, paths = load(done.model_path), sorted(map(Path, corpus["heldout"]))
    sentences = read_text(paths, input="text")
    assert done.heldout["carry"] == measure_perplexity(bilm, sentences).to_dict()
    assert done.heldout["reset"] == measure_perplexity(bilm, sentences, carry=False).to_dict()
    assert list(done.heldout_by_file) == [path.name for path in paths]
    for path in paths:
        own = measure_perplexity(bilm, read_text([path], input="text"), carry=False)
        found = done.heldout_by_file[path.name]
        assert found["reset"] == pytest.approx(own.average)
        assert found["num_predictions"] == own.num_predictions == count_predictions([str(path)])
        assert found["carry"] != found["reset"]
    assert json.loads((tmp_path / "run/result.json").read_text())["heldout_by_file"] == done.heldout_by_file


@pytest.mark.parametrize("num_rows", [1, 3, 64])
@pytest.mark.parametrize("carry", [True, False])
def test_parts_add_up_to_the_whole(carry: bool, num_rows: int, tmp_path: Path, tiny: Any) -> None:
    """Whichever rows they are in; with the state carried a part that one row begins with is as it is alone."""
    bilm = tiny("softmax")
    words = bilm.vocabulary.tokens[3:]
    sentences = [" ".join(words[n % len(words)] for n in range(start, start + 1 + start % 50)) for start in range(60)]
    sentences[7] += " neverheardof"
    sizes = [8, 1, 51]
    whole, parts = measure_parts(bilm, sentences, sizes, carry=carry, num_rows=num_rows)
    assert whole == measure_perplexity(bilm, sentences, carry=carry, num_rows=num_rows)
    assert [part.num_sentences for part in parts] == sizes
    assert sum(part.num_predictions for part in parts) == whole.num_predictions
    for part in parts:
        assert part.forward.num_predictions == part.backward.num_predictions == part.num_predictions
    total = sum(part.num_predictions * math.log(part.average) for part in parts)
    assert total == pytest.approx(whole.num_predictions * math.log(whole.average))
    assert parts[0].oov_rate > parts[1].oov_rate == parts[2].oov_rate == 0
    if not carry or num_rows == 1:
        alone = measure_perplexity(bilm, sentences[:8], carry=carry, num_rows=num_rows)
        assert parts[0].average == pytest.approx(alone.average)


# --- Weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_weights_make_longer_epochs(corpus: dict[str, Any], tmp_path: Path) -> None:
    weighted = settings(corpus={"weights": {"b.txt": 3, "a*": 0.5}}, num_epochs=2)
    done = run(weighted, corpus, tmp_path / "run")
    halves, b = (count_predictions([path]) for path in corpus["train"])
    assert done.predictions == halves + 6 * b
    survey = json.loads((tmp_path / "run/corpus.json").read_text())
    assert survey["num_predictions"] == halves + b
    assert abs(survey["epoch_predictions"] - (halves / 2 + 3 * b)) <= 1
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["num_steps"] == -(-survey["epoch_predictions"] * 2 // 20)
    cut_before(9, weighted, corpus, tmp_path / "cut")
    with pytest.raises(InputError, match=r"the weights of the files are not those of the run to resume"):
        run(settings(num_epochs=2), corpus, tmp_path / "cut", resume=True)
    run(weighted, corpus, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "run")


def test_weights_of_no_file_are_refused_before_the_text_is_read(
    corpus: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_text, "survey_corpus", None)
    with pytest.raises(ConfigError, match=r"the pattern 'wiki-\*' of corpus\.weights decides for no training file"):
        run(settings(corpus={"weights": {"wiki-*": 2}}), corpus, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_lengths_are_not_counted_twice(corpus: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmokit.corpus.reader.count_characters", None)
    paths = [str(path) for path in corpus["train"]]
    with count_opens() as opens, Run(settings(), RunFiles(**corpus, output=tmp_path / "run")) as begun:
        assert [opens[path] for path in paths] == [1, 1]
        assert next(begun.text.open())
        assert [opens[path] for path in paths] == [2, 2]
