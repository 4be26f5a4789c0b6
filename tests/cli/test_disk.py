"""A full disk names the destination, or the cache and ELMOKIT_CACHE; files that are written have the umask's mode."""

import os
import stat
from errno import EACCES, ENOSPC
from pathlib import Path

import pytest

from elmokit.analysis.page import write_report
from elmokit.analysis.report import Report
from elmokit.cli.disk import describe_disk_error
from elmokit.formats import save
from elmokit.tasks.pipeline import BilmUse, TaskPipeline
from tests.conftest import build_tiny
from tests.running import Call, assert_one_line
from tests.small_disk import small_disk
from tests.training.runs import write_sentences

NER = "Ada\tB-PER\nsaw\tO\nParis\tB-LOC\n.\tO\n\nBob\tB-PER\nleft\tO\n.\tO\n"
TASK = ["task", "train", "ner", "--train", "ner.conll", "--dev", "ner.conll", "--output", "run"]
DUMPS = (".npz", ".hdf5", ".jsonl", ".parquet")
CLEAR = ("is full (File too large)", "free some space", "`elmokit cache clear`", "ELMOKIT_CACHE to another folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, a text and a task's file; the cache is beside them."""
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "own-cache"))
    save(build_tiny("softmax"), tmp_path / "m")
    write_sentences(tmp_path / "in.txt", 400)
    (tmp_path / "ner.conll").write_text(NER, encoding="utf-8")
    (tmp_path / "many.conll").write_text("".join(NER.replace("Ada", f"Ada{n}") for n in range(200)), encoding="utf-8")
    return tmp_path


def temporaries(folder: Path) -> list[str]:
    """What a failed write must not leave behind: files under a name that is not final."""
    return [str(path) for path in folder.rglob("*") if path.name.startswith(".") or ".tmp" in path.name]


@pytest.mark.parametrize(
    ("words", "place", "limit"),
    [
        (["embed", "in.txt", "v.npz", "--model", "m"], "v.npz", 20_000),
        (["embed", "in.txt", "v.hdf5", "--model", "m"], "v.hdf5", 20_000),
        (["convert", "m", "copy"], "copy", 2000),
        (["convert", "m", "copy", "--to", "bilm"], "copy", 2000),
        (["convert", "m", "copy.zip"], "copy.zip", 2000),
        (["corpus", "vocab", "in.txt", "--output", "v.txt"], "v.txt", 40),
        (["corpus", "shard", "in.txt", "--output", "shards", "--shards", "1"], "shards", 100),
        (["pretrain", "tiny", "--train", "in.txt", "--output", "run", "--set", "loss.kind=full"], "run", 3000),
        (["pretrain", "tiny", "--train", "in.txt", "--output", "run", "--set", "loss.kind=full"], "run", 40),
        ([*TASK, "--set", "elmo.place=none", "--set", "num_epochs=1", "--set", "words.width=4"], "run", 3000),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_a_full_disk_names_the_destination(words: list[str], place: str, limit: int, folder: Path, run: Call) -> None:
    with small_disk(limit):
        done = run(*words)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1 and "File too large" in done.stderr, done.stderr
    named = done.stderr.removeprefix("elmokit: ").removeprefix("checkpoint ").split()[0].rstrip(":")
    assert Path(named).absolute().relative_to(folder).parts[0].startswith(place), done.stderr
    assert ".tmp" not in done.stderr and "a file" not in done.stderr
    assert [name for name in temporaries(folder) if ".journal" not in name] == []


@pytest.mark.parametrize(
    "words",
    [
        ["analyse", "neighbours", "wa wb", "--word", "wa", "--corpus", "in.txt", "--model", "m"],
        ["task", "train", "ner", "--train", "many.conll", "--dev", "ner.conll", "--output", "run", "--model", "m"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_full_cache_names_the_cache(words: list[str], folder: Path, run: Call) -> None:
    with small_disk(20_000):
        done = run(*words)
    assert_one_line(done, f"the cache {folder / 'own-cache'}", *CLEAR)
    assert ".tmp" not in done.stderr


def test_a_full_disk_of_temporary_files_is_named(
    folder: Path, run: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("convert", "m", "m.zip").returncode == 0
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    with small_disk(500):
        assert_one_line(run("info", "m.zip"), f"{tmp_path / 'scratch'}, for temporary files, is full", "TMPDIR")
    assert run("info", "m.zip").returncode == 0


def test_what_the_system_says_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    full = os.strerror(ENOSPC)
    assert describe_disk_error(OSError(ENOSPC, full, "out.npz")) == (
        "out.npz: No space left on device; free some space, or give another path."
    )
    found = describe_disk_error(OSError(ENOSPC, full, str(tmp_path / "cache/layers/x")))
    assert found.startswith(f"the cache {tmp_path / 'cache'} is full (No space left on device): ")
    found = describe_disk_error(OSError(EACCES, os.strerror(EACCES), str(tmp_path / "cache/layers")))
    assert "cache/layers: Permission denied" in found and "ELMOKIT_CACHE" in found and "full" not in found
    assert "give another path" in describe_disk_error(OSError(EACCES, os.strerror(EACCES), "out.npz"))
    assert describe_disk_error(OSError(ENOSPC, full)).startswith("a file or device cannot be used (No space left")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_files_have_the_mode_of_the_umask(umask: int, mode: int, folder: Path, run: Call) -> None:
    given = set(folder.rglob("*"))
    before = os.umask(umask)
    try:
        for words in (
            ["convert", "m", "copy"],
            ["convert", "m", "bilm", "--to", "bilm"],
            ["convert", "m", "copy.zip"],
            ["corpus", "vocab", "in.txt", "--output", "v.txt"],
            ["corpus", "shard", "in.txt", "--output", "shards", "--shards", "2"],
            *(["embed", "ner.conll", f"v{suffix}", "--model", "m"] for suffix in DUMPS),
        ):
            done = run(*words)
            assert done.returncode == 0, done.stderr
        _trained(folder).save(folder / "task-model")
        write_report(Report("a report", (), {"a": 1}), folder / "report")
    finally:
        os.umask(before)
    written = [path for path in folder.rglob("*") if path.is_file() and path not in given]
    assert len(written) > 18
    modes = {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in written}
    assert {name: found for name, found in modes.items() if found != mode} == {}


def _trained(folder: Path) -> TaskPipeline:
    import torch

    from elmokit.formats.parts import fingerprint
    from elmokit.tasks.registry import TASKS
    from elmokit.tasks.words import WordTable
    from tests.tasks.conftest import settings

    bilm = build_tiny("softmax")
    return TaskPipeline(
        TASKS["ner"],
        settings(elmo={"tuned": 0.1}),
        {"tags": ["O", "U-PER"]},
        WordTable(("so",)),
        torch.zeros(2, 8),
        bilm=bilm,
        use=BilmUse(str(folder / "m"), fingerprint(bilm)),
        threads=1,
    )
