"""Train a biLM from text: corpus, model and loss wired into the loop, and the run directory that holds it all.

A run directory has `run.json` (resolved settings, files, versions), `corpus.json` and `vocab.txt` (what was counted),
`log.jsonl`, `checkpoints/`, `best/` (the model of the best evaluation) and, when the run is done, `model/` and
`result.json`.
"""

import json
import platform
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmokit._version import __version__
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.formats import load, save
from elmokit.formats._atomic import atomic_path, write_text_atomic
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import SPECIALS, Vocabulary, read_vocabulary, write_vocabulary
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import PretrainConfig, RunConfig
from elmokit.training.corpus import SentenceStream, find_files
from elmokit.training.corpus_blocks import Progress as Share
from elmokit.training.corpus_tools import build_vocabulary
from elmokit.training.distributed import join
from elmokit.training.log import RunLog
from elmokit.training.loop import Fitted, Loop, Report
from elmokit.training.optim import Optimizer
from elmokit.training.perplexity import measure_perplexity, read_text
from elmokit.training.step import LanguageModelStep
from elmokit.training.survey import survey_corpus
from elmokit.training.windows import WindowStream


@dataclass(frozen=True)
class RunFiles:
    """What a run reads, where it writes and how it goes on."""

    train: Sequence[str]
    """Paths or globs."""
    heldout: Sequence[str]
    output: Path
    vocab: Path | None = None
    """A vocabulary to use; none: one is counted from the training text."""
    resume: bool = False
    init: str | None = None
    """A model to take the weights and the vocabulary from."""
    skip_tokens: int = 0
    """Predictions of the training text to pass over."""
    threads: int | None = None
    device: str = "cpu"
    tensorboard: bool = False


@dataclass(frozen=True)
class RunResult:
    """What a finished run has to say."""

    model_path: Path
    fingerprint: str
    steps: int
    predictions: int
    seconds: float
    """Of this process; a resumed run counts from its resumption."""
    reason: str
    best_step: int
    heldout: Mapping[str, Any]
    """Perplexities on the held-out text, `carry` and `reset`; empty without one."""
    before: Mapping[str, Any]
    """The same before fine-tuning."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values for JSON."""
        return {**vars(self), "model_path": str(self.model_path)}


def pretrain(
    config: PretrainConfig, files: RunFiles, *, report: Report | None = None, reading: Share | None = None
) -> RunResult:
    """Train a model from a corpus, or go on with a run.

    Args:
        config: the settings.
        files: what to read and where to write.
        report: is told of every log entry.
        reading: is told how much of the corpus has been read before training begins.
    """
    run = Run(config, files, reading)
    if files.init is not None:
        bilm = load(files.init)
        vocabulary = bilm.vocabulary
        if vocabulary is None or not bilm.config.softmax:
            raise ConfigError(f"{files.init} has no softmax to go on with: use elmokit finetune, which builds one.")
        run.note = f"weights from {files.init}, fresh optimiser, {files.skip_tokens:,} predictions passed over"
    else:
        vocabulary = run.vocabulary()
        bilm = BiLM(config.build_model(len(vocabulary)), vocabulary=vocabulary, seed=config.seed)
    return run.train(bilm, report)


