"""Vectors are finite, or they are not handed out.

A NaN would pass through a mean, a similarity or a classifier unseen, and JSON cannot hold it. The check adds up the
numbers of each text, which costs next to nothing beside computing them: a sum is finite only if all its numbers are.
Only where it is not are the numbers looked at one by one, as the sum of large numbers may overflow too.
"""

from typing import Any

import numpy as np

from elmokit.embedding.pooling import Floats
from elmokit.embedding.records import all_finite
from elmokit.errors import ConfigError, WeightsError
from elmokit.model.bilm import BiLM


def to_finite(vectors: Floats, dtype: Any, bilm: BiLM, place: str) -> Floats:
    """The vectors in another dtype.

    Args:
        vectors: as they were computed.
        dtype: the one to hand out.
        bilm: the model that they come from.
        place: what to call the text in messages.

    Raises:
        ConfigError: if a number is too large for the dtype.
        WeightsError: if a number was not finite to begin with.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded: Floats = vectors.astype(dtype, copy=False)
    if all_finite(rounded):
        return rounded
    if np.isfinite(vectors).all():
        raise ConfigError(
            f"the vectors of {place} reach {np.abs(vectors).max():g}, but {np.dtype(dtype)} holds numbers up to "
            f"{float(np.finfo(dtype).max):,.0f}: ask for dtype float32."
        )
    broken = next((name for name, tensor in bilm.named_parameters() if not tensor.isfinite().all()), None)
    cause = f"its tensor {broken} does" if broken else "its weights are too large"
    raise WeightsError(
        f"the vectors of {place} hold NaN or infinite numbers, because {cause}: the model is of no use as it is; fetch "
        "it again, or take an earlier checkpoint."
    )
