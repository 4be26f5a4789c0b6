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
from elmokit.native.library import find_library


def test_the_cache_is_the_tests_own() -> None:
    assert cache_directory().is_dir() and cache_directory().is_relative_to(tempfile.gettempdir())
    code = "from elmokit.cache import cache_directory; print(cache_directory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert Path(done.stdout.strip()) == cache_directory()


def test_the_default_is_what_the_installation_has(bilm: BiLM) -> None:
    name = Embedder(bilm, threads=1).runner.engine_name
    library = find_library()
    expected = "portable" if library is None else ("native" if library.same_bits else "native without FMA")
    assert name == expected


def test_a_mode_is_an_engine(engine_mode: str, bilm: BiLM) -> None:
    assert Embedder(bilm, threads=1).runner.engine_name.startswith(engine_mode)


def test_subprocesses_follow_the_mode(engine_mode: str) -> None:
    code = "from elmokit.native.library import find_library; print(find_library() is not None)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(engine_mode == "native")


def test_a_test_may_put_the_cache_elsewhere(engine_mode: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What it sets is gone in the next one, with the mode."""
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path))


def test_the_mode_ends_with_the_test() -> None:
    assert os.environ.get("ELMOKIT_NATIVE") != "0" or find_library() is None


def test_a_test_may_set_threads() -> None:
    """What it sets is gone in the next one."""
    torch.set_num_threads(3)


def test_threads_are_those_of_the_environment() -> None:
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
