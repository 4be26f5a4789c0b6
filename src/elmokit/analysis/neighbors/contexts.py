"""The nearest contexts of a word in a sentence, among its occurrences in a corpus or among all tokens.

The paper's Table 4: a static vector of "play" mixes sport and theatre; the layers of a biLM find plays of one kind.
Identical sentences count once, and the query sentence itself does not count.

Notation: L layers, D width of a vector.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from elmokit.analysis.neighbors.build import check_places, open_index
from elmokit.analysis.neighbors.chart import Panel, bar_chart
from elmokit.analysis.neighbors.index import NeighborIndex
from elmokit.analysis.neighbors.search import ApproximateIndex, Nearest
from elmokit.analysis.neighbors.types import (
    TypeNeighbor,
    near_forms,
    nearest_types,
    to_figures,
    types_panel,
    types_table,
)
from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.report import Concordance, Line, Report, printable
from elmokit.arguments import check_integer
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.pooling import Layers
from elmokit.errors import ConfigError, InputError
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import DEFAULT_INPUT, InputKind, glued_form
from elmokit.text.lines import split_line
from elmokit.text.tokens import check_tokens
from elmokit.wording import counted

Against = Literal["word", "tokens"]
_AROUND = 3
"""Tokens on each side in the labels of a plot."""
_TOKEN = 15
"""Characters per token in these labels."""


@dataclass(frozen=True)
class NeighborOptions:
    """How to search for neighbors."""

    layers: tuple[Layers, ...] = ("top",)
    """Each is a layer's number, "top", "average", one weight per layer, or "all" for every layer separately."""
    k: int = 10
    against: Against = "word"
    """Search the occurrences of the same word, or all tokens."""
    ann: bool = False
    """Use faiss to choose candidates among all tokens."""

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        if self.against not in get_args(Against):
            raise ConfigError(f"against {self.against!r} is unknown: choose {' or '.join(get_args(Against))}.")
        check_integer("k", self.k, at_least=1)
        if self.ann and self.against == "word":
            raise ConfigError("approximate search (ann) is for all tokens: add against='tokens', or leave it out.")
        if not self.layers:
            raise ConfigError("no layers are named: give a layer's number, top, average, all or one weight per layer.")


@dataclass(frozen=True)
class Neighbor:
    """A context in the corpus and its cosine."""

    occurrence: Occurrence
    cosine: float


@dataclass(frozen=True)
class Neighbors:
    """The neighbors of a word in a sentence."""

    tokens: tuple[str, ...]
    position: int
    options: NeighborOptions
    model_sha256: str
    corpus_sha256: str
    num_compared: int
    """Number of occurrences of the word in the corpus, or of all tokens."""
    static: list[TypeNeighbor]
    """The nearest types by layer 0."""
    contexts: dict[str, list[Neighbor]]
    """The nearest contexts, by name of the layer mix."""

    @property
    def word(self) -> str:
        """The query word."""
        return self.tokens[self.position]


def analyze_neighbors(
    embedder: Embedder,
    sentence: str,
    word: str,
    corpus: str | Path | None = None,
    *,
    index: str | Path | None = None,
    position: int | None = None,
    options: NeighborOptions | None = None,
    input: InputKind | None = None,
    on_index: ProgressCallback | None = None,
    on_search: ProgressCallback | None = None,
) -> Report:
    """The contexts in a corpus that are nearest to a word in a sentence, layer by layer (Table 4 of the paper).

    The corpus is embedded once, into an index on disk.

    Args:
        embedder: The model.
        sentence: One sentence with the word.
        word: A token of the sentence.
        corpus: The text to search; None uses a finished index.
        index: Folder of the index; None is one in the user's cache.
        position: The token's position, from 0, if the word occurs more than once.
        options: Layers, number of neighbors, and what to search.
        input: What the sentence and the lines of the corpus are; None is as in an existing index, else raw text.
        on_index: Receives the progress of building the index.
        on_search: Receives the progress of building the faiss index, which is slow the first time.
    """
    corpus, index, input = check_places(corpus, index, input)
    options = options or NeighborOptions()
    sentences = split_line(sentence, input)
    if len(sentences) != 1:
        raise InputError(f"the text has {len(sentences)} sentences: give one.")
    place = locate_word(sentences[0], word, position, input=input)
    if input == "text":
        embedder.check_tokenizer()
    name_mixes(embedder, options.layers)  # refuses wrong layers before the index is built
    opened = open_index(embedder, corpus, index, input=input, report=on_index)
    return neighbors_report(find_neighbors(opened, embedder, sentences[0], place, options, report=on_search))


