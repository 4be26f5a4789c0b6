"""Part-of-speech probes: what each layer knows about syntax, on a Universal Dependencies treebank."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

from elmokit.analysis.probes.layers import ProbeTask, Tagged
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.columns import read_columns

TagSet = Literal["xpos", "upos"]
COLUMNS = ("ID", "FORM", "LEMMA", "UPOS", "XPOS", "FEATS", "HEAD", "DEPREL", "DEPS", "MISC")


@dataclass(frozen=True)
class PosExample:
    """A sentence with the treebank's own tags and the universal tags."""

    tokens: tuple[str, ...]
    xpos: tuple[str, ...]
    upos: tuple[str, ...]


def read_conllu(path: Path) -> Iterator[PosExample]:
    """Stream the words of a CoNLL-U file; multiword tokens (`1-2`) and empty nodes (`1.1`) are skipped."""
    for sentence in read_columns(path, COLUMNS, separator="\t", comments=True):
        words = []
        for row in sentence.rows:
            number = row.columns[0]
            if number.isdecimal():
                words.append(row.columns)
            elif not number.replace("-", ".", 1).replace(".", "", 1).isdecimal():
                raise InputError(
                    f"{path} line {row.line} has the ID {number!r}, expected a number, a range such as 1-2 or an empty "
                    "node such as 1.1: correct the line."
                )
        if words:
            yield PosExample(*(tuple(word[column] for word in words) for column in (1, 4, 3)))


def read_pos(path: Path, *, tags: TagSet = "xpos", max_sentences: int | None = None) -> Tagged:
    """The first sentences of a CoNLL-U file, by default all, with tags of one kind."""
    if tags not in ("xpos", "upos"):
        raise ConfigError(f"tags {tags!r} are unknown: choose xpos or upos.")
    examples = list(islice(read_conllu(path), max_sentences))
    found = tuple(getattr(example, tags) for example in examples)
    if any("_" in sentence for sentence in found):
        raise InputError(f"{path} has words without {tags.upper()}: choose the other tags, or another treebank.")
    return Tagged(tuple(example.tokens for example in examples), found)


def pos_task(tags: TagSet) -> ProbeTask:
    """Part-of-speech tags of one kind: the treebank's own (xpos) or universal ones (upos)."""
    endings = {name: f"{name}.conllu" for name in ("train", "dev", "test")}
    return ProbeTask(endings, partial(read_pos, tags=tags))
