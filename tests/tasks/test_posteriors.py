"""Probabilities of segments, compared with sums over all tag sequences."""

import math
from itertools import pairwise, product

import pytest
import torch

from elmokit.tasks.layers import Crf, TagRules
from elmokit.tasks.posteriors import Posteriors

LENGTHS = (4, 1, 3)


def chain(num_tags: int) -> tuple[torch.Tensor, torch.Tensor, Crf]:
    torch.manual_seed(3)
    scores = torch.randn(len(LENGTHS), max(LENGTHS), num_tags)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    allowed = torch.ones(num_tags, num_tags, dtype=torch.bool)
    allowed[1, 0] = False
    start = torch.ones(num_tags, dtype=torch.bool)
    start[2] = False
    return scores, mask, Crf(num_tags, allowed=allowed, may_start=start)


def weight(crf: Crf, scores: torch.Tensor, row: int, tags: tuple[int, ...]) -> float:
    """The unnormalized probability of a whole sequence, from the definition."""
    if not crf.may_start[tags[0]] or not all(crf.allowed[pair] for pair in pairwise(tags)):
        return 0.0
    total = crf.start[tags[0]] + crf.end[tags[-1]] + sum(scores[row, place, tag] for place, tag in enumerate(tags))
    total = total + sum(crf.transitions[pair] for pair in pairwise(tags))
    return math.exp(float(total.detach()))


@pytest.mark.parametrize("row", range(len(LENGTHS)))
def test_segments_are_as_likely_as_all_sequences_with_them(row: int) -> None:
    scores, mask, crf = chain(3)
    posteriors = crf.posteriors(scores, mask)
    every = {tags: weight(crf, scores, row, tags) for tags in product(range(3), repeat=LENGTHS[row])}
    for start in range(LENGTHS[row]):
        for size in range(1, LENGTHS[row] - start + 1):
            for tags in product(range(3), repeat=size):
                own = sum(value for whole, value in every.items() if whole[start : start + size] == tags)
                expected = own / sum(every.values())
                assert posteriors.segment(row, start, tags) == pytest.approx(expected, abs=1e-5)


def test_without_transitions_a_token_has_its_softmax() -> None:
    scores, mask, _ = chain(3)
    every = torch.ones(3, 3, dtype=torch.bool)
    posteriors = TagRules(allowed=every, may_start=every[0]).posteriors(scores, mask)
    assert posteriors.segment(0, 2, [1]) == pytest.approx(float(scores[0, 2].softmax(0)[1]))


def test_the_best_sequence_of_a_sure_model_is_certain() -> None:
    scores = torch.tensor([[[50.0, 0.0], [0.0, 50.0]]])
    zeros = torch.zeros(2)
    posteriors = Posteriors(scores, torch.ones(1, 2, dtype=torch.bool), torch.zeros(2, 2), zeros, zeros)
    assert posteriors.segment(0, 0, [0, 1]) == pytest.approx(1.0)
