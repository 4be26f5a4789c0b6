"""Where the axis of a plot starts, and the sentence about it for the caption."""

import math
from collections.abc import Iterable

BAR_ROOM = 0.5
"""The `room` for bars."""


def axis_start(values: Iterable[float], *, room: float = 0.1) -> float:
    """An integer somewhat below the smallest value, or 0 if the values are close to it.

    Scores are close together and far from 0: on an axis from 0, their differences would be invisible.

    Args:
        values: the values to show.
        room: space below the smallest value, as a share of the range; bars need more than dots.
    """
    shown = list(values)
    least, most = min(shown, default=0.0), max(shown, default=0.0)
    start = math.floor(least - max(1.0, room * (most - least)))
    return 0.0 if start < 0.2 * most else float(start)


def axis_note(start: float, axis: str = "vertical") -> str:
    """A sentence for the caption, after a space; empty for an axis that starts at 0."""
    return f" The {axis} axis begins at {start:g}, not at 0." if start else ""
