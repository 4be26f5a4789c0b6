"""Word-sense disambiguation by votes of similar occurrences: nearest neighbors with a learned similarity and a prior.

The paper's method (`nearest`) compares an instance with the mean of each sense and ignores how frequent a
sense is. Here every occurrence i of the word in SemCor votes for its sense with the weight exp(Σ_v b_v (cos_v − 1)):
cos_v is the cosine of view v (`contexts`) in a metric that separates senses (`metric`). A
frequent sense has more voters, which is the prior; a share of plain counts and a floor for senses without a voter are
added. So

    score(sense) = log(Σ_i exp(Σ_v b_v (cos_v − 1)) + a · count(sense) + c).

The parameters b, a and c maximize the likelihood of the senses of held-out texts of SemCor; the metric is learned on
the other texts. Then all of SemCor votes. The evaluation sets are not used for fitting. An occurrence tagged with
several senses divides its vote. Words that are not in SemCor take WordNet's first sense, and ties go to the sense
listed first.

Notation: Q instances, R voters, S senses of a word, V views.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.embed import Embed
from elmokit.analysis.wsd.contexts import VIEWS, Occurrences, gather_occurrences
from elmokit.analysis.wsd.fit import Pairs, Voting, fit_voting
from elmokit.analysis.wsd.metric import Numbers, SenseMetric, centre_words, learn_metric
from elmokit.analysis.wsd.nearest import Score, sums_of
from elmokit.analysis.wsd.target_vectors import keep_words
from elmokit.analysis.wsd.wordnet import SenseIndex, SenseSentence, Word
from elmokit.errors import InputError

PRIOR_ONLY, VECTORS_ONLY = "prior only", "vectors only"
OWN, ALL_VIEWS = "prior and own vectors", "prior, own vectors and context"
HELD_SHARE = 0.08
"""Share of the texts with tagged nouns that is held out to fit the votes."""
MAX_VOTERS = 600
"""Maximum number of voters per word while fitting."""
_TIE = 1e-9
Floats = NDArray[np.float64]


class WordVotes(NamedTuple):
    """The votes for the senses of one word in its instances."""

    rows: Numbers  # (Q,): the instances
    senses: list[str]
    votes: NDArray[np.float32]  # (R, S): the shares of each voter
    cosines: NDArray[np.float32]  # (V, Q, R)


class VoterIndex:
    """Tagged occurrences as voters, in a metric learned from some of their texts.

    Args:
        voters: the occurrences of the tagged text.
        index: WordNet's senses.
        seed: random seed of the choice of held-out texts.
    """

    def __init__(self, voters: Occurrences, index: SenseIndex, *, seed: int = 0) -> None:
        self.voters, self.index, self.seed = voters, index, seed
        self._numbers = {word: number for number, word in enumerate(dict.fromkeys(voters.words))}
        self._words = self._number(voters)  # (R,)
        self.held = self._hold_out()
        """(R,): whether an occurrence is in a held-out text."""
        self._metrics = self._learn(~self.held)
        self._vectors = {view: self._metrics[view].project(voters.views[view]) for view in VIEWS}  # (R, K) each

    def word_votes(
        self, asked: Occurrences, *, among: NDArray[np.bool_] | None = None, limit: int | None = None
    ) -> Iterator[WordVotes]:
        """The votes of each word with voters.

        Args:
            asked: the instances to disambiguate.
            among: which occurrences vote (R,); None means all.
            limit: maximum number of voters per word, drawn by the seed; None means no limit.
        """
        among = np.ones(len(self.voters), bool) if among is None else among
        places = np.flatnonzero(among)
        words = self._number(asked)  # (Q,)
        instances, voters = {}, {}
        for view in VIEWS:
            reference, own = self._vectors[view][places], self._words[places]
            projected = self._metrics[view].project(asked.views[view])
            instances[view] = centre_words(projected, words, reference, own)  # (Q, K)
            voters[view] = centre_words(reference, own, reference, own)  # (R, K)
        rows_of, voters_of = _rows_by(words), _rows_by(self._words[places])
        draw = np.random.default_rng(self.seed)
        for word, number in self._numbers.items():
            if number not in rows_of or number not in voters_of:
                continue
            rows, own = rows_of[number], voters_of[number]
            if limit and len(own) > limit:
                own = np.sort(draw.choice(own, limit, replace=False))
            senses, votes = self._shares(word, places[own])
            cosines = np.stack([instances[view][rows] @ voters[view][own].T for view in VIEWS])  # (V, Q, R)
            yield WordVotes(rows, senses, votes, cosines)

    def held_out(self) -> Occurrences:
        """The held-out occurrences of words with several senses."""
        rows = [row for row in np.flatnonzero(self.held).tolist() if self._has_several(self.voters.words[row])]
        return self.voters.pick(rows)

    def _number(self, occurrences: Occurrences) -> Numbers:
        unknown = len(self._numbers)
        return np.array([self._numbers.get(word, unknown) for word in occurrences.words], dtype=np.int64)

    def _has_several(self, word: Word) -> bool:
        return len(self.index.senses.get(word, ())) > 1

    def _hold_out(self) -> NDArray[np.bool_]:
        sources = np.array(self.voters.sources)
        whole = {
            source for source, word in zip(self.voters.sources, self.voters.words, strict=True) if word.pos != "verb"
        }
        texts = sorted(whole or set(self.voters.sources))
        if len(set(self.voters.sources)) < 2:
            raise InputError("the tagged text is a single text, of which none can be held out: give all of SemCor.")
        number = max(1, round(HELD_SHARE * len(texts)))
        chosen = np.random.default_rng(self.seed).choice(texts, number, replace=False)
        return np.isin(sources, chosen)

    def _learn(self, known: NDArray[np.bool_]) -> dict[str, SenseMetric]:
        """One metric per view, from occurrences with one sense of words with several senses."""
        voters = self.voters
        senses: dict[str, int] = {}
        single = [len(keys) == 1 and self._has_several(w) for keys, w in zip(voters.keys, voters.words, strict=True)]
        rows = np.flatnonzero(known & np.array(single))
        numbers = np.array([senses.setdefault(voters.keys[row][0], len(senses)) for row in rows], dtype=np.int64)
        return {
            view: learn_metric([part[rows] for part in voters.views[view]], self._words[rows], numbers, seed=self.seed)
            for view in VIEWS
        }

    def _shares(self, word: Word, places: Numbers) -> tuple[list[str], NDArray[np.float32]]:
        """The senses of a word in WordNet's order, and the votes (R, S) of occurrences."""
        found = {key for place in places for key in self.voters.keys[place]}
        senses = self.index.in_order({*self.index.senses.get(word, ()), *found})
        numbers = {key: number for number, key in enumerate(senses)}
        votes = np.zeros((len(places), len(senses)), np.float32)
        for row, place in enumerate(places):
            keys = self.voters.keys[place]
            votes[row, [numbers[key] for key in keys]] = 1 / len(keys)
        return senses, votes


