"""A run of pretraining or fine-tuning: connects text, model and loss to the training loop, and manages its folder.

The folder has `run.json` (resolved settings, files, versions), `corpus.json`, `vocab.txt` and `counts.txt` (counts of
the text), `log.jsonl`, `checkpoints/`, `best/` (the model of the best evaluation) and, when the run is finished,
`model/` and `result.json`; `rescued/` has the last good weights of a run whose loss became NaN or infinite.
"""

import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from elmokit.config import TokenizerConfig
from elmokit.corpus.stream import SentenceStream
from elmokit.corpus.windows import WindowStream
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.filesystem import write_text_atomic
from elmokit.formats import load, save
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.model.devices import check_device
from elmokit.model.engines.choose import Precision
from elmokit.progress import ProgressCallback
from elmokit.training.average import WeightAverage
from elmokit.training.checkpoint import Checkpoints
from elmokit.training.config import PretrainConfig, RunConfig
from elmokit.training.distributed import init_distributed, own_device, shutdown_distributed
from elmokit.training.heldout import evaluate_files, evaluate_sample
from elmokit.training.log import RunLog
from elmokit.training.loop import Fitted, LogCallback, Loop
from elmokit.training.memory import check_model
from elmokit.training.optim import Optimizer
from elmokit.training.run_files import RunFiles, RunResult
from elmokit.training.run_folder import FINISH, RECORD, RESULT, RunFolder, check_run_folder, order_of_run, versions
from elmokit.training.run_text import RunText
from elmokit.training.step import LanguageModelStep
from elmokit.training.trial import choose_precision
from elmokit.wording import counted

CHANGEABLE = ("precision", "num_epochs", "loop.max_steps", "optimizer.decay_steps", "loss.num_negatives")
"""Settings that a resumed run may change; changes of other settings that affect the weights are refused."""


class Run:
    """A run and its folder: how it begins or resumes, and what it writes.

    Use it as a context manager: it holds the lock of the folder. Under `torchrun` the main process has the lock.

    Args:
        reading: receives the number of bytes of the corpus that were read before training, and the total.
        model: name or path of the model whose training continues, if there is one.
        trained: tokenizer of that model's training text, if known.
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
        self.text = RunText(config, files)
        inputs = [*self.text.train_files, *self.text.heldout_paths, *([files.vocab] if files.vocab else [])]
        check_run_folder(self.output, resume=files.resume, models=[model], inputs=inputs)
        has_checkpoints = bool(self.checkpoints.find())
        with warnings.catch_warnings():
            if not self.processes.is_first:
                warnings.simplefilter("ignore", ElmokitWarning)
            self.text.check_tokenizer(trained, is_resumed=files.resume and has_checkpoints)
        if (self.output / RESULT).exists() and not has_checkpoints:
            raise ConfigError(
                f"{self.output} holds a finished run whose checkpoints are gone, so it cannot be resumed: use "
                f"{self.output / 'model'}, or give another --output."
            )
        self.text.read_heldout()
        self.processes.wait()  # until all have looked at the folder
        self._opened = ExitStack()
        with ExitStack() as opened:
            if self.processes.is_first:
                opened.enter_context(RunFolder(self.output, config.model_dump(mode="json")))
                self.text.survey(reading, has_checkpoints=has_checkpoints)
            self.processes.wait()
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: Any) -> None:
        self._opened.__exit__(*details)

    def check_memory(self, bilm: BiLM) -> None:
        """Refuse a model that cannot be trained in the available memory; a GPU reports that itself."""
        if self.device == "cpu":
            check_model(bilm, bilm.config.vocab_size or 0, self.config, num_processes=self.processes.size)

    def train(self, bilm: BiLM, report: LogCallback | None, before: Mapping[str, Any] | None = None) -> RunResult:
        """Run the loop over the corpus and write the model."""
        config, files = self.config, self.files
        bilm = bilm.to(self.device).train()
        assert bilm.vocabulary is not None
        step, reason = self._build_step(bilm)
        sentences = self.text.open()
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
        checked = self.text.sample_heldout()
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
            evaluate=(lambda: evaluate_sample(bilm, checked)) if checked else None,
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
        choice = choose_precision(build, self.text.vocabulary(), self.text.frequencies(), processes=self.processes)
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

    def _begin(
        self, bilm: BiLM, loop: Loop, sentences: SentenceStream, arithmetic: Mapping[str, str], *, measure: bool
    ) -> None:
        """Do what happens once per run: find the start in the text, write the settings, open the log."""
        self.text.skip(sentences)
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

    def _num_steps(self) -> int:
        """Steps for all epochs if all rows were equally long; the longest rows may take a few more."""
        survey = self.text.read_survey()
        in_epoch = int(survey.get("epoch_predictions", survey["num_predictions"]))
        total = in_epoch * self.config.num_epochs - self.files.skip_tokens
        per_step = self.config.batch_size * self.config.unroll_steps * self.config.loop.accumulate
        return max(1, -(-total // per_step))

    def _identity(self, bilm: BiLM) -> dict[str, str]:
        """All settings that affect the weights, by dotted name."""
        own = {
            "loop": {"accumulate": self.config.loop.accumulate, "max_steps": self.config.loop.max_steps},
            "skip_tokens": self.files.skip_tokens,
            "train": [file.name for file in self.text.train_files],
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
            "train": [str(path) for path in self.text.train_files],
            "heldout": [str(path) for path in self.files.heldout],
            "versions": versions(),
            "note": self.note,
        }
        write_text_atomic(self.output / RECORD, json.dumps(content, indent=1) + "\n")

    def _finish(self, bilm: BiLM, fitted: Fitted, before: Mapping[str, Any]) -> RunResult:
        path = self.output / "model"
        if self.processes.is_first:
            if self.text.heldout:
                tokenizer = bilm.config.tokenizer
                bilm = load(self.output / "best").to(self.device)
                bilm.config = bilm.config.model_copy(update={"tokenizer": tokenizer})  # older models do not name it
            save(bilm, path, overwrite=True)
        figures: Mapping[str, Any] = {}
        by_file: Mapping[str, Mapping[str, float]] = {}
        if self.text.heldout and self.processes.is_first:
            figures, by_file = evaluate_files(bilm.eval(), self.text.heldout_files)
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
