"""Fetch a model from the Hugging Face Hub, through `huggingface_hub` and its cache."""

import errno
import os
import re
import sys
from pathlib import Path

from elmokit.errors import DownloadError
from elmokit.formats.published import is_published_form
from elmokit.text.files import file_sha256

# Only what our readers read: no pickles except the three of ELMoForManyLangs, which are opened with weights_only=True.
# `*` also matches folders in these patterns; a name without it matches at the root only.
HUB_PATTERNS = (
    "config.json",
    "model.safetensors",
    "vocab.txt",
    "vocab.txt.gz",
    "characters.txt",
    "words.txt",
    "*options*.json",
    "*.hdf5",
    "*.dic",
    "token_embedder.pkl",
    "encoder.pkl",
    "classifier.pkl",
    "cnn_*.json",
    "configs/*.json",
    "README.md",
)

_PART = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]*))?")
_TRUE = {"1", "ON", "YES", "TRUE"}


def offline_variable() -> str | None:
    """The name of the environment variable that forbids network access, or None."""
    for name in ("ELMOKIT_OFFLINE", "HF_HUB_OFFLINE"):
        if os.environ.get(name, "").upper() in _TRUE:
            return name
    return None


def looks_like_hub_id(name: str) -> bool:
    """Whether `name` has the form of a Hub id, `owner/name` or `owner/name@revision`.

    Names in the form of our own table (`many-langs/…`, `aligned/…`, `nlpl/<number>`) do not count, so that a mistyped
    one is not looked up on the Hub. The caller must check first whether a local path of that name exists.
    """
    match = _HUB_ID.fullmatch(name)
    if match is None or is_published_form(match["repo"]):
        return False
    repo_id = match["repo"]
    return len(repo_id) <= 96 and "--" not in repo_id and ".." not in repo_id and not repo_id.endswith(".git")


def parse_hub_id(name: str) -> tuple[str, str | None]:
    """Split `owner/name@revision` into the id of the repository and the optional revision.

    Raises:
        DownloadError: If `name` does not have that form.
    """
    match = _HUB_ID.fullmatch(name)
    if match is None or not looks_like_hub_id(name):
        raise DownloadError(
            f"'{name}' is not a Hub id: write owner/name or owner/name@revision, in letters, digits, '-', '_' and '.'."
        )
    return match["repo"], match["revision"]


def fetch_hub(repo_id: str, *, revision: str | None = None) -> Path:
    """Return the local copy of a Hub repository, with only the files that our formats read.

    The cache, the endpoint and the access token are those of `huggingface_hub` (`HF_HOME`, `HF_ENDPOINT`, `hf auth
    login`). Files that the Hub names by their SHA-256 (all large ones) are verified on every call.

    Args:
        repo_id: `owner/name` or `owner/name@revision`.
        revision: A branch, tag or commit; None means the main branch.

    Returns:
        The folder of the snapshot.

    Raises:
        DownloadError: If the repository cannot be downloaded, has no file that we read, or does not verify.
    """
    repo_id, inline = parse_hub_id(repo_id)
    revision = revision or inline
    folder = _snapshot(repo_id, revision)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "README.md"]
    if not files:
        raise DownloadError(
            f"The Hub repository '{repo_id}' holds none of the files that elmokit reads ({', '.join(HUB_PATTERNS)}): "
            "give the id of an ELMo model."
        )
    for path in files:
        _verify_blob(path)
    return folder


def _snapshot(repo_id: str, revision: str | None) -> Path:
    from huggingface_hub import errors, snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **(kwargs | {"disable": not sys.stderr.isatty()}))

    transport_error: type[Exception] = getattr(errors, "HTTPError", OSError)  # base class of errors in its HTTP library
    try:
        return Path(
            snapshot_download(
                repo_id,
                revision=revision,
                allow_patterns=list(HUB_PATTERNS),
                local_files_only=offline_variable() is not None,
                tqdm_class=Bar,
            )
        )
    except (OSError, ValueError, errors.EntryNotFoundError, transport_error) as error:
        raise DownloadError(_sentence(repo_id, revision, error)) from error


def _sentence(repo_id: str, revision: str | None, error: Exception) -> str:
    """One sentence for an error of `huggingface_hub`: what failed and what to do."""
    from huggingface_hub import errors

    where = f"The Hub repository '{repo_id}'"
    if isinstance(error, errors.GatedRepoError):
        return f"{where} is gated: accept its terms on its page, then run `hf auth login` and try again."
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{where} has no revision '{revision}': give a branch, tag or commit that is listed on its page."
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{where} was not found: check the id, or run `hf auth login` if it is private."
    if isinstance(error, errors.LocalEntryNotFoundError):
        if variable := offline_variable():
            return (
                f"{where} is not complete in the local cache and {variable} forbids downloads: unset {variable} and "
                "fetch it once."
            )
        return f"{where} could not be reached and is not in the local cache: check the connection or HF_ENDPOINT."
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        return f"{where} could not be fetched, the server answered {status}: try again later, or check HF_ENDPOINT."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS):
        return f"{where} could not be stored ({error.strerror}): set HF_HOME to a folder with space that is writable."
    reason = str(error).partition("\n")[0]
    return f"{where} could not be fetched ({type(error).__name__}: {reason}): try again to resume."


def _verify_blob(path: Path) -> None:
    """Compare a file with the SHA-256 in the name of its blob in the Hub's cache, if the name has one."""
    blob = path.resolve()
    if not re.fullmatch(r"[0-9a-f]{64}", blob.name):
        return  # small files are named by their git id, and caches without symbolic links by the file's own name
    digest = file_sha256(blob)
    if digest != blob.name:
        raise DownloadError(
            f"{path} has SHA-256 {digest} but the Hub says {blob.name}, so it was altered or damaged: delete {blob} "
            "to download it again."
        )
