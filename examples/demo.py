"""What context does to a word: senses of ambiguous words in sentences of books, layer by layer.

    python examples/demo.py [MODEL]

MODEL is what `elmokit.load` takes; without one it is "mini", which comes with the package. `make demo` runs this.
"""

import sys
from pathlib import Path

from rich.console import Console

import elmokit
from picture import write_page, write_picture
from polysemy import read_words
from senses import study
from terminal import show_failures, show_neighbours, show_shares, show_substitutes

PROBES = (("play", "theatre"), ("bank", "money"), ("spring", "season"))
FOLDER = Path("demo-out")


def main(model: str = "mini") -> None:
    """Load, embed, show, draw."""
    console = Console(highlight=False, markup=False)
    embedder = elmokit.Embedder.from_pretrained(model)
    stack = embedder.bilm.config.lstm
    size = sum(parameter.numel() for parameter in embedder.bilm.parameters()) / 1e6
    console.print(
        f"{model}: {size:.1f} million weights, {stack.num_layers} LSTM layers of {stack.cell_dim} cells a side"
    )
    found = study(embedder, read_words())

    console.rule("the nearest occurrences of a word, by layer", align="left")
    for word, sense in PROBES:
        show_neighbours(console, found.words[word], found.vectors[word], sense)
    console.rule("how often the nearest occurrence has the same sense", align="left")
    show_shares(console, found)
    worst = min(found.words, key=lambda word: found.shares[word].layers[found.best] - found.shares[word].guess)
    console.print(f"The hardest is {worst}. Where layer {found.best} errs (look at the words right beside it):")
    show_failures(console, found.words[worst], found.vectors[worst][found.best])
    console.rule("what the model expects in a word's place, which it does not see", align="left")
    try:
        show_substitutes(console, embedder.bilm, found.words["bank"])
    except elmokit.ElmokitError as error:
        console.print(str(error))

    FOLDER.mkdir(exist_ok=True)
    console.rule(f"written to {FOLDER}", align="left")
    write_page(FOLDER / "senses.html", found)
    console.print("senses.html: every occurrence is a point; open it and point at one to read it")
    try:
        write_picture(FOLDER / "senses.png", found)
        console.print("senses.png: the same as a picture")
    except ImportError:
        console.print("no picture, for want of matplotlib: pip install 'elmokit[analysis]'")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except elmokit.ElmokitError as error:
        sys.exit(str(error))
