"""Run one task on one data set in several variants over several seeds: every run is a process with one thread.

Runs are parallel, each in its own folder; when the command is repeated, finished runs are kept. Layers of frozen biLMs
are computed once, before the first run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.cores import usable_cores
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.errors import ConfigError, InputError
from elmokit.filesystem import LOCK, check_name, is_empty
from elmokit.formats import load, save
from elmokit.formats.parts import fingerprint
from elmokit.locks import FolderLock
from elmokit.model.bilm import BiLM
from elmokit.progress import ProgressCallback
from elmokit.recognize import COMPARISON, mistaken
from elmokit.tasks.base import Task
from elmokit.tasks.config import TaskConfig, read_task_config
from elmokit.tasks.experiments import single_run
from elmokit.tasks.experiments.processes import run_parallel
from elmokit.tasks.runner import DATA, TaskFiles, read_result, refuse_other_inputs, settle_precision
from elmokit.tasks.sets import read_sets
from elmokit.text.files import file_sha256, find_files, refuse_pipes


@dataclass(frozen=True)
class Variant:
    """A configuration that is trained with every seed."""

    name: str
    """Prefix of its runs' folders."""
    label: str
    """Name shown to people."""
    changes: tuple[tuple[str, str], ...] = ()
    """Changed settings by dotted name, with values as in TOML."""
    bilm: str | None = None
    """The biLM for ELMo."""


BASELINE = Variant("baseline", "baseline", (("elmo.place", "none"),))


class RunDone(NamedTuple):
    """A run that has ended, and how many runs have ended in total."""

    name: str
    result: Mapping[str, Any]
    number: int
    total: int
    before: bool
    """Whether an earlier command did it."""


Done = Callable[[RunDone], None]
_Job = tuple[Variant, int]
"""A variant and a seed."""


@dataclass(frozen=True)
class Experiment:
    """What all variants share."""

    task: Task[Any]
    train: Sequence[str]
    """Paths or globs."""
    dev: Sequence[str]
    test: Sequence[str]
    output: Path
    """The folder of a run is output/VARIANT-SEED."""
    seeds: Sequence[int]
    vectors: Sequence[str] = ()
    preset: str = "small"
    changes: Mapping[str, str] = field(default_factory=dict)
    """Changed settings by dotted name, with values as in TOML."""
    processes: int | None = None
    """Number of parallel runs; None is one per core."""
    threads: int | None = None
    """Total number of cores; None uses every core."""

    def config(self, variant: Variant | None = None, seed: int = 0) -> TaskConfig:
        """The settings of a run; without a variant, the shared ones."""
        own = dict(variant.changes) if variant else {}
        config = read_task_config(self.task.name, self.preset, {**self.changes, **own, "seed": str(seed)})
        return settle_precision(config, self.folder(variant, seed) if variant else self.output)

    def folder(self, variant: Variant, seed: int) -> Path:
        """The folder of a run."""
        return self.output / f"{variant.name}-{seed}"

    def read_sets(self) -> dict[str, list[Any]]:
        """All examples of the training, dev and test files, whatever share of them a run uses."""
        whole = self.config().model_copy(update={"train_fraction": 1.0})
        return read_sets(self.task, whole, train=self.train, dev=self.dev, test=self.test)

    @cached_property
    def test_examples(self) -> list[Any]:
        """The test examples."""
        settings = self.task.read_settings(self.config().model)
        return list(self.task.read(find_files(self.test), settings, training=False))

    def command(self, variant: Variant, seed: int) -> list[str]:
        """The command that trains a variant with a seed."""
        files = TaskFiles(
            train=list(self.train),
            dev=list(self.dev),
            test=list(self.test),
            vectors=list(self.vectors),
            output=self.folder(variant, seed),
            bilm=variant.bilm,
            resume=True,
            threads=1,
        )
        return single_run.command(self.config(variant, seed), files)

    def digests(self) -> dict[str, list[str]]:
        """SHA-256 of all files, as stored in results."""
        named = {name: find_files(getattr(self, name)) for name in DATA if getattr(self, name)}
        return {name: [file_sha256(path) for path in paths] for name, paths in named.items()}


@dataclass(frozen=True)
class Runs:
    """All runs of an experiment."""

    experiment: Experiment
    results: Mapping[str, Sequence[Mapping[str, Any]]]
    """The result of each run, by variant name, in the order of seeds."""

    def scores(self, variant: Variant, split: str) -> dict[str, tuple[float, ...]]:
        """The task's figures on dev or test, one number per seed."""
        found = [result[split] for result in self.results[variant.name]]
        return {name: tuple(float(figures[name]) for figures in found) for name in found[0]}

    def test_counts(self, variant: Variant) -> NDArray[np.float64]:
        """The counts for significance tests: (S, N, C), seeds × test examples × counts."""
        experiment = self.experiment
        folders = [experiment.folder(variant, seed) for seed in experiment.seeds]
        examples = experiment.test_examples
        return np.stack([experiment.task.count_all(examples, read_predictions(folder)) for folder in folders])

    def setting(self) -> dict[str, Any]:
        """What is needed to reproduce the experiment, as plain values."""
        experiment = self.experiment
        results = [result for own in self.results.values() for result in own]
        return {
            "task": experiment.task.name,
            "metric": experiment.task.metric,
            "preset": experiment.preset,
            "changes": dict(experiment.changes),
            "seeds": list(experiment.seeds),
            "examples": {
                name: max(result["examples"][name] for result in results) for name in ("train", "dev", "test")
            },
            "data": results[0]["data"],
            "bilms": {result["bilm"]["name"]: result["bilm"]["fingerprint"] for result in results if result["bilm"]},
            "versions": results[0]["versions"],
        }


