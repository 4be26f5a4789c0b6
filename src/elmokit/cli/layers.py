"""`--layers`: which layers of a model a command is about."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from elmokit.embedding.pooling import Layers


def parse_layers(text: str) -> "Layers":
    """A number stands for a layer, several for weights; words are left to the embedder."""
    try:
        if "," in text:
            return [float(weight) for weight in text.split(",")]
        return int(text)
    except ValueError:
        if "," in text:
            raise typer.BadParameter(f"{text!r} is no list of numbers.", param_hint="--layers") from None
        return text
