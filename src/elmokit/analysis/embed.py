"""What the analyses need from a model: the layers of tokenized sentences.

Notation: L layers, T tokens of a sentence, D width of a vector.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.errors import InputError
from elmokit.progress import ProgressCallback

Embed = Callable[[Sequence[Sequence[str]]], Iterable[NDArray[Any]]]
"""A function of any model that returns the layers (L, T, D) of each sentence, in order."""
_QUOTES = {"``": '"', "''": '"'}


def model_name(embedder: Embedder) -> str:
    """How a report names a model, also one that was not loaded by a name."""
    return embedder.name or "a biLM"


def plain_quotes(tokens: Sequence[str]) -> list[str]:
    """Tokens with the quotes `` and '' of treebanks as our tokenizer writes them."""
    return [_QUOTES.get(token, token) for token in tokens]


def layers_of(embedder: Embedder, *, dtype: str = "float32") -> Embed:
    """All layers of an elmokit model, with `plain_quotes`."""

    def embed(sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
        return embedder.embed_stream(map(plain_quotes, sentences), dtype=dtype)

    return embed


def cached_layers(
    cache: LayerCache, sentences: Iterable[Sequence[str]], report: ProgressCallback | None = None
) -> Embed:
    """Embed what a cache lacks, and return an `Embed` that reads from it; with `plain_quotes`.

    Args:
        cache: the cache of one model.
        sentences: the sentences that will be needed; others are embedded on request.
        report: receives the number of embedded sentences and the total.
    """
    cache.prepare(map(plain_quotes, sentences), report)
    return lambda asked: cache.embed([plain_quotes(tokens) for tokens in asked])


def embed_checked(embed: Embed, sentences: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
    """The same arrays, after checking that each fits its sentence."""
    results = iter(embed(sentences))
    shape: tuple[int, int] | None = None
    for tokens in sentences:
        layers = next(results, None)
        if layers is None or layers.ndim != 3 or layers.shape[1] != len(tokens):
            given = "nothing" if layers is None else f"an array {layers.shape}"
            raise InputError(
                f"embed gave {given} for a sentence of {len(tokens)} tokens: "
                "let it give one array (layers, tokens, width) per sentence."
            )
        shape = shape or (layers.shape[0], layers.shape[2])
        if shape != (layers.shape[0], layers.shape[2]):
            raise InputError(f"embed gave arrays {shape} and {layers.shape}: layers and width must stay the same.")
        yield layers
    if next(results, None) is not None:
        raise InputError(f"embed gave more than {len(sentences)} arrays for as many sentences: let it give one each.")
