import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

from elmokit.errors import FormatError, InputError
from elmokit.text import archive
from elmokit.text.archive import read_tar

FILES = {"top/a.txt": "\ufeffone\r\n".encode(), "top/b.bin": b"\xff", "c.txt": "naïve".encode(), "d.txt": b""}


def pack(path: Path, files: dict[str, bytes] = FILES, kind: str = "") -> Path:
    with tarfile.open(path, f"w:{kind}") as packed:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
        folder, link = tarfile.TarInfo("folder.txt"), tarfile.TarInfo("link.txt")
        folder.type, link.type, link.linkname = tarfile.DIRTYPE, tarfile.SYMTYPE, "/etc/passwd"
        packed.addfile(folder)
        packed.addfile(link)
    return path


def read(path: Path) -> list[tuple[str, str]]:
    return list(read_tar(path, lambda name: name.endswith(".txt"), remedy="give another"))


@pytest.mark.parametrize("kind", ["", "gz", "xz", "bz2"])
def test_wanted_files_in_their_order(kind: str, tmp_path: Path) -> None:
    assert read(pack(tmp_path / "a", kind=kind)) == [("top/a.txt", "one\r\n"), ("c.txt", "naïve"), ("d.txt", "")]


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2"])
def test_what_was_cut_short_never_passes_for_whole(kind: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    files = {f"{number}.txt": random.bytes(7 * number).hex().encode() for number in range(100)}
    whole = pack(tmp_path / "a", files, kind).read_bytes()
    assert len(read(tmp_path / "a")) == 100
    for cut in (0, 10, 20, 50, 100, 200, 500, *range(1000, len(whole) - 200, 1500)):
        assert_damaged(tmp_path / "a", whole[:cut])


def assert_damaged(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"/a is damaged or not an archive \(.*\): give another\.$") as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_archive(tmp_path: Path) -> None:
    assert_damaged(tmp_path / "a", b"no archive")
    with pytest.raises(InputError, match=r"none cannot be read: No such file or directory\.$"):
        read(tmp_path / "none")


def test_files_that_are_no_text_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(tmp_path / "a", {"top/b.txt": b"\xff"})
    with pytest.raises(FormatError, match=r"/a: top/b\.txt is not UTF-8 text: give another\.$"):
        read(path)
    path = pack(tmp_path / "a", {"top/b.txt": b"x" * 11})
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 11)
    assert read(path) == [("top/b.txt", "x" * 11)]
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 10)
    with pytest.raises(FormatError, match=r"/a: top/b\.txt has 11 bytes, more than any text: give another\.$"):
        read(path)


def test_errors_of_the_user_pass_through(tmp_path: Path) -> None:
    with pytest.raises(EOFError, match="mine"):
        for _ in read_tar(pack(tmp_path / "a"), lambda name: name == "c.txt", remedy=""):
            raise EOFError("mine")
