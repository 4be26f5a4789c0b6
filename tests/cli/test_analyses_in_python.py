"""Every analysis from Python: the library function's report is what the command writes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import elmokit
from elmokit import analysis
from elmokit.analysis import (
    Corpus,
    Experiment,
    NeighborOptions,
    RankOptions,
    Report,
    UsageOptions,
    analyze_layer_weights,
    analyze_learning_curves,
    analyze_mixing,
    analyze_neighbors,
    analyze_ner,
    analyze_placement,
    analyze_pos,
    analyze_sample_efficiency,
    analyze_senses,
    analyze_shifts,
    analyze_type_neighbors,
    analyze_wsd,
    find_task,
    write_report,
)
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM
from tests.analysis.sense_files import write_index, write_semcor, write_set
from tests.analysis.test_layer_weights import write_model
from tests.analysis.test_learning_curves import write_run
from tests.cli.test_analyze_pos import write_treebank
from tests.cli.test_analyze_wsd import write_text
from tests.running import Call
from tests.tasks.experiments import run_in_process, write_experiment

SENTENCE = "a x x O\nPeter x x I-PER\nSmith x x I-PER\nRome x x I-LOC\n\n"
PROBES = ("--seeds", "0 1", "--threads", "1", "--model", "model")
SENSES = ("--corpus", "corpus.txt", "--input", "tokens", "--threads", "1", "--model", "model")
NEIGHBORS = ("--corpus", "corpus.txt", "--input", "tokens", "--threads", "1", "--model", "model", "-k", "3")
FILES = ("--train", "train.conll", "--dev", "dev.conll", "--test", "test.conll")
STUDY = (
    "ner",
    *FILES,
    "--preset",
    "tiny.json",
    "--model",
    "bilm",
    "--processes",
    "1",
    "--seeds",
    "1",
    "--output",
    "runs",
)


def _embedder() -> Embedder:
    return Embedder.from_pretrained("model", threads=1)


def _corpus(name: str) -> Corpus:
    return Corpus.find([name], "tokens")


def _experiment() -> Experiment:
    train, dev, test = ([f"{name}.conll"] for name in ("train", "dev", "test"))
    return Experiment(find_task("ner"), train, dev, test, Path("runs"), [1], preset="tiny.json", processes=1)


class Case(NamedTuple):
    words: tuple[str, ...]
    """The command, without its output."""
    call: Callable[[], Report]


CASES = {
    "analyze_pos": Case(
        ("pos", "--data", "bank", "--tags", "both", *PROBES),
        lambda: analyze_pos(_embedder(), "bank", tags=("xpos", "upos"), seeds=(0, 1)),
    ),
    "analyze_ner": Case(
        ("ner", "--data", "names", *PROBES),
        lambda: analyze_ner(_embedder(), Path("names"), seeds=(0, 1)),
    ),
    "analyze_wsd": Case(
        ("wsd", "--data", "wsd", "--parts", "brown1,brown2", "--model", "model", "--threads", "1"),
        lambda: analyze_wsd(_embedder(), Path("wsd"), parts=("brown1", "brown2")),
    ),
    "analyze_layer_weights": Case(
        ("layer-weights", "trained-1", "trained-2"),
        lambda: analyze_layer_weights(["trained-1", "trained-2"]),
    ),
    "analyze_learning_curves": Case(
        ("learning-curves", "run-1", "run-2"), lambda: analyze_learning_curves(["run-1", "run-2"])
    ),
    "analyze_neighbors": Case(
        ("neighbors", "they play well", "--word", "play", "--layers", "1", *NEIGHBORS),
        lambda: analyze_neighbors(
            _embedder(), "they play well", "play", "corpus.txt", options=NeighborOptions((1,), 3), input="tokens"
        ),
    ),
    "analyze_type_neighbors": Case(
        ("neighbors", "--type", "playing", *NEIGHBORS),
        lambda: analyze_type_neighbors(_embedder(), "playing", Path("corpus.txt"), k=3, input="tokens"),
    ),
    "analyze_senses": Case(
        ("senses", "play", "--against", "later.txt", "--groups", "2", *SENSES),
        lambda: analyze_senses(
            _embedder(), (_corpus("corpus.txt"), _corpus("later.txt")), UsageOptions(("play",), num_groups=2)
        ),
    ),
    "analyze_shifts": Case(
        ("senses", "--rank", "2", "--against", "later.txt", "--min-count", "5", *SENSES),
        lambda: analyze_shifts(_embedder(), (_corpus("corpus.txt"), _corpus("later.txt")), 2, RankOptions(min_count=5)),
    ),
    "analyze_mixing": Case(("mixing", *STUDY), lambda: analyze_mixing(_experiment(), "bilm")),
    "analyze_placement": Case(("placement", *STUDY), lambda: analyze_placement(_experiment(), "bilm")),
    "analyze_sample_efficiency": Case(
        ("sample-efficiency", *STUDY, "--fractions", "0.5,1", "--least-steps", "4"),
        lambda: analyze_sample_efficiency(_experiment(), "bilm", fractions=(1, 0.5), least_steps=4),
    ),
}


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model and the input of every analysis."""
    elmokit.save(bilm, tmp_path / "model")
    write_treebank(tmp_path / "bank")
    (tmp_path / "names").mkdir()
    for name, size in (("train", 8), ("testa", 4), ("testb", 2)):
        (tmp_path / f"names/eng.{name}").write_text(SENTENCE * size)
    (tmp_path / "wsd/eval").mkdir(parents=True)
    write_index(tmp_path / "wsd/wordnet3.0-index.sense.xz")
    texts = {f"semcor3.0/brown{1 + seed % 2}/tagfiles/br-{seed}": write_text(seed) for seed in range(8)}
    write_semcor(tmp_path / "wsd/semcor3.0.tar.xz", texts)
    write_set(tmp_path / "wsd/eval/senseval2")
    for seed in (1, 2):
        write_model(tmp_path / f"trained-{seed}/model", [np.log([0.1, 0.6, 0.3]).tolist()], [1.0], seed=seed)
    write_run(tmp_path / "run-1", [40.0, 50.0])
    write_run(tmp_path / "run-2", [60.0, 55.0], "b" * 64)
    (tmp_path / "corpus.txt").write_text("\n".join(f"{n} the play was naïve ." for n in range(14)), encoding="utf-8")
    (tmp_path / "later.txt").write_text("\n".join(f"they play the {n} ." for n in range(12)), encoding="utf-8")
    write_experiment(tmp_path, num_epochs=1)
    monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 0)
    monkeypatch.delenv("ELMOKIT_DATA", raising=False)
    run_in_process(monkeypatch, tmp_path / "cache")
    return tmp_path


