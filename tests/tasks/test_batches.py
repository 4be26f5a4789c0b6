"""Texts become batches with the right things at the right places; epochs are fair and can be gone on with."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.errors import InputError
from elmokit.model.bilm import BiLM
from elmokit.tasks.batches import EpochBatches, Text, TokenBatch, TokenLookup, in_order
from elmokit.tasks.config import ElmoSettings
from elmokit.tasks.inputs import ElmoInputs
from elmokit.tasks.words import WordTable

TABLE = WordTable(["the", "play", "was", "."])
TEXTS: list[Text] = [
    (("The", "play", "."),),
    (("a",), (), ("was", "naïve", "."), ("the", "play")),
    ((), ("模型" * 6,)),
]
TOKENS = [[token for sentence in text for token in sentence] for text in TEXTS]


@pytest.fixture
def store(bilm: BiLM, tmp_path: Path) -> LayerCache:
    found = LayerCache(Embedder(bilm, threads=1), tmp_path)
    found.prepare(sentence for text in TEXTS for sentence in text if sentence)
    return found


def plain() -> TokenLookup:
    return TokenLookup(TABLE)


def test_masks_rows_and_characters() -> None:
    batch = plain().batch(TEXTS)
    assert batch.mask.tolist() == [[True] * len(own) + [False] * (6 - len(own)) for own in TOKENS]
    assert batch.lengths.tolist() == [3, 6, 1]
    assert batch.word_rows.tolist() == [[1, 2, 4, 0, 0, 0], [0, 3, 0, 4, 1, 2], [0] * 6]
    assert batch.types.char_ids.shape == (len({token for own in TOKENS for token in own} | {""}), 30)
    for own, rows in zip(TOKENS, batch.types.char_ids[batch.types.rows].tolist(), strict=True):
        found = [bytes(number - 1 for number in row if number) for row in rows]  # twelve of three bytes are cut
        assert found == [token.encode()[:30] for token in own] + [b""] * (6 - len(own))
    assert batch.layers is None and batch.live is None


def test_a_batch_of_short_tokens_is_wide_enough_for_a_filter_of_three() -> None:
    types = plain().batch([(("a", ".", "a"),)]).types
    assert types.char_ids.tolist() == [[0, 0, 0], [98, 0, 0], [47, 0, 0]]
    assert types.rows.tolist() == [[1, 2, 1]]


def test_tokens_that_no_utf8_can_write() -> None:
    types = plain().batch([(("\ud800", ""),)]).types
    assert types.char_ids.tolist() == [[0, 0, 0], [0xED + 1, 0xA0 + 1, 0x80 + 1]]
    assert types.rows.tolist() == [[1, 0]]


def test_layers_stand_at_the_tokens_of_their_own_sentence(store: LayerCache) -> None:
    batch = TokenLookup(TABLE, layers_shape=(store.num_layers, store.width)).batch(TEXTS, store.read)
    assert batch.layers is not None
    assert batch.layers.dtype == torch.float32
    assert batch.layers.shape == (3, 3, 6, store.width)
    for row, text in enumerate(TEXTS):
        expected = np.concatenate([store.read(sentence) for sentence in text if sentence], 1)  # (L, T, D)
        np.testing.assert_array_equal(batch.layers[:, row, : expected.shape[1]], expected)
        assert not batch.layers[:, row, expected.shape[1] :].any()


@pytest.mark.parametrize("kind", ["softmax", "tokens", "bare"])
def test_a_live_model_gives_what_the_store_has(kind: str, tiny: Callable[[str], BiLM], tmp_path: Path) -> None:
    bilm = tiny(kind)
    store = LayerCache(Embedder(bilm, threads=1), tmp_path)
    store.prepare(sentence for text in TEXTS for sentence in text if sentence)
    kept = TokenLookup(TABLE, layers_shape=(store.num_layers, store.width)).batch(TEXTS, store.read)
    live = TokenLookup(TABLE, indexer=bilm.indexer).batch(TEXTS)
    assert live.layers is None and live.live is not None and kept.layers is not None
    assert live.live.char_ids.shape[:2] == (5, 3)
    inputs = [
        ElmoInputs(ElmoSettings(dropout=0), num_layers=bilm.config.num_layers, width=store.width, bilm=own)
        for own in (bilm, None)
    ]
    layers = inputs[0]._run(bilm, live.live)
    torch.testing.assert_close(layers[:, kept.mask], kept.layers[:, kept.mask], rtol=1e-3, atol=1e-5)
    (one,), (other,) = inputs[0](live), inputs[1](kept)
    torch.testing.assert_close(one[kept.mask], other[kept.mask], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("empty", [(), ((),), ((), ())])
def test_an_example_without_tokens_is_refused(empty: Text) -> None:
    with pytest.raises(InputError, match="an example has no token: leave empty texts out"):
        plain().batch([(("a",),), empty])


def test_a_sentence_that_was_not_prepared(store: LayerCache) -> None:
    with pytest.raises(InputError, match="'never seen' was not embedded"):
        TokenLookup(TABLE, layers_shape=(3, store.width)).batch([(("never", "seen"),)], store.read)


# --- Epochs ----------------------------------------------------------------------------------------------------------


def build(number: int = 23, collate: Callable[[list[int]], Any] = list, **changes: Any) -> EpochBatches[int]:
    settings = {"batch_size": 4, "num_epochs": 3, "seed": 7, "size": lambda example: example, **changes}
    return EpochBatches(range(number), collate=collate, **settings)


def epochs(batches: EpochBatches[int]) -> list[list[list[int]]]:
    found: list[list[list[int]]] = [[] for _ in range(batches.num_epochs)]
    while (epoch := batches.epoch) < batches.num_epochs:
        found[epoch].append(next(batches))
    return found


@pytest.mark.parametrize("number", [1, 3, 4, 5, 23, 24, 25])
def test_every_example_comes_once_an_epoch(number: int) -> None:
    batches = build(number)
    for epoch in epochs(batches):
        assert Counter(example for batch in epoch for example in batch) == Counter(range(number))
        assert batches.num_batches - 1 <= len(epoch) <= batches.num_batches
        assert all(2 <= len(batch) <= 5 for batch in epoch) or number == 1
    assert batches.epoch == batches.num_epochs
    with pytest.raises(StopIteration):
        next(batches)


@pytest.mark.parametrize("number", [1, 2, 7, 51, 101])
def test_batches_of_one_stay_so(number: int) -> None:
    batches = build(number, batch_size=1)
    for epoch in epochs(batches):
        assert len(epoch) == batches.num_batches == number
        assert sorted(epoch) == [[example] for example in range(number)]


def test_one_example_behind_a_full_stretch_joins_the_batch_before() -> None:
    batches = build(4 * 50 + 1)
    for epoch in epochs(batches):
        assert Counter(map(len, epoch)) == {4: 49, 5: 1}
        assert Counter(example for batch in epoch for example in batch) == Counter(range(201))


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    found = epochs(build())
    assert found == epochs(build())
    assert found[0] != found[1] != found[2] != found[0]
    assert epochs(build(num_epochs=2)) == found[:2]
    assert epochs(build(seed=8))[0] != found[0]
    np.random.default_rng(1).random(5)
    torch.rand(3)
    later = build()
    later.load_state_dict({"epoch": 2, "place": 0, "num_examples": 23})
    assert list(later) == found[2]


def test_examples_of_similar_length_come_together() -> None:
    """With fewer examples than are sorted at a time, every batch is a stretch of the sorted ones."""
    sizes = np.random.default_rng(3).permutation(160)
    for epoch in epochs(build(160, batch_size=8, size=lambda example: int(sizes[example]))):
        for batch in epoch:
            own = sorted(int(sizes[example]) for example in batch)
            assert own == list(range(own[0], own[0] + 8))
        firsts = [min(int(sizes[example]) for example in batch) for batch in epoch]
        assert firsts != sorted(firsts)  # but the batches are mixed


def test_equally_long_examples_meet_others_in_each_epoch() -> None:
    first, second, _ = epochs(build(24, size=lambda example: 1))
    assert {frozenset(batch) for batch in first}.isdisjoint({frozenset(batch) for batch in second})


def test_going_on_from_every_place() -> None:
    whole = list(build())
    for place in range(len(whole) + 1):
        batches = build()
        begun = [next(batches) for _ in range(place)]
        state = batches.state_dict()
        again = build()
        next(again)
        again.load_state_dict(state)
        assert again.epoch == batches.epoch
        assert begun + list(again) == whole
        assert state["num_examples"] == 23


def test_another_number_of_examples_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^there are 1,023 training examples, but 23 in the run to resume: give its files\.$"
    ):
        build(1023).load_state_dict(build().state_dict())


def test_batches_are_what_collate_makes() -> None:
    lookup = plain()
    batches = build(4, collate=lambda examples: lookup.batch([(("x",) * (example + 1),) for example in examples]))
    (batch, *_) = batches
    assert isinstance(batch, TokenBatch)
    assert sorted(batch.lengths.tolist()) == [1, 2, 3, 4]


def test_evaluation_takes_short_ones_first_and_all() -> None:
    sizes = [5, 1, 4, 1, 3, 9, 2]
    assert list(in_order(sizes, lambda size: size, 3)) == [[1, 3, 6], [4, 2, 0], [5]]
    assert list(in_order([], len, 3)) == []
