"""A web server on 127.0.0.1 that serves bytes from memory and fails on demand."""

import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

import pytest

from elmokit.formats import _transfer
from elmokit.formats.published import PublishedModel, RemoteFile

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
OPTIONS = b'{"lstm": {}}'
ZIP = "/repository/11/142.zip"


@dataclass
class Fault:
    """What goes wrong with one request."""

    status: int | None = None
    """Answer with this status and no file."""
    cut_after: int | None = None
    """Close the connection after so many bytes of the body."""
    reset: bool = False
    """Close it with a reset rather than an ordinary end."""
    pause_after: int | None = None
    """Stop sending after so many bytes until `LoopbackServer.release` is set."""


@dataclass
class Resource:
    """What one path answers with."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/octet-stream"
    etag: str | None = '"v1"'
    ranges: bool = True
    honours_if_range: bool = True
    sends_length: bool = True
    chunked: bool = False
    faults: list[Fault] = field(default_factory=list)
    """Taken from the front, one per GET; when none is left the requests go well."""


@dataclass(frozen=True)
class Seen:
    """One GET that the server answered."""

    path: str
    range: str | None
    if_range: str | None
    user_agent: str | None


class LoopbackServer(ThreadingHTTPServer):
    daemon_threads = False  # server_close() then waits for the handlers, so no socket outlives a test

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.resources: dict[str, Resource] = {}
        self.seen: list[Seen] = []
        self.bytes_served: list[int] = []
        self.release = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that was killed is part of the test

    def add_hub_repository(self, repo_id: str, files: dict[str, bytes]) -> None:
        """Answer what `huggingface_hub.snapshot_download` asks of the Hub; `.hdf5` files are large ones there."""
        info = {"id": repo_id, "sha": COMMIT, "siblings": [], "tags": [], "private": False, "downloads": 0}
        tree = []
        for name, body in files.items():
            oid = hashlib.sha1(b"blob %d\0%s" % (len(body), body)).hexdigest()
            entry: dict[str, object] = {"type": "file", "path": name, "size": len(body), "oid": oid}
            etag = oid
            if name.endswith(".hdf5"):
                etag = hashlib.sha256(body).hexdigest()
                entry["lfs"] = {"oid": etag, "size": len(body), "pointerSize": 134}
            tree.append(entry)
            self.resources[f"/{repo_id}/resolve/{COMMIT}/{name}"] = Resource(
                body, headers={"X-Repo-Commit": COMMIT}, etag=f'"{etag}"'
            )
        for path, answer in ((f"revision/{COMMIT}", info), ("revision/main", info), (f"tree/{COMMIT}", tree)):
            self.resources[f"/api/models/{repo_id}/{path}"] = Resource(
                json.dumps(answer).encode(), content_type="application/json"
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release.set()
        self.shutdown()
        self.server_close()


@contextmanager
def serve() -> Iterator[LoopbackServer]:
    server = LoopbackServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with server:
            yield server
    finally:
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: LoopbackServer

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        asked = {name: self.headers.get(name) for name in ("Range", "If-Range", "User-Agent")}
        resource, fault = self.server.resources.get(path), Fault()
        with self.server.lock:
            if with_body:
                self.server.seen.append(Seen(path, *asked.values()))
                if resource is not None and resource.faults:
                    fault = resource.faults.pop(0)
        if resource is None or fault.status is not None:
            absent = {"X-Error-Code": "RepoNotFound"} if resource is None else {}
            self._send_head(fault.status or 404, {"Content-Length": "0", **absent})
            return
        start, status = self._start(resource, asked["Range"], asked["If-Range"])
        length = len(resource.body)
        if status == 416:
            self._send_head(416, {"Content-Range": f"bytes */{length}", "Content-Length": "0"})
            return
        headers = {"Content-Type": resource.content_type, **resource.headers}
        if resource.etag is not None:
            headers["ETag"] = resource.etag
        if resource.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif resource.sends_length:
            headers["Content-Length"] = str(length - start)
        if status == 206:
            headers["Content-Range"] = f"bytes {start}-{length - 1}/{length}"
        self._send_head(status, headers)
        if with_body:
            self._send_body(resource.body[start:], fault, chunked=resource.chunked)

    def _start(self, resource: Resource, wanted: str | None, condition: str | None) -> tuple[int, int]:
        stale = resource.honours_if_range and condition is not None and condition != resource.etag
        if wanted is None or stale or not resource.ranges or resource.status != 200:
            return 0, resource.status
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        return (start, 206) if start < len(resource.body) else (0, 416)

    def _send_head(self, status: int, headers: dict[str, str]) -> None:
        if "chunked" in headers.values():
            self.protocol_version = "HTTP/1.1"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()

    def _send_body(self, body: bytes, fault: Fault, *, chunked: bool) -> None:
        sent = body if fault.cut_after is None else body[: fault.cut_after]
        with self.server.lock:
            self.server.bytes_served.append(len(sent))
        if fault.pause_after is not None:
            self.wfile.write(sent[: fault.pause_after])
            self.server.release.wait()
            sent = sent[fault.pause_after :]
        if chunked:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(sent), sent) + (b"" if fault.cut_after else b"0\r\n\r\n"))
        else:
            self.wfile.write(sent)
        self.wfile.flush()
        if fault.reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()


@contextmanager
def serve_models() -> Iterator[LoopbackServer]:
    """A server with a model of two files and one of a single zip."""
    with serve() as server:
        server.resources["/models/s_options.json"] = Resource(OPTIONS, content_type="application/json")
        server.resources["/models/s_weights.hdf5"] = Resource(WEIGHTS)
        server.resources[ZIP] = Resource(WEIGHTS, content_type="application/zip")
        yield server


def zipped(server: LoopbackServer, sha256: str | None = None) -> PublishedModel:
    return PublishedModel("many-langs/de", (RemoteFile(server.url + ZIP, sha256),))


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Set a cache of our own, no proxies, and a back-off that only notes the attempts in the list returned."""
    for name in ("ELMOKIT_MIRROR", "ELMOKIT_OFFLINE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    noted: list[int] = []
    monkeypatch.setattr(_transfer, "back_off", noted.append)
    return noted


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


WITHOUT_PACKAGE = """
import sys, types, elmokit
package = types.ModuleType("elmokit.formats")
package.__path__ = [elmokit.__path__[0] + "/formats"]
sys.modules["elmokit.formats"] = package
"""
"""Starts a script that imports the modules under test but not `elmokit.formats` itself, which takes torch along."""

_FETCH = """
from contextlib import contextmanager
from elmokit.formats import remote
from elmokit.formats.published import PublishedModel, RemoteFile

@contextmanager
def tell(progress):
    yield lambda name, done, total: print(done, flush=True)

remote.open_progress = tell
remote.fetch_published(PublishedModel("many-langs/de", (RemoteFile(sys.argv[1]),)))
"""


def start_fetch(server: LoopbackServer) -> subprocess.Popen[str]:
    """Fetch the zip in another process that prints, line by line, how many bytes it has."""
    command = [sys.executable, "-c", WITHOUT_PACKAGE + _FETCH, server.url + ZIP]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
