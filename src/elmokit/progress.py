"""The type of progress callbacks."""

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Receives the amount of work done and the total."""
