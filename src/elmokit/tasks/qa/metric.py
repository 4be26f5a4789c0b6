"""Exact match and token F1 of answers, counted as in SQuAD's evaluation script, version 1.1.

Case, ASCII punctuation, English articles and white space do not matter. A prediction gets its best score over the
gold answers of its question; the score of a set is the mean over its questions.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elmokit.errors import InputError
from elmokit.tasks.qa.reader import QaExample

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


@dataclass(frozen=True)
class AnswerScore:
    """Means over questions, from 0 to 1."""

    exact_match: float
    f1: float
    num_questions: int
    num_missing: int
    """Questions without a prediction, which count 0."""


def normalize_answer(text: str) -> str:
    """The normalized form of an answer, for comparison.

    Punctuation is removed first, which joins its neighbors (`3.5` is `35`, `a-b` is `ab`), as in SQuAD's evaluation.
    """
    return " ".join(_ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> bool:
    """Whether the normalized answers are equal."""
    return normalize_answer(prediction) == normalize_answer(answer)


def token_f1(prediction: str, answer: str) -> float:
    """F1 of the common tokens; 0 without a common token, even if both answers are empty."""
    found, wanted = normalize_answer(prediction).split(), normalize_answer(answer).split()
    num_common = (Counter(found) & Counter(wanted)).total()
    return 2 * num_common / (len(found) + len(wanted)) if num_common else 0.0


def score_answers(examples: Iterable[QaExample], predictions: Mapping[str, str]) -> AnswerScore:
    """Compare predicted texts by question id; predictions for other questions are ignored."""
    num_questions = num_missing = num_exact = 0
    sum_f1 = 0.0
    for example in examples:
        if not example.answers:
            raise InputError(f"question {example.id!r} has no gold answer: leave it out, or give it one.")
        num_questions += 1
        if (prediction := predictions.get(example.id)) is None:
            num_missing += 1
            continue
        num_exact += any(exact_match(prediction, answer.text) for answer in example.answers)
        sum_f1 += max(token_f1(prediction, answer.text) for answer in example.answers)
    whole = max(num_questions, 1)
    return AnswerScore(num_exact / whole, sum_f1 / whole, num_questions, num_missing)
