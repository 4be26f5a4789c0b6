"""Split a stream of inputs into windows: inputs that are read ahead, deduplicated and batched together.

A window is large enough for full batches and small enough for constant memory. Its end depends only on its own inputs,
so a run that resumes at the beginning of a window forms the same batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

WINDOW_INPUTS = 1024
WINDOW_CHARACTERS = 48_000
_TOKEN_CHARACTERS = 5

Text = TypeVar("Text", bound=str | Sequence[str])


def cut_windows(inputs: Iterable[Text], step: int = 1, most: int | None = None) -> Iterator[list[Text]]:
    """Windows of at most `most` inputs (`WINDOW_INPUTS`), a multiple of `step`; fewer if the inputs are long."""
    window: list[Text] = []
    characters = 0
    most = max(1, (most or WINDOW_INPUTS) // step) * step
    for text in inputs:
        window.append(text)
        characters += len(text) if isinstance(text, str) else _TOKEN_CHARACTERS * len(text)
        if len(window) == most or (characters >= WINDOW_CHARACTERS and len(window) % step == 0):
            yield window
            window, characters = [], 0
    if window:
        yield window
