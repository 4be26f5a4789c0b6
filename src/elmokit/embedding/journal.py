"""The journal of an embedding run: a vector store beside the output, from which the run resumes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from elmokit.embedding.dumps import open_embeddings
from elmokit.embedding.records import Meta
from elmokit.embedding.store import LOCK, is_store, read_meta
from elmokit.embedding.store_writer import StoreWriter, delete_store
from elmokit.errors import ElmokitError, FormatError
from elmokit.locks import FolderInUse
from elmokit.model.bilm import BiLMState
from elmokit.model.lstm import LstmState

_SUFFIX = ".journal"
START_OVER = "or start over with --no-resume (resume=False)"
ENGINE = "engine"
"""Key under which a run records its engine: mixing two would give one file vectors that differ in the last bits."""


def journal_path(output: Path) -> Path:
    """The path of the journal of an output."""
    return output.with_name(output.name + _SUFFIX)


def open_journal(path: Path, meta: Meta, *, resume: bool) -> StoreWriter:
    """Resume the journal of the same run, or begin a new one; the journal of another run is refused and unchanged."""
    try:
        if is_store(path) and not resume:
            delete_store(path)
        writer = StoreWriter.append(path) if is_store(path) else StoreWriter.create(path, meta)
    except FolderInUse as error:
        output = path.with_name(path.name.removesuffix(_SUFFIX))
        raise FormatError(
            f"{output} is being written by process {error.holder}, which keeps its work in {path.name}: wait until it "
            "ends, stop it, or give another name for the output."
        ) from None
    if difference := describe_difference(writer.meta, meta):
        writer.close()
        raise FormatError(
            f"{path} holds an unfinished run with {difference}: repeat that run's settings to finish it, {START_OVER}."
        )
    return writer


def discard_journal(path: Path) -> None:
    """Remove the journal of a finished run; any other folder is left alone."""
    if is_store(path) or (path.is_dir() and set(os.listdir(path)) <= {LOCK}):
        delete_store(path)


def describe_difference(found: Meta, wanted: Meta) -> str | None:
    """The first difference between two runs, in words; the model's name may differ, its fingerprint may not."""
    left, right = (meta.to_dict() | meta.extra for meta in (found, wanted))
    for name in ("fingerprint", "layers", "pooling", "state", "dtype", "num_layers", "width", *wanted.extra, "elmokit"):
        if left.get(name) != right[name]:
            if name == "fingerprint":
                return f"vectors of another model ({found.model or 'unknown'})"
            hint = " (ELMOKIT_NATIVE=0 gives portable)" if name == ENGINE else ""
            return f"{name} {left.get(name)!r} instead of {right[name]!r}{hint}"
    return None


def recorded_precision(meta: Meta) -> str:
    """The precision of vectors, as their meta records it."""
    engine = meta.extra.get(ENGINE)
    if isinstance(engine, str) and engine.startswith("native bfloat16"):
        return "bfloat16"
    return "int8" if meta.extra.get("int8") else "float32"


def find_precision(output: Path, *, resume: bool = True, overwrite: bool = False) -> str | None:
    """The precision of an unfinished run that would be resumed, or of a finished output; None if there is neither."""
    output = output.resolve()
    journal = journal_path(output)
    try:
        if output.exists() and not overwrite:
            with open_embeddings(output) as embeddings:
                return recorded_precision(embeddings.meta)
        return recorded_precision(read_meta(journal)) if resume and is_store(journal) else None
    except ElmokitError:  # the run itself will say what is wrong
        return None


def pack_state(state: BiLMState | None) -> dict[str, NDArray[Any]]:
    """A carried state as arrays that can be stored in a chunk."""
    if state is None:
        return {}
    return {
        f"{side}_{name}": tensor.cpu().numpy()
        for side, half in zip(BiLMState._fields, state, strict=True)
        for name, tensor in zip(LstmState._fields, half, strict=True)
    }


def unpack_state(arrays: Mapping[str, NDArray[Any]], device: torch.device) -> BiLMState | None:
    """The inverse of `pack_state`."""
    if not arrays:
        return None
    return BiLMState(
        *(
            LstmState(*(torch.from_numpy(arrays[f"{side}_{name}"]).to(device) for name in LstmState._fields))
            for side in BiLMState._fields
        )
    )
