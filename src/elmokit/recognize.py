"""Recognize what a file or folder is, so that an error can say what was given instead of what was wanted.

`recognize` looks at names, at small JSON files and at the first bytes of a file. It reads no weights and no vectors,
raises no errors, and says only what is certain. It does not import torch, and imports h5py only for an HDF5 file, so
every part of the package can use it. The modules of the formats decide what is valid; a test checks that both agree.
"""

import bz2
import codecs
import difflib
import gzip
import json
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

EMBEDDINGS, MODEL, RUN, TASK_RUN, TASK_MODEL = "embeddings", "model", "run", "task run", "task model"
JOURNAL, STORE, INDEX, SHARDS, VOCABULARY = "journal", "store", "index", "shards", "vocabulary"
REPORT, COMPARISON, TEXT, JSON, OTHER = "report", "comparison", "text", "JSON", "other"
TEXTS = (TEXT, VOCABULARY, JSON)
"""Kinds that can be read as text."""

RUN_RECORD, RUN_RESULT, RUN_SURVEY = "run.json", "result.json", "corpus.json"
"""Files that identify the folder of a run: its settings, its results, and the counts of its text."""
_HEAD = 1 << 16
_OPENERS: dict[bytes, tuple[str, Callable[..., Any]]] = {
    b"\x1f\x8b": (".gz", gzip.open),
    b"\xfd7zXZ\x00": (".xz", lzma.open),
    b"BZh": (".bz2", bz2.open),
}
_UNREADABLE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError)
_SIGNATURES = {
    b"%PDF": "a PDF file",
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"\xd0\xcf\x11\xe0": "an old Word or Excel file",
    b"\x7fELF": "a program or library",
    b"\xff\xfe": "a UTF-16 file",
    b"\xfe\xff": "a UTF-16 file",
    b"\x93NUMPY": "a NumPy array (.npy)",
}
_DUMP_USE = "`elmokit convert` and open_embeddings read it"
_TASK_USE = "`elmokit task evaluate` and `elmokit task predict` read it; as a biLM give the one it was trained on"
_EXPORT_USE = "export what you need of it as UTF-8 text first"


class Kind(NamedTuple):
    """What a path is."""

    family: str
    """One of the constants above."""
    words: str
    """What it is, as errors say it: "a file of embeddings"."""
    use: str
    """What to use it for, or what to give instead."""


def recognize(path: str | Path) -> str | None:
    """What a file or folder is, in words; None if it does not exist or elmokit does not recognize it."""
    kind = identify(path)
    return kind and kind.words


def mistaken(path: str | Path, wanted: str, *families: str) -> str | None:
    """A sentence saying that a path is not what was wanted.

    `wanted` is what the command reads, in words: "a model"; `families` are the kinds that count as wanted.

    Returns:
        The sentence, or None if the path is not recognized, or is of one of the families.
    """
    kind = identify(path)
    if kind is None or kind.family in families:
        return None
    return f"{path} is {kind.words}, not {wanted}: {kind.use}."


def identify(path: str | Path) -> Kind | None:
    """The kind of a file or folder; None if it does not exist or elmokit does not recognize it."""
    path = Path(path)
    try:
        if os.path.isdir(path):  # false, not an error, for a name that no file can have
            return _identify_folder(path)
        return _identify_file(path) if os.path.isfile(path) else None
    except OSError:
        return None


def near_names(path: str | Path) -> list[str]:
    """Up to three existing paths that a missing one may have meant, the nearest first."""
    parts = Path(path).parts
    found = Path()
    for number, part in enumerate(parts):
        if os.path.exists(found / part):
            found /= part
            continue
        try:
            names = sorted(os.listdir(found)) if len(part) < 256 else []
        except OSError:
            return []
        by_lower = {name.lower(): name for name in reversed(names) if name != part}
        near = difflib.get_close_matches(part.lower(), by_lower, n=3, cutoff=0.6)
        rest = parts[number + 1 :]
        whole = [found.joinpath(by_lower[name], *rest) for name in near]
        exact = [one for one in whole if os.path.exists(one)]
        return [str(one) for one in (exact or ([] if rest else whole))]
    return []


def did_you_mean(path: str | Path) -> str:
    """The near names of a missing path, to append to it in an error; "" if there are none."""
    near = near_names(path)
    if Path(path).is_absolute():  # for long paths, only the last names differ
        near = [Path(one).name for one in near]
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def is_task_config(values: Mapping[str, Any]) -> bool:
    """Whether the settings in a run's record are those of a task."""
    return "task" in values


def is_run(folder: Path) -> bool:
    """Whether a folder belongs to a run, whether finished, stopped or not yet training."""
    return is_begun_run(folder) or "key" in read_object(folder / RUN_SURVEY)


def is_begun_run(folder: Path) -> bool:
    """Whether a folder has the record that a run writes first."""
    return isinstance(read_object(folder / RUN_RECORD).get("config"), dict)


