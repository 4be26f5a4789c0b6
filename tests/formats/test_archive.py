import io
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from elmokit.errors import ElmokitError, FormatError, UnsafeFileError
from elmokit.formats import archive as archive_module
from elmokit.formats import detect_format, load, save
from elmokit.formats.archive import check_sizes, is_zip, member_names, unpacked
from elmokit.model.bilm import BiLM
from tests.formats.makers import assert_one_sentence


def zip_of(path: Path, *members: tuple[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename, info.compress_type = name, compression  # the constructor would tidy the name
            archive.writestr(info, data)
    return path


def refused(path: Path) -> ElmokitError:
    """The error of unpacking, after which nothing may have been written anywhere."""
    with pytest.raises(ElmokitError) as caught, unpacked(path):
        pytest.fail("unpacked")
    assert_one_sentence(caught.value, path)
    return caught.value


def test_unpacking(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", ("a.txt", b"1"), ("deep/er/b.txt", b"2"), ("empty/", b""))
    with unpacked(path) as folder:
        files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
        assert files == {"a.txt": b"1", "deep/er/b.txt": b"2"}
    assert not folder.exists()


def test_the_folder_goes_away_with_an_error_too(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", ("a.txt", b"1"))
    with pytest.raises(KeyError), unpacked(path) as folder:
        raise KeyError
    assert not folder.exists()


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "a/..",
        "/tmp/evil",
        "//server/evil",
        "..\\evil",
        "a\\..\\..\\evil",
        "\\evil",
        "C:\\evil",
        "C:/evil",
        "c:evil",
    ],
)
def test_names_outside_the_folder(name: str, tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", ("options.json", b"{}"), (name, b"boo"))
    error = refused(path)
    assert isinstance(error, UnsafeFileError)
    assert "outside its own folder" in str(error)
    with pytest.raises(UnsafeFileError, match="outside its own folder"):
        load(path)
    assert not Path("/tmp/evil").exists() and not list(tmp_path.rglob("*evil*"))


def test_a_name_cut_short_by_a_nul(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    zip_of(path, ("a.txtX../e", b"boo"))
    path.write_bytes(path.read_bytes().replace(b"a.txtX../e", b"a.txt\0../e"))
    assert isinstance(refused(path), UnsafeFileError)


def test_links(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("model.hdf5")
        info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")
    error = refused(path)
    assert isinstance(error, UnsafeFileError) and "holds the link 'model.hdf5'" in str(error)


def test_one_member_that_swells(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", ("model.hdf5", bytes(5 << 20)), compression=zipfile.ZIP_DEFLATED)
    error = refused(path)
    assert isinstance(error, UnsafeFileError) and "to 5,242,880 bytes" in str(error)
    with pytest.raises(UnsafeFileError, match="more than weights ever do"):
        check_sizes(path)


@pytest.mark.slow
def test_many_members_that_swell_together(tmp_path: Path) -> None:
    members = [(f"{number}.bin", bytes(1 << 20)) for number in range(210)]
    path = zip_of(tmp_path / "x.zip", *members, compression=zipfile.ZIP_DEFLATED)
    assert isinstance(refused(path), UnsafeFileError)


def test_a_total_beyond_any_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zip_of(tmp_path / "x.zip", ("a", bytes(60)), ("b", bytes(60)))
    monkeypatch.setattr(archive_module, "MAX_UNPACKED", 100)
    assert isinstance(refused(path), UnsafeFileError)


def test_a_member_larger_than_declared(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", ("a.bin", b"0123456789"))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<II", 10, 10), struct.pack("<II", 10, 4)))
    assert isinstance(refused(path), FormatError)


def flagged(path: Path) -> Path:
    """Set the encryption bit of both headers."""
    zip_of(path, ("options.json", b"{}" * 20))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path


def test_encryption(tmp_path: Path) -> None:
    assert "encrypted" in str(refused(flagged(tmp_path / "x.zip")))


def unknown_method(data: bytearray) -> None:
    data[8] = data[data.rindex(b"PK\x01\x02") + 10] = 97


def unknown_version(data: bytearray) -> None:
    data[data.rindex(b"PK\x01\x02") + 6] = 99


def not_utf8(data: bytearray) -> None:
    for start, flags, name in ((0, 6, 30), (data.rindex(b"PK\x01\x02"), 8, 46)):
        data[start + flags + 1] |= 8
        data[start + name] = 0xFF


def wrong_checksum(data: bytearray) -> None:
    data[data.rindex(b"PK\x01\x02") + 16] ^= 1


def other_name(data: bytearray) -> None:
    data[30:42] = b"\n" * 12


def half(data: bytearray) -> None:
    del data[len(data) // 2 :]


def several_disks(data: bytearray) -> None:
    end = data.rindex(b"PK\x05\x06")
    data[end:end] = struct.pack("<4sLQL", b"PK\x06\x07", 1, 0, 3)


@pytest.mark.parametrize(
    "damage", [unknown_method, unknown_version, not_utf8, wrong_checksum, other_name, half, several_disks]
)
def test_damage(damage: Callable[[bytearray], None], tmp_path: Path) -> None:
    data = bytearray(zip_of(tmp_path / "x.zip", ("options.json", b"{}" * 20)).read_bytes())
    damage(data)
    (tmp_path / "x.zip").write_bytes(data)
    refused(tmp_path / "x.zip")
    with pytest.raises(ElmokitError) as caught:
        load(tmp_path / "x.zip")
    assert_one_sentence(caught.value, tmp_path / "x.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED])
def test_damaged_contents(method: int, tmp_path: Path) -> None:
    noise = bytes(number * number % 251 for number in range(4000))
    path = zip_of(tmp_path / "x.zip", ("options.json", noise), compression=method)
    data = bytearray(path.read_bytes())
    data[60:200] = bytes(140)
    path.write_bytes(data)
    assert isinstance(refused(path), FormatError)


@pytest.mark.parametrize("names", [("a", "a/b"), ("x" * 300,), ("",), (".",)])
def test_names_that_no_folder_can_hold(names: tuple[str, ...], tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", *((name, b"1") for name in names))
    assert isinstance(refused(path), FormatError)


@pytest.mark.parametrize(
    ("data", "match"),
    [(b"", "not a zip"), (b"\x89PNG\r\n\x1a\n", "not a zip"), (b"PK\x03\x04" + bytes(50), "not a zip")],
)
def test_files_that_are_no_zip(data: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(data)
    with pytest.raises(FormatError, match=match) as caught:
        detect_format(tmp_path / "x.zip")
    assert_one_sentence(caught.value, tmp_path / "x.zip")
    assert not is_zip(tmp_path / "x.zip")


def test_a_zip_of_something_else(tmp_path: Path) -> None:
    path = zip_of(tmp_path / "x.zip", ("word/document.xml", b"<x/>"))
    assert member_names(path) == ["word/document.xml"]
    with pytest.raises(FormatError, match=r"neither options\.json nor encoder\.pkl") as caught:
        load(path)
    assert_one_sentence(caught.value, path)


def test_errors_inside_a_zip_name_the_zip(bilm: BiLM, tmp_path: Path) -> None:
    save(bilm, tmp_path / "m.zip", format="nlpl")
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    for name in files:
        damaged = {other: data[: len(data) // 2] if other == name else data for other, data in files.items()}
        path = zip_of(tmp_path / "damaged.zip", *damaged.items())
        with pytest.raises(ElmokitError) as caught:
            load(path)
        assert_one_sentence(caught.value, path / name if name != "vocab.txt" else path)
        assert "/elmokit-" not in str(caught.value)


def test_unpacking_reads_no_more_than_the_table_declares(tmp_path: Path) -> None:
    # A member of 40 bytes whose stream holds 4 MiB: the checksum of what was declared cannot fit.
    compressed = io.BytesIO()
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.bin", bytes(4 << 20))
    data = compressed.getvalue().replace(struct.pack("<I", 4 << 20), struct.pack("<I", 40))
    (tmp_path / "x.zip").write_bytes(data)
    assert isinstance(refused(tmp_path / "x.zip"), FormatError)
