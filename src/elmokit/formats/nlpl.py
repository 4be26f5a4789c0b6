"""The layout of simple_elmo and NLPL: options.json, model.hdf5 and vocab.txt, in a zip or a folder."""

import json
import zipfile
from pathlib import Path

from elmokit.filesystem import atomic_path
from elmokit.formats import bilm_hdf5
from elmokit.formats.parts import ModelParts
from elmokit.model.bilm import BiLM

OPTIONS, WEIGHTS, META, VOCABULARIES = "options.json", "model.hdf5", "meta.json", ("vocab.txt.gz", "vocab.txt")
_MAX_OPTIONS = 1_000_000


def read(directory: Path) -> ModelParts:
    """Read a model from a folder, which may be an unpacked zip."""
    vocabulary = next((directory / name for name in VOCABULARIES if (directory / name).exists()), None)
    parts = bilm_hdf5.read(directory / OPTIONS, directory / WEIGHTS, vocabulary)
    return parts.with_languages(_languages(directory / META))


def is_own(path: Path) -> bool:
    """Whether a zip has a model that `write` wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.getinfo(OPTIONS).file_size < _MAX_OPTIONS and bilm_hdf5.has_mark(archive.read(OPTIONS))
    except (OSError, KeyError, zipfile.BadZipFile):
        return False


def _languages(meta_path: Path) -> tuple[str, ...]:
    """The languages of the corpora in NLPL's meta.json; empty if the file does not name them."""
    try:
        meta = json.loads(meta_path.read_text(encoding="utf-8"))
        return tuple(dict.fromkeys(str(corpus["language"]) for corpus in meta["corpus"]))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def write(bilm: BiLM, path: Path, scratch: Path) -> None:
    """Write a zip; `scratch` is an empty folder for the files to put into it."""
    bilm_hdf5.write(bilm, scratch, weights=WEIGHTS)
    if bilm.config.languages:
        meta = {"corpus": [{"language": language} for language in bilm.config.languages]}
        (scratch / META).write_text(json.dumps(meta), encoding="utf-8")
    with atomic_path(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(scratch.iterdir()):
            archive.write(file, file.name)