def held_out_pairs(voter_index: VoterIndex) -> Pairs:
    """The held-out instances with the votes of the other texts, for fitting."""
    held = voter_index.held_out()
    parts = []
    num_groups = num_instances = 0
    for votes_of_word in voter_index.word_votes(held, among=~voter_index.held, limit=MAX_VOTERS):
        voter, sense = np.nonzero(votes_of_word.votes)  # (P,): pairs of a voter and its sense
        num_rows, num_senses = len(votes_of_word.rows), len(votes_of_word.senses)
        parts.append(
            (
                votes_of_word.cosines[:, :, voter].reshape(len(VIEWS), -1).T,  # (Q·P, V)
                np.tile(votes_of_word.votes[voter, sense], num_rows),  # (Q·P,)
                (num_groups + num_senses * np.arange(num_rows)[:, None] + sense).ravel(),  # (Q·P,)
                np.repeat(num_instances + np.arange(num_rows), num_senses),  # (Q·S,)
                np.array(
                    [key in held.keys[row] for row in votes_of_word.rows for key in votes_of_word.senses]
                ),  # (Q·S,)
            )
        )
        num_groups, num_instances = num_groups + num_rows * num_senses, num_instances + num_rows
    if not parts:
        raise InputError("no word of the held-out texts occurs in the other texts: give all of SemCor.")
    return Pairs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def answer(
    voter_index: VoterIndex, asked: Occurrences, votings: Mapping[str, Voting | None]
) -> dict[str, list[str | None]]:
    """The answers by each way of voting; None counts occurrences and ignores vectors."""
    first = [voter_index.index.first_sense(word) for word in asked.words]
    answers = {name: list(first) for name in votings}
    for votes_of_word in voter_index.word_votes(asked):
        counts = votes_of_word.votes.sum(0, dtype=np.float64)  # (S,)
        for name, voting in votings.items():
            scores = (
                np.broadcast_to(counts, (len(votes_of_word.rows), len(counts)))
                if voting is None
                else _count(votes_of_word, voting)
            )
            best = (scores >= scores.max(1, keepdims=True) * (1 - _TIE)).argmax(1)  # (Q,): the first of the best
            for row, choice in zip(votes_of_word.rows, best, strict=True):
                answers[name][row] = votes_of_word.senses[choice]
    return answers


