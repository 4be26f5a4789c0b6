"""Files of embeddings: `open_embeddings` reads our formats and others, `write_dump` writes four formats by suffix.

Each format is a module with `write(records, path, meta)`, which streams records to a path, and `read(path)`.
"""

import os.path
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from elmokit.arguments import check_flag, check_path, shown
from elmokit.embedding.records import Embeddings, Meta, Record
from elmokit.embedding.store import VectorStore, is_store
from elmokit.errors import ConfigError, ElmokitError, FormatError
from elmokit.filesystem import atomic_path, check_name, guard_output
from elmokit.recognize import EMBEDDINGS, JOURNAL, MODEL, OTHER, STORE, did_you_mean, is_regular, mistaken

FORMATS = {".hdf5": "hdf5", ".h5": "hdf5", ".parquet": "parquet", ".npz": "npz", ".jsonl": "jsonl"}
_COMPRESSED = re.compile(r"\.jsonl\.(gz|xz|bz2)$")


def dump_format(path: str | Path) -> str:
    """The name of the format that a path's suffix denotes.

    Raises:
        ConfigError: if the suffix is unknown; the message lists the known ones.
    """
    suffix = check_path("path", path).suffix.lower()
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        ending = f"ends in {suffix!r}" if suffix else "has no suffix"
        raise ConfigError(f"{path} {ending}: name a file that ends in one of {known}.")
    return FORMATS[suffix]


def check_output(output: str | Path) -> None:
    """Refuse an output that cannot be written because of its suffix or folder, before anything is computed."""
    format_ = dump_format(output)
    parent = check_name(output).parent
    if not parent.is_dir():
        raise ConfigError(f"the folder {parent} of the output does not exist: create it or give another path.")
    if Path(output).is_dir():
        raise ConfigError(f"the output {output} is a folder: give the name of a file.")
    if format_ == "parquet":
        _module("parquet").require_pyarrow()


def guard_dump(output: str | Path, *, inputs: Iterable[str | Path] = (), overwrite: bool = False) -> Path:
    """Refuse an output that is an input, or that exists and is not an elmokit dump that may be overwritten."""
    check_flag("overwrite", overwrite)
    return guard_output(output, kind="a dump of embeddings", is_ours=is_own_dump, inputs=inputs, overwrite=overwrite)


def is_own_dump(path: Path) -> bool:
    """Whether a file is a complete dump that elmokit wrote; the layouts of other tools do not count."""
    try:
        with open_embeddings(path) as embeddings:
            return embeddings.layout in FORMATS.values()
    except ElmokitError:
        return False


def write_dump(records: Iterable[Record], path: str | Path, meta: Meta, *, overwrite: bool = False) -> int:
    """Write records to a file in constant memory; the file gets its final name only when it is complete.

    The suffix of `path` (.hdf5, .h5, .parquet, .npz, .jsonl) selects the format. Records must have vectors of one form
    and are renumbered from 0. `overwrite` replaces a dump that elmokit wrote; any other existing file is refused.

    Returns:
        Number of records written.

    Raises:
        FormatError: if a record differs in form from the first, has NaN or infinite numbers, or has not one vector per
            token; nothing is written.
    """
    format_ = dump_format(path)
    if not isinstance(meta, Meta):
        raise FormatError(f"meta is {shown(meta)}: give a Meta, which says where the vectors come from.")
    if format_ == "parquet":
        _module("parquet").load_pyarrow()
    guard_dump(path, overwrite=overwrite)
    with atomic_path(path, keep_suffix=True) as temporary:
        return write_part(records, temporary, meta, format_)


def write_part(records: Iterable[Record], path: Path, meta: Meta, format_: str) -> int:
    """Write records to a temporary path that the caller will rename."""
    written: int = _module(format_).write(records, path, meta)
    return written


def open_embeddings(path: str | Path) -> Embeddings:
    """Open a file of embeddings or a vector store; records are read on demand.

    Reads what `elmokit embed` writes, and HDF5 files of AllenNLP (keyed by line or by sentence), bilm-tf,
    ELMoForManyLangs (`prefix.ly0.hdf5`, or `prefix` for all its layers) and of e2e-coref's cache.

    Example:
        >>> with open_embeddings("vectors.hdf5") as embeddings:
        ...     embeddings[0].vectors, embeddings[0].tokens
        ...     embeddings.find("The play was cancelled .")

    Raises:
        FormatError: if it is none of these, or damaged.
    """
    path = check_path("path", path)
    if os.path.isdir(path):
        if sentence := mistaken(path, "a file of embeddings", STORE, JOURNAL):
            raise FormatError(sentence)
        return VectorStore(path)
    if not os.path.exists(path):  # false, not an error, for a name that no file can have
        if layers := _many_langs_layers(path):
            embeddings: Embeddings = _module("peers").read_many_langs(path, layers)
            return embeddings
        raise FormatError(
            f"{path} does not exist{did_you_mean(path)}: give a file of embeddings ({', '.join(FORMATS)})."
        )
    if not is_regular(path):
        raise FormatError(f"{path} is a pipe or a device, not a file of embeddings: save it to a file first.")
    if sentence := mistaken(path, "a file of embeddings", EMBEDDINGS, MODEL, OTHER):
        raise FormatError(sentence)
    format_ = "jsonl" if _COMPRESSED.search(path.name.lower()) else dump_format(path)
    try:
        embeddings = _module(format_).read(path)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    return embeddings


def is_dump(path: str | Path) -> bool:
    """Whether a path is embeddings rather than a model: decided by name, for HDF5 by the content of the file."""
    path = check_path("path", path)
    if os.path.isdir(path):
        return is_store(path)
    if not os.path.exists(path):  # false, not an error, for a name that no file can have
        return bool(_many_langs_layers(path))
    if path.suffix.lower() in (".hdf5", ".h5"):
        return bool(_module("hdf5").holds_embeddings(path))
    return path.suffix.lower() in FORMATS or bool(_COMPRESSED.search(path.name.lower()))


def convert_dump(source: str | Path, target: str | Path, *, overwrite: bool = False) -> int:
    """Convert any readable file of embeddings to the format of the target's suffix.

    Returns:
        Number of records written.
    """
    target = check_path("target", target)
    check_path("source", source)
    dump_format(target)
    guard_dump(target, inputs=[source, *_many_langs_layers(Path(source))], overwrite=overwrite)
    with open_embeddings(source) as embeddings:
        return write_dump(embeddings, target, embeddings.meta, overwrite=overwrite)


def _many_langs_layers(prefix: Path) -> list[Path]:
    """The files prefix.ly0.hdf5, prefix.ly1.hdf5 … of ELMoForManyLangs, lowest layer first."""
    if not os.path.isdir(prefix.parent):
        return []
    numbered = (
        (match, file)
        for file in prefix.parent.iterdir()
        if (match := re.fullmatch(re.escape(prefix.name) + r"\.ly(\d+)\.(?:hdf5|h5)", file.name))
    )
    return [file for _, file in sorted(numbered, key=lambda pair: int(pair[0][1]))]


def _module(name: str) -> Any:
    return import_module(f"elmokit.embedding.dumps.{name}")
