"""`elmokit cache`: it lists what elmokit keeps, and removes that and nothing else."""

import json
import os
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from elmokit.analysis.neighbors.build import open_index
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.embedding.store import LOCK
from elmokit.formats.published import PUBLISHED
from elmokit.locks import FolderLock
from tests.conftest import build_tiny
from tests.running import Call, assert_help_has_examples, assert_one_line

SMALL = [file.name for file in PUBLISHED["small"].files]
GERMAN = PUBLISHED["many-langs/de"].files[0].name
KINDS = ("downloads", "layers", "neighbors", "engine")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one of each kind."""
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("ELMOKIT_CACHE", str(folder))
    for name, files in (("small", SMALL), ("many-langs/de", [GERMAN]), ("url/0123456789abcdef", ["options.json"])):
        (folder / name).mkdir(parents=True)
        for file in files:
            (folder / name / file).write_bytes(b"x" * 100)
        (folder / name / "sha256.json").write_text(json.dumps(dict.fromkeys(files, "0" * 64)))
    for suffix in (".partial", ".partial.origin"):
        (folder / "small" / f"{SMALL[1]}{suffix}").write_bytes(b"x" * 50)
    embedder = Embedder(build_tiny("softmax"))
    LayerCache(embedder).prepare([["the", "play"], ["a", "model", "."]])
    (tmp_path / "corpus.txt").write_text("the play was\nthe play .\n")
    index = open_index(embedder, tmp_path / "corpus.txt")
    (index.path / "approximate").mkdir()
    (index.path / "approximate" / "0123456789abcdef.faiss").write_bytes(b"x")
    (index.path / ".words.1.01234567.tmp").mkdir()
    (folder / "engine").mkdir()
    (folder / "engine" / "cell-0123456789abcdef.so").write_bytes(b"x" * 10)
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("mine")


def test_every_kind_is_listed_with_its_size(own: Path, run: Call) -> None:
    found = json.loads(run("cache", "--json").stdout)
    assert found["folder"] == str(own) and found["others"] == []
    kinds = [item["kind"] for item in found["items"]]
    assert kinds == ["downloads", "downloads", "downloads", "layers", "neighbors", "engine"]
    on_disk = sum(path.stat().st_size for path in own.rglob("*") if path.is_file())
    assert found["bytes"] == sum(item["bytes"] for item in found["items"]) == on_disk
    sizes = {item["name"]: item["bytes"] for item in found["items"]}
    assert sizes["many-langs/de"] == 100 + len((own / "many-langs/de/sha256.json").read_bytes())
    notes = [item.get("note") for item in found["items"] if item["kind"] in ("layers", "neighbors")]
    assert notes == ["2 sentences", "2 sentences"]


def test_the_listing_is_text(own: Path, run: Call) -> None:
    put(own, "thesis.txt")
    done = run("cache")
    assert done.returncode == 0
    for word in (str(own), *(f"{kind}: " for kind in KINDS), "many-langs/de", "corpora", "10 bytes"):
        assert word in done.stdout
    assert "not elmokit's, left alone: thesis.txt" in done.stdout


def test_clearing_removes_all_of_it(own: Path, run: Call) -> None:
    total = json.loads(run("cache", "--json").stdout)["bytes"]
    done = run("cache", "clear", "--yes", "--json")
    assert json.loads(done.stdout) == {"folder": str(own), "freed_bytes": total, "kept": []}
    assert names_in(own) == []
    assert run("cache", "clear").stderr == "freed 0 bytes\n"


@pytest.mark.parametrize("kind", [*KINDS, "neighbours"])
def test_one_kind_is_cleared(kind: str, own: Path, run: Call) -> None:
    assert run("cache", "clear", kind, "--yes").returncode == 0
    left = {item["kind"] for item in json.loads(run("cache", "--json").stdout)["items"]}
    assert left == set(KINDS) - {kind.replace("neighbours", "neighbors")}


def test_files_of_the_user_are_never_touched(own: Path, run: Call) -> None:
    """The cache may be put into any folder: what elmokit did not write there stays, whatever it is called."""
    indexes = "neighbours"
    mine = [
        "thesis.txt",
        "small/notes.txt",
        f"medium/{PUBLISHED['medium'].files[0].name}",
        "my-model/weights.hdf5",
        "my-model/sha256.json",
        "url/not-a-hash/options.json",
        "url/fedcba9876543210/options.json",
        "layers/notes.txt",
        "layers/fedcba9876543210/a.vectors",
        f"layers/{next((own / 'layers').iterdir()).name}/notes.txt",
        f"{indexes}/{next((own / indexes).iterdir()).name}/words/notes.txt",
        f"{indexes}/corpus.txt",
        "engine/cell.so",
        "engine/cell-0123456789abcdef.so.bak",
    ]
    put(own, *mine)
    (own / "my-model/sha256.json").write_text(json.dumps({"weights.hdf5": "0" * 64}))
    before = {name: (own / name).read_bytes() for name in mine}
    assert run("cache", "clear", "--yes").returncode == 0
    assert {name: (own / name).read_bytes() for name in mine} == before
    assert [name for name in names_in(own) if (own / name).is_file()] == sorted(mine)


def test_nothing_outside_the_cache_is_removed(own: Path, tmp_path: Path, run: Call) -> None:
    for kind in ("layers", "neighbours", "engine", "small"):
        (own / kind).rename(tmp_path / f"real-{kind}")
        (own / kind).symlink_to(tmp_path / f"real-{kind}")
    before = {name: names_in(tmp_path / name) for name in os.listdir(tmp_path) if name.startswith("real")}
    assert run("cache", "clear", "--yes").returncode == 0
    assert {name: names_in(tmp_path / name) for name in before} == before


def test_what_is_being_written_stays(own: Path, run: Call) -> None:
    layers = next((own / "layers").iterdir())
    before = names_in(layers)
    with FolderLock(layers, name=LOCK):
        done = run("cache", "clear", "--yes")
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{layers} is in use by process {os.getpid()}" in done.stderr and "left alone" in done.stderr
        assert json.loads(run("cache", "--json").stdout)["items"][0]["kind"] == "layers"
    assert names_in(layers) == before
    assert names_in(own) == ["layers", f"layers/{layers.name}", *(f"layers/{layers.name}/{name}" for name in before)]
    with FolderLock(own, name="unrelated"):
        assert run("cache", "clear", "layers", "--yes").returncode == 0


def test_layers_are_made_again_after_clearing(own: Path, run: Call) -> None:
    embedder = Embedder(build_tiny("softmax"))
    before = LayerCache(embedder).read(["the", "play"]).copy()
    assert run("cache", "clear", "layers", "--yes").returncode == 0
    store = LayerCache(embedder)
    assert store.prepare([["the", "play"]]) == 1
    assert np.allclose(store.read(["the", "play"]), before, atol=1e-2)


def test_layers_of_every_precision_are_listed_and_cleared(own: Path, run: Call) -> None:
    layers = next((own / "layers").iterdir())
    other = layers.with_name(layers.name.replace("float32", "bfloat16-avx512bf16"))
    copytree(layers, other)
    listed = json.loads(run("cache", "--json").stdout)["items"]
    assert [item["name"] for item in listed if item["kind"] == "layers"] == sorted([layers.name, other.name])
    assert run("cache", "clear", "layers", "--yes").returncode == 0
    assert not layers.exists() and not other.exists()


def test_clearing_asks_first(own: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    before = names_in(own)
    assert_one_line(run("cache", "clear"), "--yes", code=2)
    assert_one_line(run("cache", "clear", "everything", "--yes"), "'everything' is not one of downloads", code=2)
    answers: list[bool] = []
    monkeypatch.setattr("elmokit.cli.cache._confirm", lambda question: answers.append("Remove" in question))
    assert names_in(own) == before
    assert run("cache", "clear").returncode == 0 and answers == [True]
    assert names_in(own) == []


def test_a_cache_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Call) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "nowhere"))
    assert run("cache").stdout == f"{tmp_path / 'nowhere'}: 0 bytes\n"
    assert json.loads(run("cache", "--json").stdout)["items"] == []
    assert run("cache", "clear", "--yes").returncode == 0
    assert not (tmp_path / "nowhere").exists()


def test_help(run: Call) -> None:
    assert_help_has_examples(run, "cache")
    assert_help_has_examples(run, "cache", "clear")
