"""Layers that are computed once and stored on disk, for repeated analyses."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from elmokit.analysis.embed import Embed, plain_quotes
from elmokit.progress import ProgressCallback
from elmokit.tasks.layer_store import LayerStore


def keep_layers(store: LayerStore, sentences: Iterable[Sequence[str]], report: ProgressCallback | None = None) -> Embed:
    """Embed what the store lacks, and return an `Embed` that reads from the store; with `plain_quotes`.

    Args:
        store: the store of one model.
        sentences: the sentences that will be needed; others are embedded on request.
        report: receives the number of embedded sentences and the total.
    """
    store.prepare(map(plain_quotes, sentences), report)

    def embed(asked: Sequence[Sequence[str]]) -> Iterator[NDArray[Any]]:
        plain = [plain_quotes(tokens) for tokens in asked]
        store.prepare(plain)
        return (store.read(tokens) for tokens in plain)

    return embed
