"""Whoever has the source archive has all that a clone has, and its tests pass there."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MADE_HERE = {".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
MADE_HERE |= {"build", "dist", "demo-out", "PKG-INFO"}
# Quick, and together they read every folder of the project.
OWN_TESTS = ["tests/test_docs.py", "tests/test_exports.py", "tests/test_furniture.py", "tests/test_layering.py"]

pytestmark = pytest.mark.extended


def sources() -> set[str]:
    """What git tracks; in an unpacked archive, which git does not know, all that nothing made."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if not MADE_HERE & set(path.parts) and path.suffix != ".egg-info"}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of this tree, in a folder that git knows nothing of."""
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return unpacked


def test_the_archive_holds_all_sources(unpacked: Path) -> None:
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert sources() - held == set()
    assert not {name for name in held if MADE_HERE & set(Path(name).parts)} - {"PKG-INFO"}


def test_its_linter_and_tests_pass(unpacked: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(unpacked / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    tests = ["pytest", "-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", *OWN_TESTS]
    for command in (["ruff", "check", "--no-cache", "."], ["ruff", "format", "--no-cache", "--check", "."], tests):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=unpacked, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert str(ROOT) not in done.stdout
