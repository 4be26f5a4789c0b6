"""Variants of a task over seeds: every run once, resumable run by run, and what their scores say."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmokit.embedding import layer_cache
from elmokit.errors import ConfigError, ElmokitError, InputError
from elmokit.formats import load, save
from elmokit.formats.parts import fingerprint
from elmokit.locks import FolderLock
from elmokit.tasks.experiments import processes
from elmokit.tasks.experiments.comparison import (
    Comparison,
    VariantScores,
    compare,
    deviation,
    mean_text,
    p_text,
    setting_text,
)
from elmokit.tasks.experiments.processes import launch, run_parallel
from elmokit.tasks.experiments.significance import paired_bootstrap
from elmokit.tasks.experiments.variants import BASELINE, RunDone, Variant, read_predictions, run_all, save_random
from elmokit.tasks.ner.task import Ner
from elmokit.tasks.runner import TaskFiles, train_task
from elmokit.tasks.subsets import draw_share, share_size
from tests.conftest import build_tiny
from tests.tasks.conftest import files, settings, write_entities
from tests.tasks.experiments import build_experiment, run_in_process, write_experiment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_experiment(tmp_path, num_epochs=1)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    return run_in_process(monkeypatch, tmp_path / "cache")


def variants(folder: Path) -> tuple[Variant, Variant]:
    return BASELINE, Variant("elmo", "+ ELMo", bilm=str(folder / "bilm"))


# --- A share of the training examples --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_smaller_shares_lie_inside_larger_ones(seed: int) -> None:
    examples = [f"example {number}" for number in range(1000)]
    shares = [0.001, 0.003, 0.01, 0.1, 0.29, 0.5, 0.999, 1.0]
    drawn = [draw_share(examples, share, seed) for share in shares]
    assert [len(own) for own in drawn] == [1, 3, 10, 100, 290, 500, 999, 1000]
    for small, large in pairwise(drawn):
        assert set(small) < set(large)
    for own in drawn:
        assert own == sorted(own, key=examples.index)  # the order of the files
    assert drawn == [draw_share(examples, share, seed) for share in shares]
    assert drawn[-1] == examples


def test_other_seeds_draw_others_from_everywhere() -> None:
    drawn = [draw_share(range(1000), 0.1, seed) for seed in range(50)]
    assert len({tuple(own) for own in drawn}) == 50
    times = np.bincount(np.concatenate(drawn), minlength=1000)  # expected 5 each
    assert times.min() == 0 and times.max() < 16 and 450 < np.mean(np.concatenate(drawn)) < 550


@pytest.mark.parametrize(("number", "share"), [(100, 0.001), (3, 0.1), (1, 0.5)])
def test_a_share_that_leaves_no_example(number: int, share: float) -> None:
    with pytest.raises(InputError, match=rf"^a share of {share:g} of {number} training examples leaves none: ") as one:
        draw_share(range(number), share, 0)
    least = float(str(one.value).rsplit(" ", 1)[1].rstrip("."))
    assert share_size(number, least) >= 1  # the remedy is one


def test_a_run_takes_its_share(data: dict[str, Any], tmp_path: Path) -> None:
    config = settings(train_fraction=0.25, num_epochs=1, seed=3)
    result = train_task(Ner(), config, files(data, tmp_path / "run"))
    assert result["examples"] == {"train": 10, "dev": 12, "test": 10}
    words = (tmp_path / "run/model/words.txt").read_text(encoding="utf-8").split()
    examples = list(Ner().read([Path(data["train"][0])], None, training=True))  # type: ignore[arg-type]
    assert set(words) == {token for example in draw_share(examples, 0.25, 3) for token in example.tokens}


def test_a_run_older_than_the_setting_had_all_examples(data: dict[str, Any], tmp_path: Path) -> None:
    own = files(data, tmp_path / "run", resume=True)
    train_task(Ner(), settings(num_epochs=1), own)
    path = tmp_path / "run/result.json"
    result = json.loads(path.read_text())
    del result["config"]["train_fraction"]
    path.write_text(json.dumps(result))
    assert train_task(Ner(), settings(num_epochs=1), own) == result
    with pytest.raises(ConfigError, match=r"finished run with train_fraction = 1\.0, but now train_fraction = 0\.5"):
        train_task(Ner(), settings(num_epochs=1, train_fraction=0.5), own)


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan"), "all"])
def test_a_share_is_above_0_and_up_to_1(share: Any) -> None:
    with pytest.raises(ValueError, match="train_fraction"):
        settings(train_fraction=share)


# --- Runs ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_variant_with_every_seed(folder: Path, launched: list[str]) -> None:
    heard: list[RunDone] = []
    experiment = build_experiment(folder, changes={"elmo.dropout": "0.25"})
    runs = run_all(experiment, variants(folder), done=heard.append)
    assert launched == ["baseline-1", "elmo-1", "baseline-2", "elmo-2"]
    assert [(run.name, run.number, run.total, run.before) for run in heard] == [
        (name, number, 4, False) for number, name in enumerate(launched, 1)
    ]
    assert {name: [result["seed"] for result in own] for name, own in runs.results.items()} == {
        "baseline": [1, 2],
        "elmo": [1, 2],
    }
    own = TaskFiles(
        experiment.train,
        experiment.dev,
        folder / "by hand",
        experiment.test,
        bilm=str(folder / "bilm"),
    )
    config = settings(num_epochs=1, seed=2, elmo={"dropout": 0.25})
    assert train_task(Ner(), config, own) == runs.results["elmo"][1]
    assert runs.results["baseline"][0]["bilm"] is None
    figures = [result["dev"] for result in runs.results["baseline"]]
    assert runs.scores(BASELINE, "dev") == {name: tuple(own[name] for own in figures) for name in figures[0]}
    text = setting_text(runs)
    assert "train: train.conll (40 examples); dev: dev.conll (12 examples); test: test.conll (10 examples)" in text
    assert "elmo.dropout = 0.25" in text and fingerprint(load(folder / "bilm"))[:8] in text


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.name != ".lock"}


@pytest.mark.slow
def test_done_runs_are_not_done_again(folder: Path, launched: list[str]) -> None:
    experiment = build_experiment(folder, seeds=(1,))

    def stop(run: RunDone) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # just behind the first run
        run_all(experiment, variants(folder), done=stop)
    assert "baseline-1" in launched and (folder / "out/baseline-1/result.json").exists()
    before = times(folder / "out/baseline-1")
    done_before = {name for name in launched if (folder / f"out/{name}/result.json").exists()}
    launched.clear()
    heard: list[RunDone] = []
    first = run_all(experiment, variants(folder), done=heard.append)
    assert set(launched) == {"baseline-1", "elmo-1"} - done_before
    assert times(folder / "out/baseline-1") == before
    assert [(run.number, run.before) for run in heard] == [(1, True), (2, "elmo-1" in done_before)]
    launched.clear()
    again = build_experiment(folder, seeds=(1, 2))  # and a seed more
    second = run_all(again, variants(folder))
    assert launched == ["baseline-2", "elmo-2"]
    assert second.results["elmo"][0] == first.results["elmo"][0]


@pytest.mark.slow
def test_a_done_run_of_something_else_is_refused(folder: Path, launched: list[str]) -> None:
    experiment = build_experiment(folder, seeds=(1,))
    run_all(experiment, variants(folder))
    launched.clear()
    with pytest.raises(ConfigError, match=r"baseline-1 holds a finished run with batch_size = 8, but now batch_size"):
        run_all(build_experiment(folder, seeds=(1,), changes={"batch_size": "4"}), variants(folder))
    save(build_tiny("one-layer"), folder / "other")
    other = Variant("elmo", "+ ELMo", bilm=str(folder / "other"))
    with pytest.raises(ConfigError, match=r"elmo-1 holds a finished run on another biLM: give its own"):
        run_all(experiment, (BASELINE, other))
    for name in ("train", "dev", "test"):
        path = folder / f"{name}.conll"
        before = path.read_bytes()
        write_entities(path, 10, 77)
        with pytest.raises(ConfigError, match=rf"baseline-1 holds a finished run with other {name} files than now"):
            run_all(build_experiment(folder, seeds=(1,)), variants(folder))
        path.write_bytes(before)
    assert launched == []
    run_all(build_experiment(folder, seeds=(1,)), variants(folder))


def test_layers_are_there_before_the_runs(folder: Path, launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for shares of the data, of which every seed draws its own."""
    own, embedded = processes.launch, []
    append = layer_cache._append

    def launch(*words: Any) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layer_cache, "_append", lambda *_: pytest.fail("a run embeds"))
            return own(*words)

    def count(path: Path, sentences: Any, row_bytes: int) -> None:
        embedded.extend(sentences)
        append(path, sentences, row_bytes)

    monkeypatch.setattr(layer_cache, "_append", count)
    monkeypatch.setattr(processes, "launch", launch)
    experiment = build_experiment(folder, changes={"train_fraction": "0.5"}, seeds=(4,))
    run_all(experiment, variants(folder))
    sets = experiment.read_sets()
    sentences = {example.tokens for examples in sets.values() for example in examples}
    assert len(sets["train"]) == 40
    assert len(embedded) == len(sentences)


