"""From a question about a word's use to its report: collect, embed, group, compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.report import Report
from elmokit.analysis.usage.groups import induce
from elmokit.analysis.usage.occurrences import (
    Corpus,
    Sample,
    check_word,
    collect,
    missing_word_error,
    mix_layers,
    read_contexts,
)
from elmokit.analysis.usage.ranking import RankOptions, rank_words
from elmokit.analysis.usage.report import Subject, ranking_report, senses_report, shift_report
from elmokit.analysis.usage.shift import compare
from elmokit.arguments import check_integer, shown
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.embedding.pooling import Layers
from elmokit.errors import ConfigError, InputError
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import has_raw_text
from elmokit.wording import counted

Corpora = tuple[Corpus] | tuple[Corpus, Corpus]


@dataclass(frozen=True)
class UsageOptions:
    """The word and the settings of the analysis."""

    forms: tuple[str, ...]
    """Tokens that count as the word; the first is its name."""
    match_case: bool = False
    num_groups: int | None = None
    """None determines the number automatically."""
    layers: Layers = "top"
    max_occurrences: int = 2000
    """Maximum per corpus; more are sampled."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        if isinstance(self.forms, str) or not self.forms:
            raise ConfigError(
                f"forms ({shown(self.forms)}) must be the tokens that count as the word: give at least one."
            )
        check_integer("max_occurrences", self.max_occurrences, at_least=1)

    @property
    def word(self) -> str:
        """The name of the word."""
        return self.forms[0]


def analyze_senses(
    embedder: Embedder, corpora: Corpora, options: UsageOptions, *, on_embedding: ProgressCallback | None = None
) -> Report:
    """The groups of a word's uses in a corpus; with a second corpus, how the use differs there.

    Only the sampled sentences are embedded, once: their layers stay in the cache.

    Args:
        embedder: The model.
        corpora: One corpus, or two to compare.
        options: The word and the settings.
        on_embedding: Receives how many sentences of how many are embedded.
    """
    selection, store = embedder.select(options.layers), LayerCache(embedder)
    _check_tokenizer(embedder, corpora)
    samples = [_collect(corpus, options) for corpus in corpora]
    sides = [sample.occurrences for sample in samples]
    _check_number(corpora, sides, options)
    everything = [occurrence for side in sides for occurrence in side]
    contexts = mix_layers(read_contexts(store, everything, on_embedding), selection)  # (K, D)
    settings = _settings(embedder, corpora, options.layers, options.seed)
    subject = Subject(
        options.word,
        options.forms,
        corpus_names(corpora),
        tuple(sample.num_seen for sample in samples),
        tuple(map(len, sides)),
        everything,
        settings | {"match_case": options.match_case},
    )
    if len(corpora) == 1:
        return senses_report(subject, induce(contexts, options.num_groups, seed=options.seed))
    cut = len(sides[0])
    found = compare(contexts[:cut], contexts[cut:], options.num_groups, seed=options.seed)
    return shift_report(subject, found)


def analyze_shifts(
    embedder: Embedder,
    corpora: tuple[Corpus, Corpus],
    number: int,
    options: RankOptions | None = None,
    *,
    layers: Layers = "top",
    on_embedding: ProgressCallback | None = None,
) -> Report:
    """The words whose use differs most between two corpora.

    Args:
        embedder: The model.
        corpora: The two corpora; each is read twice.
        number: How many words to list.
        options: Which words are compared, and on how many occurrences.
        layers: Layers of the model to use.
        on_embedding: Receives how many sentences of how many are embedded.
    """
    options = options or RankOptions()
    selection = embedder.select(layers)
    _check_tokenizer(embedder, corpora)
    ranked = rank_words(LayerCache(embedder), corpora, selection, options, on_embedding)
    settings = _settings(embedder, corpora, layers, options.seed)
    settings |= {"min_count": options.min_count, "max_words": options.max_words}
    settings |= {"max_occurrences": options.max_occurrences}
    first, second = corpus_names(corpora)
    return ranking_report(ranked, number, (first, second), settings)


def _check_tokenizer(embedder: Embedder, corpora: Corpora) -> None:
    if any(has_raw_text(corpus.paths, corpus.input) for corpus in corpora):
        embedder.check_tokenizer()


def corpus_names(corpora: Sequence[Corpus]) -> tuple[str, ...]:
    """Distinct names of corpora: file names, else paths, else numbers."""
    names = tuple(corpus.name for corpus in corpora)
    if len(set(names)) < len(names):
        names = tuple(str(corpus.paths[0].parent / corpus.name) for corpus in corpora)
    if len(set(names)) < len(names):
        names = tuple(f"{name} ({number})" for number, name in enumerate(names, 1))
    return names


def _collect(corpus: Corpus, options: UsageOptions) -> Sample:
    for form in options.forms:
        check_word(form, corpus.input)
    sample = collect(
        corpus,
        options.forms,
        max_occurrences=options.max_occurrences,
        seed=options.seed,
        match_case=options.match_case,
    )
    if not sample.num_seen:
        raise missing_word_error(options.word, corpus)
    return sample


def _check_number(corpora: Corpora, sides: Sequence[Sequence[Occurrence]], options: UsageOptions) -> None:
    """Refuse too few occurrences before anything is embedded; repeated sentences count once."""
    for corpus, side in zip(corpora, sides, strict=True):
        if len(side) < 2:
            raise InputError(
                f"{options.word!r} occurs in only one sentence of {corpus.name}: nothing can be compared with it; "
                "give more text or a more frequent word."
            )
    total = sum(map(len, sides))
    if options.num_groups is not None and total < options.num_groups:
        raise InputError(
            f"{options.word!r} occurs {counted(total, 'time')} in different sentences, too few for "
            f"{options.num_groups} groups: give more text or ask for fewer groups."
        )


def _settings(embedder: Embedder, corpora: Corpora, layers: Layers, seed: int) -> dict[str, Any]:
    return {
        "model": embedder.name,
        "model_sha256": embedder.fingerprint,
        "layers": layers if isinstance(layers, str | int) else list(layers),
        "input": corpora[0].input,
        "seed": seed,
        "files": [[str(path) for path in corpus.paths] for corpus in corpora],
    }
