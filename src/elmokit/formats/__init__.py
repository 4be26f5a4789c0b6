"""Every file format of a biLM: `load` reads any of them, `save` writes three.

A name is looked up in this order: an existing path, a model inside the package (`mini`), a published model (`original`,
`many-langs/de` …), a Hub id. Importing this module does not load torch, nor does looking up an unknown name.
"""

import os.path
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from elmokit.arguments import check_choice, check_flag, check_path, is_path, shown
from elmokit.config import ElmoConfig
from elmokit.errors import ConfigError, DownloadError, ElmokitError, FormatError
from elmokit.filesystem import atomic_directory, check_name, guard_output, naming_destination
from elmokit.formats import packaged, published, remote
from elmokit.formats.archive import unpacked
from elmokit.formats.published import find_published, published_names
from elmokit.formats.remote import fetch_published
from elmokit.recognize import did_you_mean
from elmokit.text.files import file_sha256

if TYPE_CHECKING:
    from elmokit.formats.locate import Format, Location
    from elmokit.formats.parts import ModelParts, fingerprint
    from elmokit.model.bilm import BiLM

__all__ = [
    "SAVE_FORMATS",
    "ModelInfo",
    "SaveFormat",
    "check_source",
    "describe",
    "detect_format",
    "fetch_published",
    "find_published",
    "fingerprint",
    "load",
    "published_names",
    "save",
]

SaveFormat = Literal["native", "bilm", "nlpl"]
SAVE_FORMATS: tuple[SaveFormat, ...] = ("native", "bilm", "nlpl")


def load(source: str | Path, *, weights: str | Path | None = None) -> "BiLM":
    """Load a biLM of any known format, in eval mode, float32, on the CPU.

    Args:
        source: a path (folder, zip, one of a model's files, or the folder of a finished run), "mini" for the model
            inside the package, a published name such as "original" or "many-langs/de", or a Hub id such as
            "owner/name", optionally with "@revision".
        weights: the HDF5 file of a bilm model whose options are in another folder; `source` is then the options file.

    Raises:
        ElmokitError: says in one sentence what is wrong with the name or the files, and what to do.
    """
    return _load(source, weights)[0]


def detect_format(path: str | Path) -> "Format":
    """Detect the format of a path, without reading any weights."""
    from elmokit.formats.locate import locate

    return locate(check_path("path", path)).format


def save(
    bilm: "BiLM",
    path: str | Path,
    *,
    format: SaveFormat = "native",
    overwrite: bool = False,
    float16: bool = False,
    inputs: Sequence[str | Path] = (),
) -> None:
    """Write a biLM atomically: a folder for native and bilm, a zip for nlpl.

    Args:
        bilm: the model to write.
        path: the folder or zip to write.
        format: "native" (safetensors, config, vocabulary), "bilm" (options + HDF5, for AllenNLP, bilm-tf) or "nlpl".
        overwrite: replace a model that `save` wrote in this format; any other existing file or folder is refused.
        float16: round the weights to 16 bits, which halves the size and changes the model; native only.
        inputs: files and folders that must not be replaced, such as the model's source.

    Raises:
        FormatError: if `path` exists and may not be replaced, or the format cannot represent the model.
    """
    from elmokit.model.bilm import BiLM

    path = check_path("path", path)
    if not isinstance(bilm, BiLM):
        raise ConfigError(f"bilm is {shown(bilm)}: give a loaded model; to copy a file, load it first.")
    check_choice("format", format, SAVE_FORMATS)
    check_flag("overwrite", overwrite)
    if check_flag("float16", float16) and format != "native":
        raise ConfigError(f"float16 weights cannot be written as {format}: choose native, or leave float16 out.")
    if format == "nlpl" and path.suffix.lower() != ".zip":
        raise FormatError(f"{path} does not end in .zip, but the nlpl format is a zip: name it so.")
    from elmokit.formats import bilm_hdf5, native, nlpl

    if is_path(inputs) or not isinstance(inputs, Iterable):
        raise ConfigError(f"inputs ({shown(inputs)}) must be a list of paths, e.g. [path].")
    check_name(path)
    for folder in (Path(one).resolve() for one in inputs):
        if folder.is_dir() and path.resolve() != folder and path.resolve().is_relative_to(folder):
            raise FormatError(f"{path} is inside {folder}, the model that is read: give a name elsewhere.")
    is_own = {"native": native.is_own, "bilm": bilm_hdf5.is_own, "nlpl": nlpl.is_own}[format]
    guard_output(path, kind=f"a {format} model", is_ours=is_own, inputs=inputs, overwrite=overwrite)
    path.parent.mkdir(parents=True, exist_ok=True)
    if format == "nlpl":
        folder = path.resolve().parent  # on the disk that the zip goes to
        with (
            naming_destination(path),
            tempfile.TemporaryDirectory(prefix=f".{path.name}.", suffix=".tmp", dir=folder) as scratch,
        ):
            nlpl.write(bilm, path, Path(scratch))
        return
    with atomic_directory(path, overwrite=overwrite) as directory:
        if format == "native":
            native.write(bilm, directory, float16=float16)
        else:
            bilm_hdf5.write(bilm, directory)


