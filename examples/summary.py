"""What the demo prints: the question, the answer in one line, and the table."""

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from senses import Study


def show_introduction(console: Console, study: Study, model: str) -> None:
    """What is tested, on what, and what came out, in a few lines."""
    number = sum(map(len, study.words.values()))
    shares = study.shares.values()
    context, without = (np.mean([share.layers[layer] for share in shares]) for layer in (study.best, 0))
    guess = np.mean([share.guess for share in shares])
    console.print(
        'A word like "play" has several meanings. A classic word vector is the same for all of them. ELMo reads the '
        'whole sentence and gives every "play" a vector of its own. Do vectors of the same meaning come out alike?\n\n'
        f"We take {number} sentences from old books with {len(study.words)} such words, and for each sentence we look "
        f"up the most similar one. The model ({model}) was never told the meanings.\n"
    )
    console.print(
        Text.assemble(
            "The most similar sentence has the same meaning ",
            (f"{context:.0%} of the time with context", "bold green"),
            f", {without:.0%} without it, {guess:.0%} by guessing.\n",
        )
    )


def show_shares(console: Console, study: Study) -> None:
    """A row for each word: the shares by layer, and whether the best layer beats guessing and random weights."""
    rows = {word: [*found.layers, found.guess, found.random[study.best]] for word, found in study.shares.items()}
    layers = [f"layer {layer}" for layer in range(len(next(iter(rows.values()))) - 2)]
    columns = [Column(name, justify="right") for name in (*layers, "guessing", "untrained")]
    table = Table("word", Column("meanings", no_wrap=True), *columns, "beats both", box=SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for word, found in study.shares.items():
        clear = found.beats_both(study.best)
        percent = [f"{share:.0%}" for share in rows[word]]
        table.add_row(word, " / ".join(found.senses), *percent, "yes" if clear else "no", style="" if clear else "red")
    table.add_section()
    table.add_row("mean", "", *[f"{np.mean(column):.0%}" for column in zip(*rows.values(), strict=True)], "")
    console.print(table)
    console.print(
        "Layer 0 sees the spelling only; the layers above it read the sentence. Guessing always says the same "
        "meaning. Untrained is the same network with random weights. "
        f"Layer {study.best} beats both if it is clearly above guessing, and above untrained.\n",
        style="dim",
    )
