"""A folder with one of everything that a user of the command line may have lying around.

Wrong commands run in a copy of it. Nothing in it may change.
"""

import gzip
import hashlib
import json
import os
import shutil
from pathlib import Path

import h5py
import numpy as np

from elmokit.analysis.neighbors.build import open_index
from elmokit.analysis.page import write_report
from elmokit.analysis.report import Report, Table
from elmokit.corpus.shards import write_shards
from elmokit.embedding.bulk import EmbedOptions, embed_file
from elmokit.embedding.embedder import Embedder
from elmokit.filesystem import LOCK
from elmokit.formats import load, save
from elmokit.tasks.registry import TASKS
from elmokit.tasks.runner import TaskFiles, train_task
from elmokit.training.config import PretrainConfig
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles
from tests.conftest import build_tiny
from tests.tasks.conftest import settings, write_entities
from tests.training.runs import BASE, merge

PROSE = "The play was naïve. They play well.\nNobody saw the play, or so they say.\n\nIt was late.\n"
TOKENS = "The play was naïve .\nThey play well .\nthe play\n"
CONFIG = merge(BASE, {"loop": {"max_steps": 2}, "corpus": {"input": "text"}})


def build_workspace(folder: Path) -> None:
    """Fill a folder: texts, models of every format, a run, a task model, dumps, shards, a report."""
    folder.mkdir(parents=True)
    _write_texts(folder)
    _write_models(folder)
    _write_results(folder)
    _write_tasks(folder)


def _write_texts(folder: Path) -> None:
    files = {
        "prose.txt": PROSE.encode(),
        "tokens.txt": TOKENS.encode(),
        "blank.txt": b"\n\n   \n",
        "empty.txt": b"",
        "latin1.txt": "The play was naïve.\n".encode("latin-1"),
        "noise.bin": bytes(range(256)) * 8,
        "cut.txt.gz": gzip.compress(PROSE.encode() * 50)[:-20],
        "plain.txt.gz": PROSE.encode(),
        "notes.txt": b"my notes\n",
        "notes.npz": b"my notes\n",
        "notes.jsonl": b'{"my": "notes"}\n',
        "broken.toml": b"[loop\nmax_steps = 2\n",
        "unknown.toml": b"batch_sise = 3\n[model]\n",
        "list.json": b"[1, 2]\n",
        "config.json": json.dumps(CONFIG).encode(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "link.txt").symlink_to("prose.txt")
    os.link(folder / "prose.txt", folder / "hard.txt")
    (folder / "a folder").mkdir()
    (folder / "full").mkdir()
    (folder / "full" / "letter.txt").write_text("dear\n")
    (folder / "text").mkdir()
    (folder / "text" / "one.txt").write_text(PROSE, encoding="utf-8")


def _write_models(folder: Path) -> None:
    bilm = build_tiny("softmax")
    save(bilm, folder / "model")
    save(bilm, folder / "bilm", format="bilm")
    save(bilm, folder / "model.zip", format="nlpl")
    save(build_tiny("characters"), folder / "blind")  # without a softmax
    save(build_tiny("tokens"), folder / "words")
    shutil.copytree(folder / "model", folder / "cut")
    weights = folder / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    shutil.copytree(folder / "model", folder / "confused")
    (folder / "confused" / "config.json").write_text("{}")
    shutil.copytree(folder / "model", folder / "commented")
    (folder / "commented" / "README.md").write_text("mine\n")


def _write_results(folder: Path) -> None:
    embedder = Embedder(load(folder / "model"), threads=1)
    for suffix in (".hdf5", ".npz", ".jsonl", ".parquet"):
        options = EmbedOptions(layers="top", input="text")
        embed_file(folder / "prose.txt", folder / f"vectors{suffix}", embedder, options)
    with h5py.File(folder / "peer.hdf5", "w") as file:
        file["0"] = np.zeros((3, 2, 4), np.float32)
        file["sentence_to_index"] = np.array([json.dumps({"a b": "0"})], dtype=h5py.string_dtype())
    write_shards([folder / "prose.txt"], folder / "shards", num_shards=2, input="text", processes=1)
    shutil.copy(folder / "model" / "vocab.txt", folder / "vocab.txt")
    (folder / "unordered.txt").write_text("the\nplay\n<S>\n")
    write_report(Report("A title", (Table("Caption", ("a", "b"), (("x", 1),)),), {"x": 1}), folder / "report")
    open_index(embedder, folder / "tokens.txt", folder / "index", input="text")
    files = RunFiles([str(folder / "prose.txt")], [], folder / "run", threads=1)
    pretrain(PretrainConfig.model_validate(CONFIG), files)


def _write_tasks(folder: Path) -> None:
    for name, seed in (("train.conll", 1), ("dev.conll", 2), ("test.conll", 3)):
        write_entities(folder / name, 6, seed)
    (folder / "two.conll").write_text("Ada\tX\nslept\tO\n")
    (folder / "untagged.conll").write_text("Ada X X O\nslept X X O\n")
    files = TaskFiles(
        [str(folder / "train.conll")], [str(folder / "dev.conll")], folder / "tagger", bilm=None, threads=1
    )
    config = settings(num_epochs=1, elmo={"place": "none"})
    train_task(TASKS["ner"], config, files)
    for name in ("compared", "unfinished"):  # as `elmokit task compare` leaves its folder
        for run in ("baseline-1", "elmo-1"):
            shutil.copytree(folder / "tagger", folder / name / run)
    (folder / "unfinished" / "elmo-1" / "result.json").unlink()
    (folder / "compared" / "comparison.json").write_text('{"paper": {}, "setting": {}}\n')


def snapshot(folder: Path) -> dict[str, str]:
    """Every file and folder below a folder, with what would show a change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_dir():
            found[name] = "folder"
        elif path.name != LOCK:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
