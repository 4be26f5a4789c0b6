"""Download published models: a cache on disk, resumable downloads, and checksums that are verified on every use.

`fetch_published` takes an entry of `elmokit.formats.published`, `fetch_hub` the id of a Hugging Face Hub repository.
Environment: `ELMOKIT_CACHE` (where files are kept), `ELMOKIT_MIRROR` (another server for the table's paths),
`ELMOKIT_OFFLINE=1` or `HF_HUB_OFFLINE=1` (no network).
"""

import errno
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from elmokit.cache import cache_directory
from elmokit.errors import DownloadError
from elmokit.filesystem import write_text_atomic
from elmokit.formats._hub import fetch_hub, looks_like_hub_id, offline_variable, parse_hub_id
from elmokit.formats._transfer import DownloadCallback, download_file
from elmokit.formats.published import PublishedModel, RemoteFile
from elmokit.locks import FolderLock
from elmokit.text.files import file_sha256

__all__ = ["cache_directory", "fetch_hub", "fetch_published", "looks_like_hub_id", "offline_variable", "parse_hub_id"]

SUMS_NAME = "sha256.json"
_SAFE_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def fetch_published(model: PublishedModel, *, progress: bool | None = None) -> Path:
    """Return the local copy of a published model, downloading what is missing and verifying the rest.

    A download that was interrupted by the network or a kill is resumed. The SHA-256 of each file is recorded in
    `sha256.json` beside it after the first download and compared on every later call.

    A progress bar is shown on stderr if `progress`, or if it is None and stderr is a terminal.

    Returns:
        The folder with the model's files under their own names, or the path of its zip if it is a single zip.

    Raises:
        DownloadError: If a file cannot be downloaded, does not verify, or cannot be written.
    """
    folder = _model_folder(model)
    try:
        if _missing(model, folder):
            _download_missing(model, folder, progress)
        else:
            _verify(model, folder)  # finished files are never rewritten: no lock, so a read-only cache works
    except OSError as error:
        raise DownloadError(
            f"The cache folder {cache_directory()} cannot be used ({error.strerror or error}): "
            f"{'free some space' if error.errno in (errno.ENOSPC, errno.EDQUOT) else 'make it writable'}, or set "
            "ELMOKIT_CACHE to another folder."
        ) from error
    return folder / model.files[0].name if model.is_zip else folder


def _model_folder(model: PublishedModel) -> Path:
    parts = model.name.split("/")
    for part in [*parts, *(file.name for file in model.files)]:
        if not _SAFE_PART.fullmatch(part):
            raise DownloadError(
                f"'{part}' of the published model '{model.name}' is not a safe file name: use letters, digits, '.', "
                "'_' and '-', not starting with a sign."
            )
    return cache_directory().joinpath(*parts)


def _missing(model: PublishedModel, folder: Path) -> list[RemoteFile]:
    """The files that are missing, or have no recorded checksum."""
    sums = _read_sums(folder)
    return [file for file in model.files if file.name not in sums or not (folder / file.name).is_file()]


def _download_missing(model: PublishedModel, folder: Path, progress: bool | None) -> None:
    absent = [file.name for file in model.files if not (folder / file.name).is_file()]
    if absent and (variable := offline_variable()):
        raise DownloadError(
            f"{', '.join(absent)} of the published model '{model.name}' is not in {folder} and {variable} forbids "
            f"downloads: unset {variable}, or copy the file there."
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _download_locked(model, folder, progress)
    except BaseException:
        with suppress(OSError):  # it has part of a file, to resume from
            folder.rmdir()
        raise


def _download_locked(model: PublishedModel, folder: Path, progress: bool | None) -> None:
    with FolderLock(folder, wait=True), open_progress(progress) as report:
        for file in _missing(model, folder):
            target = folder / file.name
            if target.is_file():  # put there by hand: its checksum is recorded now
                _record(folder, file.name, file_sha256(target))
                continue
            download_file(
                _mirrored(file.url),
                target,
                known_sha256=file.sha256,
                record=partial(_record, folder, file.name),
                report=report,
            )
        _verify(model, folder)


def _verify(model: PublishedModel, folder: Path) -> None:
    sums = _read_sums(folder)
    for file in model.files:
        path = folder / file.name
        digest = file_sha256(path)
        expected = file.sha256.lower() if file.sha256 else sums[file.name]
        if digest != expected:
            raise DownloadError(
                f"{path} has SHA-256 {digest} but {expected} is expected, so it was altered or damaged: delete it to "
                "download it again."
            )


def _read_sums(folder: Path) -> dict[str, str]:
    path = folder / SUMS_NAME
    try:
        sums = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        sums = None
    if not isinstance(sums, dict) or not all(isinstance(value, str) for value in sums.values()):
        raise DownloadError(
            f"{path} should map file names to SHA-256 sums and does not: delete it to have the sums recorded anew."
        )
    return sums


def _record(folder: Path, name: str, digest: str) -> None:
    sums = _read_sums(folder) | {name: digest}
    write_text_atomic(folder / SUMS_NAME, json.dumps(sums, indent=1, sort_keys=True) + "\n")


def _mirrored(url: str) -> str:
    """`url`, or the same path on the server in ELMOKIT_MIRROR."""
    mirror = os.environ.get("ELMOKIT_MIRROR")
    server, original = urlsplit(mirror or url), urlsplit(url)
    if server.scheme not in ("http", "https") or not server.hostname:
        given = f"ELMOKIT_MIRROR={mirror}" if mirror else url
        raise DownloadError(f"{given} is not a web address: give one that starts with http:// or https://.")
    if not mirror:
        return url
    path = server.path.rstrip("/") + original.path
    return urlunsplit((server.scheme, server.netloc, path, original.query, ""))


@contextmanager
def open_progress(progress: bool | None) -> Iterator[DownloadCallback]:
    """Yield a callback that shows the progress of each file as a bar on stderr, or does nothing."""
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:

        def report(name: str, done: int, total: int | None) -> None:
            if name not in tasks:  # bytes of an earlier attempt must not count as speed
                tasks[name] = bars.add_task(name, total=total, completed=done)
            bars.update(tasks[name], completed=done, total=total)

        yield report
