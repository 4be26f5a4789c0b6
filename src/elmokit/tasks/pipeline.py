"""A task model with everything that it needs to predict: its words, its settings and its biLM."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmokit.arguments import check_integer
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.records import Vectors
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM
from elmokit.model.scalar_mix import ScalarMix
from elmokit.progress import ProgressCallback
from elmokit.tasks.base import Labels, Scored, Task, TaskModel
from elmokit.tasks.batches import LayerReader, TokenBatch, TokenLookup, in_order
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.records import Id, Record, TaskText, parse_input
from elmokit.tasks.sets import warn_of_other_tokens
from elmokit.tasks.words import WordTable
from elmokit.text.tokenizers import check_raw_text

BILM_PREFIX = "inputs.elmo.bilm."
"""Prefix of the names of a biLM's parameters in a task model."""
WINDOW_INPUTS, WINDOW_TOKENS = 1024, 16_384
"""How many inputs are read ahead at most, and after how many tokens no more are."""


@dataclass(frozen=True)
class BilmUse:
    """The biLM of a task model."""

    name: str
    """As given to `load`."""
    fingerprint: str
    """Fingerprint of the model that training started with."""


@dataclass(frozen=True)
class _Input:
    index: int
    id: Id
    texts: tuple[TaskText, ...]


