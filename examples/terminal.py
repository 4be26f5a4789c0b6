"""What the demo prints: neighbours by layer, the table of senses, expected words."""

from collections.abc import Sequence

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

import elmokit
from elmokit.scoring.substitutes import find_substitutes
from polysemy import Floats, Occurrence
from senses import Study, find_nearest


def concordance(occurrence: Occurrence, width: int, style: str) -> Text:
    """A sentence cut to one line, its word in the middle."""
    before, after = occurrence.around
    room = max((width - len(occurrence.word)) // 2, 1)
    return Text.assemble(f"{before[-room:]:>{room}}", (occurrence.word, style), after[:room])


def show_neighbours(console: Console, occurrences: Sequence[Occurrence], vectors: Floats, sense: str) -> None:
    """The occurrences nearest to the first one of a sense, by layer: green ones have its sense, red ones another."""
    chosen = [occurrence.sense for occurrence in occurrences].index(sense)
    probe = occurrences[chosen]
    before, after = probe.around
    console.print()
    console.print(Text.assemble(before, (probe.word, "bold cyan"), after, (f"  {sense}; {probe.source}", "dim")))
    console.print(f"  layer 0  all {len(occurrences)} occurrences have one vector", style="dim")
    for layer in range(1, len(vectors)):
        cosines = vectors[layer] @ vectors[layer, chosen]  # (n,)
        for i in [int(i) for i in np.argsort(-cosines) if i != chosen][:3]:
            found = occurrences[i]
            style = "green" if found.sense == sense else "red"
            label = Text.assemble(f"  layer {layer}  {cosines[i]:.2f}  ", (f"{found.sense:<10}  ", style))
            console.print(label + concordance(found, console.width - len(label), f"bold {style}"))


def show_shares(console: Console, study: Study) -> None:
    """A row a word: the shares by layer, and whether the best layer tells the senses apart."""
    rows = {word: [*found.layers, found.guess, found.random[study.best]] for word, found in study.shares.items()}
    layers = ["layer 0", *[str(layer) for layer in range(1, len(next(iter(rows.values()))) - 2)]]
    senses = Column("senses", no_wrap=True)
    table = Table("word", senses, *layers, "guess", "random", f"told by {study.best}?", box=SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for word, found in study.shares.items():
        verdict = found.verdict(study.best)
        percent = [f"{share:.0%}" for share in rows[word]]
        table.add_row(word, " / ".join(found.senses), *percent, verdict, style="" if verdict == "yes" else "red")
    table.add_section()
    table.add_row("mean", "", *[f"{np.mean(column):.0%}" for column in zip(*rows.values(), strict=True)], "")
    console.print("guess: one sense for all; random: a model of this shape with random weights", table)


def show_failures(console: Console, occurrences: Sequence[Occurrence], vectors: Floats, *, number: int = 3) -> None:
    """The first occurrences (n, D) that are nearest to one of another sense, each with that one below it."""
    nearest = find_nearest(vectors).argmax(axis=-1).tolist()
    pairs = [(found, occurrences[near]) for found, near in zip(occurrences, nearest, strict=True)]
    for pair in [pair for pair in pairs if pair[0].sense != pair[1].sense][:number]:
        for found, what in zip(pair, ("", "nearest"), strict=True):
            label = f"  {what:<8} {found.sense:<10} "
            console.print(Text(label) + concordance(found, console.width - len(label), "bold"))


def show_substitutes(console: Console, bilm: elmokit.BiLM, occurrences: Sequence[Occurrence]) -> None:
    """What the sentence around a word makes both directions expect in its place, for the first sentence of a sense."""
    for sense in dict.fromkeys(occurrence.sense for occurrence in occurrences):
        probe = next(occurrence for occurrence in occurrences if occurrence.sense == sense)
        found = find_substitutes(bilm, probe.tokens, probe.tokens.index(probe.word), number=8)
        console.print(concordance(probe, console.width, "bold cyan"))
        console.print(Text.assemble(("  expected  ", "dim"), ", ".join(item.word for item in found)))
