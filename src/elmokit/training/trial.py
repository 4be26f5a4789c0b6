"""`precision = "auto"`: time a few steps in each precision, choose the fastest, and give the reason."""

import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from torch import Tensor

from elmokit.corpus.windows import WindowStream
from elmokit.errors import ConfigError
from elmokit.model.engines.choose import Precision, bfloat16_instructions
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from elmokit.training.distributed import Processes
from elmokit.training.step import LanguageModelStep

_TIMED_STEPS = 3
_SENTENCE_WORDS = 20
_WORTHWHILE = 1.1
"""bfloat16 must be faster than float32 by this factor to be worth its rounding."""


class Choice(NamedTuple):
    """A precision and the reason for it, in one line."""

    precision: Precision
    reason: str


def choose_precision(
    build_step: Callable[[Precision], LanguageModelStep],
    vocabulary: Vocabulary,
    frequencies: Tensor,
    *,
    processes: Processes | None = None,
) -> Choice:
    """Choose between float32 and bfloat16 by time.

    The steps read words drawn by frequency, so that a window has about as many distinct words as in real text.

    The gradients of the steps are discarded, and no weight changes. All processes call this, and the times of the main
    one decide.
    """
    processes = processes or Processes()
    plain = build_step("float32")
    rounded, obstacle = _build_rounded(build_step, plain)
    if processes.any_of(rounded is None)[0] or rounded is None:
        return Choice("float32", obstacle or "the machine of another process cannot compute in bfloat16")
    speeds = [processes.broadcast_from_main(_measure(step, vocabulary, frequencies)) for step in (plain, rounded)]
    figures = f"{rounded.arithmetic.label}: {speeds[1]:,.0f} tokens/s, against {speeds[0]:,.0f} in float32"
    return Choice("bfloat16" if speeds[1] > _WORTHWHILE * speeds[0] else "float32", figures)


def _build_rounded(
    build_step: Callable[[Precision], LanguageModelStep], plain: LanguageModelStep
) -> tuple[LanguageModelStep | None, str]:
    """The step in bfloat16, or the reason why there is none."""
    if plain.device.type == "cpu" and not bfloat16_instructions():
        return None, "this processor has no instructions for bfloat16"
    try:
        return build_step("bfloat16"), ""
    except ConfigError as error:
        return None, str(error).removesuffix(".")


def _measure(step: LanguageModelStep, vocabulary: Vocabulary, frequencies: Tensor) -> float:
    """Tokens per second of a step, without the optimizer."""
    num_rows = len(step.rows) * step.processes.size
    assert step.bilm.vocabulary is not None
    windows = WindowStream(
        _DrawnSentences(vocabulary, frequencies),
        step.bilm.vocabulary,
        step.bilm.indexer,
        num_rows=num_rows,
        num_steps=step.num_steps,
        rows=step.rows,
    )
    seconds = []
    for number in range(_TIMED_STEPS + 1):
        window = next(windows)
        begun = time.perf_counter()
        step(window, number)
        seconds.append(time.perf_counter() - begun)
    step.bilm.zero_grad(set_to_none=True)
    return num_rows * step.num_steps / statistics.median(seconds[1:])


class _DrawnSentences(Iterator[list[str]]):
    """Endless sentences of words drawn by frequency."""

    def __init__(self, vocabulary: Vocabulary, frequencies: Tensor) -> None:
        self._words = vocabulary.tokens
        weights = frequencies.double().numpy().copy()  # (V,)
        weights[[number for number, word in enumerate(self._words) if word in SPECIALS]] = 0
        self._shares = weights / weights.sum() if weights.any() else np.full(len(weights), 1 / len(weights))
        self._random = np.random.default_rng(0)

    def __next__(self) -> list[str]:
        return [
            self._words[number] for number in self._random.choice(len(self._words), _SENTENCE_WORDS, p=self._shares)
        ]

    def state_dict(self) -> dict[str, int]:
        """Empty, because a trial is never resumed."""
        return {}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Do nothing; see `state_dict`."""