def test_a_run_that_fails_is_one_sentence(folder: Path, launched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "launch", lambda *_: (1, "step 3\nelmokit: the loss is nan at step 4.\n"))
    with pytest.raises(ElmokitError, match=r"^the run .*baseline-1 failed \(the loss is nan at step 4\.\): repeat"):
        run_all(build_experiment(folder, seeds=(1,)), (BASELINE,))
    monkeypatch.setattr(processes, "launch", lambda *_: (-9, ""))
    with pytest.raises(ElmokitError, match=r"baseline-1 failed \(exit -9\)"):
        run_all(build_experiment(folder, seeds=(1,)), (BASELINE,))


def test_experiments_that_make_no_sense(folder: Path, launched: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^elmo\.place is none, so the model has no ELMo: choose"):
        run_all(build_experiment(folder, changes={"elmo.place": "none"}), variants(folder))
    with pytest.raises(InputError, match=r"^there are no test files for ner"):
        run_all(build_experiment(folder, test=()), variants(folder))
    with pytest.raises(ConfigError, match="train_fraction"):
        run_all(build_experiment(folder, changes={"train_fraction": "2"}), variants(folder))
    assert launched == [] and not (folder / "out").exists()


def test_predictions_may_hold_any_line_end(tmp_path: Path) -> None:
    predictions = ["a\u2028b", "\x85", "c\x0bd\r", [1, "\u2029"]]
    lines = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in predictions)
    (tmp_path / "predictions.jsonl").write_text(lines, encoding="utf-8", newline="")
    assert read_predictions(tmp_path) == predictions


