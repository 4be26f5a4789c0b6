"""The folder of a task model: what is in it, writing and loading it.

task.json            task, settings, labels, and which biLM it was trained on, by fingerprint
words.txt            words of the table, one per line
model.safetensors    all weights but a biLM's
bilm/                the biLM, if it was trained with the task
"""

import json
import os.path
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from elmokit.arguments import check_path
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, FormatError
from elmokit.filesystem import atomic_directory, foreign_files, guard_output
from elmokit.formats import load, save
from elmokit.formats.locate import TASK_MODEL
from elmokit.formats.native import save_tensors
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.model.engines.choose import resolve_precision
from elmokit.recognize import TASK_MODEL as KIND_OF_FOLDER
from elmokit.recognize import TASK_RUN, did_you_mean, finished_run, identify, mistaken
from elmokit.tasks.base import Task
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.packaged import FOLDER, packaged_tasks
from elmokit.tasks.pipeline import BILM_PREFIX, BilmUse, TaskPipeline
from elmokit.tasks.registry import TASKS
from elmokit.tasks.words import WordTable

_FORMAT, _VERSION = "elmokit-task", 1
WORDS, WEIGHTS, TUNED_BILM = "words.txt", "model.safetensors", "bilm"


def write_task(pipeline: TaskPipeline, path: Path) -> None:
    """Write the folder atomically; an existing task model is replaced, nothing else is."""
    guard_output(path, kind="a task model", is_ours=is_task_model, overwrite=True)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "task": pipeline.task.name,
        "config": pipeline.config.model_dump(mode="json"),
        "labels": pipeline.labels,
        "bilm": pipeline.use and vars(pipeline.use),
    }
    with atomic_directory(path, overwrite=True) as folder:
        (folder / TASK_MODEL).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
        words = "".join(f"{word}\n" for word in pipeline.table.words)
        (folder / WORDS).write_bytes(words.encode("utf-8", "surrogatepass"))
        state = pipeline.model.state_dict().items()
        tensors = {name: tensor.contiguous() for name, tensor in state if not name.startswith(BILM_PREFIX)}
        save_tensors(tensors, folder / WEIGHTS)
        elmo = pipeline.model.inputs.elmo
        if elmo is not None and elmo.bilm is not None:
            save(elmo.bilm, folder / TUNED_BILM)


