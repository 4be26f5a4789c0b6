"""Download one file over HTTP: resumable, counted, hashed, and under its final name only when it is complete.

Beside the target are `<name>.partial` (the bytes so far) and `<name>.partial.origin` (URL, validators and length that
the server announced when the download began). A later attempt requests only the rest, on the condition that the
server's file is still the same; otherwise it starts over.

Every network failure becomes a `DownloadError` here; an `OSError` raised by this module comes from the disk.
"""

import hashlib
import http.client
import json
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from elmokit._version import __version__
from elmokit.errors import DownloadError
from elmokit.filesystem import sync_directory, sync_file, write_text_atomic

TIMEOUT_SECONDS = 30.0
MAX_ATTEMPTS = 5
CHUNK_BYTES = 1 << 18
_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}
_TRANSIENT_ERRORS = (ConnectionError, TimeoutError, http.client.HTTPException)
_LASTING_ERRORS = (ConnectionRefusedError, http.client.InvalidURL)

DownloadCallback = Callable[[str, int, int | None], None]
"""Receives the file name, the bytes so far, and the total if known."""


def back_off(attempt: int) -> None:
    """Wait before attempt `attempt` + 1: 1, 2, 4, 8 … seconds, at most 30."""
    time.sleep(min(2.0**attempt, 30.0))


class _TransientError(Exception):
    """A failure that may not occur at another attempt; its text completes "… after 5 attempts: "."""


@dataclass(frozen=True)
class _Origin:
    """What the server announced about the file when the download began."""

    url: str
    etag: str | None
    last_modified: str | None
    total: int | None

    @property
    def validator(self) -> str | None:
        """The value of If-Range; a weak ETag is not allowed there."""
        return self.etag if self.etag and not self.etag.startswith("W/") else self.last_modified


