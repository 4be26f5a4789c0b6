"""The promise about bits: a text's float32 vectors do not depend on anything but the text and the model."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from elmokit.embedding.embedder import Embedder, State
from elmokit.embedding.pooling import Layers
from elmokit.embedding.verify import SHA256, verify_bits
from elmokit.model.bilm import BiLM
from elmokit.native.library import NativeLibrary
from tests.conftest import SENTENCES, build_tiny

pytestmark = pytest.mark.engine

WORDS = "The play was naïve . a bank of the river , 模型 internationalization x".split()


@pytest.fixture(autouse=True)
def _promised(library: NativeLibrary) -> None:
    if not library.same_bits:
        pytest.skip("bits are not promised without fused multiply-adds")


def draw_sentences(number: int, longest: int = 30) -> list[list[str]]:
    chance = random.Random(5)
    lengths = [chance.randrange(longest) for _ in range(number)]
    return [[chance.choice(WORDS) + str(chance.randrange(40)) for _ in range(length)] for length in lengths]


@pytest.fixture(scope="module")
def mini() -> BiLM:
    return Embedder.from_pretrained("mini", threads=1).bilm


def test_the_hash_of_fixed_texts() -> None:
    """The same on every processor; docs/performance.md states it too."""
    found = verify_bits(threads=1)
    assert (found.outcome, found.sha256) == ("verified", SHA256)
    assert "verified" in str(found)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_alone_in_a_batch_and_in_another_order(mini: BiLM, threads: int, warm: bool) -> None:
    state: State = "warm" if warm else "reset"
    embedder = Embedder(mini, threads=threads, state=state)
    sentences = draw_sentences(60)
    together = embedder.embed(sentences)
    order = list(range(len(sentences)))
    random.Random(1).shuffle(order)
    shuffled = Embedder(mini, threads=1, state=state).embed([sentences[number] for number in order], batch_size=7)
    for number, vectors in zip(order, shuffled, strict=True):
        assert np.array_equal(together[number], vectors)
    for number in range(0, len(sentences), 6):
        (alone,) = Embedder(mini, threads=1, state=state).embed([sentences[number]])
        assert np.array_equal(together[number], alone)


@pytest.mark.parametrize("layers", ["all", "top", "average", [0.2, 0.5, 0.3]])
@pytest.mark.parametrize("pooling", [None, "mean", "max"])
def test_every_selection(mini: BiLM, layers: Layers, pooling: str | None) -> None:
    embedder = Embedder(mini, threads=1)
    sentences = [sentence for sentence in draw_sentences(20) if sentence]
    together = embedder.embed(sentences, layers=layers, pooling=pooling)
    for sentence, vectors in zip(sentences, together, strict=True):
        (alone,) = embedder.embed([sentence], layers=layers, pooling=pooling)
        assert np.array_equal(vectors, alone)


@pytest.mark.parametrize("kind", ["characters", "bare", "one-layer", "tokens"])
def test_widths_that_fill_no_vector(kind: str) -> None:
    bilm = build_tiny(kind)
    sentences = [*SENTENCES, *([["play"] * 9] * 3), ["the"] * 40]
    together = Embedder(bilm, threads=2).embed(sentences)
    for sentence, vectors in zip(sentences, together, strict=True):
        (alone,) = Embedder(bilm, threads=1).embed([sentence])
        assert np.array_equal(vectors, alone)


def test_modes_of_the_process_do_not_matter(mini: BiLM) -> None:
    """Denormals may be flushed elsewhere in the process; its own modes come back."""
    sentences = draw_sentences(5)
    before = Embedder(mini, threads=1).embed(sentences)
    assert torch.set_flush_denormal(True)
    try:
        after = Embedder(mini, threads=1).embed(sentences)
        assert float(torch.tensor(1e-38) * 1e-2) == 0
    finally:
        torch.set_flush_denormal(False)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(
    "switch",
    [
        {"ELMOKIT_CPU": "avx2"},
        {"ATEN_CPU_CAPABILITY": "default"},
        {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
        {"OMP_NUM_THREADS": "2"},
    ],
    ids=lambda switch: next(iter(switch)),
)
def test_other_processors_have_the_same_bits(switch: dict[str, str]) -> None:
    code = (
        "import hashlib\nfrom elmokit.embedding.embedder import Embedder\n"
        "from elmokit.embedding.verify import TEXTS, verify_bits\n"
        "print(verify_bits().outcome)\nembedder = Embedder.from_pretrained('mini')\n"
        "for layers, pooling in (('average', 'mean'), ('top', 'max'), ([0.2, 0.5, 0.3], None)):\n"
        "    vectors = embedder.embed(list(TEXTS), layers=layers, pooling=pooling)\n"
        "    print(hashlib.sha256(b''.join(one.tobytes() for one in vectors)).hexdigest())\n"
        "print(hashlib.sha256(embedder.encode(list(TEXTS), normalize_embeddings=True).tobytes()).hexdigest())\n"
    )
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **more})
        for more in ({}, switch)
    ]
    assert outputs[0].returncode == 0, outputs[0].stderr
    assert outputs[0].stdout.startswith("verified")
    assert outputs[0].stdout == outputs[1].stdout, outputs[1].stderr
