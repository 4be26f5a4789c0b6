"""What several tests of training want."""

from collections.abc import Iterator

import pytest
import torch

from elmokit.text.input_kind import Input
from tests.training.texts import TEXT, TOKENS


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch's own threads, which cost far more than tiny tensors do when they wait for each other, are left out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["tokens", "text"])
def kind(request: pytest.FixtureRequest) -> Input:
    """What a corpus is: tokens between spaces, or raw text."""
    value: Input = request.param
    return value


@pytest.fixture
def texts(kind: Input) -> list[str]:
    """The contents of a small corpus of that kind."""
    return TOKENS if kind == "tokens" else TEXT