class _Partial:
    """The bytes so far, their running SHA-256, and their origin."""

    def __init__(self, target: Path, url: str) -> None:
        self.target, self.url = target, url
        self.path = target.with_name(f"{target.name}.partial")
        self.note_path = target.with_name(f"{target.name}.partial.origin")
        self.size, self.hasher = 0, hashlib.sha256()
        self.origin: _Origin | None = None
        origin = self._read_note()
        if origin is not None and origin.url == url and origin.validator and self.path.is_file():
            self.origin = origin
            with open(self.path, "rb") as handle:
                while chunk := handle.read(CHUNK_BYTES):
                    self.hasher.update(chunk)
                    self.size += len(chunk)

    def _read_note(self) -> _Origin | None:
        try:
            return _Origin(**json.loads(self.note_path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None  # absent or unknown: the bytes cannot be trusted, so start over

    @property
    def is_complete(self) -> bool:
        return self.origin is not None and self.size == self.origin.total

    def restart(self, origin: _Origin) -> None:
        """Drop the bytes first, then store the new origin: the other order could join two files."""
        self.path.write_bytes(b"")
        self.size, self.hasher, self.origin = 0, hashlib.sha256(), origin
        write_text_atomic(self.note_path, json.dumps(asdict(origin), indent=1) + "\n")

    def append(self, handle: IO[bytes], chunk: bytes) -> None:
        handle.write(chunk)
        self.hasher.update(chunk)
        self.size += len(chunk)

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self.note_path.unlink(missing_ok=True)
        self.size, self.hasher, self.origin = 0, hashlib.sha256(), None

    def finish(self) -> None:
        sync_file(self.path)
        os.replace(self.path, self.target)
        self.note_path.unlink(missing_ok=True)
        sync_directory(self.target.parent)


def download_file(
    url: str, target: Path, *, known_sha256: str | None, record: Callable[[str], None], report: DownloadCallback
) -> None:
    """Download `url` to `target`, resuming an earlier attempt if there was one.

    The folder of `target` must exist, and no other process may be downloading to it. `record` receives the SHA-256 of
    the file just before it gets its final name.

    Raises:
        DownloadError: If the file cannot be downloaded or does not verify.
        OSError: If the disk fails; the bytes received are kept for the next attempt.
    """
    partial = _Partial(target, url)
    for attempt in range(MAX_ATTEMPTS):
        if partial.is_complete:
            break
        try:
            _receive(partial, report)
            break
        except _TransientError as error:
            if attempt + 1 == MAX_ATTEMPTS:
                raise DownloadError(
                    f"{url} could not be downloaded after {MAX_ATTEMPTS} attempts ({error}): run the same command "
                    f"again to resume after the {partial.size} bytes already received."
                ) from error
            back_off(attempt)
    digest = partial.hasher.hexdigest()
    if known_sha256 is not None and digest != known_sha256.lower():
        partial.discard()
        raise DownloadError(
            f"{url} arrived with SHA-256 {digest} but should have {known_sha256}: it was deleted; try again, and "
            "if the sums still differ, do not use this server."
        )
    record(digest)
    partial.finish()


def _receive(partial: _Partial, report: DownloadCallback) -> None:
    """Make one request and write the response; return only when the file is complete."""
    response = _open(partial)
    if response is None:
        return
    with response:
        _refuse_web_page(response, partial.url)
        if response.status != 206 or partial.origin is None:
            partial.restart(_origin_of(response, partial.url))
        total = partial.origin.total if partial.origin else None
        if total is None and not response.chunked:
            raise DownloadError(
                f"{partial.url} is served without a length, so that a cut transfer could not be noticed: download "
                f"it by other means to {partial.target}."
            )
        _require_space(partial.path.parent, 0 if total is None else total - partial.size)
        with open(partial.path, "ab", buffering=0) as handle:
            report(partial.target.name, partial.size, total)
            while chunk := _read(response):
                partial.append(handle, chunk)
                report(partial.target.name, partial.size, total)
    if total is not None and partial.size < total:
        raise _TransientError(f"the connection ended after {partial.size} of {total} bytes")
    if total is not None and partial.size > total:
        partial.discard()
        raise _TransientError(f"the server sent more than the {total} bytes that it announced")


def _open(partial: _Partial) -> http.client.HTTPResponse | None:
    """Request the file or the missing rest; None if the server says that nothing is missing."""
    headers = {"User-Agent": f"elmokit/{__version__}"}
    validator = partial.origin.validator if partial.origin and partial.size else None
    if validator:
        headers |= {"Range": f"bytes={partial.size}-", "If-Range": validator}
    request = urllib.request.Request(partial.url, headers=headers)
    try:
        response: http.client.HTTPResponse = _opener().open(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and validator:
                length = re.fullmatch(r"bytes \*/(\d+)", error.headers.get("Content-Range", ""))
                if length and int(length[1]) == partial.size:
                    return None
                partial.discard()
                raise _TransientError("the bytes received earlier no longer fit the server's file") from error
            raise _status_error(partial.url, error) from error
    except (OSError, http.client.HTTPException) as error:
        raise _network_error(partial.url, error) from error
    if response.status == 206 and not _continues(response, partial):
        response.close()
        partial.discard()
        raise _TransientError("the server's file changed since the download began")
    return response


def _continues(response: http.client.HTTPResponse, partial: _Partial) -> bool:
    """Whether a 206 response starts where our bytes end and belongs to the same version of the file."""
    ranges = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
    if ranges is None or partial.origin is None or int(ranges[1]) != partial.size:
        return False
    now, then = _origin_of(response, partial.url), partial.origin
    same_tag = now.etag in (None, then.etag)
    same_time = now.last_modified in (None, then.last_modified)
    same_length = then.total is None or ranges[2] in ("*", str(then.total))
    return same_tag and same_time and same_length


def _origin_of(response: http.client.HTTPResponse, url: str) -> _Origin:
    length = response.headers.get("Content-Length", "")
    total = int(length) if length.isdecimal() else None
    return _Origin(url, response.headers.get("ETag"), response.headers.get("Last-Modified"), total)


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read1(CHUNK_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise _TransientError(f"the connection broke: {error}") from error


def _refuse_web_page(response: http.client.HTTPResponse, url: str) -> None:
    if response.headers.get_content_type() == "text/html":
        raise DownloadError(
            f"{url} answered with a web page instead of the file: log in to the network if it asks for that, or set "
            "ELMOKIT_MIRROR to a server that has the file."
        )


def _require_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DownloadError(
            f"{folder} has {free / 1e6:.0f} MB free but {needed / 1e6:.0f} MB are to come: free some space, or set "
            "ELMOKIT_CACHE to a folder on another disk."
        )


def _status_error(url: str, error: urllib.error.HTTPError) -> Exception:
    if error.code in _TRANSIENT_STATUS:
        return _TransientError(f"the server answered {error.code} {error.reason}")
    if 300 <= error.code < 400:
        return DownloadError(f"{url} redirects in a circle or to an address that is not http or https: not followed.")
    return DownloadError(
        f"{url} answered {error.code} {error.reason}: check the model's name, or set ELMOKIT_MIRROR to a server that "
        "has the file."
    )


def _network_error(url: str, error: Exception) -> Exception:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, _TRANSIENT_ERRORS) and not isinstance(cause, _LASTING_ERRORS):
        return _TransientError(str(cause) or type(cause).__name__)
    return DownloadError(
        f"{url} cannot be reached ({cause}): check the connection, or set ELMOKIT_MIRROR to a server that can be."
    )


class _WebOnly(urllib.request.HTTPRedirectHandler):
    """Follow redirects to http and https only, and never from https back to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        scheme = urlsplit(newurl).scheme
        if scheme not in ("http", "https") or (req.type == "https" and scheme == "http"):
            fp.close()
            raise DownloadError(
                f"{req.full_url} redirects to {newurl}, which is not followed: only http(s) is followed, and never "
                "from https to http."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    """An opener without urllib's ftp, file and data handlers; proxies come from the environment as usual."""
    web, opener = urllib.request, urllib.request.OpenerDirector()
    for handler in (web.ProxyHandler, web.HTTPHandler, web.HTTPSHandler, web.HTTPDefaultErrorHandler):
        opener.add_handler(handler())
    opener.add_handler(_WebOnly())
    opener.add_handler(web.HTTPErrorProcessor())
    return opener
