"""What several tests of corpora need."""

import pytest

from elmokit.text.input_kind import InputKind
from tests.corpus.texts import TEXT, TOKENS


@pytest.fixture(params=["tokens", "text"])
def kind(request: pytest.FixtureRequest) -> InputKind:
    """What a corpus is: tokens between spaces, or raw text."""
    value: InputKind = request.param
    return value


@pytest.fixture
def texts(kind: InputKind) -> list[str]:
    """The contents of a small corpus of that kind."""
    return TOKENS if kind == "tokens" else TEXT