def locate_word(
    tokens: Sequence[str], word: str, position: int | None = None, *, input: InputKind = DEFAULT_INPUT
) -> int:
    """The position of a word in a sentence.

    Args:
        tokens: the sentence.
        word: one of its tokens.
        position: the position from 0, if the word occurs more than once.
        input: how the sentence was given, for the advice in errors.
    """
    tokens = check_tokens(tokens)
    found = [place for place, token in enumerate(tokens) if token == word]
    sentence = f"the sentence “{' '.join(tokens)[:80]}”"
    if not found:
        if input == "tokens" and (form := glued_form(word, tokens)):
            raise InputError(
                f"{sentence} has no token {word!r}, but {form!r}: give --input text (input='text') for raw text, or "
                "put spaces around punctuation."
            )
        near = near_forms(word, tokens)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "give one of its tokens."
        raise InputError(f"{sentence} has no token {word!r}: {hint}")
    places = ", ".join(map(str, found))
    if position is None and len(found) > 1:
        raise InputError(f"{word!r} occurs {len(found)} times in {sentence}: choose a --position of {places}.")
    if position is None:
        return found[0]
    if position in found:
        return position
    if not 0 <= position < len(tokens):
        raise InputError(
            f"position {position} is outside {sentence}, whose {len(tokens)} tokens are counted from 0: {word!r} "
            f"is at {places}."
        )
    raise InputError(
        f"the token at position {position} of {sentence} is {tokens[position]!r}; {word!r} is at {places}: give that."
    )


def name_mixes(embedder: Embedder, chosen: Sequence[Layers]) -> dict[str, tuple[float, ...]]:
    """The weights (L,) of each choice of layers, by its name."""
    mixes: dict[str, tuple[float, ...]] = {}
    for layers in chosen:
        weights = embedder.select(layers).weights
        if weights is None:
            mixes |= name_mixes(embedder, range(embedder.bilm.config.num_layers))
        elif sorted(weights)[:-1] == [0.0] * (len(weights) - 1):
            mixes[f"layer {weights.index(max(weights))}"] = weights
        elif len(set(weights)) == 1:
            mixes["average"] = weights
        else:
            mixes["mix " + ", ".join(str(weight) for weight in weights)] = weights
    return mixes


def find_neighbors(
    index: NeighborIndex,
    embedder: Embedder,
    tokens: Sequence[str],
    position: int,
    options: NeighborOptions | None = None,
    *,
    report: ProgressCallback | None = None,
) -> Neighbors:
    """The nearest contexts of a token by each mix of layers, and the nearest types of its word.

    Args:
        index: the index of the corpus, by the same model.
        embedder: the model.
        tokens: the query sentence.
        position: the token's position in it, from 0.
        options: layers, number of neighbors, and what to search.
        report: receives the progress of building the faiss index, which is slow the first time.
    """
    options = options or NeighborOptions()
    mixes = name_mixes(embedder, options.layers)
    own = check_tokens(tokens)
    if not 0 <= check_integer("position", position) < len(own):
        raise InputError(f"position ({position}) is outside the sentence of {len(own)} tokens: count them from 0.")
    word = own[position]
    rows = index.rows_of(word) if options.against == "word" else None
    if rows is not None and not len(rows):
        if index.input == "tokens" and (form := glued_form(word, index.types.words)):
            raise InputError(
                f"the corpus has no token {word!r}, but {form!r}: read it as raw text with --input text (input='text')."
            )
        near = near_forms(word, index.types.words)
        hint = f"it has {', '.join(map(repr, near))}" if near else "give a larger one"
        raise InputError(f"the corpus has no token {word!r}: {hint}, and --against tokens compares with all words.")

    def identify(row: int) -> tuple[tuple[str, ...], int] | None:
        found = index.occurrence(row)
        return None if found[:2] == (own, position) else found[:2]

    layers = embedder.embed([list(tokens)])[0][:, position]  # (L, D)
    searches = {name: Nearest(layers, weights, options.k, identify) for name, weights in mixes.items()}
    if options.ann:
        for name, nearest in searches.items():
            ApproximateIndex(index, mixes[name], report).search(nearest)
    else:
        for found, block in index.blocks(rows):  # (n,), (n, L, D)
            for nearest in searches.values():
                nearest.feed(found, block)
    contexts = {
        name: [Neighbor(index.occurrence(row), cosine) for row, cosine in nearest.hits()]
        for name, nearest in searches.items()
    }
    if not all(contexts.values()):
        raise InputError(
            f"{word!r} occurs in the corpus only in the query sentence: there is no other context to compare with; "
            "give a larger corpus, or --against tokens."
        )
    return Neighbors(
        tokens=own,
        position=position,
        options=options,
        model_sha256=index.meta.fingerprint,
        corpus_sha256=index.corpus_sha256,
        num_compared=index.num_tokens if rows is None else len(rows),
        static=nearest_types(index.types, layers[0], word, options.k) if len(index.types.words) > 1 else [],
        contexts=contexts,
    )


