"""The embedder: load a model once, then turn any amount of text into vectors.

Notation: L layers, T tokens of a text, D = 2P width of a vector.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.cores import usable_cores
from elmokit.embedding.batches import SentenceRunner
from elmokit.embedding.pooling import Floats, Layers, Selection, parse_selection
from elmokit.embedding.windows import cut_windows
from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.formats import load
from elmokit.formats.parts import fingerprint
from elmokit.model.bilm import BiLM
from elmokit.text.tokenize import Token, tokenize
from elmokit.wording import counted

State = Literal["reset", "carry", "warm"]
CARRY_ROWS = 32
"""Rows of a batch with state "carry", if not said."""
Input = str | Sequence[str]
"""A str is raw text; a list of str is the tokens of one sentence."""


class Embedded(NamedTuple):
    """A text with its vectors."""

    vectors: Any
    """(L, T, D) for all layers, (T, D) for one or a mix; pooling removes T."""
    tokens: tuple[str, ...]
    offsets: NDArray[np.int64] | None
    """(T, 2) character offsets of the tokens in the text; None if it came as tokens."""


@dataclass(frozen=True)
class Output:
    """How vectors are handed out."""

    selection: Selection
    dtype: Any = np.float32
    as_torch: bool = False


class Embedder:
    """Vectors of texts by one model. The same text always gets the same vectors, alone or in any company.

    Args:
        bilm: a loaded model; it is used as it is and stays the caller's.
        state: "reset" starts every sentence from zero. "warm" starts every sentence from the state after a neutral
            prefix. "carry" goes on from the last batch, row by row, as the peers do: then order and batch size matter.
        threads: cores to use on a CPU; None takes all that the process may use.
        int8: compute the LSTMs with 8-bit weights: faster, slightly different vectors.
        batch_tokens: tokens of a batch, which bounds the memory it takes; None is what is fastest.
        name: what to call the model in dumps.

    Example:
        >>> embedder = Embedder.from_pretrained("path/to/model")
        >>> embedder.embed(["The play was cancelled.", ["already", "tokenised"]])  # list of arrays (L, T, 2P)
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        state: State = "reset",
        threads: int | None = None,
        int8: bool = False,
        batch_tokens: int | None = None,
        name: str = "",
    ) -> None:
        if state not in ("reset", "carry", "warm"):
            raise ConfigError(f"state {state!r} is unknown: choose reset, carry or warm.")
        if threads is not None and threads < 1:
            raise ConfigError(f"threads ({threads}) must be at least 1.")
        if batch_tokens is not None and batch_tokens < 1:
            raise ConfigError(f"batch_tokens ({batch_tokens}) must be at least 1.")
        self.bilm = bilm
        self.name = name
        self.int8 = int8
        self.state: State = state
        self.runner = SentenceRunner(
            bilm, threads=threads or usable_cores(), int8=int8, warm=state == "warm", max_tokens=batch_tokens
        )
        self._fingerprint: str | None = None

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path,
        *,
        device: str | torch.device | None = None,
        state: State = "reset",
        threads: int | None = None,
        int8: bool = False,
        batch_tokens: int | None = None,
    ) -> "Embedder":
        """Load a model as `elmokit.load` does and put it on a device (the CPU by default)."""
        bilm = load(source).requires_grad_(False)
        if device is not None:
            bilm = bilm.to(device)
        return cls(bilm, state=state, threads=threads, int8=int8, batch_tokens=batch_tokens, name=str(source))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model, as `elmokit info` prints it."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.bilm)
        return self._fingerprint

    def count_unknown(self, tokens: Iterable[str]) -> int:
        """How many tokens have only the vector of `<UNK>`: none if the model reads characters."""
        vocabulary = self.bilm.vocabulary
        if vocabulary is None or self.bilm.config.input.kind == "characters":
            return 0
        return sum(token not in vocabulary for token in tokens)

    def select(self, layers: Layers = "all", pooling: str | None = None) -> Selection:
        """Understand what layers and pooling a user asks for, for this model."""
        return parse_selection(layers, pooling, self.bilm.config.num_layers)

    def embed(
        self,
        inputs: Iterable[Input],
        *,
        layers: Layers = "all",
        pooling: str | None = None,
        dtype: str = "float32",
        batch_size: int | None = None,
        split_sentences: bool = True,
        convert_to_tensor: bool = False,
        with_tokens: bool = False,
    ) -> list[Any]:
        """Vectors of texts, in their order.

        Args:
            inputs: raw texts (str) or token lists. A text is split into sentences, each run on its own, and the results
                joined along T.
            layers: "all" → (L, T, D); "top", "average", a layer's number or one weight a layer → (T, D).
            pooling: "mean" or "max" over the tokens removes T.
            dtype: "float32" or "float16".
            batch_size: with state "carry", rows of a batch; otherwise at most so many sentences at a time.
            split_sentences: False runs a text as one sequence.
            convert_to_tensor: torch tensors instead of numpy arrays.
            with_tokens: `Embedded` records with tokens and character offsets instead of bare vectors.
        """
        if isinstance(inputs, str):
            raise InputError(f"embed() was given the str {inputs[:40]!r}: give a list of texts, e.g. [text].")
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
        inputs: Iterable[Input],
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
        """As `embed`, for endless input: results come in input order, memory stays constant.

        At most `window` inputs are read ahead at a time; batches are formed inside a window.
        """
        output = Output(self.select(layers, pooling), _dtype(dtype), convert_to_tensor)
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size ({batch_size}) must be at least 1.")
        blank, step = 0, (batch_size or CARRY_ROWS) if self.state == "carry" else 1
        for part in cut_windows(inputs, step, window):
            for embedded in self.embed_window(part, output, batch_size=batch_size, split_sentences=split_sentences):
                blank += not embedded.tokens
                yield embedded if with_tokens else embedded.vectors
        if blank and output.selection.pooling:
            warnings.warn(
                f"{counted(blank, 'text')} without tokens: the pooled vector is zeros.", ElmokitWarning, stacklevel=2
            )

    def embed_window(
        self,
        inputs: Sequence[Input],
        output: Output,
        *,
        batch_size: int | None = None,
        split_sentences: bool = True,
    ) -> Iterator[Embedded]:
        """The texts of one window; which batches are formed depends on these inputs alone."""
        texts = [_sentences(text, split_sentences) for text in inputs]
        sentences = [sentence for text in texts for sentence, _ in text]
        vectors = iter(
            self.runner.run_in_order(sentences, output.selection, batch_size or CARRY_ROWS)
            if self.state == "carry"
            else self.runner.run(sentences, output.selection, batch_size)
        )
        for text in texts:
            yield self._join(text, [next(vectors) for _ in text], output)

    def encode(
        self,
        texts: str | Sequence[Input],
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
    ) -> Any:
        """One vector a text, with sentence-transformers' signature: the mean of tokens and layers, float32.

        A single str gives (D,), a list (n, D). `batch_size` is accepted for compatibility; batches are made by length.
        """
        single = isinstance(texts, str)
        given = [texts] if isinstance(texts, str) else list(texts)
        vectors = np.zeros((len(given), self.bilm.config.output_dim), dtype=np.float32)  # (n, D)
        stream = self.embed_stream(given, layers="average", pooling="mean", batch_size=None)
        with _progress(stream, len(given), show_progress_bar) as results:
            for row, vector in enumerate(results):
                vectors[row] = vector
        if normalize_embeddings:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.where(norms == 0, 1, norms)
        result = torch.from_numpy(vectors) if convert_to_tensor else vectors
        return result[0] if single else result

    def _join(
        self, text: list[tuple[tuple[str, ...], Sequence[Token] | None]], parts: list[Floats], output: Output
    ) -> Embedded:
        """The sentences of a text as one array."""
        selection, width = output.selection, self.bilm.config.output_dim
        if not parts:
            parts = [np.zeros(_unpooled(selection, width), dtype=np.float32)]
        vectors = selection.pool(parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-2))
        vectors = vectors.astype(output.dtype, copy=False)
        tokens = tuple(token for sentence, _ in text for token in sentence)
        offsets = None
        if not text or text[0][1] is not None:
            spans = [(token.start, token.end) for _, sentence in text for token in sentence or ()]
            offsets = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return Embedded(torch.from_numpy(vectors) if output.as_torch else vectors, tokens, offsets)


def _unpooled(selection: Selection, width: int) -> tuple[int, ...]:
    return (selection.num_layers, 0, width) if selection.weights is None else (0, width)


def _sentences(text: Input, split: bool) -> list[tuple[tuple[str, ...], Sequence[Token] | None]]:
    """The sentences of an input, with offsets if it is raw text; a token list is one sentence, even an empty one."""
    if isinstance(text, str):
        return [
            (tuple(token.text for token in sentence), sentence) for sentence in tokenize(text, split_sentences=split)
        ]
    tokens = tuple(text)
    if wrong := next((token for token in tokens if not isinstance(token, str)), None):
        raise InputError(f"a token is {wrong!r} ({type(wrong).__name__}): tokens are str; raw text is one str.")
    return [(tokens, None)]


def _dtype(name: str) -> Any:
    if name not in ("float32", "float16"):
        raise ConfigError(f"dtype {name!r} is unknown: choose float32 or float16.")
    return np.dtype(name)


@contextmanager
def _progress(stream: Iterator[Any], total: int, show: bool | None) -> Iterator[Iterable[Any]]:
    if not show:
        yield stream
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        yield progress.track(stream, total=total, description="embedding")
