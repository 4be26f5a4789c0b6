"""Train, evaluate and compare: one runner for all tasks, on the loop that pretraining uses.

A run directory has `run.json` (settings, files), `log.jsonl`, `checkpoints/`, `model/` (the best on dev) and, when the
run is done, `predictions.jsonl` (of the test files) and `result.json`.
"""

import hashlib
import json
import platform
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmokit._version import __version__
from elmokit.errors import ConfigError, InputError
from elmokit.formats import load
from elmokit.formats._atomic import write_text_atomic
from elmokit.formats.parts import fingerprint
from elmokit.tasks.base import Task, TaskModel
from elmokit.tasks.batches import EpochBatches
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.layer_store import Report as Embedding
from elmokit.tasks.trained import BilmUse, TrainedTask, load_trained
from elmokit.tasks.words import build_table, read_vectors
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.corpus import find_files
from elmokit.training.log import RunLog
from elmokit.training.loop import Loop, Report, StepResult
from elmokit.training.optim import Optimizer


@dataclass(frozen=True)
class TaskFiles:
    """What a task run reads and where it writes."""

    train: Sequence[str]
    """Paths or globs."""
    dev: Sequence[str]
    output: Path
    test: Sequence[str] = ()
    vectors: Sequence[str] = ()
    """Files of static word vectors, which stand side by side."""
    bilm: str | None = "mini"
    """What ELMo comes from; None, or `elmo.place = "none"`, is a model without it."""
    resume: bool = False
    layers_folder: Path | None = None
    threads: int | None = None


class TaskStep:
    """Adds the gradients of a batch to a task model, and keeps the running average of its weights if one is wanted."""

    def __init__(self, model: TaskModel, *, average: float) -> None:
        self.model = model
        self._decay = average
        self._average: dict[str, Tensor] = {}

    def __call__(self, batch: Any, number: int) -> StepResult:
        """See `elmokit.training.loop.Step`."""
        self._follow(number)
        texts, gold = batch
        loss = self.model.loss(texts, gold)
        (loss + self.model.inputs.regularization()).backward()
        return StepResult(float(loss.detach()), {}, len(texts[0].mask))

    def _follow(self, number: int) -> None:
        """Take the weights that the last step made into the average, which at first is young and forgets more."""
        if not self._decay:
            return
        decay = min(self._decay, (1 + number) / (10 + number))
        for name, parameter in self._learning():
            if name in self._average:
                self._average[name].lerp_(parameter.detach(), 1 - decay)
            else:
                self._average[name] = parameter.detach().clone()

    def _learning(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, parameter) for name, parameter in self.model.named_parameters() if parameter.requires_grad)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with its average weights."""
        own = {name: parameter.detach().clone() for name, parameter in self._learning() if name in self._average}
        self._put(self._average)
        try:
            yield
        finally:
            self._put(own)

    def _put(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, parameter in self._learning():
                if name in weights:
                    parameter.copy_(weights[name])

    def state_dict(self) -> dict[str, Any]:
        """The average."""
        return {"average": self._average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on with an average."""
        self._average = state["average"]

    def overflowed(self) -> bool:
        """Nothing is scaled."""
        return False


def train_task(
    task: Task[Any],
    config: TaskConfig,
    files: TaskFiles,
    *,
    tasks: Mapping[str, Task[Any]],
    report: Report | None = None,
    embedding: Embedding | None = None,
) -> dict[str, Any]:
    """Train a task model, or go on with a run, and give what `result.json` says.

    Args:
        task: which.
        config: the settings.
        files: what to read and where to write.
        tasks: all of them, by name.
        report: is told of every log entry.
        embedding: is told how much of the data the biLM has embedded.
    """
    result_path = files.output / "result.json"
    checkpoints = Checkpoints(files.output / "checkpoints", keep=1)
    if not files.resume and (checkpoints.find() or result_path.exists()):
        raise ConfigError(
            f"{files.output} holds a run already: repeat the command with --resume to go on with it, or give another "
            "--output."
        )
    _clean(files.output)
    if files.resume and result_path.exists():
        done: dict[str, Any] = json.loads(result_path.read_text(encoding="utf-8"))
        _check_settings(files.output, done["config"], config)
        shutil.rmtree(checkpoints.directory, ignore_errors=True)
        return done
    torch.manual_seed(config.seed)
    sets = read_sets(task, config, files)
    trained = _build(task, config, files, sets["train"])
    trained.prepare([example for examples in sets.values() for example in examples], embedding)
    files.output.mkdir(parents=True, exist_ok=True)
    step = TaskStep(trained.model, average=config.average)
    batches = EpochBatches(
        sets["train"],
        size=task.size,
        batch_size=config.batch_size,
        num_epochs=config.num_epochs,
        seed=config.seed,
        collate=trained.collate,
    )
    learning = [(name, parameter) for name, parameter in trained.model.named_parameters() if parameter.requires_grad]
    sparse = [pair for pair in learning if pair[0] == "inputs.word_table"]
    num_steps = config.loop.max_steps or batches.num_batches * config.num_epochs // config.loop.accumulate
    log = RunLog(files.output / "log.jsonl")

    def evaluate() -> Mapping[str, float]:
        with step.averaged():
            return task.score(sets["dev"], trained.predict(sets["dev"]))

    def save_best() -> None:
        with step.averaged():
            trained.save(files.output / "model")

    loop = Loop(
        model=trained.model.train(),
        batches=batches,
        step=step,
        optimizer=Optimizer([pair for pair in learning if pair not in sparse], sparse, config.optimizer, num_steps),
        config=config.loop,
        num_steps=num_steps,
        evaluate=evaluate,
        metric=task.metric,
        lower_is_better=False,
        save_best=save_best,
        checkpoints=checkpoints,
        log=log,
        identity=_identity(config, files, trained.use),
        report=report,
    )
    if not (files.resume and loop.resume()):
        log.rewind(0)
        write_text_atomic(files.output / "run.json", json.dumps(_describe(config, files, trained), indent=1) + "\n")
    fitted = loop.run()
    best = load_trained(
        files.output / "model", tasks, bilm=files.bilm, layers_folder=files.layers_folder, threads=files.threads
    )
    result = {
        **_describe(config, files, trained),
        "examples": {name: len(examples) for name, examples in sets.items()},
        "num_parameters": sum(parameter.numel() for _, parameter in learning),
        "steps": fitted.progress.step,
        "best_step": fitted.progress.best_step,
        "epochs": batches.epoch,
        "reason": fitted.reason,
        "dev": dict(task.score(sets["dev"], best.predict(sets["dev"]))),
        "mixes": best.mixes(),
    }
    if sets["test"]:
        predictions = best.predict(sets["test"])
        lines = (json.dumps(prediction, ensure_ascii=False) + "\n" for prediction in predictions)
        write_text_atomic(files.output / "predictions.jsonl", "".join(lines))
        result["test"] = dict(task.score(sets["test"], predictions))
    write_text_atomic(result_path, json.dumps(result, indent=1) + "\n")
    shutil.rmtree(checkpoints.directory, ignore_errors=True)
    return result


