"""What a user installs: the wheel made of the source archive, alone in an environment without a network."""

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

import elmokit
from elmokit.formats import fingerprint, load

ROOT = Path(__file__).parents[1]
SOURCES = (
    "src",
    "tools",
    "docs",
    "pyproject.toml",
    "hatch_build.py",
    ".gitignore",
    "README.md",
    "CITATION.cff",
    "LICENSE",
    "NOTICE",
)
MAX_WHEEL_BYTES = 40_000_000

# Run inside the new environment; the network is out of reach, whatever variables say.
USE = """
import socket, sys
def refuse(*_): raise AssertionError("tried to use the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
import elmokit
from elmokit.formats import fingerprint
embedder = elmokit.Embedder.from_pretrained("mini", threads=1)
(vectors,) = embedder.embed(["The play was cancelled."])
assert vectors.shape[:2] == (embedder.bilm.config.num_layers, 5), vectors.shape
print(elmokit.__file__, fingerprint(embedder.bilm), sep="\\n")
"""


# Every kind of processor that the library has code for and this processor can run, against the plain engine.
COMPARE = """
import numpy as np, torch
import elmokit
from elmokit.native.library import find_library
library = find_library()
embedder = elmokit.Embedder.from_pretrained("mini", threads=1)
bilm, tokens = embedder.bilm, "The play was cancelled because of naïve actors .".split()
with torch.inference_mode():
    plain = bilm(bilm.to_char_ids([tokens])).layers[:, 0].numpy()
(vectors,) = embedder.embed([tokens])
assert np.abs(vectors - plain).max() < 1e-5
print(library.kind)
"""


def run(*command: str | Path, folder: Path, **more: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment |= {"HF_HUB_OFFLINE": "1", "ELMOKIT_OFFLINE": "1", "PIP_NO_INDEX": "1", "NO_COLOR": "1"} | more
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources."""
    tree = tmp_path_factory.mktemp("tree") / "elmokit"
    tree.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, tree / name)
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    """Made as pip and build make it: sources → source archive → wheel."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tree.parent, folder=tree)
    (archive,) = tree.parent.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tree.parent / "unpacked", filter="data")
    (unpacked,) = (tree.parent / "unpacked").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tree.parent, folder=unpacked)
    (wheel,) = tree.parent.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_the_wheel_holds_all_that_is_needed_and_is_small(wheel: Path, tree: Path) -> None:
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES
    names = set(zipfile.ZipFile(wheel).namelist())
    package = tree / "src" / "elmokit"
    expected = {f"elmokit/{path.relative_to(package)}" for path in package.rglob("*") if path.is_file()}
    info = f"elmokit-{elmokit.__version__}.dist-info"
    assert expected == {name for name in names if not name.startswith(info) and not name.endswith(".so")}
    assert {
        "elmokit/py.typed",
        "elmokit/native/infer.c",
        "elmokit/presets/pretrain/mini.toml",
        *(f"elmokit/models/mini/{name}" for name in ("config.json", "model.safetensors", "vocab.txt", "README.md")),
        "elmokit/models/mini/sums.json",
        f"{info}/licenses/LICENSE",
        f"{info}/licenses/NOTICE",
        f"{info}/entry_points.txt",
    } <= names


@pytest.mark.slow
def test_the_source_archive_holds_what_makes_a_model(wheel: Path, tree: Path) -> None:
    (unpacked,) = (tree.parent / "unpacked").iterdir()
    for name in ("NOTICE", "tools/package_model.py", "tools/model_card.py", "tools/cards/mini.md"):
        assert (unpacked / name).is_file(), name


@pytest.mark.slow
def test_an_installed_wheel_loads_its_model_offline(wheel: Path, tree: Path, tmp_path: Path) -> None:
    """The new environment sees this one's libraries through a .pth file, which does not lead to editable installs."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = next(path for path in (home / "bin/python", home / "Scripts/python.exe") if path.exists())
    (site,) = (path for path in home.rglob("site-packages") if path.is_dir())
    libraries = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    assert libraries
    (site / "libraries.pth").write_text("".join(f"{path}\n" for path in libraries))
    missing = subprocess.run(
        [python, "-I", "-c", "import torch, elmokit"], capture_output=True, text=True, cwd=tmp_path
    )
    assert "No module named 'elmokit'" in missing.stderr

    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, folder=tmp_path)
    where, found = run(python, "-I", "-c", USE, folder=tmp_path).splitlines()
    assert Path(where).is_relative_to(site)
    assert found == fingerprint(load(tree / "src/elmokit/models/mini"))
    told = run(python.with_name("elmokit"), "info", "mini", folder=tmp_path)
    assert found in told and str(site) in told
    if not (site / "elmokit/native/libelmokit.so").exists():
        assert "none-any" in wheel.name and "not built" in run(
            python.with_name("elmokit"), "info", "--engine", folder=tmp_path
        )
        return
    assert re.search(r"-py3-none-(many)?linux_\w+\.whl$", wheel.name)
    for limit in ("baseline", "avx2", "avx512", "amx"):
        kind = run(python, "-I", "-c", COMPARE, folder=tmp_path, ELMOKIT_CPU=limit).strip()
        assert kind in ("baseline", "avx2", "avx512") and (limit != "baseline" or kind == "baseline")
    assert "bits" in run(python.with_name("elmokit"), "info", "--engine", "--verify", folder=tmp_path)


@pytest.mark.extended
@pytest.mark.skipif(find_spec("auditwheel") is None, reason="auditwheel is not installed (extra: release)")
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="manylinux wheels are for Linux with glibc")
def test_auditwheel_agrees_with_the_tag(wheel: Path, tmp_path: Path) -> None:
    """A wheel that PyPI accepts: the library needs nothing but a C library of 2012."""
    if wheel.name.endswith("none-any.whl"):
        pytest.skip("the wheel has no library")
    tag = f"manylinux_2_17_{platform.machine()}"
    assert wheel.name.endswith(f"-py3-none-{tag}.whl")
    told = run(sys.executable, "-m", "auditwheel", "show", wheel, folder=tmp_path)
    assert f'consistent with the following platform tag: "{tag}"' in " ".join(told.split())


@pytest.mark.slow
def test_without_a_compiler_the_wheel_is_pure(tree: Path, tmp_path: Path) -> None:
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        tmp_path,
        folder=tree,
        PATH=str(tmp_path),
        CC="none",
    )
    (pure,) = tmp_path.glob("*.whl")
    assert pure.name.endswith("py3-none-any.whl") or pure.name.endswith("py2.py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(pure).namelist() if name.endswith(".so")]
