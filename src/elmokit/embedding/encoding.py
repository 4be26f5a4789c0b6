"""The arguments of sentence-transformers' `encode`, and refusals of those that have no meaning for ELMo."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from elmokit.arguments import check_choice, check_flag, shown
from elmokit.embedding.pooling import Floats
from elmokit.errors import ConfigError, InputError
from elmokit.text.tokens import check_texts

OUTPUT_VALUES = ("sentence_embedding", "token_embeddings")
_REFUSED = {
    "prompt": "ELMo was trained without prompts: put the words into the texts themselves",
    "prompt_name": "ELMo was trained without prompts: put the words into the texts themselves",
    "truncate_dim": "the first numbers of an ELMo vector mean no more than the rest: use all, or reduce them with PCA",
    "pool": "one process uses all cores: set threads when you make the Embedder",
    "chunk_size": "there is no pool of processes to cut chunks for: leave it out",
}


@dataclass(frozen=True)
class Encoding:
    """The form of the output of `encode`."""

    pooled: bool
    """One vector per text, not one per token."""
    as_torch: bool
    stacked: bool
    """One array of all texts, not a list."""
    normalize: bool

    @classmethod
    def parse(
        cls,
        *,
        output_value: Any,
        convert_to_numpy: bool | None,
        convert_to_tensor: bool,
        normalize: bool,
        precision: Any,
        **options: Any,
    ) -> "Encoding":
        """Parse the arguments, or refuse them by name."""
        check_choice("output_value", output_value, OUTPUT_VALUES)
        check_flag("convert_to_tensor", convert_to_tensor)
        check_flag("normalize_embeddings", normalize)
        if convert_to_numpy is not None:
            check_flag("convert_to_numpy", convert_to_numpy)
        if precision != "float32":
            raise ConfigError(f"precision {shown(precision)} is not offered: take float32 vectors and quantize those.")
        for name, value in options.items():
            if name not in _REFUSED:
                raise TypeError(f"encode() got an unexpected keyword argument {name!r}")
            if value is not None:
                raise ConfigError(f"encode() does not take {name}: {_REFUSED[name]}.")
        pooled = output_value == "sentence_embedding"
        if normalize and not pooled:
            raise ConfigError("normalize_embeddings is for sentence embeddings: leave it out with token_embeddings.")
        if pooled:
            listed = convert_to_numpy is False and not convert_to_tensor
            return cls(True, as_torch=convert_to_tensor or listed, stacked=not listed, normalize=normalize)
        return cls(False, as_torch=convert_to_tensor or not convert_to_numpy, stacked=False, normalize=False)

    def choose_texts(self, texts: Any, sentences: Any) -> Any:
        """Whichever of the two arguments was given: a str, or a list of texts."""
        if (texts is None) == (sentences is None):
            raise InputError("encode() takes texts, or sentences for the same thing: give one of the two.")
        name, given = ("sentences", sentences) if texts is None else ("texts", texts)
        return given if isinstance(given, str) else list(check_texts(given, name))

    def collect(self, results: Iterable[Floats], width: int) -> Any:
        """Collect all vectors: (n, D), or a list."""
        if not self.pooled:
            return [torch.from_numpy(vectors) if self.as_torch else vectors for vectors in results]
        rows = list(results)
        vectors = np.stack(rows) if rows else np.zeros((0, width), dtype=np.float32)  # (n, D)
        if self.normalize:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors /= np.where(norms == 0, 1, norms)
        if not self.as_torch:
            return vectors
        return torch.from_numpy(vectors) if self.stacked else list(torch.from_numpy(vectors))


@contextmanager
def progress_over(stream: Iterator[Any], total: int, show: bool | None) -> Iterator[Iterable[Any]]:
    """The stream, optionally with a progress bar on standard error."""
    if not show:
        yield stream
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        yield progress.track(stream, total=total, description="embedding")
