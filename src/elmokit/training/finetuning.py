"""Adapt a model to a domain: continue training on other text, with its vocabulary kept, extended or newly counted."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from elmokit.arguments import check_kind
from elmokit.errors import ConfigError
from elmokit.formats import load
from elmokit.model.bilm import BiLM
from elmokit.model.char_encoder import TokenEncoder
from elmokit.progress import ProgressCallback
from elmokit.scoring.perplexity import evaluate_both
from elmokit.text.characters import Indexer
from elmokit.text.tokens import check_tokens
from elmokit.text.vocabulary import Vocabulary
from elmokit.training.config import FinetuneConfig, LossConfig
from elmokit.training.loop import LogCallback
from elmokit.training.run import Run
from elmokit.training.run_files import RunFiles, RunResult
from elmokit.wording import counted


def finetune(
    model: str,
    config: FinetuneConfig,
    files: RunFiles,
    *,
    extend_vocab: bool = False,
    report: LogCallback | None = None,
    reading: ProgressCallback | None = None,
    notify: Callable[[str], None] | None = None,
) -> RunResult:
    """Continue training a model on the text of a domain, and stop when the held-out perplexity gets worse.

    The result is the best model of all evaluations, including the one before training.

    Args:
        model: anything that `elmokit.load` reads. A model without a softmax gets a new one over the words of the text.
        config: settings of the run.
        files: files to read and the folder to write.
        extend_vocab: add the words of the text that the model's vocabulary lacks.
        report: receives every log entry.
        reading: receives the number of bytes of the corpus that were read before training, and the total.
        notify: receives messages for the user, such as the chosen precision.
    """
    check_kind("config", config, FinetuneConfig)
    check_kind("files", files, RunFiles)
    bilm = load(model)
    has_words = bilm.config.softmax or bilm.config.input.kind == "tokens"
    if files.vocab is not None and has_words and not extend_vocab:
        raise ConfigError(f"{model} has a vocabulary: leave --vocab out, or add its words with --extend-vocab.")
    _check_freeze(config.freeze)
    with Run(config, files, reading, model=model, trained=bilm.config.tokenizer, notify=notify) as run:
        return _train(run, bilm, model, config, extend_vocab=extend_vocab, report=report)


def _train(
    run: Run, bilm: BiLM, model: str, config: FinetuneConfig, *, extend_vocab: bool, report: LogCallback | None
) -> RunResult:
    """Adapt the model's vocabulary to the run, then train it."""
    if not bilm.config.softmax:
        vocabulary = bilm.vocabulary if bilm.config.input.kind == "tokens" else run.text.vocabulary()
        assert vocabulary is not None
        bilm = add_softmax(bilm, vocabulary, seed=config.seed)
        run.note = f"new softmax over {counted(len(vocabulary), 'word')}; "
    if extend_vocab:
        before = len(bilm.vocabulary or ())
        bilm = extend_vocabulary(bilm, run.text.vocabulary().tokens)
        run.note += f"vocabulary extended by {counted(len(bilm.vocabulary or ()) - before, 'word')}; "
    run.note += f"weights from {model}"
    _check_loss(bilm, config.loss.kind)
    if config.loss.kind == "sampled" and config.loss.num_negatives > len(bilm.vocabulary or ()):
        run.config = run.config.model_copy(update={"loss": LossConfig(kind="full")})
        run.note += "; full softmax, because the vocabulary has fewer words than loss.num_negatives"
    _freeze(bilm, config.freeze)
    run.check_memory(bilm)
    first = evaluate_both(bilm, run.text.heldout) if run.text.heldout and run.processes.is_first else {}
    return run.train(bilm, report, before=first)


def _check_loss(bilm: BiLM, kind: str) -> None:
    """Refuse a loss that does not fit the model's softmax."""
    if bilm.config.softmax_cutoffs and kind != "adaptive":
        raise ConfigError(f"this model has an adaptive softmax, which loss.kind {kind!r} cannot train: set 'adaptive'.")
    if not bilm.config.softmax_cutoffs and kind == "adaptive":
        raise ConfigError("loss.kind 'adaptive' needs a model with an adaptive softmax: set 'full' or 'sampled'.")


