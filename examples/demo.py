"""The path of a sentence through elmokit, on a model whose weights are random.

Until a trained model is packaged this shows the road, not the destination: tokens, character ids, layers, mix, and the
same model through every file format. Run it with `make demo`.
"""

import tempfile
import warnings
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import elmokit
from elmokit.config import CharacterInput, LstmStack
from elmokit.errors import ElmokitWarning
from elmokit.formats import describe, fingerprint

TEXT = "Mr. Darcy didn't play the piano. The play was cancelled, wasn't it?"
SHAPE = elmokit.ElmoConfig(
    input=CharacterInput(filters=((1, 32), (2, 32), (3, 64), (4, 128)), num_highway=1),
    lstm=LstmStack(cell_dim=256, projection_dim=64),
)


def show_text(console: Console, bilm: elmokit.BiLM) -> list[list[str]]:
    """Raw text → sentences of tokens with offsets → character ids."""
    console.rule("1. text → tokens → char_ids")
    sentences = elmokit.tokenize(TEXT)
    for sentence in sentences:
        console.print(" ".join(f"{token.text}[dim]\\[{token.start}:{token.end}][/dim]" for token in sentence))
    tokens = [[token.text for token in sentence] for sentence in sentences]
    char_ids = bilm.to_char_ids(tokens)
    console.print(f"char_ids: {tuple(char_ids.shape)} = (B, T, C); “play” is {char_ids[0, 4, :7].tolist()} …")
    return tokens


def show_layers(console: Console, bilm: elmokit.BiLM, tokens: list[list[str]]) -> None:
    """Character ids → layers → mix, and what context does to a word."""
    console.rule("2. char_ids → layers → mix")
    with torch.no_grad():
        layers, mask, _ = bilm(bilm.to_char_ids(tokens))
        mixed = elmokit.ElmoMixes(bilm.config.num_layers, dropout=0.0)(layers, mask)[0]
    console.print(f"layers: {tuple(layers.shape)} = (L, B, T, 2P); mix: {tuple(mixed.shape)} = (B, T, 2P)")
    verb, noun = layers[:, 0, 4], layers[:, 1, 1]
    similarity = torch.cosine_similarity(verb, noun, dim=-1)
    for depth, value in enumerate(similarity.tolist()):
        note = "the same word has the same vector" if depth == 0 else "context has changed it"
        console.print(f"  “play” (verb) and “play” (noun), layer {depth}: cosine {value:.4f}  [dim]{note}[/dim]")


def show_formats(console: Console, bilm: elmokit.BiLM) -> None:
    """The same model through every format that can be written."""
    console.rule("3. round trip through each format")
    table = Table("format", "written as", "fingerprint after reading back", "same model")
    with tempfile.TemporaryDirectory() as folder:
        for format_, name in (("native", "native"), ("bilm", "bilm"), ("nlpl", "nlpl.zip")):
            elmokit.save(bilm, Path(folder, name), format=format_)
            found = describe(Path(folder, name))
            same = "[green]yes[/green]" if found.fingerprint == fingerprint(bilm) else "[red]NO[/red]"
            table.add_row(found.format, ", ".join(found.files), found.fingerprint[:16] + " …", same)
    console.print(table)


if __name__ == "__main__":
    warnings.simplefilter("error", ElmokitWarning)
    screen = Console(highlight=False)
    screen.print("[bold yellow]The weights of this model are random (seed 0): its vectors mean nothing yet.[/]")
    model = elmokit.BiLM(SHAPE, seed=0).eval()
    show_layers(screen, model, show_text(screen, model))
    show_formats(screen, model)
