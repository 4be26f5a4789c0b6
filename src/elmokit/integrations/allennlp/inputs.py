"""What AllenNLP accepts as sentences, files and settings."""

import hashlib
import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from elmokit.arguments import check_path, shown
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.formats.published import PublishedModel, RemoteFile
from elmokit.formats.remote import fetch_hub, fetch_published
from elmokit.model import bilm

_FILES = ("options_file", "weight_file")


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Convert token lists to int64 (B, T, 50); a sentence that is a str is read as its characters, as by AllenNLP."""
    return bilm.batch_to_ids(split_characters(batch))


def split_characters(batch: Any) -> Any:
    """The batch, in which each str has become the list of its characters: AllenNLP iterates over it."""
    if isinstance(batch, bytes | bytearray | Mapping) or not isinstance(batch, Iterable):
        return batch  # an error that others describe
    return _split(batch)


def _split(batch: Iterable[Any]) -> Iterator[Any]:
    warned = False
    for sentence in batch:
        if isinstance(sentence, str) and not warned:
            warned = True
            warnings.warn(
                f"the sentence {sentence[:40]!r} is a str, so each of its characters is a token, as in AllenNLP: give "
                "a list of tokens.",
                ElmokitWarning,
                stacklevel=2,
            )
        yield list(sentence) if isinstance(sentence, str) else sentence


def find_file(name: str, file: Any) -> Path:
    """The local path of a file: `~` is the home directory, and http(s):// and hf:// are downloaded and verified."""
    path, text = check_path(name, file), str(file)
    scheme, found, rest = text.partition("://")
    if not found:
        return path.expanduser()
    if scheme in ("http", "https"):
        remote = RemoteFile(text)
        folder = f"url/{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        return fetch_published(PublishedModel(folder, (remote,))) / remote.name
    if scheme == "hf":
        return _fetch_from_hub(name, text, rest)
    raise ConfigError(
        f"{name} is {text}, but only http://, https:// and hf:// are fetched: download it, give its path."
    )


def _fetch_from_hub(name: str, text: str, rest: str) -> Path:
    owner, _, more = rest.partition("/")
    repository, _, inside = more.partition("/")
    if not (owner and repository and inside) or ".." in inside.split("/"):
        raise ConfigError(f"{name} is {text}: write hf://owner/repository/file, or owner/repository@revision.")
    path = fetch_hub(f"{owner}/{repository}") / inside
    if not path.is_file():
        raise ConfigError(f"{name} is {text}, but the repository has no such file that elmokit reads: check its name.")
    return path


def read_params(cls: type, params: MutableMapping[str, Any]) -> dict[str, Any]:
    """The arguments of a constructor from settings, which are consumed as AllenNLP does.

    Args:
        cls: the class to build.
        params: a dict, or AllenNLP's `Params`, whose files are added to the archive of the model.

    Raises:
        ConfigError: for settings that are missing or unknown, and numbers or flags that cannot be read.
    """
    if not isinstance(params, MutableMapping):
        raise ConfigError(f"params are {shown(params)}: give a dict of settings, or AllenNLP's Params.")
    if hasattr(params, "add_file_to_archive"):
        for name in _FILES:
            params.add_file_to_archive(name)
    known = dict(inspect.signature(cls).parameters)
    params.pop("type", None)  # which class to build
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise ConfigError(f"{cls.__name__} has no setting {shown(unknown[0])}: choose from {', '.join(known)}.")
    found = {name: _as_typed(name, params.pop(name), one.annotation) for name, one in known.items() if name in params}
    missing = [name for name, one in known.items() if one.default is one.empty and name not in found]
    if missing and not found.get("module"):
        raise ConfigError(f"{cls.__name__} needs the setting {missing[0]}: add it to the params.")
    return found


def _as_typed(name: str, value: Any, kind: Any) -> Any:
    """A setting whose number or flag is text, as in AllenNLP's configuration files."""
    if not isinstance(value, str) or kind not in (bool, int, float):
        return value
    try:
        return {"true": True, "false": False}[value] if kind is bool else kind(value)
    except (KeyError, ValueError):
        raise ConfigError(f"{name} is {value!r}: give {'true or false' if kind is bool else 'a number'}.") from None