def evaluate_task(trained: TrainedTask, patterns: Sequence[str]) -> dict[str, float]:
    """Figures of a trained model on files."""
    examples = _read(trained.task, trained.config, patterns, training=False)
    trained.prepare(examples)
    return dict(trained.task.score(examples, trained.predict(examples)))


def read_sets(task: Task[Any], config: TaskConfig, files: TaskFiles) -> dict[str, list[Any]]:
    """The examples of the training, dev and test files; no test files, no test examples."""
    if not files.train or not files.dev:
        missing = "dev" if files.train else "training"
        raise InputError(f"there are no {missing} files for {task.name}: name at least one.")
    named = {"train": files.train, "dev": files.dev, "test": files.test}
    return {name: _read(task, config, paths, training=name == "train") for name, paths in named.items()}


def _read(task: Task[Any], config: TaskConfig, patterns: Sequence[str], *, training: bool) -> list[Any]:
    if not patterns:
        return []
    settings = task.read_settings(config.model)
    examples = list(task.read(find_files(patterns), settings, training=training))
    if not examples:
        raise InputError(f"there is no example of {task.name} in {', '.join(patterns)}: give files of this task.")
    return examples


def _build(task: Task[Any], config: TaskConfig, files: TaskFiles, train: Sequence[Any]) -> TrainedTask:
    counts = Counter(
        token for example in train for text in task.texts(example) for sentence in text for token in sentence
    )
    words = config.words
    vectors = [read_vectors(path, max_words=words.max_vectors) for name in files.vectors for path in find_files([name])]
    table, first = build_table(counts, vectors, width=words.width, min_count=words.min_count, seed=config.seed)
    bilm = None if files.bilm is None or config.elmo.place == "none" else load(files.bilm)
    if bilm is not None:
        bilm.requires_grad_(config.elmo.tuned)
        if bilm.softmax is not None:
            bilm.softmax.requires_grad_(False)
    use = None if bilm is None or files.bilm is None else BilmUse(files.bilm, fingerprint(bilm))
    return TrainedTask(
        task,
        config,
        task.find_labels(train),
        table,
        torch.from_numpy(first),
        bilm=bilm,
        use=use,
        layers_folder=files.layers_folder,
        threads=files.threads,
    )


def _clean(output: Path) -> None:
    """Remove what a kill has left half-written."""
    for path in output.glob(".*.tmp"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _decisive(config: TaskConfig) -> dict[str, Any]:
    """The settings that decide what a run gives: all but how often it writes."""
    return config.model_dump(mode="json", exclude={"loop": {"log_every", "checkpoint_every", "keep_checkpoints"}})


def _check_settings(output: Path, saved: Mapping[str, Any], config: TaskConfig) -> None:
    """Refuse to take the result of a finished run for that of other settings."""
    for name, value in _decisive(config).items():
        before = saved.get(name)
        if name == "loop":
            before = {part: saved["loop"].get(part) for part in value}
        if before != value:
            raise ConfigError(
                f"{output} holds a finished run with {name} = {json.dumps(before)}, but now {name} = "
                f"{json.dumps(value)}: give its own settings, or another --output."
            )


def _identity(config: TaskConfig, files: TaskFiles, use: BilmUse | None) -> dict[str, str]:
    """All that decides how weights change and which are kept."""
    own = {
        **{name: [path.name for path in find_files(getattr(files, name))] for name in ("train", "dev")},
        "vectors": [path.name for name in files.vectors for path in find_files([name])],
        "bilm": use and use.fingerprint,
    }
    return {name: json.dumps(value) for name, value in {**_decisive(config), **own}.items()}


def _describe(config: TaskConfig, files: TaskFiles, trained: TrainedTask) -> dict[str, Any]:
    return {
        "task": trained.task.name,
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "bilm": trained.use and vars(trained.use),
        "data": {
            name: [_digest(path) for path in find_files(getattr(files, name))]
            for name in ("train", "dev", "test", "vectors")
            if getattr(files, name)
        },
        "versions": {
            "elmokit": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }


def _digest(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        return {"name": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
