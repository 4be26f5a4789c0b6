"""Part-of-speech probes: what each layer knows about syntax, on a Universal Dependencies treebank."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from elmokit.analysis.embed import Embed
from elmokit.analysis.probes.layers import ProbeResult, Tagged, find_file, probe_tags
from elmokit.analysis.probes.linear import PROTOCOL, Training
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


def probe_pos(
    embed: Embed,
    data_dir: Path,
    *,
    tags: TagSet = "xpos",
    seeds: Sequence[int] = (0, 1, 2),
    training: Training = PROTOCOL,
    max_sentences: int | None = None,
    candidates: Sequence[str] | None = None,
) -> ProbeResult:
    """Accuracy of part-of-speech tags by layer.

    Args:
        embed: gives the layers of tokenized sentences, e.g. `layers_of(embedder)`.
        data_dir: folder of a treebank, with one file each that ends in train.conllu, dev.conllu and test.conllu, plain
            or compressed.
        tags: the treebank's own tags (xpos) or universal tags (upos).
        seeds: random seeds, one probe each.
        training: how a probe is trained.
        max_sentences: maximum number of sentences per file; None uses all.
        candidates: which vectors to probe, by the names of `candidate_names`; None probes all.
    """
    sets = {
        name: read_pos(find_file(data_dir, f"{name}.conllu"), tags=tags, max_sentences=max_sentences)
        for name in ("train", "dev", "test")
    }
    return probe_tags(embed, sets, metric="accuracy", seeds=seeds, training=training, candidates=candidates)