def _check_freeze(parts: Sequence[str]) -> None:
    """Refuse to freeze all parts, before the text is read."""
    if {"encoder", "lstm", "softmax"} <= set(parts):
        raise ConfigError(f"freeze ({', '.join(parts)}) leaves nothing to train: leave a part out.")


def _freeze(bilm: BiLM, parts: Sequence[str]) -> None:
    """Exclude parts from training; the table that a tied softmax shares with the encoder belongs to both."""
    modules: dict[str, tuple[nn.Module | None, ...]] = {
        "encoder": (bilm.encoder,),
        "lstm": (bilm.forward_lstm, bilm.backward_lstm),
        "softmax": (bilm.softmax, bilm.encoder if bilm.config.tied_softmax else None),
    }
    for part in parts:
        for module in modules[part]:
            if module is not None:
                module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in bilm.parameters()):
        raise ConfigError(f"freeze ({', '.join(parts)}) leaves nothing to train: leave a part out.")


def add_softmax(bilm: BiLM, vocabulary: Vocabulary, *, seed: int = 0) -> BiLM:
    """The same model with a new, untrained softmax over a vocabulary; a model over words must keep its vocabulary."""
    if bilm.softmax is not None:
        raise ConfigError("this model has a softmax already: extend its vocabulary instead.")
    if bilm.config.input.kind == "tokens" and vocabulary != bilm.vocabulary:
        raise ConfigError("a model over words predicts the words that it reads: give its own vocabulary.")
    config = bilm.config.model_copy(update={"softmax": True, "vocab_size": len(vocabulary)})
    return _rebuild(bilm, BiLM(config, vocabulary=vocabulary, indexer=_own_indexer(bilm), seed=seed))


def extend_vocabulary(bilm: BiLM, words: Sequence[str]) -> BiLM:
    """The same model with more words, which at first share the probability of `<UNK>` equally.

    Known words keep their rows; new ones follow in the given order, with a copy of the row of `<UNK>`. The bias of
    `<UNK>` and of the new words is the old bias of `<UNK>` minus the logarithm of their number, so the predictions of
    all other words do not change.
    """
    vocabulary = bilm.vocabulary
    if bilm.softmax is None or vocabulary is None:
        raise ConfigError("this model has no softmax whose vocabulary could be extended: add one first.")
    if bilm.softmax.clusters:
        raise ConfigError("an adaptive softmax cannot be extended: its clusters are cut by frequency.")
    new = [word for word in dict.fromkeys(check_tokens(words, "words")) if word not in vocabulary]
    if not new:
        return bilm
    extended = Vocabulary([*vocabulary.tokens, *new])
    config = bilm.config.model_copy(update={"vocab_size": len(extended)})
    larger = _rebuild(bilm, BiLM(config, vocabulary=extended, indexer=_own_indexer(bilm)))
    assert larger.softmax is not None
    known, unknown = len(vocabulary), vocabulary.unknown_id
    with torch.no_grad():
        for matrix in (larger.softmax.weight, larger.token_table):
            if matrix is not None:
                matrix[known:] = matrix[unknown]
        larger.softmax.bias[unknown] -= math.log(len(new) + 1)
        larger.softmax.bias[known:] = larger.softmax.bias[unknown]
    return larger


def _own_indexer(bilm: BiLM) -> Indexer | None:
    """The indexer, unless it depends on the vocabulary and must be rebuilt."""
    return None if isinstance(bilm.encoder, TokenEncoder) else bilm.indexer


def _rebuild(old: BiLM, new: BiLM) -> BiLM:
    """Copy weights into a model whose tensors have the same sizes or more rows."""
    tensors = new.state_dict()
    for name, tensor in old.state_dict().items():
        tensors[name][: len(tensor)] = tensor
    return new.eval()