@dataclass(frozen=True)
class ModelInfo:
    """What `elmokit info` shows about a model."""

    source: str
    format: "Format"
    path: str
    languages: tuple[str, ...]
    num_parameters: int
    num_layers: int
    output_dim: int
    vocab_size: int | None
    softmax: bool
    fingerprint: str
    """SHA-256 of everything that affects the model's output: equal in every format."""
    files: dict[str, str]
    """SHA-256 of each file."""
    config: ElmoConfig
    version: str | None = None
    """Version of a packaged model; other models have no version, card or card metadata."""
    publisher: str | None = None
    """Who published a model that was fetched by its published name; others have no publisher, note or license."""
    note: str | None = None
    license: str | None = None
    card: str | None = None
    card_metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The information as plain values for JSON."""
        return asdict(self) | {"config": self.config.model_dump(mode="json")}


def describe(source: str | Path) -> ModelInfo:
    """Load a model and describe it."""
    bilm, location, (_, model, package) = _load(source, None)
    from elmokit.formats.parts import fingerprint

    config = bilm.config
    return ModelInfo(
        source=str(source),
        format=location.format,
        path=str(location.archive or location.directory),
        languages=config.languages,
        num_parameters=bilm.num_parameters,
        num_layers=config.num_layers,
        output_dim=config.output_dim,
        vocab_size=None if bilm.vocabulary is None else len(bilm.vocabulary),
        softmax=config.softmax,
        fingerprint=fingerprint(bilm),
        files={path.name: file_sha256(path) for path in _files(location)},
        config=config,
        version=package.version if package else None,
        publisher=model.publisher if model else None,
        note=model.note if model else None,
        license=model.license if model else None,
        card=package.card if package else None,
        card_metadata=package.card_metadata if package else {},
    )


class _Source(NamedTuple):
    """The local path of the model that a user named, and what else is known about it."""

    path: Path
    model: published.PublishedModel | None = None
    package: packaged.PackagedModel | None = None


def _load(source: str | Path, weights: str | Path | None) -> tuple["BiLM", "Location", _Source]:
    found = _resolve(source)
    from elmokit.formats.locate import locate
    from elmokit.formats.parts import assemble

    location = locate(found.path, check_path("weights", weights) if weights is not None else None)
    origin = str(location.archive or location.weights or location.directory)
    try:
        parts = _read(location).with_languages(found.model.languages if found.model else ())
        return assemble(parts, origin=origin), location, found
    except ElmokitError as error:
        if str(location.archive or location.directory) in str(error) or origin in str(error):
            raise
        raise type(error)(f"{origin}: {error}") from None


def _resolve(source: str | Path) -> _Source:
    """Find the model that a user named, and download it if necessary."""
    path = check_path("source", source)
    if isinstance(source, Path) or os.path.exists(path):  # false, not an error, for a name that no file can have
        packaged.warn_of_shadow(source)
        return _Source(path)
    if package := packaged.find_packaged(source):
        return _Source(package.path, package=package)
    if model := published.find_published(source):
        return _Source(remote.fetch_published(model), model)
    if published.is_published_form(source) or not remote.looks_like_hub_id(source):
        raise FormatError(
            f"{_not_found(source)}: give a path, the packaged {', '.join(packaged.NAMES)}, a published name such as "
            "original or many-langs/de, or a Hub id owner/name."
        )
    repo_id, revision = remote.parse_hub_id(source)
    try:
        return _Source(remote.fetch_hub(repo_id, revision=revision))
    except DownloadError as error:
        raise DownloadError(f"{_not_found(source)}; as a Hub id: {error}") from error


def _not_found(source: str) -> str:
    """Where a name was looked up before the Hub, with similar names from each place."""
    near = [*packaged.suggest(source), *published.suggest(source)]
    hint = f" (did you mean {' or '.join(near)}?)" if near else ""
    name = source[:100]
    return f"there is no file {name!r}{did_you_mean(source)}, and no packaged or published model named {name!r}{hint}"


def _read(location: "Location") -> "ModelParts":
    from elmokit.formats import bilm_hdf5, many_langs, native, nlpl

    with _opened(location) as directory:
        if location.format == "bilm":
            assert location.options is not None and location.weights is not None
            return bilm_hdf5.read(location.options, location.weights, location.vocabulary)
        return {"native": native.read, "nlpl": nlpl.read, "many-langs": many_langs.read}[location.format](directory)


@contextmanager
def _opened(location: "Location") -> Iterator[Path]:
    if location.archive is None:
        yield location.directory
    else:
        with unpacked(location.archive) as folder:
            try:
                yield folder / location.directory
            except ElmokitError as error:  # the user knows the zip, not where it was unpacked
                raise type(error)(str(error).replace(str(folder), str(location.archive))) from None


def _files(location: "Location") -> list[Path]:
    if location.archive is not None:
        return [location.archive]
    if location.format == "bilm":
        return [path for path in (location.options, location.weights, location.vocabulary) if path is not None]
    return sorted(path for path in location.directory.iterdir() if path.is_file())


def check_source(source: str | Path) -> None:
    """Refuse a name that no model has, without loading torch or downloading; Hub ids are left to `load`.

    Raises:
        ElmokitError: the same error as `load`.
    """
    if isinstance(source, Path) or os.path.exists(source) or source.strip().lower() in packaged.NAMES:
        return
    is_published = published.find_published(source) is not None
    if not is_published and (published.is_published_form(source) or not remote.looks_like_hub_id(source)):
        _resolve(source)


def __getattr__(name: str) -> Any:
    if name != "fingerprint":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from elmokit.formats.parts import fingerprint

    return fingerprint
