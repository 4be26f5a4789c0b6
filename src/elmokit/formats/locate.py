"""Find the format and the files of a model from a path."""

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from elmokit.errors import FormatError
from elmokit.formats import many_langs, native, nlpl
from elmokit.formats.archive import is_zip, member_names
from elmokit.recognize import EMBEDDINGS, MODEL, OTHER, RUN, TEXTS, did_you_mean, finished_run, identify

Format = Literal["native", "bilm", "nlpl", "many-langs"]
ACCEPTED = (
    "a directory of config.json + model.safetensors (native), options.json + weights.hdf5 (bilm-tf, AllenNLP), "
    "options.json + model.hdf5 (NLPL) or config.json + encoder.pkl (ELMoForManyLangs), one of these files, or a zip of "
    "the last two"
)
TASK_MODEL = "task.json"
"""The file that marks the folder of a task model."""


@dataclass(frozen=True)
class Location:
    """A model's files on disk."""

    format: Format
    directory: Path
    """The folder of the files; for a zip, the folder inside it."""
    archive: Path | None = None
    options: Path | None = None
    weights: Path | None = None
    vocabulary: Path | None = None


def locate(path: Path, weights: Path | None = None) -> Location:
    """Find a model by the path of its folder, its zip, one of its files or the finished run that trained it.

    `weights` is the HDF5 file, if it is not beside its options.

    Raises:
        FormatError: if there is no model; the message says what the path is instead, if known.
    """
    try:
        return _locate(path, weights)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    except FormatError as error:
        raise FormatError(_what_it_is(path) or str(error)) from None


def _locate(path: Path, weights: Path | None) -> Location:
    if not os.path.exists(path):
        raise FormatError(f"{str(path)[:200]} does not exist{did_you_mean(path)}: give {ACCEPTED}.")
    if not (path.is_file() or path.is_dir()):
        raise FormatError(f"{path} is a pipe or a device, not a model file: give {ACCEPTED}.")
    if weights is not None:
        return _bilm(path, weights)
    if path.is_dir():
        kind = identify(path)
        is_bilm_run = kind is not None and kind.family == RUN
        return _locate_directory((finished_run(path) if is_bilm_run else None) or path)
    if path.name in (native.WEIGHTS, native.CONFIG, many_langs.ENCODER, many_langs.TOKEN_EMBEDDER):
        return _locate_directory(path.parent)
    if path.suffix in (".hdf5", ".h5"):
        kind = identify(path)
        if kind is not None and kind.family == EMBEDDINGS:  # beside a model's options it would pass for its weights
            raise FormatError(f"{path} is {kind.words}, not a model: {kind.use}.")
        return _bilm(_options_beside(path), path)
    if path.suffix == ".json":
        return _bilm(path, _weights_beside(path))
    if path.suffix == ".zip" or is_zip(path):
        return _locate_zip(path)
    raise FormatError(f"{path} is not a model file: give {ACCEPTED}.")


def _what_it_is(path: Path) -> str | None:
    """A sentence that says what a path is instead of a model; None if the original error says more."""
    kind = identify(path)
    if kind is None or kind.family == MODEL or (kind.family == OTHER and path.suffix == ".zip"):
        return None
    remedy = f"give {ACCEPTED}" if kind.family in (OTHER, *TEXTS) else kind.use
    return f"{path} is {kind.words}, not a model: {remedy}."


def _locate_directory(path: Path) -> Location:
    names = {entry.name for entry in path.iterdir()}
    if TASK_MODEL in names:
        raise FormatError(f"{path} is a task model, not a biLM: give the biLM that it was trained on, or another one.")
    if native.WEIGHTS in names:
        return Location("native", path)
    if many_langs.CONFIG in names and names & {many_langs.ENCODER, many_langs.TOKEN_EMBEDDER}:
        return Location("many-langs", path)
    if {nlpl.OPTIONS, nlpl.WEIGHTS} <= names:
        return Location("nlpl", path)
    options = sorted(path.glob("*options*.json"))
    if len(options) == 1:
        return _bilm(options[0], _weights_beside(options[0]))
    if len(options) > 1:
        raise FormatError(f"{path} holds {len(options)} options files: name the one you mean, e.g. {options[0]}.")
    if native.CONFIG in names:
        return Location("native", path)  # reading it will say what is missing
    raise FormatError(f"{path} holds no model: give {ACCEPTED}.")


def _locate_zip(path: Path) -> Location:
    """Look for the model in a zip: at the root first, then in folders, by depth."""
    members = sorted((PurePosixPath(name) for name in member_names(path)), key=lambda member: len(member.parts))
    marks: dict[str, Format] = {nlpl.OPTIONS: "nlpl", many_langs.ENCODER: "many-langs"}
    for member in members:
        if member.name in marks:
            return Location(marks[member.name], Path(member.parent), archive=path)
    raise FormatError(f"{path} holds neither {nlpl.OPTIONS} nor {many_langs.ENCODER}: it is not a zipped model.")


def _bilm(options: Path, weights: Path) -> Location:
    vocabularies = (options.parent / name for name in (*nlpl.VOCABULARIES, _replaced(options, "vocab.txt")))
    vocabulary = next((candidate for candidate in vocabularies if candidate.is_file()), None)
    return Location("bilm", options.parent, options=options, weights=weights, vocabulary=vocabulary)


def _replaced(path: Path, ending: str) -> str:
    """elmo_x_options.json, elmo_x_weights.hdf5 → elmo_x_{ending}."""
    for known in ("options.json", "options262.json", "weights.hdf5", "weights.h5"):
        if path.name.endswith(known):
            return path.name.removesuffix(known) + ending
    return ending


def _choose(named: Path, found: Sequence[Path]) -> Path | None:
    """The file whose name matches, or the only one found."""
    return named if named in found else found[0] if len(found) == 1 else None


def _weights_beside(options: Path) -> Path:
    named = options.parent / _replaced(options, "weights.hdf5")
    found = sorted((*options.parent.glob("*.hdf5"), *options.parent.glob("*.h5")))
    if (path := _choose(named, found)) is not None:
        return path
    listed = f"{len(found)} HDF5 files ({', '.join(file.name for file in found[:4])})" if found else "no HDF5 file"
    raise FormatError(f"beside {options} lies {listed}: name the weights file of the model instead.")


def _options_beside(weights: Path) -> Path:
    named = weights.parent / _replaced(weights, "options.json")
    found = sorted(weights.parent.glob("*options*.json"))
    if (path := _choose(named, found)) is not None:
        return path
    listed = f"{len(found)} options files" if found else "no options.json"
    raise FormatError(f"beside {weights} lies {listed}: put the model's own options.json there.")
