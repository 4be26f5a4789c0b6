"""The embedder: load a model once, then turn any amount of text into vectors.

Notation: L layers, T tokens of a text, D = 2P width of a vector.
"""

import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.arguments import check_choice, check_flag, check_integer, is_path, shown
from elmokit.cores import usable_cores
from elmokit.embedding.encoding import Encoding, progress_over
from elmokit.embedding.finite import to_finite
from elmokit.embedding.pooling import Floats, Layers, Selection, parse_selection
from elmokit.embedding.sentence_runner import SentenceRunner
from elmokit.embedding.windows import cut_windows
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.formats import load
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.model.devices import check_device
from elmokit.model.engines.choose import resolve_precision
from elmokit.text.tokenize import Token, tokenize
from elmokit.text.tokenizers import check_raw_text
from elmokit.text.tokens import check_texts, check_tokens
from elmokit.wording import counted

State = Literal["reset", "carry", "warm"]
STATES: tuple[State, ...] = ("reset", "carry", "warm")
CARRY_ROWS = 32
"""Default number of rows per batch with state "carry"."""
TextOrTokens = str | Sequence[str]
"""A str is raw text; a list of str is the tokens of one sentence."""


class Embedded(NamedTuple):
    """A text with its vectors."""

    vectors: Any
    """(L, T, D) for all layers, (T, D) for one or a mix; pooling removes T."""
    tokens: tuple[str, ...]
    offsets: NDArray[np.int64] | None
    """(T, 2) character offsets of the tokens in the text; None if the input was a token list."""


@dataclass(frozen=True)
class Output:
    """The form of the returned vectors."""

    selection: Selection
    dtype: Any = np.float32
    as_torch: bool = False