class Run:
    """A run directory: what a run found out about its text, how it goes on, what it leaves."""

    def __init__(self, config: RunConfig, files: RunFiles, reading: Share | None = None) -> None:
        self.config, self.files, self.output = config, files, files.output
        self.processes = join(files.device)
        self.note = ""
        self.checkpoints = Checkpoints(self.output / "checkpoints", keep=config.loop.keep_checkpoints)
        self.train_files = find_files(files.train)
        self.heldout = read_text(find_files(files.heldout), input=config.corpus.input) if files.heldout else []
        if self.checkpoints.find() and not files.resume:
            raise ConfigError(
                f"{self.output} holds a run with checkpoints: repeat the command with --resume to go on with it, or "
                "give another --output."
            )
        self.output.mkdir(parents=True, exist_ok=True)
        if self.processes.is_first:
            self._survey(reading)
        self.processes.wait()
        self.corpus: dict[str, Any] = json.loads((self.output / "corpus.json").read_text(encoding="utf-8"))

    def vocabulary(self) -> Vocabulary:
        """The run's own word list."""
        return read_vocabulary(self.output / "vocab.txt")

    def _survey(self, reading: Share | None) -> None:
        """Count the training text, once in a run's life, and keep its vocabulary and size."""
        path, settings = self.output / "corpus.json", self.config.corpus
        identity = [[str(file.resolve()), file.stat().st_size] for file in self.train_files]
        key = {"files": identity, "settings": settings.model_dump(mode="json"), "vocab": str(self.files.vocab or "")}
        if path.exists() and json.loads(path.read_text(encoding="utf-8"))["key"] == key:
            return
        found = survey_corpus(self.train_files, input=settings.input, heldout=self.heldout, progress=reading)
        if self.files.vocab is not None:
            vocabulary = read_vocabulary(self.files.vocab)
        else:
            vocabulary = build_vocabulary(found.counts, min_count=settings.min_count, max_size=settings.max_vocab)
        known = sum(found.counts[word] for word in vocabulary.tokens if word not in SPECIALS)
        if not known:
            raise ConfigError(
                f"no word of the training text is in {self.files.vocab}: give the vocabulary of this language, "
                "or leave --vocab out to count one."
            )
        if found.num_repeated:
            warnings.warn(
                f"{found.num_repeated:,} of {found.num_compared:,} held-out sentences of five tokens or more are also "
                "in the training text, so the held-out perplexity is too good.",
                ElmokitWarning,
                stacklevel=2,
            )
        write_vocabulary_atomic(vocabulary, self.output / "vocab.txt")
        size = {
            "num_words": found.num_words,
            "num_sentences": found.num_sentences,
            "num_predictions": found.num_predictions,
            "vocab_size": len(vocabulary),
            "oov_rate": 1 - known / found.num_words,
            "heldout_repeated": [found.num_repeated, found.num_compared],
        }
        write_text_atomic(path, json.dumps({**size, "key": key}, indent=1) + "\n")

    def train(self, bilm: BiLM, report: Report | None, before: Mapping[str, Any] | None = None) -> RunResult:
        """Run the loop over the corpus and leave the model."""
        config, files = self.config, self.files
        bilm = bilm.to(files.device).train()
        assert bilm.vocabulary is not None
        step = LanguageModelStep(
            bilm,
            config.loss,
            num_rows=config.batch_size,
            num_steps=config.unroll_steps,
            dropout=config.dropout,
            seed=config.seed,
            processes=self.processes,
            precision=config.precision,
            threads=files.threads,
        )
        sentences = SentenceStream(
            self.train_files,
            input=config.corpus.input,
            seed=config.seed,
            buffer_sentences=config.corpus.buffer_sentences,
            num_epochs=None if config.loop.max_steps else config.num_epochs,
        )
        num_skipped = 0
        while num_skipped < files.skip_tokens:
            num_skipped += len(next(sentences)) + 1
        windows = WindowStream(
            sentences,
            bilm.vocabulary,
            bilm.indexer,
            num_rows=config.batch_size,
            num_steps=config.unroll_steps,
            rows=step.rows,
        )
        max_steps = config.loop.max_steps or self._num_steps(num_skipped)
        dense, sparse = step.parameters()
        checked = _first_predictions(self.heldout, config.heldout_tokens)
        log = RunLog(self.output / "log.jsonl", tensorboard=files.tensorboard and self.processes.is_first)
        loop = Loop(
            model=bilm,
            batches=windows,
            step=step,
            optimizer=Optimizer(dense, sparse, config.optimizer, max_steps),
            config=config.loop,
            max_steps=max_steps,
            evaluate=(lambda: _evaluate(bilm, checked)) if checked else None,
            metric="perplexity",
            save_best=lambda: save(bilm, self.output / "best", overwrite=True),
            checkpoints=self.checkpoints,
            log=log,
            processes=self.processes,
            identity=self._identity(bilm, max_steps),
            report=report,
            place=lambda: sentences.position,
        )
        resumed = files.resume and loop.resume()
        if self.processes.is_first and not resumed:
            self._write_settings(bilm, max_steps)
            log.rewind(-1)
            log.write({"step": 0, "loss_kind": config.loss.kind, **({"note": self.note} if self.note else {})})
        if before is not None and not resumed and checked:
            loop.progress.best = _evaluate(bilm, checked)["perplexity"]
            save(bilm, self.output / "best", overwrite=True)
        fitted = loop.run()
        return self._finish(bilm, fitted, before or {})

    def _num_steps(self, num_skipped: int) -> int:
        total = int(self.corpus["num_predictions"]) * self.config.num_epochs - num_skipped
        per_step = self.config.batch_size * self.config.unroll_steps * self.config.loop.accumulate
        return max(1, -(-total // per_step))

    def _identity(self, bilm: BiLM, max_steps: int) -> dict[str, Any]:
        settings = self.config.model_dump(mode="json", exclude={"loop", "model"})
        flat = {
            f"{group}.{name}" if isinstance(value, dict) else group: inner
            for group, value in settings.items()
            for name, inner in (value.items() if isinstance(value, dict) else [("", value)])
        }
        flat |= {f"model.{name}": value for name, value in bilm.config.model_dump(mode="json").items()}
        names = json.dumps([file.name for file in self.train_files])
        own = {"loop.accumulate": self.config.loop.accumulate, "max_steps": max_steps, "train": names}
        return {name: json.dumps(value) for name, value in {**flat, **own}.items()}

    def _write_settings(self, bilm: BiLM, max_steps: int) -> None:
        versions = {"elmokit": __version__, "torch": torch.__version__, "numpy": np.__version__}
        content = {
            "config": self.config.model_dump(mode="json"),
            "model": bilm.config.model_dump(mode="json"),
            "num_parameters": bilm.num_parameters,
            "max_steps": max_steps,
            "num_processes": self.processes.size,
            "train": [str(path) for path in self.train_files],
            "heldout": [str(path) for path in self.files.heldout],
            "versions": {**versions, "python": platform.python_version()},
            "note": self.note,
        }
        write_text_atomic(self.output / "run.json", json.dumps(content, indent=1) + "\n")

    def _finish(self, bilm: BiLM, fitted: Fitted, before: Mapping[str, Any]) -> RunResult:
        path = self.output / "model"
        if self.processes.is_first:
            if self.heldout:
                bilm = load(self.output / "best")
            save(bilm, path, overwrite=True)
        figures = {}
        if self.heldout and self.processes.is_first:
            figures = evaluate_both(bilm.eval(), self.heldout)
        result = RunResult(
            path,
            fingerprint(bilm),
            fitted.progress.step,
            fitted.progress.count,
            fitted.seconds,
            fitted.reason,
            fitted.progress.best_step,
            figures,
            before,
        )
        if self.processes.is_first:
            write_text_atomic(self.output / "result.json", json.dumps(result.to_dict(), indent=1) + "\n")
        return result


def evaluate_both(bilm: BiLM, sentences: Sequence[str]) -> dict[str, Any]:
    """Perplexities on a text with the state carried and with it reset."""
    return {
        name: measure_perplexity(bilm, sentences, carry=carry).to_dict()
        for name, carry in (("carry", True), ("reset", False))
    }


def _evaluate(bilm: BiLM, sentences: Sequence[str]) -> dict[str, float]:
    bilm.eval()
    found = measure_perplexity(bilm, sentences)
    bilm.train()
    return {
        "perplexity": found.average,
        "forward": found.forward.perplexity,
        "backward": found.backward.perplexity,
        "oov_rate": found.oov_rate,
    }


def _first_predictions(sentences: Sequence[str], limit: int | None) -> Sequence[str]:
    if limit is None:
        return sentences
    total = 0
    for number, sentence in enumerate(sentences):
        total += sentence.count(" ") + 2
        if total >= limit:
            return sentences[: number + 1]
    return sentences


def write_vocabulary_atomic(vocabulary: Vocabulary, path: Path) -> None:
    """Write a vocabulary file in one step."""
    with atomic_path(path) as temporary:
        write_vocabulary(vocabulary, temporary)
