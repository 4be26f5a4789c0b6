"""Random subsets of the training examples, the same for every model that is trained with the same seed."""

from collections.abc import Sequence
from typing import TypeVar

from elmokit.errors import InputError
from elmokit.random_order import random_order

Example = TypeVar("Example")
_KEY = 7919
"""Separates these draws from those of the epochs, whose keys have one more number."""


def share_size(num_examples: int, share: float) -> int:
    """The number of examples in a share; zero is an error."""
    number = round(share * num_examples)
    if not number:
        raise InputError(
            f"a share of {share:g} of {num_examples:,} training examples leaves none: give at least "
            f"{1 / num_examples:.2g}."
        )
    return number


def draw_share(examples: Sequence[Example], share: float, seed: int) -> list[Example]:
    """Draw a share of examples, in order; with the same seed, a smaller share is a subset of a larger one."""
    if share == 1:
        return list(examples)
    chosen = random_order(len(examples), seed, _KEY)[: share_size(len(examples), share)]
    return [examples[number] for number in sorted(chosen.tolist())]
