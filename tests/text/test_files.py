import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from elmokit.errors import InputError
from elmokit.text.files import open_text

TEXT = "one\r\ntwo\u2028still two\x85\rstill\x0b\x0c\x1c two\n\nnaïve 👍"
LINES = ["one\r\n", "two\u2028still two\x85\rstill\x0b\x0c\x1c two\n", "\n", "naïve 👍"]
Compress = Callable[[bytes], bytes]
KINDS: list[tuple[str, Compress]] = [
    (".txt", bytes),
    ("", bytes),
    (".gz", gzip.compress),
    (".xz", lzma.compress),
    (".bz2", bz2.compress),
]
COMPRESSED = KINDS[2:]


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
def test_lines_end_at_newlines_only(suffix: str, compress: Compress, tmp_path: Path) -> None:
    path = tmp_path / f"corpus{suffix}"
    path.write_bytes(compress(TEXT.encode()))
    with open_text(path) as lines:
        assert list(lines) == LINES


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
def test_empty_files(suffix: str, compress: Compress, tmp_path: Path) -> None:
    path = tmp_path / f"corpus{suffix}"
    path.write_bytes(compress(b""))
    with open_text(path) as lines:
        assert list(lines) == []


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
def test_bytes_that_are_not_utf8(suffix: str, compress: Compress, tmp_path: Path) -> None:
    path = tmp_path / f"corpus{suffix}"
    path.write_bytes(compress(b"fine\nna\xefve\n"))
    with pytest.raises(InputError, match=r"is not UTF-8 text .*: convert it to UTF-8 first\.$") as caught:
        with open_text(path) as lines:
            list(lines)
    assert str(path) in str(caught.value)
    with open_text(path, errors="replace") as lines:
        assert list(lines) == ["fine\n", "na\ufffdve\n"]


def read_damaged(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        with open_text(path) as lines:
            list(lines)
    text = str(caught.value)
    assert str(path) in text and text.endswith(".") and len(text.splitlines()) == 1
    return text


@pytest.mark.parametrize(("suffix", "compress"), COMPRESSED)
def test_damaged_archives(suffix: str, compress: Compress, tmp_path: Path) -> None:
    path = tmp_path / f"corpus{suffix}"
    data = compress("".join(f"line {number * number}\n" for number in range(2000)).encode())
    for length in (1, 5, len(data) // 2, len(data) - 1):
        read_damaged(path, data[:length])
    for start in (0, 30, len(data) // 2):
        damaged = bytearray(data)
        damaged[start : start + 40] = b"\x55" * 40
        read_damaged(path, bytes(damaged))
    assert "damaged" in read_damaged(path, data[: len(data) // 2])


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_plain_text_with_the_name_of_an_archive(suffix: str, tmp_path: Path) -> None:
    read_damaged(tmp_path / f"corpus{suffix}", b"plain text\n")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.txt cannot be read: No such file or directory\.$"):
        with open_text(tmp_path / "no.txt"):
            pytest.fail("opened")
    with pytest.raises(InputError, match=r"cannot be read: Is a directory\.$"):
        with open_text(tmp_path):
            pytest.fail("opened")


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
def test_reading_is_lazy(suffix: str, compress: Compress, tmp_path: Path) -> None:
    path = tmp_path / f"corpus{suffix}"
    path.write_bytes(compress(b"first\n" + b"x" * 200_000 + b"\n" + b"\xff" * 10))
    with open_text(path) as lines:
        assert next(iter(lines)) == "first\n"