def test_a_biLM_with_random_weights(folder: Path) -> None:
    path = save_random(str(folder / "bilm"), folder / "random")
    given, random = load(folder / "bilm"), load(path)
    assert random.config == given.config
    assert fingerprint(random) != fingerprint(given)
    before = times(folder / "random")
    assert save_random(str(folder / "bilm"), folder / "random") == path
    assert times(folder / "random") == before
    assert fingerprint(load(save_random(str(folder / "bilm"), folder / "again"))) == fingerprint(random)
    save(build_tiny("one-layer"), folder / "other")
    save_random(str(folder / "other"), folder / "random")
    assert load(folder / "random").config == load(folder / "other").config


# --- Side by side ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_comparison_is_what_the_predictions_say(folder: Path, launched: list[str]) -> None:
    experiment = build_experiment(folder, changes={"num_epochs": "4"})
    own = variants(folder)
    runs = run_all(experiment, own)
    found = compare(runs, BASELINE, own[1:])
    task, examples = Ner(), experiment.test_examples
    counts = []
    for name in ("baseline", "elmo"):
        rows = []
        for seed in (1, 2):
            text = (folder / f"out/{name}-{seed}/predictions.jsonl").read_text(encoding="utf-8")
            predictions = [json.loads(line) for line in text.splitlines()]
            rows.append([task.counts(*pair) for pair in zip(examples, predictions, strict=True)])
        counts.append(np.array(rows, dtype=np.float64))
    assert found.baseline.p is None
    assert found.others[0].p == paired_bootstrap(counts[0], counts[1], lambda sums: task.figures(sums)["f1"])
    for side, seeds in zip((found.baseline, *found.others), counts, strict=True):
        figures = [task.figures(row.sum(0)) for row in seeds]
        assert side.test == pytest.approx([own["f1"] for own in figures])
        assert list(side.further) == ["precision", "recall"]
        assert side.further["recall"] == pytest.approx([own["recall"] for own in figures])