def test_every_analysis_is_tried() -> None:
    assert set(CASES) == {name for name in analysis.__all__ if name.startswith("analyze_")}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_call_gives_what_the_command_writes(name: str, run: Call, folder: Path) -> None:
    words, call = CASES[name]
    is_study = "runs" in words
    done = run("analyze", *words, *(() if is_study else ("--output", "out")))
    assert done.returncode == 0, done.stderr
    written = folder / ("runs/report" if is_study else "out")
    own = {path.name: path for path in write_report(call(), folder / "own")}
    assert set(own) == {path.name for path in written.iterdir()} >= {"report.json", "page.html", "table-1.csv"}
    for file, path in own.items():
        if path.suffix in (".json", ".csv"):
            assert path.read_bytes() == (written / file).read_bytes()


@pytest.mark.parametrize("call", [analyze_layer_weights, analyze_learning_curves])
def test_no_runs(call: Callable[[Any], Report]) -> None:
    with pytest.raises(InputError, match="there is no run to analyze: give the folder of at least one"):
        call([])
    with pytest.raises(ConfigError, match="runs is 'run': give a list of folders"):
        call("run")


def test_what_an_analysis_varies_cannot_be_changed() -> None:
    for call, setting in (
        (analyze_mixing, "elmo.layers"),
        (analyze_placement, "elmo.place"),
        (analyze_sample_efficiency, "train_fraction"),
    ):
        with pytest.raises(ConfigError, match=f"{setting} is what this analysis varies: leave it out"):
            call(replace(_experiment(), changes={setting: "1"}), "bilm")


@pytest.mark.parametrize("fractions", [(), (0.0, 1.0), (0.5, 2.0), (0.5, 0.5)])
def test_fractions_that_make_no_sense(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match=r"fractions \(.*\) must be distinct numbers above 0 and up to 1"):
        analyze_sample_efficiency(_experiment(), "bilm", fractions=fractions)
