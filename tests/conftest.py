"""Tiny seeded biLMs of several kinds, and what all tests need of their process.

Tests have a cache of their own, which is empty: no test sees the user's files. A test that says nothing runs the engine
that a user has after the same installation: the native library where it was built. Where results depend on the engine,
`engine_mode` runs a test with the native library and without it.
"""

import copy
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from elmokit.amx import avoid_hidden_tiles
from elmokit.config import CharacterInput, ElmoConfig, LstmStack, TokenInput
from elmokit.model.bilm import BiLM
from elmokit.model.engines.tiles import TileProducts
from elmokit.native.library import NativeLibrary, describe_library, find_library, forget_library
from elmokit.text.vocabulary import SPECIALS, Vocabulary

avoid_hidden_tiles()

WORDS = Vocabulary([*SPECIALS, "the", "play", "was", "naïve", "模型", ".", ""])
SENTENCES = [["The", "play", "was", "naïve", "."], [], ["模型"], ["the", "<UNK>"]]

_BYTES = CharacterInput(char_dim=4, filters=((1, 4), (2, 5), (3, 3)), num_highway=2, max_characters=12)
_STACK = LstmStack(num_layers=2, cell_dim=8, projection_dim=6)
CONFIGS = {
    "characters": ElmoConfig(input=_BYTES, lstm=_STACK),
    "softmax": ElmoConfig(input=_BYTES, lstm=_STACK, vocab_size=len(WORDS), softmax=True),
    "tokens": ElmoConfig(input=TokenInput(), lstm=_STACK, vocab_size=len(WORDS)),
    "tied": ElmoConfig(input=TokenInput(), lstm=_STACK, vocab_size=len(WORDS), softmax=True, tied_softmax=True),
    "untied": ElmoConfig(input=TokenInput(), lstm=_STACK, vocab_size=len(WORDS), softmax=True),
    "bare": ElmoConfig(
        input=CharacterInput(char_dim=3, filters=((1, 4), (2, 3)), activation="tanh", projected=False),
        lstm=LstmStack(cell_dim=7, projection_dim=None, cell_clip=None, projection_clip=None, skip_connections=False),
    ),
    "one-layer": ElmoConfig(input=_BYTES, lstm=LstmStack(num_layers=1, cell_dim=8, projection_dim=6, cell_clip=0.5)),
}
KINDS = tuple(CONFIGS)


_CACHE = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Give this process and those that it starts a cache of their own and one thread, before anything is collected."""
    config.stash[_CACHE] = Path(tempfile.mkdtemp(prefix="elmokit-tests-"))
    os.environ["ELMOKIT_CACHE"] = str(config.stash[_CACHE])
    forget_library()
    if "OMP_NUM_THREADS" not in os.environ:  # as in `make test`: several threads only delay tiny products
        os.environ["OMP_NUM_THREADS"] = "1"
        torch.set_num_threads(1)


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_CACHE], ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs with both engines depends on how the processor computes; what `make test` leaves out is slow."""
    for item in items:
        if "engine_mode" in getattr(item, "fixturenames", ()):
            item.add_marker("engine")
        if item.get_closest_marker("extended"):
            item.add_marker("slow")


def build_tiny(kind: str) -> BiLM:
    """A model in which no tensor is constant, so that no two of them can be taken for each other."""
    config = CONFIGS[kind]
    bilm = BiLM(config, vocabulary=WORDS if config.vocab_size else None, seed=KINDS.index(kind))
    generator = torch.Generator().manual_seed(KINDS.index(kind))
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    return bilm.eval()


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works() -> None:
    """Shells start what runs in the background with Ctrl-C ignored, and its processes would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """Commands set torch's threads for their process, which here is that of all tests that follow."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def _tiny_models() -> dict[str, BiLM]:
    return {kind: build_tiny(kind) for kind in KINDS}


@pytest.fixture
def tiny(_tiny_models: dict[str, BiLM]) -> Callable[[str], BiLM]:
    """Give a model of a kind, one's own to change."""
    return lambda kind: copy.deepcopy(_tiny_models[kind])


@pytest.fixture
def bilm(tiny: Callable[[str], BiLM]) -> BiLM:
    """A character model with skip connections, softmax and vocabulary, one's own to change."""
    return tiny("softmax")


@pytest.fixture
def tiny_bilm() -> BiLM:
    """The same with 50 characters a token, as `batch_to_ids` gives and the documents speak of."""
    characters = _BYTES.model_copy(update={"max_characters": 50})
    return BiLM(CONFIGS["softmax"].model_copy(update={"input": characters}), vocabulary=WORDS, seed=1).eval()


@pytest.fixture
def whole_bilm() -> BiLM:
    """As `bilm`, in widths that fill a processor's vectors: what is promised of bits is promised of such models.

    In products of fewer than twelve columns some libraries add up in an order that depends on where a row lies.
    """
    characters = _BYTES.model_copy(update={"filters": ((1, 16), (2, 32), (3, 16))})
    stack = LstmStack(num_layers=2, cell_dim=16, projection_dim=16)
    config = CONFIGS["softmax"].model_copy(update={"input": characters, "lstm": stack})
    return BiLM(config, vocabulary=WORDS, seed=2).eval()


@pytest.fixture(scope="session")
def library() -> NativeLibrary:
    """The native library of this installation."""
    found = find_library()
    if found is None:
        pytest.skip(describe_library())
    return found


@pytest.fixture
def engine_environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """To change what decides whether the library is used, which is looked up anew before and after.

    The test's own `monkeypatch`, undone here: a second one, undone earlier, would find its values put back.
    """
    forget_library()
    yield monkeypatch
    monkeypatch.undo()
    forget_library()


@pytest.fixture(params=["portable", "native"])
def engine_mode(request: pytest.FixtureRequest, engine_environment: pytest.MonkeyPatch) -> str:
    """Run a test without the native library, and with it. Subprocesses follow."""
    mode: str = request.param
    if mode == "portable":
        engine_environment.setenv("ELMOKIT_NATIVE", "0")
    elif find_library() is None:
        pytest.skip(describe_library())
    assert (find_library() is not None) == (mode == "native")
    return mode


@pytest.fixture
def tiles(library: NativeLibrary) -> TileProducts:
    """Its products by tiles."""
    if library.tile_functions is None:
        pytest.skip("this processor has no AMX")
    return TileProducts(library.tile_functions)


@pytest.fixture(autouse=True)
def _loopback_only(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that opens a connection beyond this machine, however its code handles errors."""
    if request.node.get_closest_marker("network"):
        return
    for name in ("connect", "connect_ex"):
        original = getattr(socket.socket, name)

        def guarded(self: socket.socket, address: Any, original: Callable[..., Any] = original) -> Any:
            if self.family != getattr(socket, "AF_UNIX", None) and address[0] not in ("127.0.0.1", "::1", "localhost"):
                pytest.fail(f"a test tried to connect to {address!r}: only loopback is allowed")
            return original(self, address)

        monkeypatch.setattr(socket.socket, name, guarded)


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Torch's own threads, which cost far more than tiny tensors do when they wait for each other, are left out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
