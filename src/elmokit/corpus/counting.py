"""Count the words of a corpus and build a vocabulary from the counts."""

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from elmokit.arguments import check_choice, check_integer, shown
from elmokit.corpus.blocks import Errors
from elmokit.corpus.survey import MAX_DISTINCT, survey_corpus
from elmokit.errors import ConfigError, ElmokitWarning, FormatError, InputError
from elmokit.filesystem import atomic_path, guard_output
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import CORPUS_FILE, DEFAULT_INPUT, InputKind, check_input
from elmokit.text.vocabulary import SKIPPED, SPECIALS, Vocabulary, is_vocabulary, write_vocabulary


def count_words(
    paths: Sequence[Path],
    *,
    input: InputKind = DEFAULT_INPUT,
    processes: int | None = None,
    errors: Errors = "strict",
    max_distinct: int = MAX_DISTINCT,
    progress: ProgressCallback | None = None,
) -> Counter[str]:
    """Count how often each token occurs.

    Args:
        paths: Files to read.
        input: "tokens" or "text", as for `read_sentences`.
        processes: Processes to tokenize with; None chooses by the number of cores.
        errors: Invalid UTF-8: "strict" fails, "replace" puts U+FFFD.
        max_distinct: Distinct words to hold; beyond that the rarest are dropped, with an `ElmokitWarning`.
        progress: Receives the number of bytes read and the total.
    """
    check_input(input)
    check_choice("errors", errors, get_args(Errors))
    check_integer("max_distinct", max_distinct, at_least=1)
    words = survey_corpus(
        paths, input=input, errors=errors, max_distinct=max_distinct, processes=processes, progress=progress
    ).words
    if words.max_lost:
        warnings.warn(
            f"there are more than {max_distinct:,} distinct words, so rare ones were forgotten on the way: "
            f"counts may be too low by up to {words.max_lost}.",
            ElmokitWarning,
            stacklevel=2,
        )
    return words.counts


def build_vocabulary(counts: Mapping[str, int], *, min_count: int = 1, max_size: int | None = None) -> Vocabulary:
    """Build a vocabulary: the special tokens, then the words by descending count, ties in code point order.

    Args:
        counts: How often each word occurs; special tokens in it are not repeated.
        min_count: Drop words that occur less often.
        max_size: Maximum number of entries, including the three special tokens.

    Raises:
        InputError: If no word remains.
    """
    if not isinstance(counts, Mapping):
        raise ConfigError(f"counts are {shown(counts)}: give the count of each word, as count_words does.")
    check_integer("min_count", min_count, at_least=1)
    if max_size is not None:  # beside the special tokens there must be room for a word
        check_integer("max_size", max_size, at_least=len(SPECIALS) + 1)
    left_out = {*SPECIALS, SKIPPED}
    words = [word for word, count in counts.items() if count >= min_count and word not in left_out]
    if not words:
        raise InputError(
            f"no word occurs {min_count} times or more among {len(counts):,} distinct ones: "
            "give more text or a smaller min_count."
        )
    words.sort(key=lambda word: (-counts[word], word))
    return Vocabulary([*SPECIALS, *words[: None if max_size is None else max_size - len(SPECIALS)]])


def check_vocabulary_output(path: Path, *, inputs: Sequence[str | Path] = (), overwrite: bool = False) -> None:
    """Refuse an output path that is an input, or that exists and is not a vocabulary that may be overwritten."""
    final = guard_output(path, kind="a vocabulary", is_ours=is_vocabulary, inputs=inputs, overwrite=overwrite)
    if final.exists():
        names = os.listdir(final.parent)
        owners = {"config.json", "run.json", CORPUS_FILE}.intersection(names) | {n for n in names if "options" in n}
        if owners:
            raise FormatError(
                f"{path} is the vocabulary of the model or run beside it ({min(owners)}), so it is left alone: give "
                "another name."
            )


def write_vocabulary_atomic(vocabulary: Vocabulary, path: Path, *, overwrite: bool = False) -> None:
    """Write a vocabulary file atomically; replace an existing vocabulary only with `overwrite`."""
    check_vocabulary_output(path, overwrite=overwrite)
    with atomic_path(path) as temporary:
        write_vocabulary(vocabulary, temporary)
