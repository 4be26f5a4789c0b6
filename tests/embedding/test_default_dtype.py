"""Somebody else may have changed torch's default dtype: what elmokit computes stays the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmokit import Elmo
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError
from elmokit.formats import load
from elmokit.model.bilm import BiLM
from elmokit.scoring.perplexity import measure_perplexity
from elmokit.scoring.sentences import score_sentences
from elmokit.scoring.substitutes import find_substitutes
from elmokit.training.config import PretrainConfig
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles
from tests.conftest import build_tiny
from tests.training.runs import BASE, merge, write_corpus

SENTENCES = [["the", "play", "was", "naïve"], ["they", "play"], [], ["a"] * 70]
CALLS: dict[str, Callable[[BiLM], Any]] = {
    "embed": lambda bilm: Embedder(bilm, threads=1).embed(SENTENCES),
    "warm": lambda bilm: Embedder(bilm, threads=1, state="warm").embed(SENTENCES),
    "carry": lambda bilm: Embedder(bilm, threads=2, state="carry").embed(SENTENCES, batch_size=2),
    "mixed": lambda bilm: Embedder(bilm, threads=2).embed(SENTENCES[:2], layers=[0.5, 0.2, 0.3], pooling="mean"),
    "encode": lambda bilm: Embedder(bilm, threads=1).encode(["The play was naïve.", "They play."]),
    "score": lambda bilm: [(one.forward, one.backward) for one in score_sentences(bilm, SENTENCES)],
    "perplexity": lambda bilm: measure_perplexity(bilm, [" ".join(SENTENCES[0])]).forward,
    "substitutes": lambda bilm: [one.score for one in find_substitutes(bilm, SENTENCES[0], 1, number=3)],
    "elmo": lambda bilm: Elmo(bilm, dropout=0)(bilm.to_char_ids(SENTENCES)).representations[0].detach().numpy(),
}


@pytest.fixture
def double() -> Iterator[Callable[[], None]]:
    """What makes float64 the default, until the test ends."""
    yield lambda: torch.set_default_dtype(torch.float64)
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("name", CALLS)
def test_results_do_not_depend_on_it(name: str, double: Callable[[], None]) -> None:
    bilm = build_tiny("softmax")
    expected = CALLS[name](bilm)
    double()
    for found, own in zip(_flat(CALLS[name](bilm)), _flat(expected), strict=True):
        assert found.dtype == own.dtype
        np.testing.assert_array_equal(found, own)


def test_training_does_not_depend_on_it(double: Callable[[], None], tmp_path: Path) -> None:
    text = write_corpus(tmp_path)["train"][0]
    config = PretrainConfig.model_validate(merge(BASE, {"loop": {"max_steps": 2}}))
    results = []
    for name in ("single", "double"):
        done = pretrain(config, RunFiles([text], [], tmp_path / name, threads=1))
        results.append(load(done.model_path).state_dict())
        double()
    for name, tensor in results[0].items():
        torch.testing.assert_close(results[1][name], tensor, msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_models_of_other_dtypes_are_scored(dtype: torch.dtype) -> None:
    expected, found = (
        list(score_sentences(build_tiny("softmax").to(own), SENTENCES)) for own in (torch.float32, dtype)
    )
    for one, own in zip(expected, found, strict=True):
        np.testing.assert_allclose(one.forward, own.forward, atol=1e-5 if dtype == torch.float64 else 0.3)


def test_int8_does_not_depend_on_it(double: Callable[[], None]) -> None:
    bilm = build_tiny("softmax")
    try:
        expected = Embedder(bilm, threads=1, int8=True).embed(SENTENCES)
    except ConfigError as error:  # it needs the native library
        pytest.skip(str(error))
    double()
    for found, own in zip(Embedder(bilm, threads=1, int8=True).embed(SENTENCES), expected, strict=True):
        np.testing.assert_array_equal(found, own)


def _flat(values: Any) -> list[Any]:
    if isinstance(values, list | tuple):
        return [one for value in values for one in _flat(value)]
    return [np.asarray(values)]
