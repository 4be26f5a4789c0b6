"""A trained task model: saved in a folder, loaded with its biLM, used for predictions.

task.json            task, settings, labels, and which biLM it was trained on, by fingerprint
words.txt            words of the table, one per line
model.safetensors    all weights but a biLM's
bilm/                the biLM, if it was trained with the task
"""

import json
import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from elmokit.arguments import check_path
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, FormatError
from elmokit.filesystem import atomic_directory, foreign_files, guard_output
from elmokit.formats import load, save
from elmokit.formats.locate import TASK_MODEL
from elmokit.formats.native import save_tensors
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.model.scalar_mix import ScalarMix
from elmokit.progress import ProgressCallback
from elmokit.recognize import TASK_MODEL as KIND_OF_FOLDER
from elmokit.recognize import TASK_RUN, did_you_mean, finished_run, identify, mistaken
from elmokit.tasks.base import Labels, Task, TaskModel
from elmokit.tasks.batches import TokenBatch, TokenLookup, in_order
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.embedding.layer_cache import LayerCache
from elmokit.tasks.registry import TASKS
from elmokit.tasks.words import WordTable
from elmokit.text.tokenizers import check_raw_text

_FORMAT, _VERSION = "elmokit-task", 1
WORDS, WEIGHTS, TUNED_BILM = "words.txt", "model.safetensors", "bilm"
BILM_PREFIX = "inputs.elmo.bilm."
"""Prefix of the names of a biLM's parameters in a task model."""


@dataclass(frozen=True)
class BilmUse:
    """The biLM of a task model."""

    name: str
    """As given to `load`."""
    fingerprint: str
    """Fingerprint of the model that training started with."""


class TrainedTask:
    """A task, its model and everything that is looked up for it.

    Args:
        task: the task of the model.
        config: the settings it was trained with.
        labels: what it learned about its labels.
        table: the words with their own vectors.
        vectors: initial values of the word vectors (W, E).
        bilm: the model for ELMo; None without ELMo.
        use: name and fingerprint of the biLM.
        layers_folder: where layers of frozen models are stored; None is the user's cache.
        threads: number of threads of the embedder.
    """

    def __init__(
        self,
        task: Task[Any],
        config: TaskConfig,
        labels: Labels,
        table: WordTable,
        vectors: Tensor,
        *,
        bilm: BiLM | None,
        use: BilmUse | None,
        layers_folder: Path | None = None,
        threads: int | None = None,
    ) -> None:
        self.task, self.config, self.labels, self.table, self.use = task, config, labels, table, use
        self._tokenizer = None if bilm is None else bilm.config.tokenizer
        settings = self.settings = task.read_settings(config.model)
        tuned = bool(config.elmo.tuned) and bilm is not None
        self.store = None if bilm is None or tuned else LayerCache(Embedder(bilm, threads=threads), layers_folder)
        self.lookup = TokenLookup(table, store=self.store, indexer=bilm.indexer if tuned and bilm else None)
        elmo = None
        if bilm is not None:
            shape = {"num_layers": bilm.config.num_layers, "width": bilm.config.output_dim}
            elmo = ElmoInputs(config.elmo, **shape, bilm=bilm if tuned else None)
        filters = task.char_cnn_shape(settings)
        char_cnn = filters and CharCnn(char_dim=filters[0], num_filters=filters[1], width=filters[2])
        inputs = TokenInputs(vectors, tune_words=config.words.tuned, char_cnn=char_cnn or None, elmo=elmo)
        self.model: TaskModel = task.build(settings, inputs, labels)

    def check_tokenizer(self) -> None:
        """Warn if the biLM was trained with another tokenizer than the one used here."""
        check_raw_text(self._tokenizer, accepts_tokens=False)

    def prepare(self, examples: Sequence[Any], report: ProgressCallback | None = None) -> None:
        """Embed the sentences that the frozen biLM has not embedded yet."""
        if self.store is not None:
            self.store.prepare(self.task.sentences(examples), report)

    def collate(self, examples: Sequence[Any]) -> tuple[list[TokenBatch], Any]:
        """The batch of examples."""
        texts = [self.lookup.batch(each) for each in zip(*map(self.task.texts, examples), strict=True)]
        return texts, self.task.collate(examples, self.labels, texts)

    def predict(
        self, examples: Sequence[Any], *, batch_size: int | None = None, report: ProgressCallback | None = None
    ) -> list[Any]:
        """One prediction per example, in order; `report` receives the number done and the total."""
        found: dict[int, Any] = {}
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            for numbers in in_order(examples, self.task.size, batch_size or self.config.batch_size):
                predictions = self.model.predict(*self.collate([examples[number] for number in numbers]))
                found.update(zip(numbers, predictions, strict=True))
                if report is not None:
                    report(len(found), len(examples))
        self.model.train(was_training)
        return [found[number] for number in range(len(examples))]

    def mixes(self) -> list[dict[str, Any]]:
        """The learned layer weights and γ of each place where ELMo is added."""
        elmo = self.model.inputs.elmo
        if elmo is None:
            return []
        places = ["input", "output"] if self.config.elmo.place == "both" else [self.config.elmo.place]
        return [
            {"place": place, "layer_weights": mix.layer_weights.tolist(), "gamma": float(mix.gamma.detach())}
            for place, mix in zip(places, elmo.mixes.mixes, strict=True)
            if isinstance(mix, ScalarMix)
        ]

    def save(self, path: Path) -> None:
        """Write the folder atomically; an existing task model is replaced, nothing else is."""
        guard_output(path, kind="a task model", is_ours=is_task_model, overwrite=True)
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "task": self.task.name,
            "config": self.config.model_dump(mode="json"),
            "labels": self.labels,
            "bilm": self.use and vars(self.use),
        }
        with atomic_directory(path, overwrite=True) as folder:
            (folder / TASK_MODEL).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
            words = "".join(f"{word}\n" for word in self.table.words)
            (folder / WORDS).write_bytes(words.encode("utf-8", "surrogatepass"))
            tensors = {
                name: t.contiguous() for name, t in self.model.state_dict().items() if not name.startswith(BILM_PREFIX)
            }
            save_tensors(tensors, folder / WEIGHTS)
            elmo = self.model.inputs.elmo
            if elmo is not None and elmo.bilm is not None:
                save(elmo.bilm, folder / TUNED_BILM)


