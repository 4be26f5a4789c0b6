"""Train, evaluate and compare: one runner for all tasks, on the loop that pretraining uses.

A run directory has `run.json` (settings, files), `log.jsonl`, `checkpoints/`, `model/` (the best on dev) and, when the
run is done, `predictions.jsonl` (of the test files) and `result.json`.
"""

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from elmokit.arguments import check_kind, check_path
from elmokit.errors import ConfigError
from elmokit.filesystem import write_text_atomic
from elmokit.formats import load
from elmokit.formats.parts import fingerprint
from elmokit.progress import ProgressCallback
from elmokit.tasks.base import Task
from elmokit.tasks.batches import EpochBatches, LayerReader
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.evaluation import predict_files, prepare_layers
from elmokit.tasks.pipeline import BILM_PREFIX, BilmUse, TaskPipeline
from elmokit.tasks.saved import load_task, with_precision
from elmokit.tasks.sets import read_sets, warn_of_unseen
from elmokit.tasks.step import TaskStep
from elmokit.tasks.words import build_table, read_vectors
from elmokit.text.files import file_sha256, find_files, refuse_pipes
from elmokit.training.average import WeightAverage
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.log import RunLog
from elmokit.training.loop import LogCallback, Loop
from elmokit.training.optim import Optimizer
from elmokit.training.run_folder import FINISH, RECORD, RESULT, RunFolder, check_run_folder, versions

DATA = ("train", "dev", "test", "vectors")
"""The kinds of files that a run reads."""
_NEW_SETTINGS = ("decay_steps", "ema_decay")
"""Optimizer settings that checkpoints and results of older versions lack."""
_WORD_TABLE = "inputs.word_table"
"""The parameter of which a batch uses only few rows."""


@dataclass(frozen=True)
class TaskFiles:
    """The input files and the output folder of a task run."""

    train: Sequence[str]
    """Paths or globs."""
    dev: Sequence[str]
    output: Path
    test: Sequence[str] = ()
    vectors: Sequence[str] = ()
    """Files of static word vectors, whose vectors are concatenated."""
    bilm: str | None = "mini"
    """The biLM for ELMo; None, or `elmo.place = "none"`, trains a model without ELMo."""
    resume: bool = False
    layers_folder: Path | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", check_path("output", self.output))