class TaskPipeline:
    """A task model that predicts; `elmokit.load_task` loads one.

    Predicting changes nothing in the object and writes nothing to disk, so threads can share one.

    Args:
        task: the task of the model.
        config: the settings it was trained with.
        labels: what it learned about its labels.
        table: the words with their own vectors.
        vectors: initial values of the word vectors (W, E).
        bilm: the model for ELMo, or an embedder of it, whose precision is then used; None without ELMo.
        use: name and fingerprint of the biLM.
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
        bilm: BiLM | Embedder | None,
        use: BilmUse | None,
        threads: int | None = None,
    ) -> None:
        self.task, self.config, self.labels, self.table, self.use = task, config, labels, table, use
        settings = self.settings = task.read_settings(config.model)
        if isinstance(bilm, Embedder) and bilm.state != "reset":
            raise ConfigError(f"the embedder has state {bilm.state!r}: task models need one with state 'reset'.")
        own = bilm.bilm if isinstance(bilm, Embedder) else bilm
        self._tokenizer, self._is_tokenizer_checked = None if own is None else own.config.tokenizer, False
        is_tuned = bool(config.elmo.tuned) and own is not None
        self.embedder: Embedder | None = None
        """The frozen biLM; None if there is none, or if it was trained with the task."""
        if own is not None and not is_tuned:
            self.embedder = (
                bilm if isinstance(bilm, Embedder) else Embedder(own, threads=threads, precision=config.elmo.precision)
            )
        shape = None if own is None else (own.config.num_layers, own.config.output_dim)
        self._lookup = TokenLookup(
            table,
            layers_shape=None if is_tuned else shape,
            indexer=own.indexer if is_tuned and own is not None else None,
        )
        elmo = None
        if shape is not None:
            elmo = ElmoInputs(config.elmo, num_layers=shape[0], width=shape[1], bilm=own if is_tuned else None)
        filters = task.char_cnn_shape(settings)
        char_cnn = filters and CharCnn(char_dim=filters[0], num_filters=filters[1], width=filters[2])
        inputs = TokenInputs(vectors, tune_words=config.words.tuned, char_cnn=char_cnn or None, elmo=elmo)
        self.model: TaskModel = task.build(settings, inputs, labels)

    # --- For programs ------------------------------------------------------------------------------------------------

    def predict(self, texts: Iterable[Any], *, batch_size: int | None = None, num_best: int = 1) -> list[Record]:
        """One record per input, in order.

        Args:
            texts: raw texts (str), token lists, lists of sentences (each a list of tokens), or dicts with the task's
                fields and, if you like, an "id" (str or int). For a task of several fields, such as inference, a tuple
                has one text per field.
            batch_size: inputs that the task model computes at a time; None is that of its training.
            num_best: number of candidates per question; only question answering has several.

        Raises:
            InputError: if an input is something else; the message gives its number, from 0.
        """
        return list(self.predict_stream(texts, batch_size=batch_size, num_best=num_best))

    def predict_stream(
        self, texts: Iterable[Any], *, batch_size: int | None = None, num_best: int = 1, window: int = WINDOW_INPUTS
    ) -> Iterator[Record]:
        """Like `predict`, for endless input: records come in the order of the inputs, and memory stays constant.

        At most `window` inputs are read ahead.
        """
        is_table = hasattr(texts, "iterrows")  # a pandas table iterates over the names of its columns
        if isinstance(texts, str | Mapping) or is_table or not isinstance(texts, Iterable):
            given = repr(texts)[:40]
            raise InputError(f"texts is {given} ({type(texts).__name__}): give a list of inputs, e.g. [text].")
        check_integer("num_best", num_best, at_least=1)
        check_integer("window", window, at_least=1)
        if batch_size is not None:
            check_integer("batch_size", batch_size, at_least=1)
        if num_best > 1 and not self.task.has_candidates:
            raise ConfigError(
                f"num_best is {num_best}, but {self.task.name} predicts one answer per input: leave it out."
            )
        return self._predict_windows(texts, batch_size, num_best, window)

    def _predict_windows(
        self, texts: Iterable[Any], batch_size: int | None, num_best: int, window: int
    ) -> Iterator[Record]:
        inputs: list[_Input] = []
        num_tokens = 0
        for index, item in enumerate(texts):
            inputs.append(self._parse(index, item))
            num_tokens += sum(len(text.tokens) for text in inputs[-1].texts)
            if len(inputs) >= window or num_tokens >= WINDOW_TOKENS:
                yield from self._predict_inputs(inputs, batch_size, num_best)
                inputs, num_tokens = [], 0
        yield from self._predict_inputs(inputs, batch_size, num_best)

    def _parse(self, index: int, item: Any) -> _Input:
        task = self.task
        id, texts, is_raw = parse_input(item, task.fields, f"text {index}", split_sentences=task.splits_sentences)
        if is_raw:
            self.check_tokenizer()
        return _Input(index, id, texts)

    def _predict_inputs(self, inputs: Sequence[_Input], batch_size: int | None, num_best: int) -> Iterator[Record]:
        """The records of a window of inputs."""
        task = self.task
        owned = [(number, example) for number, one in enumerate(inputs) for example in task.to_examples(one.texts)]
        read = self._embed([example for _, example in owned])

        def score(pairs: Sequence[tuple[int, Any]]) -> list[Scored]:
            found: dict[int, Scored] = {}
            examples = [example for _, example in pairs]
            for numbers in in_order(examples, task.size, batch_size or self.config.batch_size):
                batch = self.collate([examples[number] for number in numbers], read)
                found.update(zip(numbers, self.model.predict_scored(*batch, num_best=num_best), strict=True))
            return [found[number] for number in range(len(examples))]

        with torch.inference_mode():
            first = score(owned)
            pairs = zip(owned, first, strict=True)
            later = [(pair[0], more) for pair, (found, _) in pairs for more in task.further_examples(pair[1], found)]
            second = score(later)
        results: list[list[tuple[Any, Scored]]] = [[] for _ in inputs]
        for (number, example), result in zip([*owned, *later], [*first, *second], strict=True):
            results[number].append((example, result))
        for one, own in zip(inputs, results, strict=True):
            yield task.to_record(one.index, one.id, one.texts, own, self.settings)

    def check_tokenizer(self) -> None:
        """Warn once if the biLM or the task model was trained with another tokenizer than the one used here."""
        if not self._is_tokenizer_checked:
            check_raw_text(self._tokenizer, accepts_tokens=False)
            if not self.task.reads_raw_text(self.settings):
                warn_of_other_tokens(self.table.words)
            self._is_tokenizer_checked = True

    # --- For training and evaluation ---------------------------------------------------------------------------------

    def collate(self, examples: Sequence[Any], read: LayerReader | None = None) -> tuple[list[TokenBatch], Any]:
        """The batch of examples; `read` returns the layers of a sentence, if there is a frozen biLM."""
        texts = [self._lookup.batch(each, read) for each in zip(*map(self.task.texts, examples), strict=True)]
        return texts, self.task.collate(examples, self.labels, texts)

    def predict_examples(
        self,
        examples: Sequence[Any],
        *,
        read: LayerReader | None = None,
        batch_size: int | None = None,
        report: ProgressCallback | None = None,
    ) -> list[Any]:
        """One prediction without scores per example of the task's files, in order.

        Args:
            examples: what `Task.read` returns.
            read: returns the layers of a sentence, such as `LayerCache.read`; None computes them in memory.
            batch_size: examples per batch; None is that of training.
            report: receives the number of examples done and the total.
        """
        found: dict[int, Any] = {}
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            for numbers in in_order(examples, self.task.size, batch_size or self.config.batch_size):
                batch = [examples[number] for number in numbers]
                predictions = self.model.predict(*self.collate(batch, read or self._embed(batch)))
                found.update(zip(numbers, predictions, strict=True))
                if report is not None:
                    report(len(found), len(examples))
        self.model.train(was_training)
        return [found[number] for number in range(len(examples))]

    def _embed(self, examples: Sequence[Any]) -> LayerReader | None:
        """A reader of the layers of the sentences of examples, in memory; None without a frozen biLM."""
        if self.embedder is None:
            return None
        sentences = list(dict.fromkeys(self.task.sentences(examples)))
        stream = self.embedder.embed_stream(sentences, dtype="float16")  # as they are in a cache
        layers: dict[tuple[str, ...], Vectors] = dict(zip(sentences, stream, strict=True))
        return lambda tokens: layers[tuple(tokens)]

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
        """Write the folder of the model atomically; an existing task model is replaced, nothing else is."""
        from elmokit.tasks.saved import write_task  # which makes pipelines of folders

        write_task(self, path)
