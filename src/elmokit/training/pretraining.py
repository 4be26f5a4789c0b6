"""Train a biLM from text, from random weights or from those of a model."""

from collections.abc import Callable

from elmokit.arguments import check_kind
from elmokit.errors import ConfigError
from elmokit.formats import load
from elmokit.formats.parts import empty_model
from elmokit.model.bilm import BiLM
from elmokit.progress import ProgressCallback
from elmokit.text.vocabulary import SPECIALS
from elmokit.training.config import PretrainConfig
from elmokit.training.loop import LogCallback
from elmokit.training.memory import check_settings
from elmokit.training.run import Run
from elmokit.training.run_files import RunFiles, RunResult

_INIT_WARMUP = 100


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
            vocabulary = run.text.vocabulary()
            shape = config.build_model(len(vocabulary)).model_copy(update={"tokenizer": run.text.tokenizer})
            run.check_memory(empty_model(shape, vocabulary, None))
            bilm = BiLM(shape, vocabulary=vocabulary, seed=config.seed)
            if config.loss.first_bias == "unigram":
                assert bilm.softmax is not None
                bilm.softmax.init_bias_from_counts(run.text.frequencies())
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
        if not any(word in bilm.vocabulary for word in run.text.vocabulary().tokens if word not in SPECIALS):
            raise ConfigError(
                f"no word of the training text is in the vocabulary of {files.init}: is it another language?"
            )
        run.check_memory(bilm)
        run.note = (
            f"weights from {files.init}, fresh optimizer, warm-up of {config.optimizer.warmup_steps} steps, "
            f"{files.skip_tokens:,} predictions passed over"
        )
        return run.train(bilm, report)