def _count(votes_of_word: WordVotes, voting: Voting) -> Floats:
    """The scores (Q, S) of a word's senses."""
    weights = np.array(voting.weights)  # (V,)
    similarity = np.tensordot(weights, votes_of_word.cosines, 1) - weights.sum()  # (Q, R)
    sums = np.exp(similarity) @ votes_of_word.votes  # (Q, S)
    counts = votes_of_word.votes.sum(0, dtype=np.float64)  # (S,)
    if not voting.prior:
        return np.asarray(sums / np.maximum(counts, 1e-6) + voting.floor * (counts > 0))
    return np.asarray(sums + voting.counts * counts + voting.floor)


@dataclass(frozen=True)
class VotesResult:
    """Scores by set and way of voting, and what was learned."""

    scores: dict[str, dict[str, Score]]
    votings: dict[str, Voting]
    num_voters: int
    num_held: int
    """Number of occurrences that the votes were fitted on."""


def evaluate_votes(
    embed: Embed,
    train: Iterable[SenseSentence],
    sets: Mapping[str, Sequence[SenseSentence]],
    index: SenseIndex,
    *,
    seed: int = 0,
) -> VotesResult:
    """Score every set and all sets together, with the prior alone, vectors alone and both; see `evaluate_wsd`."""
    words = {target.word for sentences in sets.values() for sentence in sentences for target in sentence.targets}
    voter_index = VoterIndex(gather_occurrences(embed, keep_words(train, words)), index, seed=seed)
    pairs = held_out_pairs(voter_index)
    votings = {
        VECTORS_ONLY: fit_voting(pairs, prior=False),
        OWN: fit_voting(pairs, ["own"]),
        ALL_VIEWS: fit_voting(pairs),
    }
    scores = {}
    for name, sentences in sets.items():
        asked = gather_occurrences(embed, sentences)
        found = answer(voter_index, asked, {PRIOR_ONLY: None, **votings})
        scores[name] = {way: _score(asked, given) for way, given in found.items()}
    return VotesResult(scores | sums_of(scores), votings, len(voter_index.voters), pairs.num_instances)


def _score(asked: Occurrences, answers: Sequence[str | None]) -> Score:
    return Score(sum(given in keys for given, keys in zip(answers, asked.keys, strict=True)), len(answers))


def _rows_by(numbers: Numbers) -> dict[int, Numbers]:
    found: dict[int, list[int]] = defaultdict(list)
    for row, number in enumerate(numbers.tolist()):
        found[number].append(row)
    return {number: np.array(rows) for number, rows in found.items()}
