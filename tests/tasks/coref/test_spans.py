"""Which spans are kept, and their scores and vectors against plain computations."""

import itertools
import random

import pytest
import torch

from elmokit.tasks.coref import spans as spans_module
from elmokit.tasks.coref.document import CorefDocument
from elmokit.tasks.coref.spans import Spans, SpanScorer, keep_best, list_spans
from tests.tasks.coref.tiny import DOCUMENT, batch, build, crosses, pairs_of, whole_vectors


@pytest.mark.parametrize("lengths", [(1,), (5,), (3, 1, 4), (1, 1)])
def test_spans_stay_inside_sentences(lengths: tuple[int, ...]) -> None:
    bounds = [0, *itertools.accumulate(lengths)]
    expected = [
        (start, end)
        for begin, stop in itertools.pairwise(bounds)
        for start in range(begin, stop)
        for end in range(start + 1, stop + 1)
        if end - start <= 3
    ]
    assert pairs_of(list_spans(lengths, 3)) == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_best_spans_that_do_not_cross_are_kept(seed: int) -> None:
    generator = random.Random(seed)
    spans = list_spans([generator.randint(1, 9) for _ in range(3)], generator.randint(1, 6))
    places = pairs_of(spans)
    scores = [generator.choice([-1.0, 0.5, 2.0, generator.random()]) for _ in places]
    limit = generator.randint(1, len(places))
    kept: list[int] = []
    for number in sorted(range(len(places)), key=lambda number: -scores[number]):
        if len(kept) < limit and not any(crosses(places[number], places[other]) for other in kept):
            kept.append(number)
    assert keep_best(spans, torch.tensor(scores), limit).tolist() == sorted(kept)


def test_crossing_spans_are_passed_over_and_nested_ones_kept() -> None:
    spans = Spans(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([2, 4, 2, 3, 4]))
    scores = torch.tensor([3.0, 1.0, 2.0, 5.0, 4.0])
    assert keep_best(spans, scores, 5).tolist() == [1, 2, 3]  # [1, 3) is best; [2, 4) and [0, 2) cross it
    assert keep_best(spans, scores, 2).tolist() == [2, 3]


@pytest.mark.parametrize(("num_tokens", "ratio", "expected"), [(12, 0.4, 4), (12, 0.25, 3), (1, 0.4, 1), (2, 0.1, 1)])
def test_how_many_spans_are_kept(num_tokens: int, ratio: float, expected: int) -> None:
    document = CorefDocument("", (DOCUMENT.tokens[:num_tokens],))
    model = build(spans_per_word=ratio)
    (links,) = model._run(batch([document])[0][0], batch([document])[1])
    assert len(links.kept.scores) == expected
    assert all(not crosses(*two) for two in itertools.combinations(pairs_of(links.kept.spans), 2))


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_mention_scores_are_those_of_whole_vectors(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "_SPANS_AT_ONCE", at_once)
    torch.manual_seed(0)
    scorer = SpanScorer(5, 6, hidden_dim=7, feature_dim=2, max_width=4, dropout=0.5).eval()
    x, encoded, spans = torch.randn(9, 5), torch.randn(9, 6), list_spans((4, 5), 4)
    kept = scorer(x, encoded, spans, 6)
    vectors = whole_vectors(scorer, x, encoded, spans)
    scores = scorer.mentions(vectors)
    best = keep_best(spans, scores, 6)
    assert pairs_of(kept.spans) == pairs_of(spans.select(best))
    torch.testing.assert_close(kept.scores, scores[best])
    torch.testing.assert_close(kept.vectors, vectors[best])


def test_attention_far_apart_is_no_problem() -> None:
    scorer = SpanScorer(5, 6, hidden_dim=7, feature_dim=2, max_width=4, dropout=0.0)
    scorer.heads.last.weight.data.mul_(1e4)
    x, encoded = torch.randn(9, 5), torch.randn(9, 6)
    kept = scorer(x, encoded, list_spans((9,), 4), 9)
    assert kept.vectors.isfinite().all() and kept.scores.isfinite().all()
