"""Train a biLM from text: connect corpus, model and loss to the training loop, and manage the folder of the run.

The folder has `run.json` (resolved settings, files, versions), `corpus.json`, `vocab.txt` and `counts.txt` (counts of
the text), `log.jsonl`, `checkpoints/`, `best/` (the model of the best evaluation) and, when the run is finished,
`model/` and `result.json`; `rescued/` has the last good weights of a run whose loss became NaN or infinite.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from torch import Tensor

from elmokit.arguments import check_kind, check_path
from elmokit.config import TokenizerConfig
from elmokit.corpus.counting import build_vocabulary
from elmokit.corpus.mixing import file_weights
from elmokit.corpus.stream import SentenceStream
from elmokit.corpus.survey import survey_corpus
from elmokit.corpus.windows import WindowStream
from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.filesystem import atomic_path, write_text_atomic
from elmokit.formats import load, save
from elmokit.formats.parts import empty_model, fingerprint
from elmokit.model.bilm import BiLM
from elmokit.model.devices import check_device
from elmokit.progress import ProgressCallback
from elmokit.scoring.perplexity import Perplexity, measure_perplexity
from elmokit.text.files import find_files, refuse_pipes
from elmokit.text.tokenizers import check_training_text, name_tokenizer, text_tokenizer
from elmokit.text.vocabulary import BEGIN, END, SPECIALS, UNKNOWN, Vocabulary, read_vocabulary, write_vocabulary
from elmokit.model.engines.choose import Precision
from elmokit.training.average import WeightAverage
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import PretrainConfig, RunConfig
from elmokit.training.distributed import init_distributed, own_device, shutdown_distributed
from elmokit.training.heldout import evaluate_files, first_predictions, read_heldout, sample_evenly
from elmokit.training.log import RunLog
from elmokit.training.loop import Fitted, LogCallback, Loop
from elmokit.training.memory import check_model, check_settings
from elmokit.training.optim import Optimizer
from elmokit.training.run_folder import (
    FINISH,
    RECORD,
    RESULT,
    SURVEY,
    RunFolder,
    check_run_folder,
    order_of_run,
    tokenizer_of_run,
    versions,
)
from elmokit.training.step import LanguageModelStep
from elmokit.training.trial import choose_precision
from elmokit.wording import counted

_INIT_WARMUP = 100
CHANGEABLE = ("precision", "num_epochs", "loop.max_steps", "optimizer.decay_steps", "loss.num_negatives")
"""Settings that a resumed run may change; changes of other settings that affect the weights are refused."""


@dataclass(frozen=True)
class RunFiles:
    """What a run reads, where it writes, and how it starts."""

    train: Sequence[str]
    """Paths or globs of the training text."""
    heldout: Sequence[str]
    output: Path
    vocab: Path | None = None
    """A vocabulary to use; None: count one from the training text."""
    resume: bool = False
    """Resume the run in `output`, or begin it if there is none."""
    init: str | None = None
    """A model to take the weights and the vocabulary from."""
    skip_tokens: int = 0
    """Predictions of the training text to skip, rounded up to the end of a sentence."""
    threads: int | None = None
    device: str = "cpu"
    tensorboard: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", check_path("output", self.output))
        if self.vocab is not None:
            object.__setattr__(self, "vocab", check_path("vocab", self.vocab))


@dataclass(frozen=True)
class RunResult:
    """The results of a finished run."""

    model_path: Path
    fingerprint: str
    steps: int
    predictions: int
    seconds: float
    """Duration in seconds; a resumed run counts from the resume."""
    reason: str
    best_step: int
    heldout: Mapping[str, Any]
    """Perplexities on the held-out text, `carry` and `reset`; empty without held-out text."""
    before: Mapping[str, Any]
    """Perplexities before fine-tuning, in the same form."""
    heldout_by_file: Mapping[str, Mapping[str, float]]
    """Average perplexities of each held-out file, `carry` and `reset`, by file name."""

    def to_dict(self) -> dict[str, Any]:
        """The results as plain values for JSON."""
        return {**vars(self), "model_path": str(self.model_path)}


def pretrain(
    config: PretrainConfig,
    files: RunFiles,
    *,
    report: LogCallback | None = None,
    reading: ProgressCallback | None = None,
    notify: Callable[[str], None] | None = None,
) -> RunResult:
    """Train a model from a corpus, or resume a run.

    Args:
        config: settings of the run.
        files: files to read and the folder to write.
        report: receives every log entry.
        reading: receives the number of bytes of the corpus that were read before training, and the total.
        notify: receives messages for the user, such as the chosen precision.
    """
    check_kind("config", config, PretrainConfig)
    check_kind("files", files, RunFiles)
    if files.init is None:
        check_settings(config)
        with Run(config, files, reading, notify=notify) as run:
            vocabulary = run.vocabulary()
            shape = config.build_model(len(vocabulary)).model_copy(update={"tokenizer": run.tokenizer})
            run.check_memory(empty_model(shape, vocabulary, None))
            bilm = BiLM(shape, vocabulary=vocabulary, seed=config.seed)
            if config.loss.first_bias == "unigram":
                assert bilm.softmax is not None
                bilm.softmax.init_bias_from_counts(run.frequencies())
            return run.train(bilm, report)
    if files.vocab is not None:
        raise ConfigError("a model to start from (--init) brings its own vocabulary: leave --vocab out.")
    bilm = load(files.init)
    if bilm.vocabulary is None or not bilm.config.softmax:
        raise ConfigError(f"{files.init} has no softmax to train further: use elmokit finetune, which builds one.")
    if (config.loss.kind == "adaptive") != bool(bilm.config.softmax_cutoffs):
        wanted = "loss.kind must" if bilm.config.softmax_cutoffs else "loss.kind cannot"
        raise ConfigError(f"{wanted} be 'adaptive' for the softmax of {files.init}, but it is {config.loss.kind!r}.")
    if not config.optimizer.warmup_steps:  # a fresh optimizer must not start with full steps
        warm = config.optimizer.model_copy(update={"warmup_steps": _INIT_WARMUP})
        config = config.model_copy(update={"optimizer": warm})
    with Run(config, files, reading, model=files.init, trained=bilm.config.tokenizer, notify=notify) as run:
        if not any(word in bilm.vocabulary for word in run.vocabulary().tokens if word not in SPECIALS):
            raise ConfigError(
                f"no word of the training text is in the vocabulary of {files.init}: is it another language?"
            )
        run.check_memory(bilm)
        run.note = (
            f"weights from {files.init}, fresh optimizer, warm-up of {config.optimizer.warmup_steps} steps, "
            f"{files.skip_tokens:,} predictions passed over"
        )
        return run.train(bilm, report)


class Run:
    """A run and its folder: the counts of its text, how it resumes, what it writes.

    Use it as a context manager: it holds the lock of the folder. Under `torchrun` the main process has the lock.

    Args:
        config: settings of the run.
        files: files to read and the folder to write.
        reading: receives the number of bytes of the corpus that were read before training, and the total.
        model: name or path of the model whose training continues, if there is one.
        trained: tokenizer of that model's training text, if known.
        notify: receives messages for the user.
    """

    def __init__(
        self,
        config: RunConfig,
        files: RunFiles,
        reading: ProgressCallback | None = None,
        *,
        model: str | None = None,
        trained: TokenizerConfig | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        config = _keep_order(config, files)
        self.config, self.files, self.output = config, files, files.output
        self._notify = notify or (lambda line: None)
        self.note = ""
        self.processes = init_distributed(files.device)
        self.processes.own_rows(config.batch_size)
        self.device = own_device(files.device)
        check_device(self.device)
        self.checkpoints = Checkpoints(self.output / "checkpoints", keep=config.loop.keep_checkpoints)
        self.train_files = find_files(files.train)
        refuse_pipes(self.train_files)
        check_run_folder(
            self.output,
            resume=files.resume,
            models=[model],
            inputs=[*self.train_files, *find_files(files.heldout), *([files.vocab] if files.vocab else [])],
        )
        self.tokenizer = text_tokenizer(self.train_files, config.corpus.input)
        """Tokenizer of the training text; None if its files have different ones."""
        with warnings.catch_warnings():
            if not self.processes.is_first:
                warnings.simplefilter("ignore", ElmokitWarning)
            self._check_tokenizer(trained)
        if (self.output / RESULT).exists() and not self.checkpoints.find():
            raise ConfigError(
                f"{self.output} holds a finished run whose checkpoints are gone, so it cannot be resumed: use "
                f"{self.output / 'model'}, or give another --output."
            )
        self.heldout_files = read_heldout(find_files(files.heldout), input=config.corpus.input)
        self.heldout = [sentence for text in self.heldout_files.values() for sentence in text]
        if files.heldout and not self.heldout:
            raise InputError(f"the held-out text ({', '.join(files.heldout)}) has no sentence: give files with text.")
        self.processes.wait()  # until all have looked at the folder
        self._opened = ExitStack()
        with ExitStack() as opened:
            if self.processes.is_first:
                opened.enter_context(RunFolder(self.output, config.model_dump(mode="json")))
                self._survey(reading)
            self.processes.wait()
            self.corpus: dict[str, Any] = json.loads((self.output / SURVEY).read_text(encoding="utf-8"))
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def check_memory(self, bilm: BiLM) -> None:
        """Refuse a model that cannot be trained in the available memory; a GPU reports that itself."""
        if self.device == "cpu":
            check_model(bilm, bilm.config.vocab_size or 0, self.config, num_processes=self.processes.size)

    def vocabulary(self) -> Vocabulary:
        """The vocabulary of the run."""
        return read_vocabulary(self.output / "vocab.txt")

    def frequencies(self) -> Tensor:
        """How often each word of the vocabulary is predicted; each boundary is predicted by one direction only."""
        counts = [int(line) for line in (self.output / "counts.txt").read_text(encoding="utf-8").split()]
        return torch.tensor(counts, dtype=torch.float64)  # (V,)

    def _check_tokenizer(self, trained: TokenizerConfig | None) -> None:
        """Report text of several tokenizers, or of another tokenizer than the earlier text of the run or model."""
        check_training_text(trained, self.train_files, self.config.corpus.input)
        if self.tokenizer is None and self.train_files:
            warnings.warn(
                "the training text was tokenized in more than one way, so words may be cut differently from file to "
                "file: give text of one tokenizer, e.g. all of it raw.",
                ElmokitWarning,
                stacklevel=2,
            )
        before = tokenizer_of_run(self.output) if self.files.resume and self.checkpoints.find() else None
        now = self.tokenizer
        if before is not None and now is not None and before != now and before.name == now.name:
            raise ConfigError(
                f"the text of the run to resume was tokenized with {name_tokenizer(before)}, but now with "
                f"{name_tokenizer(now)}: resume it with the elmokit that began it, or start a new run in another "
                "folder."
            )

    def _survey(self, reading: ProgressCallback | None) -> None:
        """Count the training text, once per run, and store its vocabulary and size.

        A resumed run keeps its counts: if its text or its settings have changed, loading the checkpoint fails.
        """
        path, settings = self.output / SURVEY, self.config.corpus
        identity = [[str(file.resolve()), file.stat().st_size] for file in self.train_files]
        key = {
            "files": identity,
            "settings": settings.model_dump(mode="json"),
            "vocab": str(self.files.vocab or ""),
            "heldout": list(self.files.heldout),
            "tokenizer": self.tokenizer and self.tokenizer.model_dump(),
        }
        if path.exists() and (self.checkpoints.find() or json.loads(path.read_text(encoding="utf-8"))["key"] == key):
            return
        weights = file_weights(self.train_files, settings.weights or {})
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
        with atomic_path(self.output / "vocab.txt") as temporary:
            write_vocabulary(vocabulary, temporary)
        counts = {**found.counts, BEGIN: found.num_sentences // 2, END: found.num_sentences // 2}
        counts[UNKNOWN] = found.num_words - known
        lines = (f"{counts.get(word, 0)}\n" for word in vocabulary.tokens)
        write_text_atomic(self.output / "counts.txt", "".join(lines))
        size = {
            "num_words": found.num_words,
            "num_sentences": found.num_sentences,
            "num_predictions": found.num_predictions,
            "epoch_predictions": found.weighted_predictions(weights),
            "vocab_size": len(vocabulary),
            "oov_rate": 1 - known / found.num_words,
            "heldout_repeated": [found.num_repeated, found.num_compared],
            "by_file": [size._asdict() for size in found.by_file],
        }
        write_text_atomic(path, json.dumps({**size, "key": key}, indent=1) + "\n")

    def train(self, bilm: BiLM, report: LogCallback | None, before: Mapping[str, Any] | None = None) -> RunResult:
        """Run the loop over the corpus and write the model."""
        config, files = self.config, self.files
        bilm = bilm.to(self.device).train()
        assert bilm.vocabulary is not None
        step, reason = self._build_step(bilm)
        sentences = self._open_text()
        windows = WindowStream(
            sentences,
            bilm.vocabulary,
            bilm.indexer,
            num_rows=config.batch_size,
            num_steps=config.unroll_steps,
            rows=step.rows,
        )
        num_steps = config.loop.max_steps or self._num_steps()
        dense, sparse = step.parameters()
        checked = self._sample_heldout()
        log = RunLog(self.output / "log.jsonl", tensorboard=files.tensorboard and self.processes.is_first)
        trained = [parameter for _, parameter in (*dense, *sparse)]
        decay = config.optimizer.ema_decay
        loop = Loop(
            model=bilm,
            batches=windows,
            step=step,
            optimizer=Optimizer(dense, sparse, config.optimizer, num_steps),
            config=config.loop,
            num_steps=num_steps,
            evaluate=(lambda: _evaluate(bilm, checked)) if checked else None,
            metric="perplexity",
            save_best=lambda: save(bilm, self.output / "best", overwrite=True),
            checkpoints=self.checkpoints,
            log=log,
            processes=self.processes,
            identity=self._identity(bilm),
            changeable=CHANGEABLE,
            average=WeightAverage(trained, decay) if decay else None,
            finish_requested=(self.output / FINISH).exists,
            report=report,
            place=lambda: sentences.position,
            rescue=lambda: self._rescue(bilm),
        )
        try:
            arithmetic = {"arithmetic": step.arithmetic.label, **({"why": reason} if reason else {})}
            if files.resume and loop.resume():
                self._continue(loop, arithmetic)
            else:
                self._begin(bilm, loop, sentences, arithmetic, measure=before is not None)
            result = self._finish(bilm, loop.run(), before or {})
            self.processes.wait()  # a process that ends early may shut down what the others still use
            return result
        finally:
            log.close()
            shutdown_distributed()

    def _build_step(self, bilm: BiLM) -> tuple[LanguageModelStep, str]:
        """The training step, and the reason for its precision if that was chosen automatically."""
        config = self.config

        def build(precision: Precision) -> LanguageModelStep:
            return LanguageModelStep(
                bilm,
                config.loss,
                num_rows=config.batch_size,
                num_steps=config.unroll_steps,
                dropout=config.dropout,
                seed=config.seed,
                processes=self.processes,
                precision=precision,
                threads=self.files.threads,
            )

        if config.precision != "auto":
            return build(config.precision), ""
        choice = choose_precision(build, self.vocabulary(), self.frequencies(), processes=self.processes)
        self._notify(f"precision {choice.precision}: {choice.reason}")
        return build(choice.precision), choice.reason

    def _continue(self, loop: Loop, arithmetic: Mapping[str, str]) -> None:
        """Report and record what has changed in a resumed run: its settings, and how this machine computes."""
        if loop.log is None or not self.processes.is_first:
            return
        step = loop.progress.step
        before = [entry["arithmetic"] for entry in loop.log.read() if "arithmetic" in entry][-1:]
        if before != [arithmetic["arithmetic"]]:
            loop.log.write({"step": step, **arithmetic})
            was = f", before: {before[0]}" if before else ""
            self._notify(f"from step {step} on the run computes in {arithmetic['arithmetic']}{was}")
        for name, (old, new) in loop.changes.items():
            self._notify(f"from step {step} on {name} = {new}, before: {old}")
        if loop.changes:
            record = json.loads((self.output / RECORD).read_text(encoding="utf-8"))
            record |= {"config": self.config.model_dump(mode="json"), "num_steps": loop.progress.num_steps}
            write_text_atomic(self.output / RECORD, json.dumps(record, indent=1) + "\n")
        if loop.progress.reason is None:  # a run that had come to its end has more steps to take
            (self.output / RESULT).unlink(missing_ok=True)

    def _sample_heldout(self) -> Sequence[str]:
        """The held-out text for evaluations during training; runs that read file by file keep their old sample."""
        limit = self.config.heldout_tokens
        if self.config.corpus.order == "files":
            return first_predictions(self.heldout, limit)
        return sample_evenly(self.heldout_files, limit)

    def _open_text(self) -> SentenceStream:
        config, sizes = self.config, self.corpus.get("by_file", [])
        return SentenceStream(
            self.train_files,
            input=config.corpus.input,
            seed=config.seed,
            buffer_sentences=config.corpus.buffer_sentences,
            passage_sentences=config.corpus.passage_sentences,
            num_epochs=None if config.loop.max_steps or config.optimizer.schedule == "wsd" else config.num_epochs,
            order=config.corpus.order,
            weights=config.corpus.weights,
            lengths=[size["characters"] for size in sizes] if len(sizes) == len(self.train_files) else None,
        )

    def _begin(
        self, bilm: BiLM, loop: Loop, sentences: SentenceStream, arithmetic: Mapping[str, str], *, measure: bool
    ) -> None:
        """Do what happens once per run: find the start in the text, write the settings, open the log."""
        self._skip(sentences)
        self._warn_of_long_decay(loop.progress.num_steps)
        if self.processes.is_first and loop.log is not None:
            self._write_settings(bilm, loop.progress.num_steps)
            loop.log.rewind(0)
            note = {"note": self.note} if self.note else {}
            loop.log.write({"step": 0, "loss_kind": self.config.loss.kind, **arithmetic, **note})
        if measure:
            loop.measure()

    def _warn_of_long_decay(self, num_steps: int) -> None:
        optimizer = self.config.optimizer
        if optimizer.schedule == "wsd" and optimizer.decay_steps > num_steps:
            warnings.warn(
                f"the decay (optimizer.decay_steps = {optimizer.decay_steps:,}) is longer than the run of "
                f"{counted(num_steps, 'step')}, so that the run takes {optimizer.decay_steps:,} steps and decays from "
                "the first one: lower optimizer.decay_steps if that is not wanted.",
                ElmokitWarning,
                stacklevel=2,
            )

    def _skip(self, sentences: SentenceStream) -> None:
        num_skipped = 0
        while num_skipped < self.files.skip_tokens:
            sentence = next(sentences, None)
            if sentence is None:
                raise ConfigError(
                    f"--skip-tokens {self.files.skip_tokens:,} passes over all {num_skipped:,} predictions of the "
                    "training text and its epochs: give less."
                )
            num_skipped += len(sentence) + 1

    def _num_steps(self) -> int:
        """Steps for all epochs if all rows were equally long; the longest rows may take a few more."""
        in_epoch = int(self.corpus.get("epoch_predictions", self.corpus["num_predictions"]))
        total = in_epoch * self.config.num_epochs - self.files.skip_tokens
        per_step = self.config.batch_size * self.config.unroll_steps * self.config.loop.accumulate
        return max(1, -(-total // per_step))

    def _identity(self, bilm: BiLM) -> dict[str, str]:
        """All settings that affect the weights, by dotted name."""
        own = {
            "loop": {"accumulate": self.config.loop.accumulate, "max_steps": self.config.loop.max_steps},
            "skip_tokens": self.files.skip_tokens,
            "train": [file.name for file in self.train_files],
            "vocab": self.files.vocab and self.files.vocab.name,
            "model": bilm.config.model_dump(mode="json", exclude={"tokenizer"}),
        }
        return _flatten({**self.config.model_dump(mode="json"), **own})

    def _rescue(self, bilm: BiLM) -> str:
        """Write the last checkpoint as a model from which a run with other settings can start."""
        content = self.checkpoints.load_last()
        if content is None:
            return "there is no checkpoint yet: begin anew with a lower optimizer.learning_rate or clip_norm."
        path = self.output / "rescued"
        if self.processes.is_first:
            bilm.load_state_dict(content["model"])
            save(bilm, path, overwrite=True)
        skip = self.files.skip_tokens + content["progress"]["count"]
        is_first_training = isinstance(self.config, PretrainConfig)
        how = f"--init {path} --skip-tokens {skip}" if is_first_training else f"elmokit finetune {path}"
        return (
            f"the weights of step {content['step']} are in {path}: start from them in another folder with {how} and a "
            "lower optimizer.learning_rate or clip_norm."
        )

    def _write_settings(self, bilm: BiLM, num_steps: int) -> None:
        content = {
            "config": self.config.model_dump(mode="json"),
            "model": bilm.config.model_dump(mode="json"),
            "num_parameters": bilm.num_parameters,
            "num_steps": num_steps,
            "num_processes": self.processes.size,
            "train": [str(path) for path in self.train_files],
            "heldout": [str(path) for path in self.files.heldout],
            "versions": versions(),
            "note": self.note,
        }
        write_text_atomic(self.output / RECORD, json.dumps(content, indent=1) + "\n")

    def _finish(self, bilm: BiLM, fitted: Fitted, before: Mapping[str, Any]) -> RunResult:
        path = self.output / "model"
        if self.processes.is_first:
            if self.heldout:
                tokenizer = bilm.config.tokenizer
                bilm = load(self.output / "best").to(self.device)
                bilm.config = bilm.config.model_copy(update={"tokenizer": tokenizer})  # older models do not name it
            save(bilm, path, overwrite=True)
        figures: Mapping[str, Any] = {}
        by_file: Mapping[str, Mapping[str, float]] = {}
        if self.heldout and self.processes.is_first:
            figures, by_file = evaluate_files(bilm.eval(), self.heldout_files)
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
            by_file,
        )
        if self.processes.is_first:
            write_text_atomic(self.output / RESULT, json.dumps(result.to_dict(), indent=1) + "\n")
        return result


def evaluate_both(
    bilm: BiLM, sentences: Sequence[str], *, threads: int | None = None, report: ProgressCallback | None = None
) -> dict[str, Any]:
    """Perplexities on a text with the state carried and with it reset.

    Args:
        bilm: a model with a softmax.
        sentences: the text, one sentence per item, as tokens separated by spaces.
        threads: cores to use on a CPU; None uses all that the process may use.
        report: receives the number of predictions made and the total, over both passes.
    """

    def measure(number: int) -> Perplexity:
        def tell(done: int, total: int) -> None:
            if report is not None:
                report(number * total + done, 2 * total)

        return measure_perplexity(bilm, sentences, carry=number == 0, threads=threads, report=tell)

    return {name: measure(number).to_dict() for number, name in enumerate(("carry", "reset"))}


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


def _keep_order(config: RunConfig, files: RunFiles) -> RunConfig:
    """The settings with the reading order of the run to resume, unless they set one."""
    before = order_of_run(files.output) if files.resume else None
    if before is None or "order" in config.corpus.model_fields_set:
        return config
    return config.model_copy(update={"corpus": config.corpus.model_copy(update={"order": before})})


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in settings.items():
        inner = _flatten(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: json.dumps(value)}
        found |= inner
    return found
