"""How equal vectors are, as the documents promise it (docs/embedding.md, "How equal").

The same batch gives the same bits, and those are compared with `array_equal`. In another batch, or another row of it,
a math library may add up in another order; how it does so depends on the processor. What ran like that is compared
here. (Once all products are our own, these comparisons become equality again.)
"""

from typing import Any

import numpy as np

ACROSS_BATCHES = 1e-6
"""Of tiny models, whose sums are short: as a share of the largest number, which rounding grows with. Seen: 1.1e-7."""
ACROSS_BATCHES_PACKAGED = 1e-5
"""Of the packaged model, absolute, as the documents say. Seen: 3e-6."""
AFTER_TRAINING = 1e-5
"""Of losses (relative) and weights (absolute) of tiny models after some steps of training on another processor."""
HALF_UNIT = 2.0**-10
"""One unit in the last place of a float16, relative: what a difference of 1e-7 may become when it is rounded."""


def assert_close(found: Any, expected: Any, atol: float | None = None) -> None:
    """Equal but for the order of sums: float32 from other batches, rows or engines; of a tiny model if not said."""
    if atol is None:
        atol = ACROSS_BATCHES * max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def assert_close_halves(found: Any, expected: Any) -> None:
    """The same of vectors that were rounded to float16 after they were computed in other batches or rows."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    np.testing.assert_allclose(found, expected, rtol=HALF_UNIT, atol=ACROSS_BATCHES)