def test_increase_and_share_of_the_error() -> None:
    base = VariantScores("baseline", "baseline", (80.0,), (70.0, 80.0))
    better = VariantScores("x", "+ x", (1.0,), (80.0, 80.0), 0.01)
    found = Comparison("ner", "f1", (1, 2), base, (better,))
    assert found.increase(better) == 5
    assert found.relative(better) == pytest.approx(20)
    assert found.to_dict()["others"][0]["p"] == 0.01
    perfect = Comparison("ner", "f1", (1,), VariantScores("baseline", "", (100.0,), (100.0,)), (better,))
    assert perfect.relative(better) is None
    assert (deviation([1.0, 3.0]), deviation([1.0])) == (pytest.approx(2**0.5), 0.0)
    assert (mean_text([1.0, 3.0]), mean_text([1.0])) == ("2.00 ± 1.41", "1.00")
    assert [p_text(p) for p in (0.0123, 0.0001, 0.0, None)] == ["0.0123", "0.0001", "< 0.0001", ""]


# --- Processes -------------------------------------------------------------------------------------------------------


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_processes_side_by_side(tmp_path: Path) -> None:
    """Each of two waits for the other to have begun, which one after the other never would."""
    code = (
        "import os, sys, time\nopen('{0}', 'w').close()\n"
        "for _ in range(6000):\n  if os.path.exists('{1}'): sys.exit()\n  time.sleep(0.01)\nsys.exit('alone')"
    )
    a, b = tmp_path / "a", tmp_path / "b"
    commands = {a: python(code.format(a, b)), b: python(code.format(b, a))}
    assert set(run_parallel(commands, number=2, lock=0)) == {a, b}


CHILD = """
import signal, sys, time
def end(*_):
    open({ended!r}, "w").close()
    sys.exit(130)
signal.signal(signal.SIGTERM, end)
open({begun!r}, "w").close()
time.sleep(1000)
"""
"""Runs until it is asked to end, and leaves a mark when it begins and when it is asked."""


def test_a_failure_stops_the_others(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    wait = f"import os, sys, time\nwhile not os.path.exists({str(begun)!r}): time.sleep(0.01)\n"
    commands = {
        Path("slow"): python(CHILD.format(begun=str(begun), ended=str(ended))),
        Path("bad"): python(wait + "sys.exit('elmokit: no luck')"),
    }
    with pytest.raises(ElmokitError, match=r"^the run bad failed \(no luck\): repeat the command\.$"):
        list(run_parallel(commands, number=2, lock=0))
    assert ended.exists()


def test_a_folder_is_one_command_s(tmp_path: Path) -> None:
    with FolderLock(tmp_path, inherited=True):
        with pytest.raises(ElmokitError, match=rf"is in use by process {os.getpid()} or one that it started: wait"):
            with FolderLock(tmp_path, inherited=True):
                pass
    begun, free = tmp_path / "begun", tmp_path / "free"
    code = (
        f"import os, time\nopen({str(begun)!r}, 'w').close()\nwhile not os.path.exists({str(free)!r}): time.sleep(0.01)"
    )
    with ThreadPoolExecutor(1) as pool:
        with FolderLock(tmp_path, inherited=True) as lock:
            orphan = pool.submit(launch, python(code), lock.descriptor, set())
            while not begun.exists():
                assert not orphan.done()
                time.sleep(0.01)
        try:
            with pytest.raises(ElmokitError, match="is in use by process"):  # we let it go, the run did not
                with FolderLock(tmp_path, inherited=True):
                    pass
        finally:
            free.touch()
    assert orphan.result() == (0, "")
    with FolderLock(tmp_path, inherited=True):
        pass


def test_a_polite_kill_reaches_the_runs(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    child = CHILD.format(begun=str(begun), ended=str(ended))
    parent = (
        "import sys\nfrom pathlib import Path\nfrom elmokit.tasks.experiments.processes import run_parallel\n"
        f"list(run_parallel({{Path('x'): [sys.executable, '-S', '-c', {child!r}]}}, number=1, lock=0))"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    while not begun.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    assert "KeyboardInterrupt" in process.communicate()[1]
    assert ended.exists()
