"""Groups of made-up contexts whose number and members are known, and k-means against another implementation."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from elmokit.analysis.usage.groups import (
    Agreement,
    characteristic_words,
    find_agreement,
    induce,
    k_means,
    main_directions,
    standardize,
)
from elmokit.errors import InputError

WIDTH = 24


def clouds(sizes: Sequence[int], seed: int = 0, apart: float = 4.0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Contexts (K, D) in clouds that both sides tell apart, in random order, and the cloud of each."""
    draw = np.random.default_rng(seed)
    members = draw.permutation(np.repeat(np.arange(len(sizes)), sizes))  # (K,)
    centers = draw.standard_normal((len(sizes), WIDTH)) * apart  # (clouds, D)
    return centers[members] + draw.standard_normal((len(members), WIDTH)), members


class TestInduction:
    @pytest.mark.slow
    @pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
    def test_finds_the_clouds_and_their_number(self, number: int) -> None:
        """A direction too many is found once in 20 times by definition."""
        right = 0
        for seed in range(8):
            contexts, members = clouds([30] * number, seed=seed)
            found = induce(contexts, seed=seed)
            right += found.num_groups == number
            assert number <= found.num_groups == found.agreement.num_groups
            assert adjusted_rand_score(members, induce(contexts, number, seed=seed).groups) == 1
        assert right >= 7

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("size", [12, 60, 700])
    def test_one_cloud_is_one_group_however_long_or_large_it_is(self, seed: int, size: int) -> None:
        draw = np.random.default_rng(seed)
        assert induce(draw.standard_normal((size, WIDTH)) * draw.exponential(3, WIDTH), seed=seed).num_groups == 1

    def test_what_only_one_side_tells_apart_is_not_a_meaning(self) -> None:
        contexts, _ = clouds([60, 60])
        one_sided = contexts.copy()
        one_sided[:, WIDTH // 2 :] = np.random.default_rng(1).standard_normal((120, WIDTH // 2))
        assert induce(contexts).num_groups == 2
        assert induce(one_sided).num_groups == 1

    @pytest.mark.slow
    def test_the_number_does_not_grow_with_the_sample(self) -> None:
        contexts, _ = clouds([1000, 600, 400], apart=1.0)
        assert {induce(contexts[:size]).num_groups for size in (150, 500, 2000)} == {3}

    def test_a_number_that_is_given_is_kept(self) -> None:
        contexts, members = clouds([20, 30, 40])
        for number in (1, 2, 3, 7):
            found = induce(contexts, number)
            assert found.num_groups == number == len(found.sizes)
            assert found.agreement.num_groups == 3
        assert adjusted_rand_score(members, induce(contexts, 3).groups) == 1

    def test_groups_come_by_size_and_cover_everything(self) -> None:
        contexts, _ = clouds([10, 40, 25])
        found = induce(contexts)
        assert found.sizes == [40, 25, 10]
        for group in range(3):
            np.testing.assert_allclose(found.centers[group], found.points[found.groups == group].mean(0), atol=1e-9)

    def test_the_same_again_and_other_seeds_agree_on_clear_groups(self) -> None:
        contexts, _ = clouds([20, 30, 40])
        first, again, other = induce(contexts, seed=3), induce(contexts.copy(), seed=3), induce(contexts, seed=4)
        np.testing.assert_array_equal(first.groups, again.groups)
        assert first.agreement.strengths == again.agreement.strengths
        np.testing.assert_array_equal(first.groups, other.groups)

    def test_scale_and_offset_of_any_number_do_not_matter(self) -> None:
        contexts, _ = clouds([20, 30])
        draw = np.random.default_rng(5)
        other = contexts * draw.uniform(0.1, 10, WIDTH) + draw.normal(0, 5, WIDTH)
        np.testing.assert_array_equal(induce(contexts).groups, induce(other).groups)

    def test_typical_is_near_the_centre_and_borderline_between_two(self) -> None:
        contexts, _ = clouds([30, 20])
        found = induce(contexts)
        distances = np.linalg.norm(found.points[:, None] - found.centers, axis=-1)  # (K, G)
        np.testing.assert_allclose(found.distances, distances, atol=1e-6)
        own = np.flatnonzero(found.groups == 1)
        assert found.typical(1, 3) == own[np.argsort(distances[own, 1])][:3].tolist()
        ratios = distances[own, 1] / distances[own, 0]
        assert found.borderline(1, 3) == own[np.argsort(-ratios)][:3].tolist()
        np.testing.assert_allclose(found.fits[own], 1 - ratios, atol=1e-6)
        assert ((found.fits >= 0) & (found.fits <= 1)).all()
        assert len(found.typical(0, 99)) == 30
        assert induce(contexts, 1).borderline(0, 3) == []

    def test_few_contexts_are_refused(self) -> None:
        contexts, _ = clouds([3])
        with pytest.raises(InputError, match="3 occurrences cannot be put in 4 groups"):
            induce(contexts, 4)
        with pytest.raises(InputError, match="1 occurrence cannot be put in groups"):
            induce(contexts[:1])
        with pytest.raises(InputError, match="0 groups cannot be made"):
            induce(contexts, 0)

    def test_equal_contexts_are_one_group(self) -> None:
        same = np.full((9, WIDTH), 0.1, dtype=np.float32)
        assert induce(same).sizes == [9]
        with pytest.raises(InputError, match="only 1 different contexts, too few for 2 groups"):
            induce(same, 2)

    def test_one_constant_side_is_no_problem(self) -> None:
        contexts, _ = clouds([20, 30])
        contexts[:, : WIDTH // 2] = 0.3
        assert induce(contexts).num_groups == 1
        assert sorted(induce(contexts, 2).sizes) == [20, 30]

    def test_two_occurrences(self) -> None:
        contexts, _ = clouds([2])
        assert induce(contexts).num_groups == 1
        assert induce(contexts, 2).sizes == [1, 1]


class TestAgreement:
    def test_strength_is_the_correlation_of_a_common_cause(self) -> None:
        draw = np.random.default_rng(0)
        cause = draw.standard_normal((4000, 1))
        sides = [0.8 * cause + 0.6 * draw.standard_normal((4000, 1)) for _ in range(2)]  # each 0.8 with the cause
        found = find_agreement(np.concatenate(sides, axis=1))
        assert found.strengths == (pytest.approx(0.64, abs=0.03),)
        assert found.chances == (0.01,)

    @pytest.mark.slow
    def test_chances_of_unrelated_sides_are_spread_evenly(self) -> None:
        draw = np.random.default_rng(0)
        chances = [find_agreement(draw.standard_normal((40, 8)), seed=seed).chances[0] for seed in range(40)]
        assert 0.35 < np.mean(chances) < 0.65
        assert np.mean(np.array(chances) <= 0.05) < 0.15

    def test_the_first_direction_that_does_not_count_ends_the_number(self) -> None:
        points = np.zeros((2, 1))
        assert Agreement(points, (0.9, 0.5, 0.4), (0.01, 0.01, 0.01)).num_groups == 4
        assert Agreement(points, (0.9, 0.2, 0.4), (0.01, 0.01, 0.01)).num_groups == 2
        assert Agreement(points, (0.9, 0.5, 0.4), (0.01, 0.06, 0.01)).num_groups == 2
        assert Agreement(points, (0.2,), (0.01,)).num_groups == 1

    def test_main_directions_keep_distances_of_what_varies(self) -> None:
        rows = np.random.default_rng(0).standard_normal((30, 4))
        padded = np.concatenate([rows, np.full((30, 3), 7.5)], axis=1)
        found, standard = main_directions(padded), standardize(padded)
        assert standard.shape == (30, 4)
        np.testing.assert_allclose(standard.std(0), 1)
        np.testing.assert_allclose(found @ found.T, standard @ standard.T, atol=1e-9)
        assert (np.diff(found.var(0)) <= 1e-9).all()


class TestKMeans:
    @pytest.mark.parametrize("number", [2, 3, 6])
    def test_as_tight_as_sklearns(self, number: int) -> None:
        points = np.random.default_rng(number).standard_normal((150, 4))
        groups = k_means(points, number, restarts=20)
        total = sum(((points[groups == g] - points[groups == g].mean(0)) ** 2).sum() for g in range(number))
        theirs = KMeans(number, n_init=20, random_state=0).fit(points).inertia_
        assert total <= theirs * 1.01

    def test_every_group_has_members(self) -> None:
        points = np.repeat(np.eye(3), [50, 1, 1], axis=0)
        for seed in range(20):
            assert sorted(np.bincount(k_means(points, 3, seed=seed)).tolist()) == [1, 1, 50]


class TestCharacteristicWords:
    def test_words_of_one_group_stand_out_and_common_ones_do_not(self) -> None:
        contexts = [{"the", "piano"}] * 20 + [{"the", "ball", "team"}] * 20 + [{"the", "once"}]
        groups = np.array([0] * 20 + [1] * 21)
        first, second = characteristic_words(contexts, groups, 5)
        assert [word for word, _ in first] == ["piano"]
        assert [word for word, _ in second] == ["ball", "team"]
        assert first[0][1] > 2

    def test_a_word_counts_once_an_occurrence_and_order_does_not_matter(self) -> None:
        contexts = [["a", "a", "b"], ["b", "c"], ["c"], ["a"]] * 6
        groups = np.array([0, 1, 1, 0] * 6)
        expected = characteristic_words([sorted(set(words)) for words in contexts], groups, 9)
        assert characteristic_words(contexts, groups, 9) == expected
        swap = np.arange(24)[::-1]
        turned = characteristic_words([contexts[row] for row in swap], groups[swap], 9)
        assert [[word for word, _ in own] for own in turned] == [[word for word, _ in own] for own in expected]

    def test_nothing_to_say_of_one_group_or_of_no_words(self) -> None:
        assert characteristic_words([{"a"}, {"a"}], np.array([0, 0]), 5) == [[]]
        assert characteristic_words([set(), set()], np.array([0, 1]), 5) == [[], []]
