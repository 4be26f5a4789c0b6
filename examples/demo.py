"""One word, many meanings: what reading the sentence does to a word's vector.

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
from sentences import show_failures, show_neighbors, show_substitutes
from summary import show_introduction, show_shares

PROBES = (("play", "theater"), ("bank", "money"), ("spring", "season"))
FOLDER = Path("demo-out")


def main(model: str = "mini") -> None:
    """Load, embed, show, draw."""
    console = Console(highlight=False, markup=False)
    embedder = elmokit.Embedder.from_pretrained(model)
    size = sum(parameter.numel() for parameter in embedder.bilm.parameters())
    found = study(embedder, read_words())
    show_introduction(console, found, f"{model}, {size / 1e6:.1f} million parameters")

    console.rule("1. Which sentences use the word most alike?", align="left")
    for word, sense in PROBES:
        show_neighbors(console, found.words[word], found.vectors[word][found.best], sense)
    console.print()
    console.rule("2. How often does the most similar sentence mean the same?", align="left")
    show_shares(console, found)
    console.rule("3. Where it fails", align="left")
    worst = min(found.words, key=lambda word: found.shares[word].layers[found.best] - found.shares[word].guess)
    show_failures(console, found.words[worst], found.vectors[worst][found.best])
    console.rule("4. Cover the word: what would the model write there?", align="left")
    try:
        show_substitutes(console, embedder.bilm, found.words["spring"])
    except elmokit.ElmokitError as error:
        console.print(str(error))

    FOLDER.mkdir(exist_ok=True)
    console.rule("5. See for yourself", align="left")
    write_page(FOLDER / "senses.html", found)
    console.print(f"{FOLDER}/senses.html  open it in a browser; point at a dot to read its sentence")
    try:
        write_picture(FOLDER / "senses.png", found)
        console.print(f"{FOLDER}/senses.png   the same as a picture")
    except ImportError:
        console.print("no picture: it needs matplotlib, pip install 'elmokit[analysis]'")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except elmokit.ElmokitError as error:
        sys.exit(str(error))
