"""The C code under AddressSanitizer and UndefinedBehaviorSanitizer."""

import shutil
import subprocess
from pathlib import Path

import pytest

from elmokit.native import build
from elmokit.native.library import KINDS, NativeLibrary, UnusableLibraryError

pytestmark = [pytest.mark.extended, pytest.mark.engine]

FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ffp-contract=off")


FLAGS_OF = {**build._KINDS["x86_64"], **build._INFERENCE_KINDS["x86_64"]}
NEEDED = {"amxbf16": 2 | 8, "int8amx": 2} | {
    kind: needed for kinds in KINDS.values() for kind, needed in kinds if "amx" not in kind
}
"""Features of the processor that a kind needs; tiles are emulated."""


def test_every_kind_is_here() -> None:
    assert set(FLAGS_OF) == set(NEEDED) - {"neon"}


@pytest.mark.parametrize("kind", FLAGS_OF)
def test_no_access_outside_of_a_buffer(kind: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    try:
        features = NativeLibrary().features
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    if features & NEEDED[kind] != NEEDED[kind]:
        pytest.skip(f"this processor has no {kind}")
    here = Path(__file__).parent
    flags = (*FLAGS_OF[kind], f"-DKIND_{kind}", "-DEMULATED_TILES", f"-I{build.FOLDER}", f"-I{here}")
    program = tmp_path / "sanitize"
    command = [compiler, *FLAGS, *flags, str(here / "sanitize.c"), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode and "sanitize" in made.stderr and "undefined reference" not in made.stderr:
        pytest.skip("this compiler has no sanitizers")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
