"""Layers that are computed once and kept on disk, for analyses that are repeated."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from elmokit.analysis.embed import Embed, plain_quotes
from elmokit.progress import ProgressCallback
from elmokit.tasks.layer_store import LayerStore


def keep_layers(store: LayerStore, sentences: Iterable[Sequence[str]], report: ProgressCallback | None = None) -> Embed:
    """Embed what the store does not have yet, and give an `Embed` that reads from it; with `plain_quotes`.

    Args:
        store: of one model.
        sentences: all that will be asked for; what is not among them is embedded when it is.
        report: receives how many of how many sentences are embedded.
    """
    store.prepare(map(plain_quotes, sentences), report)

    def embed(asked: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
        plain = [plain_quotes(tokens) for tokens in asked]
        store.prepare(plain)
        return (store.read(tokens) for tokens in plain)

    return embed
