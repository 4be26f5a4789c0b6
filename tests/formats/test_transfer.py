"""What can go wrong with one transfer; driven through `fetch_published`."""

import errno
import http.client
import io
import json
import os
import shutil
import time
import urllib.request
from pathlib import Path

import pytest

from elmokit.errors import DownloadError
from elmokit.formats import _transfer, remote
from elmokit.formats.published import PublishedModel, RemoteFile
from elmokit.formats.remote import cache_directory, fetch_published
from tests.formats.loopback import (
    WEIGHTS,
    ZIP,
    Fault,
    LoopbackServer,
    Resource,
    names,
    serve,
    start_fetch,
    sum_of,
    zipped,
)

pytestmark = pytest.mark.usefixtures("waits")


@pytest.mark.parametrize("fault", [Fault(cut_after=700_000), Fault(cut_after=300_000, reset=True)])
def test_resumes_after_a_cut(server: LoopbackServer, waits: list[int], fault: Fault) -> None:
    server.resources[ZIP].faults = [fault]
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    first, second = server.seen
    assert first.range is None
    assert second.if_range == '"v1"'
    assert second.range is not None and second.range.startswith("bytes=") and second.range.endswith("-")
    start = int(second.range[6:-1])
    assert start == 700_000 if not fault.reset else start <= 300_000  # a reset may drop what was under way
    assert waits == [0]


