"""Tests see no cache but their own, and run the engine that they say."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

from elmokit.cache import cache_directory
from elmokit.embedding.embedder import Embedder
from elmokit.model.bilm import BiLM
from elmokit.model.engines.native import find_native_cell


def test_the_cache_is_the_tests_own() -> None:
    assert cache_directory().is_dir() and cache_directory().is_relative_to(tempfile.gettempdir())
    code = "from elmokit.cache import cache_directory; print(cache_directory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert Path(done.stdout.strip()) == cache_directory()


def test_no_library_unless_it_is_asked_for(built_cell: object, bilm: BiLM, pytestconfig: pytest.Config) -> None:
    name = Embedder(bilm, threads=1).runner.engine_name
    assert name == ("fused" if pytestconfig.getoption("--native") else "portable")


def test_a_mode_is_an_engine(engine_mode: str, bilm: BiLM) -> None:
    assert Embedder(bilm, threads=1).runner.engine_name == {"portable": "portable", "native": "fused"}[engine_mode]


def test_subprocesses_follow_the_mode(engine_mode: str) -> None:
    """They find what `library_path` names under the cache, unless it is switched off."""
    libraries = list((cache_directory() / "engine").glob("*.so"))
    assert (find_native_cell() is not None) == (engine_mode == "native")
    assert (bool(libraries) and os.environ.get("ELMOKIT_NATIVE") != "0") == (engine_mode == "native")


def test_a_test_may_put_the_cache_elsewhere(engine_mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it sets is gone in the next one, with the mode."""
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path))


@pytest.mark.usefixtures("engine_environment")  # looks the library up anew
def test_the_mode_ends_with_the_test(pytestconfig: pytest.Config) -> None:
    assert (find_native_cell() is not None) == pytestconfig.getoption("--native")


def test_a_test_may_set_threads() -> None:
    """What it sets is gone in the next one."""
    torch.set_num_threads(3)


def test_threads_are_those_of_the_environment() -> None:
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
