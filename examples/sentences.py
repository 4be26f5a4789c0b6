"""What the demo prints: sentences that are alike, sentences that only look alike, and words that fit."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

import elmokit
from elmokit.scoring import find_substitutes
from polysemy import Floats, Occurrence
from senses import find_nearest


def concordance(occurrence: Occurrence, width: int, style: str) -> Text:
    """A sentence cut to one line, its word in the middle."""
    before, after = occurrence.around
    room = max((width - len(occurrence.word)) // 2, 1)
    return Text.assemble(f"{before[-room:]:>{room}}", (occurrence.word, style), after[:room])


def show_neighbors(console: Console, occurrences: Sequence[Occurrence], vectors: Floats, sense: str) -> None:
    """The occurrences nearest to the first one of a sense: green ones have its sense, red ones another."""
    senses = [occurrence.sense for occurrence in occurrences]
    chosen, width = senses.index(sense), max(map(len, senses))
    label = Text(f"{f'{occurrences[chosen].word}: {sense}':<{width + 18}}", "bold cyan")
    console.print()
    console.print(label + concordance(occurrences[chosen], console.width - len(label), "bold cyan"))
    cosines = vectors @ vectors[chosen]  # (n,)
    for i in [int(i) for i in np.argsort(-cosines) if i != chosen][:3]:
        style = "green" if senses[i] == sense else "red"
        label = Text.assemble(f"  {cosines[i]:.2f} similar  ", (f"{senses[i]:<{width}}  ", style))
        console.print(label + concordance(occurrences[i], console.width - len(label), f"bold {style}"))


def show_failures(console: Console, occurrences: Sequence[Occurrence], vectors: Floats, *, number: int = 2) -> None:
    """The first occurrences (n, D) that are nearest to one of another sense, each with that one below it."""
    console.print(f"The hardest word is {occurrences[0].word}. Similar words around it can hide another meaning:")
    nearest = find_nearest(vectors).argmax(axis=-1).tolist()
    pairs = [(found, occurrences[near]) for found, near in zip(occurrences, nearest, strict=True)]
    for pair in [pair for pair in pairs if pair[0].sense != pair[1].sense][:number]:
        for found, what in zip(pair, ("", "most similar"), strict=True):
            label = Text.assemble(f"  {what:<13} ", (f"{found.sense:<8} ", "red" if what else "cyan"))
            console.print(label + concordance(found, console.width - len(label), "bold"))
    console.print()


def show_substitutes(console: Console, bilm: elmokit.BiLM, occurrences: Sequence[Occurrence]) -> None:
    """The words that fit the first sentence of each sense best, by a model that does not see the word itself."""
    for sense in dict.fromkeys(occurrence.sense for occurrence in occurrences):
        probe = next(occurrence for occurrence in occurrences if occurrence.sense == sense)
        found = find_substitutes(bilm, probe.tokens, probe.tokens.index(probe.word), number=24)
        words = [item.word for item in found if item.word.isalpha()][:8]
        label = Text.assemble((f"{sense:<8} ", "bold cyan"))
        console.print(label + concordance(probe, console.width - len(label), "bold cyan"))
        console.print(Text.assemble(("         fits: ", "dim"), ", ".join(words)))
    console.print()