def test_resumes_with_last_modified_if_the_etag_is_weak(server: LoopbackServer) -> None:
    resource = server.resources[ZIP]
    resource.etag, resource.headers = 'W/"v1"', {"Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
    resource.honours_if_range = False
    resource.faults = [Fault(cut_after=1000)]
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    assert server.seen[1].if_range == "Wed, 21 Oct 2015 07:28:00 GMT"


@pytest.mark.parametrize("change", [{"ranges": False}, {"etag": None}])
def test_starts_again_where_the_server_cannot_resume(server: LoopbackServer, change: dict[str, bool | None]) -> None:
    for name, value in change.items():
        setattr(server.resources[ZIP], name, value)
    server.resources[ZIP].faults = [Fault(cut_after=1000)]
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    assert server.bytes_served == [1000, len(WEIGHTS)]


@pytest.mark.parametrize("honest", [True, False])
def test_starts_again_if_the_file_changed_between(server: LoopbackServer, honest: bool) -> None:
    server.resources[ZIP].faults = [Fault(cut_after=1000)] + [Fault(status=503)] * 4
    with pytest.raises(DownloadError, match="503"):
        fetch_published(zipped(server))
    newer = Resource(WEIGHTS[::-1], etag='"v2"', honours_if_range=honest)
    server.resources[ZIP] = newer
    path = fetch_published(zipped(server))
    assert path.read_bytes() == WEIGHTS[::-1]
    assert names(path.parent) == ["142.zip", "sha256.json"]


def test_a_partial_file_longer_than_the_servers_is_stale(server: LoopbackServer) -> None:
    server.resources[ZIP].faults = [Fault(cut_after=5000)] + [Fault(status=503)] * 4
    with pytest.raises(DownloadError):
        fetch_published(zipped(server))
    server.resources[ZIP] = Resource(b"short")  # the same ETag, so the range itself cannot be met: 416
    assert fetch_published(zipped(server)).read_bytes() == b"short"


def test_a_partial_file_that_lacks_only_its_new_name_is_used(server: LoopbackServer) -> None:
    def stop(folder: Path, name: str, digest: str) -> None:
        raise KeyboardInterrupt

    for chunked in (False, True):  # with a length it is known to be whole; without one the server says so: 416
        server.resources[ZIP].chunked = chunked
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(remote, "_record", stop)
            fetch_published(zipped(server))
        served = len(server.bytes_served)
        path = fetch_published(zipped(server))
        assert path.read_bytes() == WEIGHTS
        assert len(server.bytes_served) == served
        path.unlink()


def test_truncated_for_good(server: LoopbackServer, waits: list[int]) -> None:
    server.resources[ZIP].faults = [Fault(cut_after=1000) for _ in range(5)]
    with pytest.raises(DownloadError) as caught:
        fetch_published(zipped(server))
    assert "after 5 attempts (the connection ended after 5000 of 1048576 bytes)" in str(caught.value)
    assert "run the same command again to resume after the 5000 bytes" in str(caught.value)
    folder = cache_directory() / "many-langs" / "de"
    assert names(folder) == ["142.zip.partial", "142.zip.partial.origin"]
    assert waits == [0, 1, 2, 3]
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    assert server.seen[-1].range == "bytes=5000-"
    assert names(folder) == ["142.zip", "sha256.json"]


def test_a_note_that_is_not_ours_means_starting_again(server: LoopbackServer) -> None:
    folder = cache_directory() / "many-langs" / "de"
    folder.mkdir(parents=True)
    (folder / "142.zip.partial").write_bytes(b"of unknown origin")
    (folder / "142.zip.partial.origin").write_text("[]")
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    assert server.seen[0].range is None


@pytest.mark.parametrize("cut", [None, 4000])
def test_a_chunked_answer_is_checked_too(server: LoopbackServer, cut: int | None) -> None:
    server.resources[ZIP].chunked = True
    server.resources[ZIP].faults = [Fault(cut_after=cut)] if cut else []
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    assert len(server.seen) == (2 if cut else 1)


def test_an_answer_without_any_length_is_refused(server: LoopbackServer) -> None:
    server.resources[ZIP].sends_length = False
    with pytest.raises(DownloadError, match=r"served without a length.*download it by other means to .*142\.zip"):
        fetch_published(zipped(server))


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_refusals_are_final(server: LoopbackServer, waits: list[int], status: int) -> None:
    server.resources[ZIP].faults = [Fault(status=status)]
    with pytest.raises(DownloadError, match=rf"142\.zip answered {status} .*: check the model's name"):
        fetch_published(zipped(server))
    assert len(server.seen) == 1
    assert waits == []


def test_server_errors_are_tried_again(server: LoopbackServer, waits: list[int]) -> None:
    server.resources[ZIP].faults = [Fault(status=500), Fault(status=503), Fault(status=429)]
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS
    assert waits == [0, 1, 2]


def test_no_server_is_final(tmp_path: Path, waits: list[int]) -> None:
    with serve() as server:
        gone = zipped(server)
    with pytest.raises(DownloadError, match=r"cannot be reached \(.*refused.*\): check the connection"):
        fetch_published(gone)
    assert waits == []


def test_a_silent_server_times_out(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_transfer, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(_transfer, "MAX_ATTEMPTS", 2)
    server.resources[ZIP].faults = [Fault(pause_after=1000), Fault(pause_after=1000)]
    with pytest.raises(DownloadError, match=r"after 2 attempts \(the connection broke: .*timed out"):
        fetch_published(zipped(server))


def test_a_web_page_is_not_a_model(server: LoopbackServer) -> None:
    server.resources[ZIP] = Resource(b"<html>log in</html>", content_type="text/html; charset=utf-8")
    with pytest.raises(DownloadError, match="answered with a web page instead of the file: log in"):
        fetch_published(zipped(server))
    assert not (cache_directory() / "many-langs" / "de").exists()


def test_a_web_page_does_not_cost_the_bytes_received_before(server: LoopbackServer) -> None:
    good = server.resources[ZIP]
    good.faults = [Fault(cut_after=5000)] + [Fault(status=503)] * 4
    with pytest.raises(DownloadError):
        fetch_published(zipped(server))
    server.resources[ZIP] = Resource(b"<html>log in</html>", content_type="text/html", etag=None, ranges=False)
    with pytest.raises(DownloadError, match="web page"):
        fetch_published(zipped(server))
    server.resources[ZIP] = good
    fetch_published(zipped(server))
    assert server.seen[-1].range == "bytes=5000-"


def test_redirects_are_followed_with_the_range(server: LoopbackServer) -> None:
    server.resources["/old.zip"] = Resource(status=302, headers={"Location": ZIP})
    server.resources[ZIP].faults = [Fault(cut_after=1000)]
    path = fetch_published(PublishedModel("moved", (RemoteFile(f"{server.url}/old.zip"),)))
    assert path.name == "old.zip"
    assert path.read_bytes() == WEIGHTS
    assert server.seen[-1].range == "bytes=1000-"


@pytest.mark.parametrize("goal", ["file:///etc/hostname", "ftp://127.0.0.1/a.zip", "/old.zip"])
def test_other_redirects_are_not(server: LoopbackServer, goal: str) -> None:
    server.resources["/old.zip"] = Resource(status=301, headers={"Location": goal})
    with pytest.raises(DownloadError, match=r"old\.zip redirects .*not .*http"):
        fetch_published(PublishedModel("moved", (RemoteFile(f"{server.url}/old.zip"),)))


def test_a_killed_download_is_resumed_by_the_next_process(server: LoopbackServer) -> None:
    half = len(WEIGHTS) // 2
    server.resources[ZIP].faults = [Fault(pause_after=half)]
    with start_fetch(server) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < half:
            pass
        process.kill()
    folder = cache_directory() / "many-langs" / "de"
    assert names(folder) == [".lock", "142.zip.partial", "142.zip.partial.origin"]
    server.release.set()
    path = fetch_published(zipped(server))
    assert path.read_bytes() == WEIGHTS
    assert server.seen[1].range == f"bytes={half}-"
    assert server.bytes_served[1] == len(WEIGHTS) - half
    assert json.loads((folder / "sha256.json").read_text()) == {"142.zip": sum_of(WEIGHTS)}


def test_redirects_do_not_leave_https() -> None:
    request = urllib.request.Request("https://models.invalid/a.zip")
    arguments = (io.BytesIO(), 302, "Found", http.client.HTTPMessage())
    with pytest.raises(DownloadError, match=r"redirects to http://models\.invalid/b\.zip, which is not followed"):
        _transfer._WebOnly().redirect_request(request, *arguments, "http://models.invalid/b.zip")
    followed = _transfer._WebOnly().redirect_request(request, *arguments, "https://models.invalid/b.zip")
    assert followed is not None and followed.full_url == "https://models.invalid/b.zip"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_full_disk(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(self: object, handle: object, chunk: bytes) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(_transfer._Partial, "append", fail)
        with pytest.raises(DownloadError) as caught:
            fetch_published(zipped(server))
    assert str(cache_directory()) in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert "ELMOKIT_CACHE" in str(caught.value)
    assert ("free some space" in str(caught.value)) is (code == errno.ENOSPC)
    assert not (cache_directory() / "many-langs" / "de" / "142.zip").exists()
    assert fetch_published(zipped(server)).read_bytes() == WEIGHTS


def test_too_little_space_is_seen_before_the_transfer(server: LoopbackServer, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match=r"has 0 MB free but 1 MB are to come.*ELMOKIT_CACHE"):
        fetch_published(zipped(server))
    assert (cache_directory() / "many-langs" / "de" / "142.zip.partial").stat().st_size == 0


def test_back_off_grows_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    for attempt in range(8):
        _transfer.back_off(attempt)
    assert slept == [1, 2, 4, 8, 16, 30, 30, 30]