def is_task_model(path: Path) -> bool:
    """Whether a folder holds a task model that `TrainedTask.save` wrote, and nothing else."""
    try:
        content = json.loads((path / TASK_MODEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    whole = isinstance(content, dict) and content.get("format") == _FORMAT
    return whole and not foreign_files(path, {TASK_MODEL, WORDS, WEIGHTS, TUNED_BILM})


def find_trained(path: Path) -> Path:
    """The folder of a task model, from its own path or that of its finished run.

    Raises:
        FormatError: if the path does not exist, or is known to be something else.
    """
    if not os.path.exists(path):
        raise FormatError(f"{path} does not exist{did_you_mean(path)}: give the model/ of an `elmokit task train` run.")
    kind = identify(path)
    if kind is not None and kind.family == TASK_RUN and (model := finished_run(path)) is not None:
        return model
    if sentence := mistaken(path, "a task model", KIND_OF_FOLDER):
        raise FormatError(sentence)
    return path


def load_trained(
    path: str | Path,
    *,
    task: Task[Any] | None = None,
    bilm: str | None = None,
    layers_folder: Path | None = None,
    threads: int | None = None,
) -> TrainedTask:
    """Load a task model with its biLM.

    Args:
        path: the folder of the model or of its finished run.
        task: the task of the model; None finds it in `TASKS` by its name.
        bilm: where to load the biLM from; None is the name given in training.
        layers_folder: see `TrainedTask`.
        threads: number of threads of the embedder.
    """
    path = find_trained(check_path("path", path))
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
        vectors = tensors["inputs.word_table"]
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
    own = None if use is None else _load_bilm(path, use, bilm, tuned=bool(config.elmo.tuned))
    trained = TrainedTask(
        task,
        config,
        labels,
        table,
        vectors,
        bilm=own,
        use=use,
        layers_folder=layers_folder,
        threads=threads,
    )
    try:
        missing, unexpected = trained.model.load_state_dict(tensors, strict=False)
    except RuntimeError as error:
        raise FormatError(f"{path}/model.safetensors does not fit its settings ({str(error)[:120]}).") from None
    wrong = [*unexpected, *(name for name in missing if not name.startswith(BILM_PREFIX))]
    if wrong:
        raise FormatError(f"{path}/model.safetensors lacks tensors or has unexpected ones: {', '.join(wrong[:3])}.")
    trained.model.eval()
    return trained


def _load_bilm(path: Path, use: BilmUse, given: str | None, *, tuned: bool) -> BiLM:
    if tuned:
        return load(path / TUNED_BILM)
    bilm = load(given or use.name)
    if (found := fingerprint(bilm)) != use.fingerprint:
        raise ConfigError(
            f"the task model {path} was trained on the biLM {use.fingerprint[:16]} ({use.name}), but "
            f"{given or use.name} is {found[:16]}: name the right one."
        )
    return bilm
