"""The nearest types of a corpus by layer 0, which reads characters without context; works for unseen words too.

Notation: V types, D width of a vector.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmokit.analysis.neighbors.build import check_places, empty_corpus, find_index, open_index
from elmokit.analysis.neighbors.chart import Panel, bar_chart
from elmokit.analysis.neighbors.index import BLOCK, Types, is_finished
from elmokit.analysis.neighbors.search import Nearest
from elmokit.analysis.report import Report, Table, printable
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.records import Vectors
from elmokit.errors import InputError
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, actual_input
from elmokit.text.lines import read_sentences
from elmokit.wording import counted

_FORMS = 5
_FORM_LENGTHS = 2
"""Maximum difference in length of similar forms."""


@dataclass(frozen=True)
class TypeNeighbor:
    """A type, its count in the corpus, and its cosine."""

    type: str
    count: int
    cosine: float


def analyze_type_neighbors(
    embedder: Embedder,
    word: str,
    corpus: str | Path | None = None,
    *,
    index: str | Path | None = None,
    k: int = 10,
    input: InputKind | None = None,
) -> Report:
    """The types of a corpus that are nearest to any string by its characters alone, without context.

    Types are taken from an existing index, else from the corpus: no index is built for them.

    Args:
        embedder: The model.
        word: Any string without white space.
        corpus: The text whose types are compared; None uses a finished index.
        index: Folder of the index; None is one in the user's cache.
        k: Number of neighbors.
        input: What the lines of the corpus are; None is as in an existing index, else raw text.
    """
    corpus, index, input = check_places(corpus, index, input)
    if corpus is None or (index is not None and is_finished(index)):
        types = open_index(embedder, corpus, index, input=input).types
    else:
        found = find_index(embedder, corpus, input=input)
        types = corpus_types(embedder, corpus, input=input) if found is None else found.types
    return types_report(word, types, find_type_neighbors(embedder, types, word, k))


def corpus_types(embedder: Embedder, corpus: Path, *, input: InputKind = DEFAULT_INPUT) -> Types:
    """The types of a corpus without an index: only layer 0 is computed, and kept in memory."""
    if actual_input(corpus, input) == "text":
        embedder.check_tokenizer()
    counts: dict[str, int] = {}
    for tokens in read_sentences(corpus, input=input):
        for token in tokens:
            counts[token] = counts.get(token, 0) + 1
    if not counts:
        raise empty_corpus(corpus)
    vectors = np.empty((len(counts), embedder.bilm.config.output_dim), np.float16)  # (V, D)
    for number, vector in enumerate(embedder.embed_stream(([word] for word in counts), layers=0, dtype="float16")):
        vectors[number] = vector[0]
    return Types(list(counts), np.fromiter(counts.values(), np.int64, len(counts)), vectors)


def find_type_neighbors(embedder: Embedder, types: Types, word: str, k: int = 10) -> list[TypeNeighbor]:
    """The k types nearest to any string, except the string itself."""
    if not word or word.split() != [word]:
        raise InputError(f"the type {word!r} is empty or has white space in it: give one token.")
    if embedder.count_unknown([word]):
        raise InputError(
            f"this model reads words and does not know {word!r}: give a word that it knows, or use a model that reads "
            "characters."
        )
    return nearest_types(types, embedder.embed([[word]], layers=0)[0][0], word, k)


def nearest_types(types: Types, vector: Vectors, word: str, k: int) -> list[TypeNeighbor]:
    """The k types nearest to a word's vector (D,), except the word itself."""
    own = types.numbers.get(word)
    nearest = Nearest(vector[None], (1.0,), k, lambda number: None if number == own else number)
    for begin in range(0, len(types.words), BLOCK):
        block = types.vectors[begin : begin + BLOCK, None]  # (n, 1, D)
        nearest.feed(np.arange(begin, begin + len(block)), block)
    return [TypeNeighbor(types.words[row], int(types.counts[row]), cosine) for row, cosine in nearest.hits()]


def types_table(word: str, found: Iterable[TypeNeighbor]) -> Table:
    """The neighbors of a type as a table."""
    rows = tuple((one.type, one.count, one.cosine) for one in found)
    return Table(f"Types nearest to “{word}” without context (layer 0)", ("type", "occurrences", "cosine"), rows, 3)


def types_panel(found: Sequence[TypeNeighbor]) -> Panel:
    """The neighbors of a type as bars."""
    return Panel("types, layer 0", "type", [printable(one.type) for one in found], [one.cosine for one in found])


def types_report(word: str, types: Types, found: Sequence[TypeNeighbor]) -> Report:
    """The report of `--type`."""
    number = types.numbers.get(word)
    count = 0 if number is None else int(types.counts[number])
    told = f"It occurs {counted(count, 'time')} in the corpus" if count else "It does not occur in the corpus"
    return Report(
        title=f"Types like “{word}”",
        blocks=(
            f"{told}, which has {counted(len(types.words), 'type')}.",
            types_table(word, found),
            bar_chart(
                f"Types nearest to “{word}”",
                f"Types nearest to “{word}” by layer 0, which sees characters only, and their cosines.",
                [types_panel(found)],
            ),
        ),
        figures={"type": word, "count": count, "num_types": len(types.words), "neighbours": to_figures(found)},
    )


def to_figures(found: Iterable[TypeNeighbor]) -> list[dict[str, Any]]:
    """Neighbors as JSON values."""
    return [asdict(one) | {"cosine": round(one.cosine, 6)} for one in found]


def near_forms(word: str, words: Iterable[str]) -> list[str]:
    """Words with a similar spelling, as suggestions for typing errors; words that differ only in case come first."""
    similar = [other for other in words if abs(len(other) - len(word)) <= _FORM_LENGTHS]
    capitals = [other for other in similar if other.lower() == word.lower() and other != word]
    close = difflib.get_close_matches(word, similar, n=_FORMS + 1, cutoff=0.7)
    return [other for other in dict.fromkeys([*capitals, *close]) if other != word][:_FORMS]
