"""Scores of pairs, the loss over antecedents and clusters, against plain computations."""

import itertools
import math

import pytest
import torch

from elmokit.tasks.coref.pairs import PairScorer, _AddPairs, join_scores, link_loss, make_clusters
from tests.tasks.coref.tiny import value


@pytest.mark.parametrize(("num_genres", "speakers"), [(0, False), (0, True), (2, False), (2, True)])
def test_pair_scores_are_those_of_whole_vectors(num_genres: int, speakers: bool) -> None:
    torch.manual_seed(0)
    scorer = PairScorer(4, hidden_dim=5, feature_dim=3, num_genres=num_genres, speakers=speakers, dropout=0.5).eval()
    spans, voices, genre = torch.randn(9, 4), torch.tensor([1, 0, 2, 2, 1, 1, 0, 3, 1]), 2
    scores = scorer(spans, 7, speakers=voices, genre=genre)
    assert scores.shape == (9, 7)
    for i, column in itertools.product(range(9), range(7)):
        j = i - 1 - column
        if j < 0:
            assert scores[i, column] == -math.inf
            continue
        bucket = {1: 0, 2: 1, 3: 2, 4: 3, 5: 4, 6: 4, 7: 4}[i - j]
        features = [scorer.distances.weight[bucket]]
        if scorer.speakers is not None:
            known = bool(voices[i]) and bool(voices[j])
            features.append(scorer.speakers.weight[(1 if voices[i] == voices[j] else 2) if known else 0])
        if scorer.genres is not None:
            features.append(scorer.genres.weight[genre])
        whole = torch.cat([spans[i], spans[j], spans[i] * spans[j], *features])
        torch.testing.assert_close(scores[i, column], scorer.ffn(whole))


@pytest.mark.parametrize("num_antecedents", [0, 1, 4])
def test_the_gradients_of_pairs_are_those_of_finite_differences(num_antecedents: int) -> None:
    torch.manual_seed(1)
    shapes = ((5, 3), (5, 2), (5, 2), (num_antecedents, 2), (3, 2))
    given = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(_AddPairs.apply, given)


@pytest.mark.parametrize("num_spans", [0, 1])
def test_a_span_alone_has_no_pair(num_spans: int) -> None:
    scorer = PairScorer(4, hidden_dim=5, feature_dim=3, num_genres=0, speakers=True, dropout=0.0)
    scores = scorer(torch.randn(num_spans, 4), 0, speakers=torch.zeros(num_spans), genre=0)
    assert scores.shape == (num_spans, 0)


def test_distances_fall_into_buckets() -> None:
    scorer = PairScorer(1, hidden_dim=1, feature_dim=1, num_genres=0, speakers=False, dropout=0.0)
    for parameter in scorer.parameters():
        parameter.data.zero_()
    for weight in (scorer.ffn.first.weight[0, 3:], scorer.ffn.second.weight, scorer.ffn.last.weight):
        weight.data.fill_(1.0)
    scorer.distances.weight.data[:, 0] = torch.arange(1.0, 10.0)
    last = scorer(torch.zeros(101, 1), 100, speakers=torch.zeros(101), genre=0)[-1].tolist()
    expected = [1, 2, 3, 4, *[5] * 3, *[6] * 8, *[7] * 16, *[8] * 32, *[9] * 37]
    assert last == expected


def test_nothing_scores_0_and_pairs_add_up() -> None:
    pairs = torch.tensor([[-math.inf, -math.inf], [0.5, -math.inf], [1.0, 2.0]])
    mentions = torch.tensor([10.0, 20.0, 40.0])
    expected = [[0, -math.inf, -math.inf], [0, 30.5, -math.inf], [0, 61, 52]]
    assert join_scores(pairs, mentions).tolist() == expected


def test_the_loss_counts_every_gold_antecedent() -> None:
    torch.manual_seed(0)
    clusters = [1, 0, 1, 2, 1, 0, 3, 2]
    scores = join_scores(
        PairScorer(4, hidden_dim=5, feature_dim=3, num_genres=0, speakers=False, dropout=0.0)(
            torch.randn(8, 4), 3, speakers=torch.zeros(8), genre=0
        ),
        torch.randn(8),
    )
    expected = 0.0
    for i, row in enumerate(scores.tolist()):
        total = sum(math.exp(score) for score in row)
        wanted = [d for d in (1, 2, 3) if i - d >= 0 and clusters[i] and clusters[i - d] == clusters[i]]
        expected -= math.log(sum(math.exp(row[d]) for d in wanted or [0]) / total)
    assert expected > 1
    assert value(link_loss(scores, torch.tensor(clusters))) == pytest.approx(expected, rel=1e-5)


def test_an_antecedent_out_of_reach_leaves_nothing_to_go_back_to() -> None:
    scores = torch.tensor([[0.0, -math.inf], [0.0, -9.0], [0.0, -9.0]])
    assert value(link_loss(scores, torch.tensor([1, 0, 1]))) < 0.01  # the one before is no mention
    assert value(link_loss(scores, torch.tensor([0, 1, 1]))) > 8


@pytest.mark.parametrize(
    ("choices", "clusters"),
    [
        ([], []),
        ([-1], [[0]]),
        ([-1, -1, 0, 2, 1, -1], [[0, 2, 3], [1, 4], [5]]),
        ([-1, 0, 0, 1, 3], [[0, 1, 2, 3, 4]]),
    ],
)
def test_clusters_are_what_goes_back_to_each_other(choices: list[int], clusters: list[list[int]]) -> None:
    assert make_clusters(choices) == clusters
