import io
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from elmokit import locks
from elmokit.errors import DownloadError, FormatError
from elmokit.formats.published import PublishedModel, RemoteFile
from elmokit.formats.remote import cache_directory, fetch_published
from tests.formats.loopback import (
    OPTIONS,
    WEIGHTS,
    WITHOUT_PACKAGE,
    ZIP,
    Fault,
    LoopbackServer,
    names,
    start_fetch,
    sum_of,
    zipped,
)

pytestmark = pytest.mark.usefixtures("waits")


def pair(server: LoopbackServer) -> PublishedModel:
    files = (f"{server.url}/models/s_options.json", f"{server.url}/models/s_weights.hdf5")
    return PublishedModel("small", tuple(RemoteFile(url) for url in files))


def test_whole_download_of_two_files(server: LoopbackServer, tmp_path: Path) -> None:
    folder = fetch_published(pair(server))
    assert folder == tmp_path / "cache" / "small"
    assert names(folder) == ["s_options.json", "s_weights.hdf5", "sha256.json"]
    assert (folder / "s_options.json").read_bytes() == OPTIONS
    assert (folder / "s_weights.hdf5").read_bytes() == WEIGHTS
    assert json.loads((folder / "sha256.json").read_text()) == {
        "s_options.json": sum_of(OPTIONS),
        "s_weights.hdf5": sum_of(WEIGHTS),
    }
    assert server.seen[0].user_agent is not None and server.seen[0].user_agent.startswith("elmokit/")
    assert fetch_published(pair(server)) == folder
    assert len(server.seen) == 2, "the second call must not download"


def test_a_single_zip_gives_its_path(server: LoopbackServer, tmp_path: Path) -> None:
    path = fetch_published(zipped(server))
    assert path == tmp_path / "cache" / "many-langs" / "de" / "142.zip"
    assert path.read_bytes() == WEIGHTS


def test_known_sum(server: LoopbackServer) -> None:
    assert fetch_published(zipped(server, sum_of(WEIGHTS).upper())).read_bytes() == WEIGHTS


def test_known_sum_that_differs(server: LoopbackServer) -> None:
    wrong = "0" * 64
    with pytest.raises(DownloadError, match=f"SHA-256 {sum_of(WEIGHTS)} but should have {wrong}: it was deleted"):
        fetch_published(zipped(server, wrong))
    assert not (cache_directory() / "many-langs" / "de").exists()


def test_a_file_altered_on_disk_is_noticed(server: LoopbackServer) -> None:
    path = fetch_published(zipped(server))
    altered = b"\x01" + WEIGHTS[1:]
    path.write_bytes(altered)
    with pytest.raises(DownloadError) as caught:
        fetch_published(zipped(server))
    for part in (str(path), sum_of(altered), sum_of(WEIGHTS), "delete it to download it again"):
        assert part in str(caught.value)
    path.unlink()
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS


def test_fetching_one_file_does_not_bless_an_altered_other(server: LoopbackServer) -> None:
    folder = fetch_published(pair(server))
    (folder / "s_options.json").write_bytes(b"altered")
    (folder / "s_weights.hdf5").unlink()
    with pytest.raises(DownloadError, match=r"s_options\.json has SHA-256"):
        fetch_published(pair(server))
    assert json.loads((folder / "sha256.json").read_text())["s_options.json"] == sum_of(OPTIONS)