def read_object(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file; {} if the file is missing, too large, or has something else."""
    try:
        if path.stat().st_size > 2**26:
            return {}
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def finished_run(folder: Path) -> Path | None:
    """The folder `model` of a finished run; None if the folder is not a run or the run has not finished."""
    if not is_begun_run(folder):
        return None
    whole = (folder / RUN_RESULT).is_file() and (folder / "model").is_dir()
    return folder / "model" if whole else None


def _identify_folder(folder: Path) -> Kind | None:
    names = set(os.listdir(folder))
    content = read_object(folder / "task.json")
    if content.get("format") == "elmokit-task":
        return Kind(TASK_MODEL, f"a task model ({str(content.get('task'))[:20]})", _TASK_USE)
    if "task.json" in names:
        return None  # a damaged task model, or one of a newer elmokit
    config = read_object(folder / RUN_RECORD).get("config")
    if isinstance(config, dict):
        return _identify_run(folder, config)
    if _is_store(folder):
        if folder.name.endswith(".journal"):
            use = "repeat the `elmokit embed` command to finish it"
            return Kind(JOURNAL, "the journal of unfinished embeddings", use)
        return Kind(STORE, "a vector store", _DUMP_USE)
    if _is_store(folder / "vectors"):
        state = "an index of a corpus" if "words" in names else "an unfinished index of a corpus"
        return Kind(INDEX, state, "`elmokit analyze neighbors` reads it as --index")
    summary = read_object(folder / RUN_SURVEY)
    if summary.get("format") == "elmokit-corpus":
        use = f"name its files as text, as in '{folder}/shard-*'"
        return Kind(SHARDS, "a folder of shards", use)
    if "key" in summary:
        return Kind(RUN, "the folder of a training run that has not begun", "repeat its command to begin it")
    if runs := _runs_of_comparison(folder, names):
        use = f"give its runs, such as {' '.join(str(folder / name) for name in runs)}"
        return Kind(COMPARISON, "the folder of a comparison of task runs", use)
    if {"page.html", "report.json"} <= names:
        return Kind(REPORT, "the folder of a report", "open its page.html, or read the figures in report.json")
    if _holds_model(names):
        return Kind(MODEL, "a model (biLM)", "`elmokit embed` and other commands read it as --model")
    return None


def _runs_of_comparison(folder: Path, names: set[str]) -> list[str]:
    """The runs in the folder of a comparison, VARIANT-SEED each, up to three."""
    numbered = (name for name in sorted(names) if name.rpartition("-")[2].isdigit())
    configs = ((name, read_object(folder / name / RUN_RECORD).get("config")) for name in numbered)
    return list(islice((name for name, own in configs if isinstance(own, dict) and is_task_config(own)), 3))


def _identify_run(folder: Path, config: Mapping[str, Any]) -> Kind:
    done = finished_run(folder) is not None
    if is_task_config(config):
        words = f"the folder of a task run ({str(config['task'])[:20]})"
        unfinished = f"resume it with --resume, or give {folder / 'model'} for its best model so far"
        return Kind(TASK_RUN, words if done else f"{words} that has not finished", _TASK_USE if done else unfinished)
    if done:
        return Kind(RUN, "the folder of a training run", f"its model is {folder / 'model'}")
    best = f", or give {folder / 'best'} for its best model so far" if (folder / "best").is_dir() else ""
    return Kind(RUN, "the folder of a training run that has not finished", f"resume it with --resume{best}")


def _holds_model(names: set[str]) -> bool:
    if "config.json" in names and names & {"model.safetensors", "encoder.pkl", "token_embedder.pkl"}:
        return True
    options = any("options" in name and name.endswith(".json") for name in names)
    return options and any(name.endswith((".hdf5", ".h5")) for name in names)


def _is_store(folder: Path) -> bool:
    return read_object(folder / "meta.json").get("format") == "elmokit-store"


def _identify_file(path: Path) -> Kind | None:
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    for mark, (suffix, opener) in _OPENERS.items():
        if head.startswith(mark) and (suffix != ".bz2" or head[4:10] == b"1AY&SY"):
            if path.suffix != suffix:
                use = f"give it a name that ends in {suffix}, or unpack it first"
                return Kind(OTHER, f"a compressed file without the ending {suffix}", use)
            return _identify_compressed(path, opener)
    return _identify_binary(path, head) or _identify_text(path, head)


def _identify_compressed(path: Path, opener: Callable[..., Any]) -> Kind | None:
    try:
        with opener(path, "rb") as file:
            head = file.read(_HEAD)
    except _UNREADABLE:
        return None
    if head[257:262] == b"ustar":
        return Kind(OTHER, "a compressed archive (tar)", "unpack it first and give its files")
    return _identify_text(path, head)


def binary_kind(path: Path, head: bytes) -> Kind | None:
    """The kind of a file that begins with these bytes, if they never begin a file to be read as text."""
    if head.startswith(b'{"elmokit": {'):
        return Kind(EMBEDDINGS, "a file of embeddings (JSON lines)", _DUMP_USE)
    marks = (b"\x89HDF\r\n\x1a\n", b"PAR1", b"PK\x03\x04", b"PK\x05\x06", *_SIGNATURES)
    return _identify_binary(path, head) if head.startswith(marks) else None


def _identify_binary(path: Path, head: bytes) -> Kind | None:
    if head.startswith(b"\x89HDF\r\n\x1a\n"):
        return _identify_hdf5(path)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _identify_zip(path)
    if head.startswith(b"PAR1") and _ends_with(path, b"PAR1"):
        return Kind(EMBEDDINGS, "a Parquet file, as embeddings are written", _DUMP_USE)
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        use = f"give the folder that holds it, {path.parent}"
        return Kind(MODEL, "a file of weights (safetensors)", use)
    if len(head) > 2 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return Kind(OTHER, "a Python pickle", "give a text file")
    for mark, words in _SIGNATURES.items():
        if head.startswith(mark):
            use = "convert it to UTF-8 first" if "UTF-16" in words else _EXPORT_USE
            return Kind(OTHER, words, use)
    if head[257:262] == b"ustar":
        return Kind(OTHER, "an archive (tar)", "unpack it first and give its files")
    if b"\0" in head:
        return Kind(OTHER, "a binary file", "give a text file")
    return None


def _ends_with(path: Path, mark: bytes) -> bool:
    with open(path, "rb") as file:
        file.seek(-min(len(mark), path.stat().st_size), os.SEEK_END)
        return file.read() == mark


def _identify_hdf5(path: Path) -> Kind:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            own = file.attrs.get("format") == "elmokit-dump"
            is_model = "RNN_0" in file or "char_embed" in file or (len(file) == 1 and "embedding" in file)
    except (OSError, RuntimeError, KeyError, ValueError):
        return Kind(OTHER, "a damaged HDF5 file", "make or fetch it again")
    if is_model and not own:
        return Kind(MODEL, "a model's file of weights (HDF5)", f"give the folder that holds it, {path.parent}")
    return Kind(EMBEDDINGS, "a file of embeddings (HDF5)", _DUMP_USE)


def _identify_zip(path: Path) -> Kind:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return Kind(OTHER, "a damaged zip", "make or fetch it again")
    last = {name.replace("\\", "/").rpartition("/")[2] for name in names}
    if {"meta.npy", "offsets.npy", "tokens.npy"} <= names:
        return Kind(EMBEDDINGS, "a file of embeddings (npz)", _DUMP_USE)
    if names and all(name.endswith(".npy") for name in names):
        use = "elmokit reads only what `elmokit embed` wrote as .npz"
        return Kind(OTHER, "a file of NumPy arrays (npz) that elmokit did not write", use)
    if "data.pkl" in last:
        return Kind(OTHER, "a PyTorch file (a checkpoint)", "of a run, resume it or give its model/ or best/")
    if last & {"encoder.pkl", "options.json"} and last & {"encoder.pkl", "model.hdf5"}:
        return Kind(MODEL, "a zipped model", "`elmokit embed` and other commands read it as --model")
    if "[Content_Types].xml" in names:
        return Kind(OTHER, "an Office file (Word, Excel or PowerPoint)", _EXPORT_USE)
    return Kind(OTHER, "a zip", "unpack it first and give its files")


def _identify_text(path: Path, head: bytes) -> Kind | None:
    if not head:
        return Kind(OTHER, "an empty file", "give a file that holds something")
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head)
    except UnicodeDecodeError:
        return None
    if text.startswith('{"elmokit": {'):
        return Kind(EMBEDDINGS, "a file of embeddings (JSON lines)", _DUMP_USE)
    if [line.strip() for line in text.split("\n", 3)[:3]] == ["<S>", "</S>", "<UNK>"]:
        use = "`elmokit pretrain` and `elmokit corpus check` read it as --vocab"
        return Kind(VOCABULARY, "a vocabulary", use)
    if path.suffix == ".json" or text.lstrip().startswith("{"):
        return _identify_json(path)
    if path.suffix in (".toml", ".jsonl"):
        return None
    return Kind(TEXT, "a text file", "`elmokit embed` turns text into vectors")


def _identify_json(path: Path) -> Kind | None:
    beside = set(os.listdir(path.parent))
    if path.name == "report.json" and "page.html" in beside:
        return Kind(REPORT, "the figures of a report", "open the page.html beside it")
    if path.name in ("run.json", "result.json") and "run.json" in beside:
        return Kind(REPORT, "a record of a run", f"give the run's model, {path.parent / 'model'}")
    if path.name == "comparison.json":
        return Kind(REPORT, "the figures of `elmokit task compare`", "give the model/ of one of its runs")
    if path.name in ("config.json", "options.json") or "options" in path.name:
        return Kind(MODEL, "the settings of a model (JSON)", f"give the folder that holds it, {path.parent}")
    return Kind(JSON, "a JSON file", "give a text file") if read_object(path) else None


def is_regular(path: str | Path) -> bool:
    """Whether a path is a plain file; reading from a pipe would take bytes away from its real reader."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
