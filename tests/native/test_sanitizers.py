"""The C code under AddressSanitizer and UndefinedBehaviorSanitizer."""

import shutil
import subprocess
from pathlib import Path

import pytest

from elmokit.native import build
from elmokit.native.library import LIMITS, NativeLibrary, UnusableLibraryError

pytestmark = [pytest.mark.extended, pytest.mark.engine]

FLAGS = ("-std=gnu11", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ffp-contract=off")


def can_run(kind: str) -> bool:
    try:
        library = NativeLibrary()
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    needed = {"baseline": 0, "avx2": 1, "avx512": 2, "avx512bf16": 8, "neon": 0}[kind]
    return library.features & needed == needed


@pytest.mark.parametrize("kind", ["baseline", "avx2", "avx512", "avx512bf16"])
def test_no_access_outside_of_a_buffer(kind: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    assert kind in LIMITS
    if not can_run(kind):
        pytest.skip(f"this processor has no {kind}")
    flags = build._KINDS["x86_64"][kind]
    source, program = Path(__file__).with_name("sanitize.c"), tmp_path / "sanitize"
    command = [compiler, *FLAGS, *flags, f"-DKIND_{kind}", f"-I{build.FOLDER}", str(source), "-o", str(program)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode and "sanitize" in made.stderr and "undefined reference" not in made.stderr:
        pytest.skip("this compiler has no sanitizers")
    assert made.returncode == 0, made.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
