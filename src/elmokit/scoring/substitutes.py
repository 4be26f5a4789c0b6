"""Find the words that both directions of a biLM predict at a position of a sentence."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from elmokit.arguments import check_integer
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM
from elmokit.text.tokens import check_tokens
from elmokit.text.vocabulary import SPECIALS
from elmokit.wording import counted


class Substitute(NamedTuple):
    """A word and its scores."""

    word: str
    score: float
    """log p forward + log p backward: high if both directions predict the word."""
    forward: float
    backward: float


def find_substitutes(bilm: BiLM, tokens: Sequence[str], position: int, *, number: int = 10) -> list[Substitute]:
    """Find the most probable words at the position of a token; the token itself is hidden from the model.

    The best word is first. A negative position counts from the end.
    """
    if bilm.vocabulary is None or bilm.softmax is None:
        raise ConfigError(
            "this model has no softmax, so it cannot name words (published models lack theirs): "
            "train one with elmokit finetune."
        )
    tokens = check_tokens(tokens)
    check_integer("position", position)
    if not tokens:
        raise InputError("the sentence has no token, so there is no place in it: give one with tokens.")
    if not -len(tokens) <= position < len(tokens):
        raise InputError(
            f"position {position} is outside the sentence of {counted(len(tokens), 'token')} "
            f"({' '.join(tokens)[:80]}): give one from 0 to {len(tokens) - 1}."
        )
    check_integer("number", number, at_least=1)
    place = position % len(tokens)
    width = bilm.config.lstm.output_dim
    with torch.inference_mode():
        layers = bilm(bilm.to_char_ids([tokens]), keep_boundaries=True).layers  # (L, 1, T + 2, 2P)
        top = layers[-1, 0]  # (T + 2, 2P), the token itself is at place + 1
        forward = bilm.logits(top[place, :width]).log_softmax(-1)  # (V,)
        backward = bilm.logits(top[place + 2, width:]).log_softmax(-1)  # (V,)
        scores = forward + backward  # (V,)
        scores[: len(SPECIALS)] = -torch.inf
        best = scores.topk(min(number, len(scores) - len(SPECIALS)))
    return [
        Substitute(bilm.vocabulary.tokens[word], score, float(forward[word]), float(backward[word]))
        for score, word in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]
