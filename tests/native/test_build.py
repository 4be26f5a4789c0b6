"""Building the native library: compilers that are missing, fail, hang or know less; and what a build leaves behind."""

import os
import platform
import shutil
import stat
import sys
import sysconfig
from pathlib import Path

import pytest

from elmokit.native import build
from elmokit.native.build import BuildError, build_library
from elmokit.native.library import NativeLibrary

REAL = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), "")


def write_compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Put a program of this text where the compiler is looked for."""
    path = folder / "bin" / "compiler"
    path.parent.mkdir()
    path.write_text("\n".join([f"#!{sys.executable}", "import os, sys, time", *lines]) + "\n")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match=r"no C compiler was found \(\$CC, cc, gcc, clang\)"):
        build_library(tmp_path / "library.so")
    assert not list(tmp_path.iterdir())


def test_a_processor_without_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_compiler(tmp_path, monkeypatch, "sys.exit(0)")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(BuildError, match="no sources for processors of kind 'riscv64'"):
        build_library(tmp_path / "library.so")


def test_a_compiler_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_compiler(tmp_path, monkeypatch, "sys.exit('compiler: fatal error: it is broken')")
    with pytest.raises(BuildError, match=r"compiler failed: compiler: fatal error: it is broken"):
        build_library(tmp_path / "library.so")
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_compiler_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_compiler(tmp_path, monkeypatch, "time.sleep(60)")
    monkeypatch.setattr(build, "_PER_KIND", ("infer.c",))
    monkeypatch.setattr(build, "_KINDS", {platform.machine(): {"baseline": ()}})
    with pytest.raises(BuildError, match=r"no answer within 0\.2 seconds"):
        build_library(tmp_path / "library.so", seconds=0.2)


@pytest.mark.skipif(not REAL, reason="no C compiler")
@pytest.mark.slow
def test_kinds_that_the_compiler_does_not_know_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails at every flag for AVX-512, and warns at everything else."""
    lines = [
        "if any('avx512' in word or 'amx' in word for word in sys.argv):",
        "    sys.exit('error: unrecognized command-line option')",
        "sys.stderr.write('warning: this compiler always warns\\n')",
        f"os.execv({REAL!r}, [{REAL!r}, *sys.argv[1:]])",
    ]
    write_compiler(tmp_path, monkeypatch, *lines)
    made = build_library(tmp_path / "library.so")
    assert "avx512" not in made and "amx" not in made and made
    library = NativeLibrary(tmp_path / "library.so")
    assert library.kind in made
    assert library.tile_functions is None
    assert stat.S_IMODE(os.stat(tmp_path / "library.so").st_mode) == 0o755


@pytest.mark.parametrize(
    ("symbols", "tag"),
    [
        (b"\0GLIBC_2.2.5\0GLIBC_2.14\0", "manylinux_2_17_x86_64"),
        (b"\0GLIBC_2.17\0GLIBC_2.34\0memcpy", "manylinux_2_34_x86_64"),
        (b"\0memcpy\0", "linux_x86_64"),
    ],
)
def test_the_tag_says_which_c_library_is_needed(
    symbols: bytes, tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_platform", lambda: "linux-x86_64")
    (tmp_path / "library.so").write_bytes(symbols)
    assert build.platform_tag(tmp_path / "library.so") == tag


def test_other_sources_are_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.source_hash()
    for path in build.FOLDER.iterdir():
        if path.suffix in (".c", ".h"):
            shutil.copy(path, tmp_path)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    assert build.source_hash() == before
    with (tmp_path / "infer.c").open("a") as file:
        file.write("/* changed */\n")
    assert build.source_hash() != before