def neighbors_report(found: Neighbors) -> Report:
    """The word in its sentence, its nearest types, and its nearest contexts layer by layer."""
    word, options = found.word, found.options
    among = (
        counted(found.num_compared, "token")
        if options.against == "tokens"
        else f"{counted(found.num_compared, 'occurrence')} of “{word}”"
    )
    how = "approximately nearest" if options.ann else "nearest"
    contexts = tuple(
        Concordance(
            f"Contexts {how} by {name}{' (which sees none)' if name == 'layer 0' else ''}, of {among}",
            tuple(_line(one.occurrence, f"{one.cosine:.3f}, line {one.occurrence.line}") for one in nearest),
            note="cosine, place",
        )
        for name, nearest in found.contexts.items()
    )
    return Report(
        title=f"Neighbors of “{word}”",
        blocks=(
            Concordance("Asked about", (_line(Occurrence(found.tokens, found.position)),)),
            types_table(word, found.static),
            *contexts,
            bar_chart(
                f"Nearest to “{word}”",
                f"Types and contexts nearest to “{word}”, and their cosines, with one color per panel.",
                _panels(found),
            ),
        ),
        figures={
            "sentence": " ".join(found.tokens),
            "word": word,
            "position": found.position,
            "against": options.against,
            "approximate": options.ann,
            "model_sha256": found.model_sha256,
            "corpus_sha256": found.corpus_sha256,
            "num_compared": found.num_compared,
            "types": to_figures(found.static),
            "contexts": [
                {"layer": name, "neighbours": [_figures(one) for one in nearest]}
                for name, nearest in found.contexts.items()
            ],
        },
    )


def _panels(found: Neighbors) -> list[Panel]:
    static = [types_panel(found.static)] if found.static else []
    return static + [
        Panel(
            f"contexts, {name}",
            "context",
            [_around(one.occurrence) for one in nearest],
            [float(one.cosine) for one in nearest],
        )
        for name, nearest in found.contexts.items()
    ]


def _around(occurrence: Occurrence) -> str:
    """A token with a few tokens before and after it, short enough for a label."""
    tokens, position = occurrence.tokens, occurrence.position
    begin, end = max(0, position - _AROUND), position + _AROUND + 1
    shown = [printable(token if len(token) <= _TOKEN else f"{token[: _TOKEN - 1]}…") for token in tokens[begin:end]]
    return " ".join([*(["…"] if begin else []), *shown, *(["…"] if end < len(tokens) else [])])


def _line(occurrence: Occurrence, note: str = "") -> Line:
    tokens, position = occurrence.tokens, occurrence.position
    return Line(" ".join(tokens[:position]), tokens[position], " ".join(tokens[position + 1 :]), note)


def _figures(one: Neighbor) -> dict[str, Any]:
    tokens, position, line = one.occurrence.tokens, one.occurrence.position, one.occurrence.line
    return {
        "sentence": " ".join(tokens),
        "position": position,
        "word": tokens[position],
        "cosine": round(one.cosine, 6),
        "line": line,
    }