class Embedder:
    """Computes the vectors of texts with one model. The same text gets the same vectors regardless of the batch.

    With the native library, float32 vectors are the same bits alone or in any batch, with any number of threads and on
    every x86-64 processor with AVX2 and every AArch64 processor (see `elmokit.embedding.verify`). Without it they agree
    within rounding (1e-5 for the packaged model).

    Vectors with NaN or infinite numbers are never returned: every method raises an error that names the first such text
    (see `elmokit.embedding.finite`).

    Args:
        bilm: a loaded model, which is shared, not copied, and whose weights may change; or anything that `elmokit.load`
            accepts.
        state: "reset" starts every sentence from zero. "warm" starts every sentence from the state after a neutral
            prefix. "carry" continues from the last batch, row by row, as AllenNLP and bilm-tf do: order and batch size
            matter.
        threads: cores to use on a CPU; None uses all that the process may use.
        precision: precision of matrix products: "float32"; "bfloat16", about twice as fast, on processors with
            AVX512-BF16; "int8", 8-bit weights in the LSTMs, which needs the native library; "auto", the fastest of the
            first two.
        int8: the same as precision="int8".
        batch_tokens: maximum number of tokens per batch, which bounds the memory; None chooses the fastest.
        name: name of the model in dumps.

    Example:
        >>> embedder = Embedder("path/to/model")
        >>> embedder.embed(["The play was cancelled.", ["already", "tokenized"]])  # list of arrays (L, T, 2P)
    """

    def __init__(
        self,
        bilm: BiLM | str | Path,
        *,
        state: State = "reset",
        threads: int | None = None,
        precision: str = "float32",
        int8: bool = False,
        batch_tokens: int | None = None,
        name: str = "",
    ) -> None:
        check_choice("state", state, STATES)
        self._threads = usable_cores() if threads is None else check_integer("threads", threads, at_least=1)
        self._batch_tokens = None if batch_tokens is None else check_integer("batch_tokens", batch_tokens, at_least=1)
        if check_flag("int8", int8):
            if precision not in ("float32", "int8"):
                raise ConfigError(f"int8 is set, and precision is {shown(precision)}: give one of them.")
            precision = "int8"
        if is_path(bilm):
            name = name or str(bilm)
            bilm = load(bilm).requires_grad_(False)
        if not isinstance(bilm, BiLM):
            raise ConfigError(f"Embedder() was given {shown(bilm)}: give a loaded model, or the name or path of one.")
        self.bilm = bilm
        self.name = name
        self.state: State = state
        self.precision = resolve_precision(precision, next(bilm.parameters()))
        self.runner = self._make_runner()
        self._fingerprint: str | None = None
        self._is_tokenizer_checked = False
        self._weights = _weights_state(bilm)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        device: str | torch.device | None = None,
        state: State = "reset",
        threads: int | None = None,
        precision: str = "float32",
        int8: bool = False,
        batch_tokens: int | None = None,
    ) -> "Embedder":
        """Load a model as `elmokit.load` does and put it on a device (the CPU by default)."""
        bilm = load(source).requires_grad_(False)
        if device is not None:
            bilm = bilm.to(check_device(device))
        return cls(
            bilm,
            state=state,
            threads=threads,
            precision=precision,
            int8=int8,
            batch_tokens=batch_tokens,
            name=str(source),
        )

    def to(self, device: str | torch.device) -> Self:
        """Move the model to a device; a carried state is reset to zero."""
        self.bilm = self.bilm.to(check_device(device))
        self._weights = _weights_state(self.bilm)
        if self.runner.device != next(self.bilm.parameters()).device:
            self.runner = self._make_runner()
        return self

    def _make_runner(self) -> SentenceRunner:
        return SentenceRunner(
            self.bilm,
            threads=self._threads,
            precision=self.precision,
            warm=self.state == "warm",
            max_tokens=self._batch_tokens,
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model, as `elmokit info` prints it."""
        self._follow_weights()
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.bilm)
        return self._fingerprint

    def _follow_weights(self) -> None:
        """Drop cached results if the weights have changed, for example by training."""
        if (now := _weights_state(self.bilm)) != self._weights:
            carried = self.runner.carried
            self.runner = self._make_runner()
            self.runner.carried = carried
            self._fingerprint, self._weights = None, now

    def check_tokenizer(self) -> None:
        """Warn once if the model was trained with a different tokenizer from the one used for raw text.

        Raises:
            ConfigError: if this version of elmokit does not know the model's tokenizer.
        """
        if not self._is_tokenizer_checked:
            check_raw_text(self.bilm.config.tokenizer)
            self._is_tokenizer_checked = True

    def count_unknown(self, tokens: Iterable[str]) -> int:
        """How many tokens have the vector of `<UNK>`; always 0 if the model reads characters."""
        vocabulary = self.bilm.vocabulary
        if vocabulary is None or self.bilm.config.input.kind == "characters":
            return 0
        return sum(token not in vocabulary for token in check_tokens(tokens, "tokens"))

    def select(self, layers: Layers = "all", pooling: str | None = None) -> Selection:
        """Parse the layers and pooling that a user requests, for this model."""
        return parse_selection(layers, pooling, self.bilm.config.num_layers)

    def embed(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        layers: Layers = "all",
        pooling: str | None = None,
        dtype: str = "float32",
        batch_size: int | None = None,
        split_sentences: bool = True,
        convert_to_tensor: bool = False,
        with_tokens: bool = False,
    ) -> list[Any]:
        """Compute the vectors of texts, in order.

        Args:
            inputs: raw texts (str) or token lists. A text is split into sentences, each sentence is run separately, and
                the results are joined along T.
            layers: "all" → (L, T, D); "top", "average", a layer's number or one weight per layer → (T, D). A list is
                always weights: [0, 1, 2] is layer 1 plus twice layer 2, not three layers.
            pooling: "mean" or "max" over the tokens removes T.
            dtype: "float32" or "float16".
            batch_size: with state "carry", rows per batch; otherwise the maximum number of sentences at a time.
            split_sentences: False runs a text as one sequence.
            convert_to_tensor: return torch tensors instead of numpy arrays.
            with_tokens: return `Embedded` records with tokens and character offsets instead of bare vectors.

        Raises:
            InputError: if an input is neither a str nor a list of str; the message gives its number, from 0.
            WeightsError: if vectors are NaN or infinite because of the weights.
            ConfigError: if a setting is wrong, or numbers are too large for float16.
        """
        return list(
            self.embed_stream(
                inputs,
                layers=layers,
                pooling=pooling,
                dtype=dtype,
                batch_size=batch_size,
                split_sentences=split_sentences,
                convert_to_tensor=convert_to_tensor,
                with_tokens=with_tokens,
            )
        )

    def embed_stream(
        self,
        inputs: Iterable[TextOrTokens],
        *,
        layers: Layers = "all",
        pooling: str | None = None,
        dtype: str = "float32",
        batch_size: int | None = None,
        split_sentences: bool = True,
        convert_to_tensor: bool = False,
        with_tokens: bool = False,
        window: int | None = None,
    ) -> Iterator[Any]:
        """Like `embed`, for endless input: results come in input order, memory stays constant.

        At most `window` inputs are read ahead at a time; batches are formed inside a window.
        """
        texts = check_texts(inputs, "inputs")
        output = Output(
            self.select(layers, pooling), check_dtype(dtype), check_flag("convert_to_tensor", convert_to_tensor)
        )
        check_flag("split_sentences", split_sentences)
        for name, value in (("batch_size", batch_size), ("window", window)):
            if value is not None:
                check_integer(name, value, at_least=1)
        step = (batch_size or CARRY_ROWS) if self.state == "carry" else 1
        windows = cut_windows(texts, step, window)
        stream = self._embed_windows(windows, output, batch_size=batch_size, split_sentences=split_sentences)
        return stream if check_flag("with_tokens", with_tokens) else (embedded.vectors for embedded in stream)

    def _embed_windows(
        self,
        windows: Iterable[Sequence[TextOrTokens]],
        output: Output,
        *,
        batch_size: int | None,
        split_sentences: bool,
    ) -> Iterator[Embedded]:
        done = blank = 0
        for part in windows:
            for embedded in self.embed_window(
                part, output, batch_size=batch_size, split_sentences=split_sentences, first=done
            ):
                blank += not embedded.tokens
                yield embedded
            done += len(part)
        if blank and output.selection.pooling:
            warnings.warn(
                f"{counted(blank, 'text')} without tokens: the pooled vector is zeros.", ElmokitWarning, stacklevel=2
            )

    def embed_window(
        self,
        inputs: Sequence[TextOrTokens],
        output: Output,
        *,
        batch_size: int | None = None,
        split_sentences: bool = True,
        what: str = "text",
        first: int = 0,
    ) -> Iterator[Embedded]:
        """Embed the texts of one window; the batches depend only on these inputs.

        The inputs must be str or lists of str; this is not checked. Messages call them `what` and number them from
        `first`.
        """
        for window in self.embed_windows(
            [inputs], output, batch_size=batch_size, split_sentences=split_sentences, what=what, first=first
        ):
            yield from window

    def embed_windows(
        self,
        windows: Iterable[Sequence[TextOrTokens]],
        output: Output,
        *,
        batch_size: int | None = None,
        split_sentences: bool = True,
        what: str = "text",
        first: int = 0,
    ) -> Iterator[Iterator[Embedded]]:
        """Embed windows one after the other, each like `embed_window`, whose results must be taken before the next's.

        Unless the state is carried, the next window is taken and tokenized while one is computed. An error in it is
        raised only when its turn has come.
        """
        self._follow_weights()
        waiting: deque[list[_Text]] = deque()

        def sentences() -> Iterator[list[tuple[str, ...]]]:
            for inputs in windows:
                if any(isinstance(text, str) for text in inputs):
                    self.check_tokenizer()
                texts = [_sentences(text, split_sentences) for text in inputs]
                waiting.append(texts)
                yield [sentence for text in texts for sentence, _ in text]

        runner, selection = self.runner, output.selection
        vectors_of = (
            (runner.run_in_order(part, selection, batch_size or CARRY_ROWS) for part in sentences())
            if self.state == "carry"
            else runner.run(sentences(), selection, batch_size)
        )
        for vectors in vectors_of:
            texts = waiting.popleft()
            yield self._join_all(texts, vectors, output, what, first)
            first += len(texts)

    def encode(
        self,
        texts: str | Iterable[TextOrTokens] | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        *,
        sentences: str | Iterable[TextOrTokens] | None = None,
        output_value: str = "sentence_embedding",
        convert_to_numpy: bool | None = None,
        device: str | torch.device | None = None,
        precision: str = "float32",
        **options: Any,
    ) -> Any:
        """Compute vectors with the interface of sentence-transformers: mean of the layers, float32, one per text.

        A single str gives (D,), a list gives (n, D).

        Args:
            texts: one text or many; sentence-transformers calls this `sentences`.
            batch_size: accepted for compatibility; batches are formed by length.
            show_progress_bar: show a progress bar on standard error.
            convert_to_tensor: return a torch tensor instead of a numpy array.
            normalize_embeddings: scale each vector to length 1.
            sentences: alias of `texts`.
            output_value: "sentence_embedding", the mean over the tokens; or "token_embeddings", a list of (T, D), which
                are torch tensors as in sentence-transformers unless `convert_to_numpy` is True.
            convert_to_numpy: False without `convert_to_tensor` gives a list of torch tensors, one per text.
            device: device to compute on; the model stays there.
            precision: only "float32" is supported.
            options: `prompt`, `prompt_name`, `truncate_dim`, `pool` and `chunk_size` are refused unless None.
        """
        check_integer("batch_size", batch_size, at_least=1)
        if show_progress_bar is not None:
            check_flag("show_progress_bar", show_progress_bar)
        encoding = Encoding.parse(
            output_value=output_value,
            convert_to_numpy=convert_to_numpy,
            convert_to_tensor=convert_to_tensor,
            normalize=normalize_embeddings,
            precision=precision,
            **options,
        )
        given = encoding.choose_texts(texts, sentences)
        if device is not None:
            self.to(device)
        pooling = "mean" if encoding.pooled else None
        stream = self.embed_stream([given] if isinstance(given, str) else given, layers="average", pooling=pooling)
        with progress_over(stream, 1 if isinstance(given, str) else len(given), show_progress_bar) as results:
            vectors = encoding.collect(results, self.bilm.config.output_dim)
        return vectors[0] if isinstance(given, str) else vectors

    def _join_all(
        self, texts: list["_Text"], vectors: Iterator[Floats], output: Output, what: str, first: int
    ) -> Iterator[Embedded]:
        """The texts of a window with their vectors; `vectors` are those of their sentences."""
        for number, text in enumerate(texts, start=first):
            yield self._join(text, [next(vectors) for _ in text], output, f"{what} {number}")

    def _join(
        self,
        text: "_Text",
        parts: list[Floats],
        output: Output,
        place: str,
    ) -> Embedded:
        """Join the sentences of a text into one array."""
        selection, width = output.selection, self.bilm.config.output_dim
        if not parts:
            leading = (selection.num_layers,) if selection.weights is None else ()
            parts = [np.zeros((*leading, 0, width), dtype=np.float32)]
        vectors = selection.pool(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2))
        vectors = to_finite(vectors, output.dtype, self.bilm, place)
        tokens = tuple(token for sentence, _ in text for token in sentence)
        offsets = None
        if not text or text[0][1] is not None:
            spans = [(token.start, token.end) for _, sentence in text for token in sentence or ()]
            offsets = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return Embedded(torch.from_numpy(vectors) if output.as_torch else vectors, tokens, offsets)


_Text = list[tuple[tuple[str, ...], Sequence[Token] | None]]
"""The sentences of a text: the tokens, and if it was raw text, where they are in it."""


def _sentences(text: TextOrTokens, split: bool) -> _Text:
    """The sentences of an input, with offsets if it is raw text; a token list is one sentence, even an empty one."""
    if isinstance(text, str):
        return [
            (tuple(token.text for token in sentence), sentence) for sentence in tokenize(text, split_sentences=split)
        ]
    return [(tuple(text), None)]


def check_dtype(name: Any) -> Any:
    """The data type of vectors, from its name or a numpy dtype."""
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = None
    if dtype is None or name is None or dtype not in (np.float32, np.float16):
        raise ConfigError(f"dtype {shown(name)} is unknown: choose float32 or float16.")
    return dtype


def _weights_state(bilm: BiLM) -> tuple[tuple[int, int], ...]:
    """A value that changes when a weight is changed in place or replaced."""
    return tuple((one.data_ptr(), 0 if one.is_inference() else one._version) for one in bilm.parameters())
