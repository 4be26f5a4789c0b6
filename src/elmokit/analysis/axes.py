"""Where the axis of a picture begins, and how its caption says so."""

import math
from collections.abc import Iterable

BAR_ROOM = 0.5
"""The `room` for bars."""


def axis_start(values: Iterable[float], *, room: float = 0.1) -> float:
    """A whole number somewhat below the least value, or 0 where the values come near it.

    Scores lie close together and far from 0: on an axis from 0 their differences could not be seen.

    Args:
        values: what is shown.
        room: to leave below the least of them, as a share of their range; bars need more than dots to be seen.
    """
    shown = list(values)
    least, most = min(shown, default=0.0), max(shown, default=0.0)
    start = math.floor(least - max(1.0, room * (most - least)))
    return 0.0 if start < 0.2 * most else float(start)


def axis_note(start: float, axis: str = "vertical") -> str:
    """A sentence for the caption, with a space before it; none for an axis that begins at 0."""
    return f" The {axis} axis begins at {start:g}, not at 0." if start else ""
