"""How long work tells whoever is waiting how far it is."""

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Receives how many pieces of how many are done."""
