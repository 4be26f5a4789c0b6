"""Part-of-speech probes: what each layer knows about syntax, on a Universal Dependencies treebank."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

from elmokit.analysis.probes.layers import ProbeTask, Tagged
from elmokit.errors import ConfigError, InputError
from elmokit.tasks.columns import CONLLU, is_comment, numbered_words, read_columns

TagSet = Literal["xpos", "upos"]


@dataclass(frozen=True)
class PosExample:
    """A sentence with the treebank's own tags and the universal tags."""

    tokens: tuple[str, ...]
    xpos: tuple[str, ...]
    upos: tuple[str, ...]


def read_conllu(path: Path) -> Iterator[PosExample]:
    """Stream the words of a CoNLL-U file; multiword tokens (`1-2`) and empty nodes (`1.1`) are skipped."""
    for sentence in read_columns(path, CONLLU, separator="\t", comments=is_comment):
        if words := numbered_words(path, sentence.rows):
            yield PosExample(*(tuple(word.columns[column] for word in words) for column in (1, 4, 3)))


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