def run_all(
    experiment: Experiment,
    variants: Sequence[Variant],
    *,
    embedding: ProgressCallback | None = None,
    done: Done | None = None,
) -> Runs:
    """Train every variant with every seed, seed by seed.

    `embedding` receives how many sentences a biLM has embedded, `done` each run that has ended.
    """
    if not experiment.test:
        raise InputError(f"there are no test files for {experiment.task.name}: name at least one.")
    jobs = [(variant, seed) for seed in experiment.seeds for variant in variants]
    configs = {job: experiment.config(*job) for job in jobs}
    for (variant, _), config in configs.items():
        if variant.bilm and config.elmo.place == "none":
            raise ConfigError("elmo.place is none, so the model has no ELMo: choose input, output or both.")
    refuse_pipes(path for name in DATA for path in find_files(getattr(experiment, name)))
    results: dict[_Job, dict[str, Any]] = {}

    def keep(job: _Job, result: dict[str, Any], before: bool) -> None:
        results[job] = result
        if done is not None:
            done(RunDone(experiment.folder(*job).name, result, len(results), len(jobs), before))

    with _opened(experiment.output) as lock:
        for job, result in _find_done(experiment, configs).items():
            keep(job, result, True)
        missing = {experiment.folder(*job): job for job in jobs if job not in results}
        frozen = (job[0].bilm for job in missing.values() if not configs[job].elmo.tuned)
        for model in dict.fromkeys(name for name in frozen if name):
            _prepare_layers(experiment, model, embedding)
        commands = {folder: experiment.command(*job) for folder, job in missing.items()}
        number = experiment.processes or experiment.threads or usable_cores()
        for folder in run_parallel(commands, number=number, lock=lock.descriptor):
            keep(missing[folder], json.loads((folder / "result.json").read_text(encoding="utf-8")), False)
    by_name = {variant.name: [results[variant, seed] for seed in experiment.seeds] for variant in variants}
    return Runs(experiment, by_name)


def check_experiment_folder(folder: Path) -> None:
    """Refuse a folder that is something else than that of earlier runs of an experiment.

    Raises:
        ConfigError: if it is a file, a run, a model or another result of elmokit.
    """
    check_name(folder)
    if sentence := mistaken(folder, "a folder for several runs", COMPARISON):
        raise ConfigError(f"{sentence[:-1]}; give a new folder as --output.")


@contextmanager
def _opened(folder: Path) -> Iterator[FolderLock]:
    """The folder of an experiment, made and locked; a new one in which nothing was begun is removed again."""
    check_experiment_folder(folder)
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with FolderLock(folder, inherited=True) as lock:
        try:
            yield lock
        except BaseException:
            if is_new and is_empty(folder):
                with suppress(OSError):  # while we hold the lock, which nobody has inherited
                    (folder / LOCK).unlink()
                    folder.rmdir()
            raise


def read_predictions(folder: Path) -> list[Any]:
    """The test predictions of a finished run."""
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").split("\n")[:-1]  # answers have other line ends
    return [json.loads(line) for line in lines]


def save_random(model: str, folder: Path) -> str:
    """Write a biLM of a model's size with random initial weights, and return its path."""
    like = load(model)
    bilm = BiLM(like.config, vocabulary=like.vocabulary, indexer=like.indexer, seed=0).eval()
    if not folder.exists() or fingerprint(load(folder)) != fingerprint(bilm):
        save(bilm, folder, overwrite=True)
    return str(folder)


def _find_done(experiment: Experiment, configs: Mapping[_Job, TaskConfig]) -> dict[_Job, dict[str, Any]]:
    """The existing results; a result with other settings, data or another biLM is refused."""
    read = ((job, read_result(experiment.folder(*job), config)) for job, config in configs.items())
    found = {job: result for job, result in read if result is not None}
    digests = experiment.digests() if found else {}
    models = dict.fromkeys(variant.bilm for variant, _ in found if variant.bilm)
    fingerprints = {model: fingerprint(load(model)) for model in models}
    for (variant, seed), result in found.items():
        folder = experiment.folder(variant, seed)
        refuse_other_inputs(folder, result, digests, variant.bilm and fingerprints[variant.bilm])
    return found


def _prepare_layers(experiment: Experiment, model: str, report: ProgressCallback | None) -> None:
    """Embed all data once, before several runs need it."""
    examples = (example for examples in experiment.read_sets().values() for example in examples)
    precision = experiment.config().elmo.precision
    embedder = Embedder.from_pretrained(model, threads=experiment.threads, precision=precision)
    LayerCache(embedder).prepare(experiment.task.sentences(examples), report)
