"""Check that vectors are finite before they are returned.

A NaN would pass unnoticed through a mean, a similarity or a classifier, and JSON cannot represent it. The check sums
the numbers of each text, which costs almost nothing compared with computing them: a sum is finite only if all its
numbers are. Only if the sum is not finite are the numbers checked one by one, as the sum of large numbers may overflow.
"""

from typing import Any

import numpy as np

from elmokit.embedding.pooling import Floats
from elmokit.embedding.records import all_finite
from elmokit.errors import ConfigError, WeightsError
from elmokit.model.bilm import BiLM


def to_finite(vectors: Floats, dtype: Any, bilm: BiLM, place: str) -> Floats:
    """Convert vectors to another dtype, if they are finite.

    Messages name the text as `place`, and the first tensor of `bilm` that is not finite.

    Raises:
        ConfigError: if a number is too large for the dtype.
        WeightsError: if a number was not finite before the conversion.
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
