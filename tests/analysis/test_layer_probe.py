from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from elmokit.analysis.embed import layers_of
from elmokit.analysis.probes.layers import (
    Candidate,
    ProbeResult,
    Tagged,
    candidate_names,
    find_file,
    pick_vectors,
    probe_tags,
    tag_accuracy,
)
from elmokit.analysis.probes.linear import Training, Vectors
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, InputError
from elmokit.model.bilm import BiLM

FAST = Training(epochs=20, batch_size=16, learning_rate=0.05)
WORDS = ("red", "green", "blue")


def embed(sentences: Sequence[Sequence[str]]) -> list[Vectors]:
    """Layer 0 says nothing, layer 1 which word it is, layer 2 only whether it is red."""
    tokens = [token for sentence in sentences for token in sentence]
    layers = np.random.default_rng(0).normal(size=(3, len(tokens), 4)).astype(np.float32) / 5
    for place, token in enumerate(tokens):
        layers[1, place, WORDS.index(token)] += 3
        layers[2, place, 0] += 3 * (token == "red")
    return np.split(layers, np.cumsum([len(sentence) for sentence in sentences])[:-1], axis=1)


def tagged(num_sentences: int, seed: int) -> Tagged:
    generator = np.random.default_rng(seed)
    sentences = tuple(
        tuple(str(word) for word in generator.choice(WORDS, size=generator.integers(0, 6)))
        for _ in range(num_sentences)
    )
    return Tagged(sentences, tuple(tuple(word.upper() for word in sentence) for sentence in sentences))


SETS = {"train": tagged(60, 0), "dev": tagged(20, 1), "test": tagged(20, 2)}


@pytest.mark.slow
def test_the_layer_that_knows_is_chosen() -> None:
    result = probe_tags(embed, SETS, metric="accuracy", seeds=[0, 1], training=FAST)
    assert list(result.candidates) == ["layer 0", "layer 1", "layer 2", "mean", "concatenated"]
    assert result.chosen in ("layer 1", "mean")
    assert result.best.test == (1.0, 1.0)
    scores = {name: candidate.test_mean for name, candidate in result.candidates.items()}
    assert scores["layer 0"] < 0.6
    assert 0.5 < scores["layer 2"] < 0.9
    assert scores["concatenated"] > 0.95
    assert (result.metric, result.seeds) == ("accuracy", (0, 1))


def test_the_score_gets_sentences_and_decides() -> None:
    seen = []

    def score(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> float:
        assert [len(sentence) for sentence in gold] == [len(sentence) for sentence in predicted]
        seen.append(gold)
        return tag_accuracy(gold, predicted) / 2

    result = probe_tags(embed, SETS, metric="half", score=score, seeds=[0], training=FAST, candidates=["layer 1"])
    assert result.candidates == {"layer 1": Candidate((0.0,), (0.5,), (0.5,))}
    assert seen == [SETS["dev"].tags] * 4 + [SETS["test"].tags]


def test_tags_that_training_never_saw_are_missed() -> None:
    other = Tagged((("red", "green"),), (("RED", "NEW"),))
    result = probe_tags(
        embed, SETS | {"test": other}, metric="accuracy", seeds=[0], training=FAST, candidates=["layer 1"]
    )
    assert result.best.test == (0.5,)


def test_concatenation_is_never_chosen() -> None:
    low, high = Candidate((0.0,), (0.5,), (0.9,)), Candidate((0.0,), (0.9,), (0.1,))
    assert ProbeResult("f", (0,), {"layer 0": low, "mean": high, "concatenated": low}).chosen == "mean"
    assert ProbeResult("f", (0,), {"layer 0": low, "concatenated": high}).chosen == "layer 0"


def test_mean_and_deviation() -> None:
    candidate = Candidate((0.0, 0.0), dev=(0.5, 0.7), test=(0.2, 0.4))
    assert candidate.dev_mean == pytest.approx(0.6)
    assert candidate.test_mean == pytest.approx(0.3)
    assert candidate.test_deviation == pytest.approx(0.1 * 2**0.5)
    assert Candidate((0.0,), (0.5,), (0.5,)).test_deviation == 0


def test_candidates() -> None:
    layers = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    assert candidate_names(1) == ["layer 0"]
    assert np.array_equal(pick_vectors(layers, "layer 1"), layers[1])
    assert np.array_equal(pick_vectors(layers, "mean"), (layers[0] + layers[1]) / 2)
    assert np.array_equal(pick_vectors(layers, "concatenated"), np.hstack([layers[0], layers[1]]))
    with pytest.raises(ConfigError, match="'layer 2' are unknown: choose one of layer 0, layer 1, mean, concatenated"):
        pick_vectors(layers, "layer 2")


def test_an_embedder_is_probed(bilm: BiLM) -> None:
    """Layer 0 tells one word from another, whatever the weights are."""
    sets = {name: Tagged((("the", "play"), (), ("was",)) * 4, (("x", "y"), (), ("z",)) * 4) for name in SETS}
    result = probe_tags(layers_of(Embedder(bilm, threads=1)), sets, metric="accuracy", seeds=[0], training=FAST)
    assert result.candidates["layer 0"].test == (1,)


def test_vectors_of_another_number() -> None:
    with pytest.raises(InputError, match=r"embed gave an array \(3, \d+, 4\) for a sentence of \d+ tokens"):
        probe_tags(lambda sentences: [layers[:, 1:] for layers in embed(sentences)], SETS, metric="accuracy")
    with pytest.raises(InputError, match="give at least one in train, dev and test"):
        probe_tags(embed, SETS | {"dev": Tagged((), ())}, metric="accuracy")


def test_find_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must have one file \*train\.conllu .*, and has none"):
        find_file(tmp_path, "train.conllu")
    path = tmp_path / "en_ewt-ud-train.conllu.xz"
    path.touch()
    assert find_file(tmp_path, "train.conllu") == path
    (tmp_path / "train.conllu").touch()
    with pytest.raises(InputError, match=r"and has en_ewt-ud-train\.conllu\.xz, train\.conllu\.$"):
        find_file(tmp_path, "train.conllu")
