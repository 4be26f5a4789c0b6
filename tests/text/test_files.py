import bz2
import errno
import gzip
import hashlib
import io
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import pytest

from elmokit.errors import InputError
from elmokit.text import files
from elmokit.text.files import file_sha256, first_line, open_text

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


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
@pytest.mark.parametrize("errors", ["strict", "replace", "surrogateescape"])
def test_a_byte_order_mark_is_no_part_of_the_first_word(
    suffix: str, compress: Compress, errors: str, tmp_path: Path
) -> None:
    path = tmp_path / f"corpus{suffix}"
    path.write_bytes(compress("\ufeffone\n\ufefftwo\n".encode()))
    with open_text(path, errors=errors) as lines:
        assert list(lines) == ["one\n", "\ufefftwo\n"]
    with open_text(path, errors=errors) as lines:
        assert lines.read() == "one\n\ufefftwo\n"


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), EOFError("a peer's"), UnicodeDecodeError("ascii", b"x", 0, 1, "no")],
)
def test_errors_of_the_user_are_not_those_of_the_file(
    suffix: str, compress: Compress, error: Exception, tmp_path: Path
) -> None:
    path = tmp_path / f"corpus{suffix}"
    path.write_bytes(compress(b"one\ntwo\n"))
    with pytest.raises(type(error)) as caught:
        with open_text(path) as lines:
            for _ in lines:
                raise error
    assert caught.value is error
    assert lines.closed


def test_failures_while_reading_are_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

        def read(self, size: int | None = -1, /) -> bytes:
            return self.read1(size)

        def peek(self, size: int = 0) -> bytes:
            return b""

    monkeypatch.setitem(files._OPENERS, ".bad", lambda file, mode: Failing())
    (tmp_path / "x.bad").write_text("text\n")
    reads: list[Callable[[TextIO], object]] = [list, next, lambda text: text.read(), lambda text: text.readline()]
    for read in reads:
        with pytest.raises(InputError, match=r"x\.bad cannot be read: Input/output error\.$"):
            with open_text(tmp_path / "x.bad") as lines:
                read(lines)


@pytest.mark.parametrize(("suffix", "compress"), KINDS)
@pytest.mark.parametrize(
    ("text", "first"),
    [("\n \t\r\n one\ttwo \r\nthree\n", " one\ttwo \r\n"), ("\ufeff#begin", "#begin"), ("", ""), ("\n\x0c \n", "")],
)
def test_the_first_line_that_is_not_blank(
    suffix: str, compress: Compress, text: str, first: str, tmp_path: Path
) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(compress(text.encode()))
    assert first_line(path) == first


def test_the_first_line_needs_no_more_of_a_file_and_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"first\n" + b"x" * 200_000 + b"\n\xff")
    assert first_line(path) == "first\n"
    path.write_bytes(b"\xff\n")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        first_line(path)


def test_sums_are_those_of_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    for content in (b"", b"\r\n\xff", gzip.compress(b"text"), b"x" * 300_000):
        path.write_bytes(content)
        assert file_sha256(path) == hashlib.sha256(content).hexdigest()
    with pytest.raises(FileNotFoundError):
        file_sha256(tmp_path / "no")
