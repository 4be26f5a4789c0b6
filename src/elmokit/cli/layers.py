"""`--layers`: which layers of a model a command uses."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from elmokit.embedding.pooling import Layers


def _look_at(text: str) -> None:
    """Warn about weights that look like layer numbers."""
    from elmokit.embedding.pooling import look_like_numbers, warn_of_numbers

    parts = [part.strip() for part in text.split(",")]
    if all(part.isascii() and part.isdigit() for part in parts) and look_like_numbers(numbers := [*map(int, parts)]):
        warn_of_numbers(numbers)


def parse_layers(text: str) -> "Layers":
    """One number is a layer, several are weights; words are left to the embedder."""
    try:
        if "," in text:
            _look_at(text)
            return [float(weight) for weight in text.split(",")]
        return int(text)
    except ValueError:
        if "," in text:
            raise typer.BadParameter(f"{text!r} is not a list of numbers.", param_hint="--layers") from None
        return text