def train_task(
    task: Task[Any],
    config: TaskConfig,
    files: TaskFiles,
    *,
    report: LogCallback | None = None,
    embedding: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Train a task model, or resume a run, and return the content of `result.json`.

    `report` receives every log entry, `embedding` how many sentences the biLM has embedded.
    """
    check_kind("task", task, Task)
    check_kind("config", config, TaskConfig)
    check_kind("files", files, TaskFiles)
    inputs = find_files([*files.train, *files.dev, *files.test, *files.vectors])
    refuse_pipes(inputs)
    check_run_folder(files.output, resume=files.resume, models=[files.bilm], inputs=inputs)
    config = settle_precision(config, files.output)
    with RunFolder(files.output, config.model_dump(mode="json")):
        return _train(task, config, files, report=report, embedding=embedding)


def _train(
    task: Task[Any],
    config: TaskConfig,
    files: TaskFiles,
    *,
    report: LogCallback | None,
    embedding: ProgressCallback | None,
) -> dict[str, Any]:
    """The run itself, in a locked folder."""
    output = files.output
    checkpoints = Checkpoints(output / "checkpoints", keep=1)
    if files.resume and (done := read_result(output, config)) is not None:
        digests = {name: [file_sha256(path) for path in find_files(getattr(files, name))] for name in DATA}
        bilm = None if files.bilm is None or config.elmo.place == "none" else fingerprint(load(files.bilm))
        refuse_other_inputs(output, done, digests, bilm)
        shutil.rmtree(checkpoints.directory, ignore_errors=True)
        return done
    torch.manual_seed(config.seed)
    sets = read_sets(task, config, train=files.train, dev=files.dev, test=files.test)
    trained = _build(task, config, files, sets["train"])
    if task.reads_raw_text(trained.settings):
        trained.check_tokenizer()
    for name, patterns in (("dev", files.dev), ("test", files.test)):
        warn_of_unseen(task, trained.labels, sets[name], patterns)
    every = [example for examples in sets.values() for example in examples]
    read = prepare_layers(trained, every, files.layers_folder, embedding)
    batches = _build_batches(trained, sets["train"], read)
    log = RunLog(output / "log.jsonl")
    loop = _build_loop(trained, batches, sets["dev"], read, files, checkpoints=checkpoints, log=log, report=report)
    origin = _describe(config, files, trained)
    if not (files.resume and loop.resume()):
        log.rewind(0)
        write_text_atomic(output / RECORD, json.dumps(origin, indent=1) + "\n")
    fitted = loop.run()
    best = load_task(output / "model", task=task, bilm=trained.embedder, threads=files.threads)
    result = {
        **origin,
        "examples": {name: len(examples) for name, examples in sets.items()},
        "num_parameters": sum(parameter.numel() for _, parameter in trained.model.trainable_parameters()),
        "steps": fitted.progress.step,
        "best_step": fitted.progress.best_step,
        "epochs": batches.epoch,
        "reason": fitted.reason,
        **_score(best, sets, read, output),
    }
    write_text_atomic(output / RESULT, json.dumps(result, indent=1) + "\n")
    shutil.rmtree(checkpoints.directory, ignore_errors=True)
    return result


def _build_batches(trained: TaskPipeline, train: Sequence[Any], read: LayerReader | None) -> EpochBatches[Any]:
    config = trained.config
    return EpochBatches(
        train,
        size=trained.task.size,
        batch_size=config.batch_size,
        num_epochs=config.num_epochs,
        seed=config.seed,
        collate=partial(trained.collate, read=read),
    )


def _build_loop(
    trained: TaskPipeline,
    batches: EpochBatches[Any],
    dev: Sequence[Any],
    read: LayerReader | None,
    files: TaskFiles,
    *,
    checkpoints: Checkpoints,
    log: RunLog,
    report: LogCallback | None,
) -> Loop:
    config, task = trained.config, trained.task
    step = TaskStep(trained.model, average=config.average)
    learning = trained.model.trainable_parameters()
    num_steps = config.loop.max_steps or batches.num_batches * config.num_epochs // config.loop.accumulate
    dense = [pair for pair in learning if pair[0] != _WORD_TABLE]
    sparse = [pair for pair in learning if pair[0] == _WORD_TABLE]

    def evaluate() -> Mapping[str, float]:
        with step.averaged():
            return task.score(dev, trained.predict_examples(dev, read=read))

    def save_best() -> None:
        with step.averaged():
            trained.save(files.output / "model")

    return Loop(
        model=trained.model.train(),
        batches=batches,
        step=step,
        optimizer=Optimizer(dense, sparse, config.optimizer, num_steps, {BILM_PREFIX: config.elmo.tuned}),
        config=config.loop,
        num_steps=num_steps,
        evaluate=evaluate,
        metric=task.metric,
        lower_is_better=False,
        save_best=save_best,
        checkpoints=checkpoints,
        log=log,
        identity=_identity(config, files, trained.use),
        average=WeightAverage([one for _, one in learning], decay) if (decay := config.optimizer.ema_decay) else None,
        finish_requested=(files.output / FINISH).exists,
        report=report,
    )


def _score(
    best: TaskPipeline, sets: Mapping[str, Sequence[Any]], read: LayerReader | None, output: Path
) -> dict[str, Any]:
    """The best model's figures on dev and, if given, on the test set, whose predictions are also written."""
    task = best.task
    on_dev = task.score(sets["dev"], best.predict_examples(sets["dev"], read=read))
    found = {"dev": dict(on_dev), "mixes": best.mixes()}
    if sets["test"]:
        predictions = best.predict_examples(sets["test"], read=read)
        lines = (json.dumps(prediction, ensure_ascii=False) + "\n" for prediction in predictions)
        write_text_atomic(output / "predictions.jsonl", "".join(lines))
        found["test"] = dict(task.score(sets["test"], predictions))
    return found


def evaluate_task(
    trained: TaskPipeline,
    patterns: Sequence[str],
    *,
    layers_folder: Path | None = None,
    embedding: ProgressCallback | None = None,
    predicting: ProgressCallback | None = None,
) -> dict[str, float]:
    """The figures of a trained model on files: see `predict_files`."""
    found = predict_files(trained, patterns, layers_folder=layers_folder, embedding=embedding, predicting=predicting)
    return found.figures


def _build(task: Task[Any], config: TaskConfig, files: TaskFiles, train: Sequence[Any]) -> TaskPipeline:
    counts = Counter(token for sentence in task.sentences(train) for token in sentence)
    words = config.words
    vectors = [read_vectors(path, max_words=words.max_vectors) for name in files.vectors for path in find_files([name])]
    table, first = build_table(counts, vectors, width=words.width, min_count=words.min_count, seed=config.seed)
    bilm = None if files.bilm is None or config.elmo.place == "none" else load(files.bilm)
    if bilm is not None:
        bilm.requires_grad_(bool(config.elmo.tuned))
        if bilm.softmax is not None:
            bilm.softmax.requires_grad_(False)
    use = None if bilm is None or files.bilm is None else BilmUse(files.bilm, fingerprint(bilm))
    return TaskPipeline(
        task,
        config,
        task.find_labels(train),
        table,
        torch.from_numpy(first),
        bilm=bilm,
        use=use,
        threads=files.threads,
    )


def settle_precision(config: TaskConfig, output: Path) -> TaskConfig:
    """The settings with precision "auto" resolved: that of the run in the folder, or the fastest on this machine."""
    if config.elmo.precision != "auto":
        return config
    chosen = "auto"
    for record in (output / RECORD, output / RESULT):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            saved = json.loads(record.read_text(encoding="utf-8"))["config"]["elmo"]
            chosen = saved.get("precision", "float32")
    return with_precision(config, chosen)


def _decisive(config: TaskConfig) -> dict[str, Any]:
    """The settings that determine the result of a run: all except how often it writes."""
    rhythm = {"log_every", "checkpoint_every", "keep_checkpoints"}
    new = {"precision"} if config.elmo.precision == "float32" else set()  # runs of older versions lack it
    return config.model_dump(
        mode="json", exclude={"loop": rhythm, "optimizer": _unused_new_settings(config), "elmo": new}
    )


def _unused_new_settings(config: TaskConfig) -> set[str]:
    """Optimizer settings that runs of older versions lack, if they have no effect."""
    optimizer = config.optimizer
    return {name for name in _NEW_SETTINGS if getattr(optimizer, name) == type(optimizer).model_fields[name].default}


def read_result(output: Path, config: TaskConfig) -> dict[str, Any] | None:
    """The result of a finished run with these settings; None if the run in the folder is not finished."""
    path = output / RESULT
    if not path.exists():
        return None
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    _check_settings(output, result["config"], config)
    return result


def refuse_other_inputs(
    output: Path, result: Mapping[str, Any], digests: Mapping[str, Sequence[str]], bilm: str | None
) -> None:
    """Refuse the result of a finished run with other data or another biLM.

    `digests` are the SHA-256 of the current files, by `DATA`; `bilm` is the fingerprint of the current biLM.
    """
    for name in DATA:
        before = [file["sha256"] for file in result["data"].get(name, [])]
        if before != list(digests.get(name, [])):
            raise ConfigError(
                f"{output} holds a finished run with other {name} files than now: give its own files, or another "
                "--output."
            )
    if (result["bilm"] and result["bilm"]["fingerprint"]) != bilm:
        raise ConfigError(f"{output} holds a finished run on another biLM: give its own --model, or another --output.")


def _check_settings(output: Path, saved: Mapping[str, Any], config: TaskConfig) -> None:
    """Refuse the result of a finished run with other settings."""
    defaults = TaskConfig(task=config.task).model_dump(mode="json")  # of settings that are newer than the run
    for name, value in _decisive(config).items():
        before = saved.get(name, defaults[name])
        if name == "loop":
            before = {part: saved["loop"].get(part) for part in value}
        if name == "elmo":
            before, value = {**defaults[name], **before}, {**defaults[name], **value}
        if name == "optimizer":
            new = {part: defaults[name][part] for part in _NEW_SETTINGS}
            before, value = {**new, **before}, {**new, **value}
        if before != value:
            raise ConfigError(
                f"{output} holds a finished run with {name} = {json.dumps(before)}, but now {name} = "
                f"{json.dumps(value)}: give its own settings, or another --output."
            )


def _identity(config: TaskConfig, files: TaskFiles, use: BilmUse | None) -> dict[str, str]:
    """Everything that determines how weights change and which are kept."""
    own = {
        **{name: [path.name for path in find_files(getattr(files, name))] for name in ("train", "dev")},
        "vectors": [path.name for name in files.vectors for path in find_files([name])],
        "bilm": use and use.fingerprint,
    }
    return {name: json.dumps(value) for name, value in {**_decisive(config), **own}.items()}


def _describe(config: TaskConfig, files: TaskFiles, trained: TaskPipeline) -> dict[str, Any]:
    return {
        "task": trained.task.name,
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "bilm": trained.use and vars(trained.use),
        "data": {
            name: [_digest(path) for path in find_files(getattr(files, name))] for name in DATA if getattr(files, name)
        },
        "versions": versions(),
    }


def _digest(path: Path) -> dict[str, str]:
    return {"name": path.name, "sha256": file_sha256(path)}
