"""Select and mix layers, and pool tokens into one vector per text.

Notation: L layers, T tokens, D = 2P width of a vector.
"""

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_choice, shown
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.wording import counted

Layers = str | int | Sequence[float]
Pooling = Literal["mean", "max"]
Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Selection:
    """Weights of the layers, or all layers separately, and how to pool tokens."""

    num_layers: int
    weights: tuple[float, ...] | None
    """The weight of each layer; None keeps all layers separate."""
    pooling: Pooling | None

    @property
    def needed(self) -> tuple[int, ...]:
        """The layers that must be computed, lowest first."""
        if self.weights is None:
            return tuple(range(self.num_layers))
        return tuple(depth for depth, weight in enumerate(self.weights) if weight)

    def combine(self, layers: list[Floats]) -> list[Floats]:
        """Turn the needed layers of a batch, each (N, D), into all layers or one mix."""
        if self.weights is None or (len(layers) == 1 and self.weights[self.needed[0]] == 1):
            return layers
        total = np.zeros_like(layers[0])
        for depth, layer in zip(self.needed, layers, strict=True):
            total += np.float32(self.weights[depth]) * layer
        return [total]

    def gather(self, combined: list[Floats], begin: int, end: int) -> Floats:
        """The sentence between two boundaries: (L, T, D) for all layers, else (T, D)."""
        if self.weights is None:
            return np.stack([layer[begin + 1 : end - 1] for layer in combined])
        return combined[0][begin + 1 : end - 1].copy()

    def pool(self, vectors: Floats) -> Floats:
        """Reduce the tokens of (…, T, D) to (…, D); no tokens give zeros."""
        if self.pooling is None:
            return vectors
        if vectors.shape[-2] == 0:
            return np.zeros_like(vectors, shape=(*vectors.shape[:-2], vectors.shape[-1]))
        pooled: Floats = vectors.mean(-2) if self.pooling == "mean" else vectors.max(-2)
        return pooled


def parse_selection(layers: Layers, pooling: str | None, num_layers: int) -> Selection:
    """Parse "all", "top", "average", a layer's number or a list of weights, and "mean", "max" or None.

    A list is always weights, never numbers of layers; there is a warning if it looks like the latter.
    """
    if pooling is not None:
        check_choice("pooling", pooling, ("mean", "max", "none"))
    reduction: Pooling | None = None if pooling in (None, "none") else pooling  # type: ignore[assignment]
    return Selection(num_layers, _weights(layers, num_layers), reduction)


def _weights(layers: Layers, num_layers: int) -> tuple[float, ...] | None:
    if isinstance(layers, str):
        if layers == "all":
            return None
        if layers == "average":
            return (1 / num_layers,) * num_layers
        if layers == "top":
            return _one_hot(num_layers - 1, num_layers)
        raise ConfigError(f"layers {layers!r} is unknown: choose all, top, average, a layer's number or weights.")
    if hasattr(layers, "detach"):  # learned by a mix
        layers = layers.detach().cpu().tolist()
    if isinstance(layers, Sequence | np.ndarray):
        try:
            weights = tuple(float(weight) for weight in layers)
        except (TypeError, ValueError):
            weights = ()
        if len(weights) != num_layers or not _are_finite(weights) or not any(weights):
            raise ConfigError(
                f"layers has {counted(len(layers), 'weight')}, {shown(layers)}: give one finite number for each of the "
                f"{num_layers} layers, not all zero, or for a single layer its number, as in layers={num_layers - 1}."
            )
        if look_like_numbers(layers):
            warn_of_numbers(list(layers))
        return weights
    try:
        number = operator.index(layers)
    except TypeError:
        raise ConfigError(
            f"layers ({shown(layers)}) is unknown: choose all, top, average, a layer's number or weights."
        ) from None
    if isinstance(layers, bool) or not 0 <= number < num_layers:
        raise ConfigError(f"there is no layer {layers}: this model has layers 0 to {num_layers - 1}.")
    return _one_hot(number, num_layers)


def look_like_numbers(layers: Sequence[object]) -> bool:
    """Whether a list of weights looks like a list of layers: integers that name every layer once, as [0, 1, 2].

    Lists of two are not reported: [0, 1] is a common way to ask for the upper layer. Neither are [1, 1, 1] or
    [0, 0, 1], or weights with a decimal point.
    """
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in layers)
    return whole and len(layers) > 2 and sorted(layers) == list(range(len(layers)))  # type: ignore[type-var]


def warn_of_numbers(layers: Sequence[object]) -> None:
    """Warn that a list that looks like layers is read as weights."""
    listed = ", ".join(map(str, layers))
    floats = ", ".join(f"{one}.0" for one in layers)
    warnings.warn(
        f"layers {listed} are taken as weights, one per layer, and not as the numbers of layers: ask for all layers "
        f"('all') or for one by its number, or write weights with a decimal point ({floats}).",
        ElmokitWarning,
        stacklevel=2,
    )


def _are_finite(weights: Sequence[float]) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(weights, dtype=np.float32)).all())


def _one_hot(place: int, length: int) -> tuple[float, ...]:
    return tuple(float(index == place) for index in range(length))