def is_task_model(path: Path) -> bool:
    """Whether a folder holds a task model that `TaskPipeline.save` wrote, and nothing else."""
    try:
        content = json.loads((path / TASK_MODEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    whole = isinstance(content, dict) and content.get("format") == _FORMAT
    return whole and not foreign_files(path, {TASK_MODEL, WORDS, WEIGHTS, TUNED_BILM})


def find_task_model(source: str | Path) -> Path:
    """The folder of a task model, from its own path, that of its finished run, or the name of a packaged one.

    Raises:
        FormatError: if there is no such folder, or it is known to be something else.
    """
    path = check_path("path", source)
    if not os.path.exists(path):
        if isinstance(source, str) and source in packaged_tasks():
            return FOLDER / source
        listed = ", ".join(packaged_tasks())
        what = (
            f"{path} is a task, and there is no model of this name" if str(path) in TASKS else f"{path} does not exist"
        )
        raise FormatError(
            f"{what}{did_you_mean(path)}: give the model/ of an `elmokit task train` run"
            f"{f', or one of the packaged {listed}' if listed else ''}."
        )
    kind = identify(path)
    if kind is not None and kind.family == TASK_RUN and (model := finished_run(path)) is not None:
        return model
    if sentence := mistaken(path, "a task model", KIND_OF_FOLDER):
        raise FormatError(sentence)
    return path


def load_task(
    source: str | Path,
    *,
    task: Task[Any] | None = None,
    bilm: str | Path | Embedder | None = None,
    threads: int | None = None,
    precision: str | None = None,
) -> TaskPipeline:
    """Load a trained task model with its biLM, to predict.

    Args:
        source: the folder of the model or of its finished run, or the name of a packaged task model.
        task: the task of the model, if it is your own; None finds it in `TASKS` by its name.
        bilm: the biLM: where to load it from, or an embedder that has loaded it, which several tasks may share. None
            loads it from where it was in training.
        threads: cores to use for the biLM; None uses all that the process may use.
        precision: precision of the biLM, as in `Embedder`; None is the one in training, or that of a given embedder.

    Raises:
        FormatError: if the folder is not that of a task model.
        ConfigError: if the biLM is not the one that the model was trained with, or the precision is not available.

    Example:
        >>> ner = elmokit.load_task("run")
        >>> for record in ner.predict(["Ada Lovelace wrote to Charles Babbage."]):
        ...     print([(entity.text, entity.type, entity.score) for entity in record.entities])
    """
    path = find_task_model(source)
    tasks = TASKS if task is None else {task.name: task}
    try:
        content = json.loads((path / TASK_MODEL).read_text(encoding="utf-8"))
        if content["format"] != _FORMAT or content["version"] != _VERSION or content["task"] not in tasks:
            raise FormatError(
                f"{path} is {content['format']} {content['version']} for {content['task']}, but this elmokit reads "
                f"{_FORMAT} {_VERSION} for {', '.join(tasks)}: install a newer one."
            )
        task, config = tasks[content["task"]], TaskConfig.model_validate(content["config"])
        table = WordTable((path / WORDS).read_bytes().decode("utf-8", "surrogatepass").split("\n")[:-1])
        tensors = load_file(path / WEIGHTS)
        vectors = tensors["inputs.word_table"].float()  # packaged models have 16 bits
        use, labels = BilmUse(**content["bilm"]) if content["bilm"] else None, content["labels"]
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise FormatError(
            f"{path} is not the folder of a task model ({type(error).__name__}: {str(error)[:80]}): give what "
            "`elmokit task train` wrote as model/."
        ) from None
    if len(vectors) != len(table):
        raise FormatError(
            f"{path}/words.txt has {len(table) - 1:,} words, but there are {len(vectors) - 1:,} vectors: copy it whole."
        )
    if isinstance(bilm, Embedder) and not config.elmo.tuned:
        precision = _same_precision(bilm, precision)
    if precision is not None:
        config = with_precision(config, precision)
    own = None if use is None else _load_bilm(path, use, bilm, tuned=bool(config.elmo.tuned))
    pipeline = TaskPipeline(task, config, labels, table, vectors, bilm=own, use=use, threads=threads)
    try:
        missing, unexpected = pipeline.model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:
        raise FormatError(f"{path}/model.safetensors does not fit its settings ({str(error)[:120]}).") from None
    wrong = [*unexpected, *(name for name in missing if not name.startswith(BILM_PREFIX))]
    if wrong:
        raise FormatError(f"{path}/model.safetensors lacks tensors or has unexpected ones: {', '.join(wrong[:3])}.")
    pipeline.model.eval()
    return pipeline


def with_precision(config: TaskConfig, precision: str) -> TaskConfig:
    """The settings with another precision of ELMo's layers; "auto" is resolved for this machine.

    Raises:
        ConfigError: if the precision is unknown or not available here, or the biLM is tuned.
    """
    resolved = resolve_precision(precision, torch.empty(0))
    if config.elmo.tuned and resolved != "float32":
        raise ConfigError(f"precision {resolved} is for a frozen biLM, and this one is tuned: leave it float32.")
    return config.model_copy(update={"elmo": config.elmo.model_copy(update={"precision": resolved})})


def _same_precision(embedder: Embedder, given: str | None) -> str:
    """The precision of an embedder; another one that is given beside it is refused."""
    own = embedder.precision
    if given not in (None, own):
        raise ConfigError(f"precision is {given}, but the embedder has {own}: leave it out, or give another embedder.")
    return own


def _load_bilm(path: Path, use: BilmUse, given: str | Path | Embedder | None, *, tuned: bool) -> BiLM | Embedder:
    if tuned:
        return load(path / TUNED_BILM)
    bilm = given if isinstance(given, Embedder) else load(given or use.name)
    found = bilm.fingerprint if isinstance(bilm, Embedder) else fingerprint(bilm)
    if found != use.fingerprint:
        name = given.name if isinstance(given, Embedder) else given or use.name
        raise ConfigError(
            f"the task model {path} was trained on the biLM {use.fingerprint[:16]} ({use.name}), but {name} is "
            f"{found[:16]}: name the right one."
        )
    return bilm
