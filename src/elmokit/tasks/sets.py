"""The examples of a run's files, and errors and warnings about unsuitable files."""

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any

from elmokit.errors import ElmokitWarning, InputError
from elmokit.tasks.base import Labels, Task
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.subsets import draw_share
from elmokit.text.files import find_files
from elmokit.text.tokenize import tokenize

_WORDS_SHOWN = 8
_WORDS_CHECKED, _MIN_OTHER, _OTHER_SHARE = 2000, 5, 0.1
"""Of five real data sets, 0.2% to 3% of the words are not tokens of elmokit's tokenizer, and 27% of raw text."""


def read_sets(
    task: Task[Any], config: TaskConfig, *, train: Sequence[str], dev: Sequence[str], test: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """The examples of the training, dev and test files; test files are optional."""
    if not train or not dev:
        raise InputError(f"there are no {'dev' if train else 'training'} files for {task.name}: name at least one.")
    named = {"train": train, "dev": dev, "test": test}
    sets = {
        name: read_examples(task, config, patterns, training=name == "train") if patterns else []
        for name, patterns in named.items()
    }
    return {**sets, "train": draw_share(sets["train"], config.train_fraction, config.seed)}


def read_examples(task: Task[Any], config: TaskConfig, patterns: Sequence[str], *, training: bool) -> list[Any]:
    """The examples of files; files without anything to learn or to score are refused."""
    settings = task.read_settings(config.model)
    examples = list(task.read(find_files(patterns), settings, training=training))
    wanted = "example" if not examples else task.needs if not any(map(task.has_gold, examples)) else ""
    if wanted:
        raise InputError(f"there is no {wanted} of {task.name} in {', '.join(patterns)}: give files of this task.")
    return examples


def warn_of_other_tokens(words: Sequence[str]) -> None:
    """Warn if a model's training words are often not what elmokit's tokenizer makes of raw text.

    `words` are those of a model's table. Words of vector files come first in it, so the last ones are looked at.
    """
    last = words[-_WORDS_CHECKED:]
    other = [word for word in last if len(word) > 1 and not _is_one_token(word)]
    if len(other) > max(_MIN_OTHER, _OTHER_SHARE * len(last)):
        some = ", ".join(map(repr, other[:: len(other) // 3][:3]))
        warnings.warn(
            f"the task model was trained on tokens such as {some}, which elmokit's tokenizer splits, so it may do "
            "worse on raw text: give it tokens that were made as those of its training files.",
            ElmokitWarning,
            stacklevel=3,
        )


def _is_one_token(word: str) -> bool:
    return sum(map(len, tokenize(word))) == 1


def warn_of_unseen(task: Task[Any], labels: Labels, examples: Sequence[Any], patterns: Sequence[str]) -> None:
    """Warn about labels that a model can never predict, because they did not occur in training."""
    known = set(task.known_labels(labels))
    unseen: Counter[str] = Counter()
    first: tuple[str, ...] = ()
    for example in examples:
        own = set(task.gold_labels(example)) - known
        if own and not unseen:
            first = next(task.sentences([example]))
        unseen.update(own)
    if unseen:
        listed = ", ".join(f"{label} ({number})" for label, number in sorted(unseen.items()))
        begin = " ".join(first[:_WORDS_SHOWN]) + (" …" if len(first) > _WORDS_SHOWN else "")
        warnings.warn(
            f"{', '.join(patterns)}: training never saw the labels {listed}, with the number of examples, first in "
            f"{begin!r}; they count as missed: train on files that have them, or correct the labels.",
            ElmokitWarning,
            stacklevel=2,
        )
