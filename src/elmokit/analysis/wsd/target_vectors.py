"""Vectors of the words with senses, from whole sentences.

Notation: K targets of a sentence, L layers, T tokens, D width of a vector; M mixes of layers.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.embed import Embed, embed_checked
from elmokit.analysis.wsd.wordnet import SenseSentence, Word
from elmokit.errors import ConfigError

BLOCK_SENTENCES = 2048
"""Number of sentences per call of an `Embed`; only the vectors of targets are kept."""


def keep_words(sentences: Iterable[SenseSentence], words: Collection[Word]) -> Iterator[SenseSentence]:
    """Keep only targets with these words, and only sentences that have such targets."""
    for sentence in sentences:
        if targets := tuple(target for target in sentence.targets if target.word in words):
            yield sentence._replace(targets=targets)


def target_vectors(
    embed: Embed, sentences: Iterable[SenseSentence]
) -> Iterator[tuple[SenseSentence, NDArray[np.float32]]]:
    """Each sentence with targets, and their vectors (K, L, D); for several tokens, the mean."""
    remaining = (sentence for sentence in sentences if sentence.targets)
    while block := list(islice(remaining, BLOCK_SENTENCES)):
        layers = embed_checked(embed, [sentence.tokens for sentence in block])
        yield from ((sentence, _spans(own, sentence)) for sentence, own in zip(block, layers, strict=True))


def _spans(layers: NDArray[Any], sentence: SenseSentence) -> NDArray[np.float32]:
    starts = [target.start for target in sentence.targets]
    vectors = layers[:, starts].swapaxes(0, 1).astype(np.float32)  # (K, L, D)
    for row, target in enumerate(sentence.targets):
        if target.end - target.start > 1:
            vectors[row] = layers[:, target.start : target.end].mean(1, dtype=np.float32)  # (L, D)
    return vectors


def layer_mixes(num_layers: int, more: Mapping[str, Sequence[float]] | None = None) -> dict[str, NDArray[np.float64]]:
    """Weights (L,) by name: every single layer ("0", "1", …), their "mean", and further mixes."""
    mixes = {str(layer): weights for layer, weights in enumerate(np.eye(num_layers))}
    mixes["mean"] = np.full(num_layers, 1 / num_layers)
    for name, weights in (more or {}).items():
        if len(weights) != num_layers or name in mixes:
            raise ConfigError(
                f"mix {name!r} has {len(weights)} weights: give {num_layers}, one per layer, "
                f"under another name than {', '.join(mixes)}."
            )
        mixes[name] = np.asarray(weights, dtype=np.float64)
    return mixes


def unit_mixes(vectors: NDArray[Any], mixes: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Mixes of vectors (K, L, D), normalized to length one: (M, K, D). Zero vectors stay zero."""
    mixed = np.stack([np.tensordot(weights, vectors, (0, 1)) for weights in mixes.values()])  # (M, K, D)
    norms = np.linalg.norm(mixed, axis=-1, keepdims=True)  # (M, K, 1)
    return mixed / np.where(norms == 0, 1, norms)
