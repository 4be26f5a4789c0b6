"""Compile the native library: each source once per kind of processor, linked into one file.

It imports nothing but the standard library, because the build hook runs it before elmokit or torch are installed.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
LIBRARY = FOLDER / "libelmokit.so"
"""Where an installation has the library."""
SECONDS = 120
"""Time limit for each call of the compiler."""

_FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-fno-trapping-math",
)
_AVX2 = ("-mavx2", "-mfma")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
_KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {"baseline": (), "avx2": _AVX2, "avx512": _AVX512, "avx512bf16": (*_AVX512, "-mavx512bf16")},
    "aarch64": {"neon": ()},
}
_PER_KIND = ("infer.c", "pack.c", "train.c", "train_encoder.c")
_OLDEST_GLIBC = 17  # 2.17: what installers still look for (manylinux2014)
_INFERENCE_KINDS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "int8baseline": (),
        "int8avx2": _AVX2,
        "int8avxvnni": (*_AVX2, "-mavxvnni"),
        "int8avx512": _AVX512,
        "int8vnni": (*_AVX512, "-mavx512vnni"),
        "int8amx": (*_AVX512, "-mamx-tile", "-mamx-int8"),
        "amxbf16": (*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
    }
}
"""Kinds that only infer.c is compiled for; the others also train."""
_TILES = (*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-bf16")


class BuildError(Exception):
    """The library could not be built; the message says why."""


def source_hash() -> str:
    """Identifies the sources and the way they are compiled, so that a library of another version is never used."""
    sources = sorted(path for path in FOLDER.iterdir() if path.suffix in (".c", ".h"))
    key = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources))
    key.update(repr((_FLAGS, _KINDS, _PER_KIND, _INFERENCE_KINDS, _TILES)).encode())
    return key.hexdigest()[:16]


def build_library(output: Path = LIBRARY, seconds: float = SECONDS, emulation: Path | None = None) -> list[str]:
    """Compile the library to `output`, and return the parts that this compiler could make.

    Kinds of processors that the compiler does not know are left out.

    Args:
        output: the file to write.
        seconds: time limit for each call of the compiler.
        emulation: folder of `emulated_tiles.h`, which replaces the tile instructions of AMX in a library for tests.

    Raises:
        BuildError: if there is no compiler, no kind for this machine, or nothing could be compiled.
    """
    found = (shutil.which(name) for name in (os.environ.get("CC") or "cc", "gcc", "clang"))
    compiler = next((path for path in found if path), None)
    if compiler is None:
        raise BuildError("no C compiler was found ($CC, cc, gcc, clang)")
    kinds = _KINDS.get(platform.machine())
    if kinds is None:
        raise BuildError(f"there are no sources for processors of kind {platform.machine()!r}")
    always = _FLAGS if emulation is None else (*_FLAGS, "-DEMULATED_TILES", f"-I{emulation}")
    with tempfile.TemporaryDirectory(prefix="elmokit-build-") as folder:
        units = [(kind, name, (*flags, f"-DKIND_{kind}")) for kind, flags in kinds.items() for name in _PER_KIND]
        more = _INFERENCE_KINDS.get(platform.machine(), {})
        units += [(kind, "infer.c", (*flags, f"-DKIND_{kind}")) for kind, flags in more.items()]
        if platform.machine() == "x86_64":
            units.append(("amx", "tiles.c", _TILES))
        objects: dict[str, list[str]] = {}
        failed: dict[str, str] = {}
        for kind, name, flags in units:
            unit = str(Path(folder, f"{kind}-{Path(name).stem}.o"))
            if reason := _run([compiler, *always, *flags, "-c", str(FOLDER / name), "-o", unit], seconds):
                failed[kind] = reason
            objects.setdefault(kind, []).append(unit)
        made = [kind for kind in objects if kind not in failed]
        if not set(made) & set(kinds):
            raise BuildError(f"{compiler} failed: {failed.popitem()[1]}")
        library, first = str(Path(folder, "libelmokit.so")), str(FOLDER / "processor.c")
        parts = [part for kind in made for part in objects[kind]]
        define = f'-DELMOKIT_SOURCE="{source_hash()}"'
        if reason := _run([compiler, *always, define, "-shared", first, *parts, "-o", library], seconds):
            raise BuildError(f"{compiler} failed: {reason}")
        temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
        try:
            shutil.copyfile(library, temporary)
            os.chmod(temporary, 0o755)
            os.replace(temporary, output)
        finally:
            temporary.unlink(missing_ok=True)
    return made


def platform_tag(library: Path) -> str:
    """The platform tag of a wheel with this library: manylinux, with the oldest C library (glibc) that it can use."""
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    needed = [int(version) for version in re.findall(rb"\0GLIBC_2\.(\d+)", library.read_bytes())]
    if not needed:  # another C library
        return name
    return name.replace("linux", f"manylinux_2_{max(_OLDEST_GLIBC, *needed)}", 1)


def _run(command: list[str], seconds: float) -> str:
    """The reason why a command failed, "" if it did not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace")
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds:g} seconds"
    except OSError as error:
        return str(error)
    lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
    return (lines or ["no reason given"])[0].strip() if done.returncode else ""


if __name__ == "__main__":
    sys.stdout.write(f"built {LIBRARY.name}: {', '.join(build_library())}\n")
