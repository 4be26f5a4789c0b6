"""Votes of similar occurrences: views, metric and fit against plain computations, and nothing learned from the sets."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from elmokit.analysis.wsd import metric as sense_metric
from elmokit.analysis.wsd.contexts import VIEWS, Occurrences, gather_occurrences
from elmokit.analysis.wsd.fit import Pairs, Voting, _Likelihood, fit_voting
from elmokit.analysis.wsd.metric import centre_words, learn_metric
from elmokit.analysis.wsd.nearest import ALL, Score
from elmokit.analysis.wsd.votes import (
    ALL_VIEWS,
    OWN,
    PRIOR_ONLY,
    VECTORS_ONLY,
    VoterIndex,
    answer,
    evaluate_votes,
    held_out_pairs,
)
from elmokit.analysis.wsd.wordnet import SenseIndex, SenseSentence, Target, Word
from elmokit.errors import InputError

NUM_WORDS, WIDTH = 6, 8


def key(word: int, sense: int) -> str:
    return f"w{word}%1:{sense:02d}:00::"


def word(number: int, pos: str = "noun") -> Word:
    return Word(f"w{number}", pos)


def build_index() -> SenseIndex:
    senses = {word(w): tuple(key(w, s) for s in range(3)) for w in range(NUM_WORDS)}
    numbers = {k: s + 1 for keys in senses.values() for s, k in enumerate(keys)}
    return SenseIndex(numbers, senses)


INDEX = build_index()


class World:
    """Sentences of five tokens around a word; the directions of its senses are the same for all words, and faint."""

    def __init__(self, seed: int = 0, strength: float = 4.0) -> None:
        self.draw = np.random.default_rng(seed)
        self.strength = strength
        self.vectors: dict[tuple[str, ...], NDArray[np.float32]] = {}
        self.bases = self.draw.normal(size=(NUM_WORDS, 2 * WIDTH)) * 3

    def sentence(self, number: int, sense: int, source: str, pos: str = "noun") -> SenseSentence:
        tokens = tuple(f"t{len(self.vectors)}.{place}" for place in range(5))
        layers = self.draw.normal(size=(3, 5, 2 * WIDTH))  # (L, T, D)
        layers[0, :, WIDTH:] = layers[0, :, :WIDTH]
        layers[1:, 2] += self.bases[number]
        layers[1:, 2, 1 + sense] += self.strength
        self.vectors[tokens] = layers.astype(np.float32)
        return SenseSentence(tokens, (Target(2, 3, word(number, pos), (key(number, sense),)),), source)

    def text(self, sizes: Sequence[int], num_texts: int) -> list[SenseSentence]:
        """Sentences of every word and sense, as many as sizes say, in texts by turns."""
        found: list[SenseSentence] = []
        for number in range(NUM_WORDS):
            for sense, size in enumerate(sizes):
                for _ in range(size):
                    found.append(self.sentence(number, sense, f"text{len(found) % num_texts}"))
        return found

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        return [self.vectors[tuple(tokens)] for tokens in sentences]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


@pytest.fixture(scope="module")
def train(world: World) -> list[SenseSentence]:
    return world.text((24, 12, 6), 10)


@pytest.fixture(scope="module")
def voter_index(world: World, train: list[SenseSentence]) -> VoterIndex:
    return VoterIndex(gather_occurrences(world.embed, train), INDEX)


class TestViews:
    def test_by_hand(self) -> None:
        draw = np.random.default_rng(1)
        layers = draw.normal(size=(3, 14, 4)).astype(np.float32)  # (L, T, D)
        layers[0, :, 2:] = layers[0, :, :2]
        targets = (Target(0, 1, word(0), ("a",)), Target(6, 8, word(1), ("b", "c")), Target(13, 14, word(0), ("a",)))
        tokens = tuple("abcdefghijklmn")
        found = gather_occurrences(lambda _: [layers], [SenseSentence(tokens, targets, "text")])
        assert (found.words, found.sources) == ([word(0), word(1), word(0)], ["text"] * 3)
        assert found.keys == [("a",), ("b", "c"), ("a",)]
        expected = {
            "own": [layers[layer, 6:8].mean(0) for layer in (1, 2)],
            "window": [layers[layer, [1, 2, 3, 4, 5, 8, 9, 10, 11, 12]].mean(0) for layer in (1, 2)],
            "neighbours": [layers[0, place, :2] for place in (4, 5, 8, 9)],
            "sentence": [np.delete(layers[layer], [6, 7], 0).mean(0)[: 2 if layer == 0 else 4] for layer in (0, 1, 2)],
        }
        assert set(found.views) == set(VIEWS) == set(expected)
        for view, parts in expected.items():
            assert len(found.views[view]) == len(parts)
            for part, own in zip(parts, found.views[view], strict=True):
                assert own.dtype == np.float16
                assert own[1] == pytest.approx(part, abs=2e-3)
        at_start, at_end = (found.views["neighbours"][place][row] for place, row in ((1, 0), (2, 2)))
        assert not at_start.any() and not at_end.any()
        assert found.views["window"][0][0] == pytest.approx(layers[1, 1:6].mean(0), abs=2e-3)

    def test_a_sentence_of_one_word_and_a_model_of_one_layer(self) -> None:
        layers = np.array([[[1, 2, 3]]], np.float32)  # an odd width, halves that differ
        found = gather_occurrences(lambda _: [layers], [SenseSentence(("a",), (Target(0, 1, word(0), ("a",)),), "")])
        assert [part.tolist() for part in found.views["own"]] == [[[1, 2, 3]]]
        assert all(not part.any() for view in VIEWS[1:] for part in found.views[view])

    def test_nothing_tagged(self) -> None:
        found = gather_occurrences(lambda _: [], [SenseSentence(("a",), (), "")])
        assert (len(found), found.views) == (0, {})


class TestMetric:
    def data(self, size: int = 400) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
        draw = np.random.default_rng(2)
        words = draw.integers(0, 5, size)
        senses = words * 4 + draw.integers(0, 4, size)
        shift = draw.normal(size=(20, 6)) * [2, 1, 0.5, 0, 0, 0]
        vectors = draw.normal(size=(size, 6)) * [1, 3, 1, 1, 1, 1] + shift[senses] + draw.normal(size=(5, 6))[words] * 5
        return vectors.astype(np.float32), words, senses

    def test_against_a_plain_computation(self) -> None:
        """W and B word by word with loops, the eigenvectors by scipy."""
        linalg = pytest.importorskip("scipy.linalg")
        vectors, words, senses = self.data()
        metric = learn_metric([vectors[:, :2], vectors[:, 2:]], words, senses)
        parts = [vectors[:, :2] - vectors[:, :2].mean(0), vectors[:, 2:] - vectors[:, 2:].mean(0)]
        unit = np.concatenate([p / np.linalg.norm(p, axis=1, keepdims=True) for p in parts], 1).astype(np.float64)
        within, between, weight = np.zeros((6, 6)), np.zeros((6, 6)), 0.0
        for number in set(words.tolist()):
            own = unit[words == number]
            for sense in set(senses[words == number].tolist()):
                rows = unit[senses == sense]
                for row in rows:
                    within += np.outer(row - rows.mean(0), row - rows.mean(0))
                between += len(rows) * np.outer(rows.mean(0) - own.mean(0), rows.mean(0) - own.mean(0))
                weight -= len(rows) ** 2 / len(own)
            weight += len(own)
        num_senses, num_words = len(set(senses.tolist())), len(set(words.tolist()))
        within /= len(unit) - num_senses
        between = (between - (num_senses - num_words) * within) / weight
        smooth = 0.9 * within + 0.1 * np.trace(within) / 6 * np.eye(6)
        ratios, directions = linalg.eigh(between, smooth)
        kept = np.flatnonzero(ratios > 1e-4)[::-1]
        expected = directions[:, kept] * np.sqrt(ratios[kept] / (1 + ratios[kept]))
        assert metric.matrix.shape == expected.shape
        signs = np.sign((metric.matrix * expected).sum(0))
        assert metric.matrix * signs == pytest.approx(expected, abs=1e-4)
        assert metric.project([vectors[:3, :2], vectors[:3, 2:]]) == pytest.approx(unit[:3] @ metric.matrix, abs=1e-5)

    def test_chunks_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        vectors, words, senses = self.data()
        whole = learn_metric([vectors], words, senses)
        monkeypatch.setattr(sense_metric, "_CHUNK", 7)
        again = learn_metric([vectors], words, senses)
        signs = np.sign((whole.matrix * again.matrix).sum(0))
        assert again.matrix * signs == pytest.approx(whole.matrix, abs=1e-4)
        assert again.project([vectors]) * signs == pytest.approx(whole.project([vectors]), abs=1e-4)

    def test_frequent_words_are_sampled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, words, senses = self.data()
        monkeypatch.setattr(sense_metric, "MAX_OCCURRENCES", 30)
        rows = sense_metric._sample(words, senses, 0)
        assert np.bincount(words[rows]).tolist() == [30] * 5
        assert len(set(rows.tolist())) == 150
        assert np.array_equal(rows, sense_metric._sample(words, senses, 0))
        assert (np.diff(words[rows]) >= 0).all()

    def test_senses_move_apart(self) -> None:
        """Directions of noise lose their weight: the nearest other occurrence has the same sense more often."""
        draw = np.random.default_rng(4)
        words, half = draw.integers(0, 5, 800), np.arange(800) < 400
        senses = words * 3 + draw.integers(0, 3, 800)
        shift = np.concatenate([draw.normal(size=(15, 4)) * 3, np.zeros((15, 26))], 1)
        noise = draw.normal(size=(800, 30)) * ([1] * 4 + [4] * 26)
        vectors = (noise + shift[senses]).astype(np.float32)
        metric = learn_metric([vectors[half]], words[half], senses[half])

        def nearest(given: NDArray[np.float32]) -> float:
            cosines = given[~half] @ given[half].T
            cosines[words[~half][:, None] != words[half]] = -2
            return float((senses[half][cosines.argmax(1)] == senses[~half]).mean())

        plain = vectors - vectors.mean(0)
        plain = plain / np.linalg.norm(plain, axis=1, keepdims=True)
        projected = metric.project([vectors])
        learned = centre_words(projected, words, projected[half], words[half])
        assert nearest(learned) > nearest(plain) + 0.1

    def test_words_are_centred_by_the_reference_alone(self) -> None:
        reference = np.array([[2, 0], [4, 0], [0, 3]], np.float32)
        found = centre_words(
            np.array([[1.2, 3], [0, 0], [5, 5]], np.float32), np.array([0, 1, 2]), reference, np.array([0, 0, 1])
        )
        expected = np.array([[1.2 - 6 / 5, 3], [0, -3 / 4], [5, 5]])
        assert found == pytest.approx(expected / np.linalg.norm(expected, axis=1, keepdims=True))
        assert not centre_words(np.zeros((1, 2), np.float32), np.array([5]), reference, np.array([0, 0, 1])).any()

    @pytest.mark.parametrize(
        ("words", "senses"),
        [([0, 0, 1], [0, 1, 2]), ([0, 0, 0, 0], [0, 0, 0, 0]), ([0, 0, 1, 1], [0, 0, 1, 1]), ([], [])],
    )
    def test_too_little_to_learn_from(self, words: list[int], senses: list[int]) -> None:
        vectors = np.ones((len(words), 2), np.float32)
        with pytest.raises(InputError, match=r"senses of \d words are too few to learn from: give all of SemCor"):
            learn_metric([vectors], np.array(words, np.int64), np.array(senses, np.int64))


class TestFit:
    def pairs(self, size: int = 300) -> Pairs:
        """Two senses of an instance with 3 and 1 voters; the first view knows something of the answer."""
        draw = np.random.default_rng(3)
        right = draw.random((size, 2)) < np.array([0.75, 0.25])
        right[:, 1] = ~right[:, 0]
        cosines = draw.uniform(-0.5, 0.5, (size, 4, 4))
        cosines[:, :3, 0] += 0.4 * right[:, :1]
        cosines[:, 3, 0] += 0.4 * right[:, 1]
        groups = (np.arange(size)[:, None] * 2 + np.array([0, 0, 0, 1])).ravel()
        votes = np.tile(np.array([1, 1, 0.5, 1], np.float32), size)
        return Pairs(
            cosines.reshape(-1, 4).astype(np.float32), votes, groups, np.repeat(np.arange(size), 2), right.ravel()
        )

    @pytest.mark.parametrize("prior", [True, False])
    def test_likelihood_by_hand(self, prior: bool) -> None:
        pairs = self.pairs(20)
        b, a, c = np.array([2.0, 0.5]), 0.03, 0.01
        total = 0.0
        for instance in range(20):
            scores = []
            for sense in range(2):
                own = pairs.groups == 2 * instance + sense
                votes = np.exp((pairs.cosines[own][:, [0, 2]] - 1) @ b) * pairs.votes[own]
                count = pairs.votes[own].sum()
                scores.append(votes.sum() + a * count + c if prior else votes.sum() / count + c)
            total -= np.log(scores[int(pairs.right[2 * instance + 1])] / sum(scores))
        likelihood = _Likelihood(pairs, [0, 2], prior=prior)
        found = likelihood.loss(torch.tensor(b, dtype=torch.float).log(), torch.tensor(a).log(), torch.tensor(c).log())
        assert float(found) == pytest.approx(total / 20, rel=1e-5)

    def test_what_knows_is_weighed(self) -> None:
        pairs = self.pairs(1000)
        found = fit_voting(pairs)
        assert found.weights[0] > 3
        assert max(found.weights[1:]) < 0.3
        assert found == fit_voting(pairs)

    def test_it_is_a_minimum(self) -> None:
        pairs = self.pairs(1000)
        found = fit_voting(pairs, ["own"])
        assert found.weights[1:] == (0, 0, 0)
        likelihood = _Likelihood(pairs, [0], prior=True)

        def loss(weight: float) -> float:
            values = (torch.tensor([weight]), torch.tensor(found.counts), torch.tensor(found.floor))
            return float(likelihood.loss(*(value.log() for value in values)))

        best = loss(found.weights[0])
        assert best < min(loss(found.weights[0] * factor) for factor in (0.7, 0.9, 1.1, 1.4))


class TestVoterIndex:
    def test_votes_of_words_by_hand(self, world: World, voter_index: VoterIndex) -> None:
        asked = gather_occurrences(world.embed, [world.sentence(4, 1, "new"), world.sentence(2, 0, "new")])
        word_votes = list(voter_index.word_votes(asked))
        assert [votes_of_word.rows.tolist() for votes_of_word in word_votes] == [[1], [0]]  # by the order of voters
        voters = voter_index.voters
        for votes_of_word, number in zip(word_votes, (2, 4), strict=True):
            rows = [row for row in range(len(voters)) if voters.words[row] == word(number)]
            assert votes_of_word.senses == [key(number, sense) for sense in range(3)]
            assert votes_of_word.votes.tolist() == [
                [float(k in voters.keys[row]) for k in votes_of_word.senses] for row in rows
            ]
            for v, view in enumerate(VIEWS):
                metric = voter_index._metrics[view]
                own = metric.project([part[rows] for part in voters.views[view]])
                mean = own.sum(0) / (len(rows) + 3)
                new = metric.project([part[votes_of_word.rows] for part in asked.views[view]])[0] - mean
                cosines = [new @ (x - mean) / np.linalg.norm(new) / np.linalg.norm(x - mean) for x in own]
                assert votes_of_word.cosines[v, 0] == pytest.approx(np.array(cosines), abs=1e-4)

    def test_answers_by_hand(self, world: World, voter_index: VoterIndex) -> None:
        asked = gather_occurrences(world.embed, [world.sentence(1, sense, "new") for sense in (0, 1, 2, 2)])
        voting = Voting((3.0, 1.0, 0.0, 0.5), counts=0.001, floor=0.002)
        [votes_of_word] = voter_index.word_votes(asked)
        for prior in (True, False):
            expected = []
            for row in range(4):
                scores = []
                for sense in range(3):
                    own = [
                        np.exp(sum(b * (votes_of_word.cosines[v, row, r] - 1) for v, b in enumerate(voting.weights)))
                        for r in range(votes_of_word.votes.shape[0])
                        if votes_of_word.votes[r, sense]
                    ]
                    scores.append(sum(own) + 0.001 * len(own) + 0.002 if prior else sum(own) / len(own))
                expected.append(key(1, int(np.argmax(scores))))
            found = answer(voter_index, asked, {"way": replace(voting, prior=prior), "count": None})
            assert found == {"way": expected, "count": [key(1, 0)] * 4}

    def test_votes_are_divided_and_ties_go_to_the_first(self, world: World, train: list[SenseSentence]) -> None:
        both = [
            replace_keys(sentence, (key(0, 1), key(0, 2))) for sentence in train if sentence.targets[0].word == word(0)
        ]
        others = [sentence for sentence in train if sentence.targets[0].word != word(0)]
        voter_index = VoterIndex(gather_occurrences(world.embed, both + others), INDEX)
        asked = gather_occurrences(world.embed, [world.sentence(0, 0, "new")])
        [votes_of_word] = voter_index.word_votes(asked)
        assert np.unique(votes_of_word.votes[:, 1:]).tolist() == [0.5]
        assert not votes_of_word.votes[:, 0].any()
        flat = Voting((1.0,) * 4, counts=0.1, floor=0.1)
        found = answer(voter_index, asked, {"prior": None, "votes": flat, "vectors": replace(flat, prior=False)})
        assert found == {name: [key(0, 1)] for name in ("prior", "votes", "vectors")}

    def test_words_without_a_voter(self, world: World, voter_index: VoterIndex) -> None:
        index = replace(INDEX, senses={**INDEX.senses, word(9): ("w9%1:05:00::",)})
        voter_index = VoterIndex(voter_index.voters, index)
        asked = gather_occurrences(world.embed, [world.sentence(0, 0, "new"), world.sentence(1, 0, "new")])
        asked = replace(asked, words=[word(9), word(8)])
        assert answer(voter_index, asked, {"prior": None}) == {"prior": ["w9%1:05:00::", None]}

    def test_held_out_texts_teach_the_metric_nothing(self, voter_index: VoterIndex) -> None:
        """Other tags in the held-out texts leave the metric as it is, and other tags elsewhere do not."""
        voters, held = voter_index.voters, voter_index.held
        assert 0 < held.sum() < len(voters) / 5
        for changed, same in ((held, True), (~held, False)):
            keys = [
                (key(int(w.lemma[1:]), row % 3),) if changed[row] else own
                for row, (w, own) in enumerate(zip(voters.words, voters.keys, strict=True))
            ]
            again = VoterIndex(replace(voters, keys=keys), INDEX)
            assert np.array_equal(again.held, held)
            for view in VIEWS:
                mine, new = voter_index._metrics[view].matrix, again._metrics[view].matrix
                assert (mine.shape == new.shape and np.array_equal(mine, new)) == same

    def test_held_out_texts_vote_not_while_fitting(self, voter_index: VoterIndex) -> None:
        held = voter_index.held_out()
        word_votes = list(voter_index.word_votes(held, among=~voter_index.held))
        pairs = held_out_pairs(voter_index)
        assert sum(len(votes_of_word.rows) for votes_of_word in word_votes) == pairs.num_instances == len(held)
        assert sum(votes_of_word.cosines[0].size for votes_of_word in word_votes) == len(pairs.cosines)
        assert sum(len(votes_of_word.votes) for votes_of_word in word_votes) == (~voter_index.held).sum()
        assert pairs.right.sum() == len(held)
        assert next(voter_index.word_votes(held, limit=4)).cosines.shape[2] == 4

    def test_verbs_alone_are_not_held_out(self, world: World, train: list[SenseSentence]) -> None:
        verbs = [world.sentence(0, 0, f"verbs{number}", "verb") for number in range(50)]
        voter_index = VoterIndex(gather_occurrences(world.embed, train + verbs), INDEX)
        assert all(source.startswith("text") for source in np.array(voter_index.voters.sources)[voter_index.held])

    def test_a_single_text(self, world: World, train: list[SenseSentence]) -> None:
        single = [sentence._replace(source="one") for sentence in train]
        with pytest.raises(InputError, match="single text, of which none can be held out: give all of SemCor"):
            VoterIndex(gather_occurrences(world.embed, single), INDEX)


def replace_keys(sentence: SenseSentence, keys: tuple[str, ...]) -> SenseSentence:
    return sentence._replace(targets=tuple(target._replace(keys=keys) for target in sentence.targets))


class TestEvaluation:
    @pytest.mark.slow
    def test_vectors_and_prior_help_each_other(self) -> None:
        world = World(seed=2, strength=1.5)
        train = world.text((24, 12, 6), 10)
        sets = {"senseval2": world.text((16, 8, 4), 3), "semeval2007": world.text((4, 2, 1), 1)}
        result = evaluate_votes(world.embed, train, sets, INDEX)
        ways = [PRIOR_ONLY, VECTORS_ONLY, OWN, ALL_VIEWS]
        assert all(list(scores) == ways for scores in result.scores.values())
        f1 = {way: score.f1 for way, score in result.scores[ALL].items()}
        assert f1[PRIOR_ONLY] == pytest.approx(100 * 4 / 7)
        assert f1[OWN] > f1[PRIOR_ONLY] + 5
        assert f1[OWN] > f1[VECTORS_ONLY]
        assert result.votings[ALL_VIEWS].weights[0] > 2 * max(result.votings[ALL_VIEWS].weights[1:])
        assert (result.num_voters, list(result.votings)) == (len(train), ways[1:])
        assert evaluate_votes(world.embed, train, sets, INDEX) == result

    @pytest.mark.slow
    def test_gold_keys_of_the_sets_are_not_looked_at(self, world: World, train: list[SenseSentence]) -> None:
        """With gold that only a wrong answer can match, what was right is wrong: the answers are the same."""
        given = world.text((6, 6, 6), 2)
        scores = []
        for shift in range(3):
            moved = [
                replace_keys(s, (key(int(s.targets[0].word.lemma[1:]), (number // 6 + shift) % 3),))
                for number, s in enumerate(given)
            ]
            result = evaluate_votes(world.embed, train, {"senseval2": moved}, INDEX)
            scores.append(result.scores["senseval2"])
        for way in scores[0]:
            assert sum(score[way].right for score in scores) == len(given)
        assert scores[0][OWN].right > scores[1][OWN].right


def test_score_of_a_set() -> None:
    assert Score(1, 4).f1 == 25


def test_occurrences_are_picked() -> None:
    given = Occurrences([word(0), word(1)], [("a",), ("b",)], ["x", "y"], {"own": [np.eye(2, dtype=np.float16)]})
    picked = given.pick([1])
    assert (picked.words, picked.keys, picked.sources) == ([word(1)], [("b",)], ["y"])
    assert picked.views["own"][0].tolist() == [[0, 1]]