def test_a_file_put_there_by_hand_is_recorded(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_OFFLINE", "1")
    folder = cache_directory() / "many-langs" / "de"
    folder.mkdir(parents=True)
    (folder / "142.zip").write_bytes(WEIGHTS)
    fetch_published(zipped(server))
    assert json.loads((folder / "sha256.json").read_text()) == {"142.zip": sum_of(WEIGHTS)}
    assert server.seen == []
    with pytest.raises(DownloadError, match=r"142\.zip has SHA-256"):
        fetch_published(zipped(server, "0" * 64))


@pytest.mark.parametrize("content", ["not JSON", "[]", '{"142.zip": 1}'])
def test_a_broken_list_of_sums_is_named(server: LoopbackServer, content: str) -> None:
    path = fetch_published(zipped(server))
    (path.parent / "sha256.json").write_text(content)
    with pytest.raises(DownloadError, match=r"sha256\.json should map file names.*delete it"):
        fetch_published(zipped(server))


@pytest.mark.parametrize("variable", ["ELMOKIT_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(DownloadError, match=rf"142\.zip .* is not in .* {variable} forbids downloads: unset"):
        fetch_published(zipped(server))
    assert server.seen == []
    assert not cache_directory().exists()
    monkeypatch.setenv(variable, "0")
    path = fetch_published(zipped(server))
    monkeypatch.setenv(variable, "1")
    assert fetch_published(zipped(server)) == path
    path.write_bytes(b"altered")
    with pytest.raises(DownloadError, match="altered or damaged"):
        fetch_published(zipped(server))


@pytest.mark.parametrize("prefix", ["", "/", "/elmo", "/elmo/"])
def test_mirror(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    server.resources[f"/elmo{ZIP}"] = server.resources[ZIP]
    monkeypatch.setenv("ELMOKIT_MIRROR", server.url + prefix)
    model = PublishedModel("many-langs/de", (RemoteFile(f"https://models.invalid{ZIP}"),))
    assert fetch_published(model).read_bytes() == WEIGHTS
    assert server.seen[0].path == prefix.rstrip("/") + ZIP


@pytest.mark.parametrize("mirror", ["file:///srv/models", "ftp://127.0.0.1", "127.0.0.1:8000", "http://"])
def test_mirrors_are_web_servers(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, mirror: str) -> None:
    monkeypatch.setenv("ELMOKIT_MIRROR", mirror)
    with pytest.raises(DownloadError, match=rf"ELMOKIT_MIRROR={mirror} is not a web address: give one that starts"):
        fetch_published(zipped(server))


def test_only_web_addresses_are_downloaded(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"x")
    with pytest.raises(DownloadError, match="is not a web address"):
        fetch_published(PublishedModel("local", (RemoteFile(f"file://{tmp_path}/a.zip"),)))


def test_names_cannot_leave_the_cache() -> None:
    for name, url in (("../small", "http://h/a.zip"), ("small", "http://h/.."), ("small", "http://h/")):
        with pytest.raises(DownloadError, match="is not a safe file name"):
            fetch_published(PublishedModel(name, (RemoteFile(url),)))


@contextmanager
def without_fcntl() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "fcntl", None)
        patch.setattr(locks, "WAIT_SECONDS", 0.001)
        yield


@contextmanager
def with_fcntl() -> Iterator[None]:
    yield


@pytest.mark.parametrize("locking", [with_fcntl, without_fcntl])
def test_threads_at_once_download_once(
    server: LoopbackServer, locking: Callable[[], AbstractContextManager[None]]
) -> None:
    server.resources[ZIP].faults = [Fault(pause_after=1000)]
    results: list[bytes] = []

    def fetch() -> None:
        results.append(fetch_published(zipped(server)).read_bytes())

    with locking():
        threads = [threading.Thread(target=fetch) for _ in range(4)]
        for thread in threads:
            thread.start()
        server.release.set()
        for thread in threads:
            thread.join()
    assert results == [WEIGHTS] * 4
    assert server.bytes_served == [len(WEIGHTS)]


def test_a_lock_that_nobody_gives_back_is_named(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_POLLS", 2)
    folder = cache_directory() / "many-langs" / "de"
    folder.mkdir(parents=True)
    (folder / ".lock").touch()
    with (
        without_fcntl(),
        pytest.raises(FormatError, match=r"de is in use by process .* or delete .*\.lock if there is no such process"),
    ):
        fetch_published(zipped(server))


@pytest.mark.slow
def test_processes_at_once_download_once(server: LoopbackServer) -> None:
    server.resources[ZIP].faults = [Fault(pause_after=1000)]
    processes = [start_fetch(server) for _ in range(2)]
    server.release.set()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert server.bytes_served == [len(WEIGHTS)]
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS


def test_a_cache_that_is_a_file(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(DownloadError, match=r"cache folder .*file cannot be used .*set ELMOKIT_CACHE"):
        fetch_published(zipped(server))


def test_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_directory() == tmp_path / "cache"
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("ELMOKIT_CACHE", "~/own")
    assert cache_directory() == Path("/home/somebody/own")
    monkeypatch.delenv("ELMOKIT_CACHE")
    assert cache_directory() == Path("/home/somebody/.cache/elmokit")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    assert cache_directory() == Path("/var/cache/somebody/elmokit")


def test_progress_goes_to_stderr_on_request(
    server: LoopbackServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_published(pair(server))
    assert capsys.readouterr() == ("", "")
    shutil.rmtree(cache_directory())
    fetch_published(pair(server), progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "s_weights.hdf5" in captured.err and "1.0/1.0 MB" in captured.err
    shutil.rmtree(cache_directory())
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    fetch_published(pair(server))
    assert "s_weights.hdf5" in terminal.getvalue()


def test_import_is_light() -> None:
    heavy = "{'torch', 'h5py', 'rich', 'huggingface_hub'}"
    code = f"{WITHOUT_PACKAGE}import elmokit.formats.remote\nassert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
