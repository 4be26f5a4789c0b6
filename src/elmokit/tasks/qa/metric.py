"""Exact match and token F1 of answers, counted as in SQuAD's evaluation script, version 1.1.

Case, ASCII punctuation, English articles and white space do not matter.
"""

import re
import string
from collections import Counter

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


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
