"""Embedding a whole file: what comes out, and that nothing can break it."""

import bz2
import gzip
import io
import json
import lzma
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

import elmokit
from elmokit.embedding import bulk, dump_thread, windows
from elmokit.embedding.bulk import EmbedOptions, EmbedSummary, embed_file
from elmokit.embedding.dumps import FORMATS, open_embeddings
from elmokit.embedding.embedder import Embedder, Output
from elmokit.embedding.journal import find_precision
from elmokit.embedding.records import Meta
from elmokit.embedding.store import VectorStore
from elmokit.embedding.store_writer import StoreWriter
from elmokit.errors import ConfigError, ElmokitWarning, FormatError, InputError, WeightsError
from elmokit.model.bilm import BiLM
from elmokit.model.engines.infer import PortableEngine
from elmokit.model.engines.plain import PlainEngine
from elmokit.native.library import find_library
from tests.precisions import rounding_precisions
from tests.tolerances import assert_close

ROOT = Path(__file__).parents[2]
LINES = ["The play was cancelled .", "", "and/or", "  They   play . ", "naïve 模型", "and/or", "\t", "the"]
Run = Callable[..., EmbedSummary]


@pytest.fixture
def embedder(bilm: BiLM) -> Embedder:
    return Embedder(bilm, threads=1, name="tiny")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path / "in.txt"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Where to write, alone in its folder."""
    (tmp_path / "out").mkdir()
    return tmp_path / "out/vectors.hdf5"


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "WINDOW_INPUTS", 2)
    monkeypatch.setattr(dump_thread, "COMMIT_SECONDS", 0.0)


def stop_after(embedder: Embedder, num_windows: int, error: BaseException, *, precision: str = "float32") -> Embedder:
    """The same embedder, failing when it is asked for one more window."""
    other = Embedder(embedder.bilm, threads=1, state=embedder.state, precision=precision, name=embedder.name)
    run = other.embed_windows

    def limited(*args: Any, **extra: Any) -> Any:
        for number, window in enumerate(run(*args, **extra)):
            if number == num_windows:
                raise error
            yield window

    other.embed_windows = limited  # type: ignore[method-assign]
    return other


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize(
    "options",
    [
        EmbedOptions(),
        EmbedOptions(layers="top", dtype="float16"),
        EmbedOptions(layers=1),
        EmbedOptions(layers=[0.2, 0.3, 0.5], input="tokens"),
        EmbedOptions(layers="all", pooling="max"),
        EmbedOptions(layers="average", pooling="mean", batch_size=2),
    ],
    ids=["all", "top", "one", "weights", "max", "mean"],
)
def test_vectors_are_the_embedders(
    source: Path, out: Path, embedder: Embedder, suffix: str, options: EmbedOptions
) -> None:
    out = out.with_suffix(suffix)
    if options.pooling != "none":
        with pytest.warns(ElmokitWarning, match="2 lines without tokens"):
            done = embed_file(source, out, embedder, options)
    else:
        done = embed_file(source, out, embedder, options)
    assert (done.num_lines, done.num_resumed, done.was_done) == (len(LINES), 0, False)
    assert os.listdir(out.parent) == [out.name]
    inputs = [line.strip() if options.input == "text" else line.split() for line in LINES]
    window = embedder.embed_window(
        inputs,
        Output(embedder.select(options.layers, options.pooling), np.dtype(options.dtype)),
        batch_size=options.batch_size,
    )
    with open_embeddings(out) as embeddings:
        assert len(embeddings) == len(LINES)
        for line, record, expected in zip(LINES, embeddings, window, strict=True):
            assert (record.text, record.tokens) == (line.strip(), expected.tokens)
            assert record.vectors.dtype == options.dtype
            assert np.array_equal(record.vectors, expected.vectors)
        assert embeddings[1].vectors.shape[-2:] == (
            (0, 12) if options.pooling == "none" else embeddings[0].vectors.shape[-2:]
        )
        assert embeddings.find("and/or") == [2, 5]
        assert embeddings.find("They   play .") == [3]
        meta = embeddings.meta
    assert (meta.model, meta.fingerprint, meta.state) == ("tiny", embedder.fingerprint, "reset")
    assert (meta.elmokit, meta.pooling, meta.dtype) == (elmokit.__version__, options.pooling, options.dtype)
    assert meta.layers == {"top": "top", 1: "1"}.get(
        options.layers if not isinstance(options.layers, list) else 0, meta.layers
    )


@pytest.mark.parametrize(
    ("name", "compress"),
    [("a.txt", bytes), ("a.txt.gz", gzip.compress), ("a.txt.xz", lzma.compress), ("a.txt.bz2", bz2.compress)],
    ids=["plain", "gz", "xz", "bz2"],
)
def test_compressed_input(tmp_path: Path, out: Path, embedder: Embedder, name: str, compress: Any) -> None:
    data = "\n".join(LINES).encode()  # and no end of the last line
    (tmp_path / name).write_bytes(compress(data))
    assert embed_file(tmp_path / name, out, embedder).num_lines == len(LINES)
    (tmp_path / "same.txt").write_bytes(data + b"\n")
    assert embed_file(tmp_path / "same.txt", out, embedder).was_done


def test_standard_input_and_output(embedder: Embedder, monkeypatch: pytest.MonkeyPatch, out: Path) -> None:
    class Standard:
        buffer = io.BytesIO("\n".join(LINES).encode())

    class Output:
        buffer = io.BytesIO()

    monkeypatch.setattr(sys, "stdin", Standard)
    monkeypatch.setattr(sys, "stdout", Output)
    assert embed_file("-", "-", embedder, EmbedOptions(layers="top")).num_lines == len(LINES)
    monkeypatch.undo()
    path = out.with_suffix(".jsonl")
    path.write_bytes(Output.buffer.getvalue())
    with open_embeddings(path) as embeddings:
        assert [record.text for record in embeddings] == [line.strip() for line in LINES]


def test_progress_is_reported(source: Path, out: Path, embedder: Embedder, small_windows: None) -> None:
    seen: list[bulk.EmbedProgress] = []
    options = EmbedOptions(input="tokens")
    embed_file(source, out, embedder, options, report=lambda progress: seen.append(replace(progress)))
    assert [(progress.num_lines, progress.num_written) for progress in seen] == [(2, 0), (4, 0), (6, 0), (8, 0)]
    assert seen[-1].num_tokens == sum(len(line.split()) for line in LINES)
    assert all(progress.share is not None and 0 < progress.share <= 1 for progress in seen)
    assert seen[-1].share == 1


def test_the_dump_of_a_pipe_is_written_at_the_end(
    source: Path, out: Path, embedder: Embedder, small_windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was made from is known only then."""
    out = out.with_suffix(".npz")
    embed_file(source, out, embedder)
    expected = out.read_bytes()
    out.unlink()
    monkeypatch.setattr(bulk, "REPORT_RECORDS", 3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
    seen: list[int] = []
    embed_file("-", out, embedder, report=lambda progress: seen.append(progress.num_written))
    assert seen == [0, 0, 0, 0, 3, 6, 8]
    assert out.read_bytes() == expected


def test_the_dump_of_a_file_that_grows_meanwhile(
    source: Path, out: Path, embedder: Embedder, small_windows: None
) -> None:
    run = embedder.embed_windows

    def growing(*args: Any, **extra: Any) -> Any:
        with source.open("a") as file:
            file.write("one more\n")
        return run(*args, **extra)

    embedder.embed_windows = growing  # type: ignore[method-assign]
    assert embed_file(source, out, embedder).num_lines == len(LINES) + 1
    with open_embeddings(out) as embeddings:
        assert [record.text for record in embeddings] == [*(line.strip() for line in LINES), "one more"]
    assert embed_file(source, out, embedder).was_done


def test_a_run_waits_for_its_dump(
    source: Path, out: Path, embedder: Embedder, small_windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump that is slower than the embedder holds it up, and is reported."""
    monkeypatch.setattr(dump_thread, "WAITING_BYTES", 0)
    monkeypatch.setattr(dump_thread, "REPORT_SECONDS", 0.01)
    add, go_on = StoreWriter.add, threading.Event()

    def slow(self: StoreWriter, text: str, *args: Any) -> None:
        assert text != "and/or" or go_on.wait(60)
        add(self, text, *args)

    monkeypatch.setattr(StoreWriter, "add", slow)
    seen: list[tuple[int, int]] = []

    def report(progress: bulk.EmbedProgress) -> None:
        seen.append((progress.num_lines, progress.num_written))
        if progress.num_written:
            go_on.set()

    embed_file(source, out, embedder, report=report)
    assert next(written for _, written in seen if written) == 2
    assert max(seen)[0] == len(LINES)


def test_windows_depend_on_their_lines_alone() -> None:
    texts = ["a" * (index * 7919 % 3000) for index in range(3000)]
    found = list(windows.cut_windows(texts))
    assert [line for window in found for line in window] == texts
    assert {len(window) for window in found[:-1]} != {windows.WINDOW_INPUTS}
    done = sum(map(len, found[:5]))
    assert list(windows.cut_windows(texts[done:])) == found[5:]
    assert all(len(window) % 48 == 0 for window in list(windows.cut_windows(texts, 48))[:-1])
    assert [len(window) for window in windows.cut_windows([""] * 1600, 700)] == [700, 700, 200]


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("state", ["reset", "carry", "warm"])
def test_a_run_that_failed_goes_on(source: Path, out: Path, whole_bilm: BiLM, state: Any, small_windows: None) -> None:
    embedder = Embedder(whole_bilm, threads=1, state=state)
    options = EmbedOptions(batch_size=2)
    embed_file(source, out, embedder, options)
    expected = read_hdf5(out)
    out.unlink()
    for number in (1, 2):
        with pytest.raises(RuntimeError, match="stop"):
            embed_file(source, out, stop_after(embedder, 1, RuntimeError("stop")), options)
        assert os.listdir(out.parent) == ["vectors.hdf5.journal"]
        assert len(VectorStore(out.parent / "vectors.hdf5.journal")) == 2 * number
    done = embed_file(source, out, embedder, options)
    assert (done.num_resumed, done.num_lines) == (4, len(LINES))
    assert os.listdir(out.parent) == [out.name]
    assert read_hdf5(out) == expected


def read_hdf5(path: Path) -> Any:
    with h5py.File(path) as file:
        values = {name: (item.shape, item[...].tobytes()) for name, item in file.items() if item.dtype.kind == "f"}
        texts = {name: item[...].tolist() for name, item in file.items() if item.dtype.kind != "f"}
        return values, texts, dict(file.attrs)


def test_carried_state_starts_at_zero_and_matters(source: Path, out: Path, bilm: BiLM) -> None:
    carry = Embedder(bilm, threads=1, state="carry")
    results = []
    for name in ("a.npz", "b.npz"):
        embed_file(source, out.with_name(name), carry, EmbedOptions(batch_size=2))
        results.append(out.with_name(name).read_bytes())
    assert results[0] == results[1]
    embed_file(source, out.with_name("c.npz"), Embedder(bilm, threads=1), EmbedOptions(batch_size=2))
    with open_embeddings(out.with_name("a.npz")) as a, open_embeddings(out.with_name("c.npz")) as c:
        assert_close(a[0].vectors, c[0].vectors)  # rows of other batches
        assert np.abs(a[4].vectors - c[4].vectors).max() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    "suffix", [pytest.param(".hdf5", marks=pytest.mark.engine), ".parquet", ".npz", ".jsonl"], ids=str
)
@pytest.mark.parametrize(("state", "num_moments"), [("reset", 5), ("carry", 3)])
def test_a_kill_at_any_moment_changes_nothing(
    tmp_path: Path, whole_bilm: BiLM, suffix: str, state: str, num_moments: int
) -> None:
    elmokit.save(whole_bilm, tmp_path / "model")
    (tmp_path / "in.txt").write_text("\n".join(LINES * 4), encoding="utf-8")
    (tmp_path / "out").mkdir()
    command = [
        sys.executable,
        "-m",
        "tests.embedding.killing",
        *(str(tmp_path / name) for name in ("model", "in.txt", "out")),
    ]
    done = subprocess.run(
        [*command, suffix, state, str(num_moments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["total"] == len(LINES) * 4
    assert len(found["results"]) == num_moments
    for result in found["results"]:
        assert result["whole"], f"a broken file under the final name: {result}"
        assert result["equal"], result
        assert result["left"] == [f"out{suffix}"]
        if result["committed"] is not None and not result["resumed"]["was_done"]:
            assert result["resumed"]["num_resumed"] == result["committed"]
            assert result["resumed"]["embedded"] == found["total"] - result["committed"]
    assert len({result["committed"] for result in found["results"]}) > 1


def test_a_finished_output_is_left_alone(source: Path, out: Path, embedder: Embedder) -> None:
    embed_file(source, out, embedder)
    before = out.stat().st_mtime_ns
    done = embed_file(source, out, stop_after(embedder, 0, AssertionError("computed")))
    assert (done.was_done, done.num_lines) == (True, len(LINES))
    assert out.stat().st_mtime_ns == before
    done = embed_file(source, out, embedder, EmbedOptions(overwrite=True))
    assert not done.was_done
    assert out.stat().st_mtime_ns != before


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (EmbedOptions(layers="top"), "layers 'all' instead of 'top'"),
        (EmbedOptions(pooling="mean"), "pooling 'none' instead of 'mean'"),
        (EmbedOptions(dtype="float16"), "dtype 'float32' instead of 'float16'"),
        (EmbedOptions(input="tokens"), "input 'text' instead of 'tokens'"),
        (EmbedOptions(batch_size=3), "batch_size None instead of 3"),
        (EmbedOptions(errors="replace"), "errors 'strict' instead of 'replace'"),
    ],
    ids=["layers", "pooling", "dtype", "input", "batch size", "errors"],
)
def test_outputs_and_journals_of_other_settings_are_refused(
    source: Path, out: Path, embedder: Embedder, options: EmbedOptions, match: str, small_windows: None
) -> None:
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(embedder, 1, RuntimeError("stop")))
    before = sorted(path.name for path in out.parent.rglob("*"))
    with pytest.raises(FormatError, match=rf"unfinished run with {match}: .*--no-resume \(resume=False\)\.$"):
        embed_file(source, out, embedder, options)
    assert sorted(path.name for path in out.parent.rglob("*")) == before
    assert embed_file(source, out, embedder).num_resumed == 2
    with pytest.raises(FormatError, match=rf"exists with {match}: .*--overwrite \(overwrite=True\)"):
        embed_file(source, out, embedder, options)


def test_outputs_and_journals_of_other_models_are_refused(
    source: Path, out: Path, embedder: Embedder, tiny: Callable[[str], BiLM], small_windows: None
) -> None:
    other = Embedder(tiny("characters"), threads=1)
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(embedder, 1, RuntimeError("stop")))
    with pytest.raises(FormatError, match=r"unfinished run with vectors of another model \(tiny\)"):
        embed_file(source, out, other)
    with pytest.raises(FormatError, match="state 'reset' instead of 'warm'"):
        embed_file(source, out, Embedder(embedder.bilm, threads=1, state="warm"))
    if find_library() is not None:
        with pytest.raises(FormatError, match="int8 False instead of True"):
            embed_file(source, out, Embedder(embedder.bilm, threads=1, int8=True))
    embed_file(source, out, embedder)
    with pytest.raises(FormatError, match=r"exists with vectors of another model \(tiny\)"):
        embed_file(source, out, other)
    renamed = Embedder(embedder.bilm, threads=1, name="the same under another name")
    assert embed_file(source, out, renamed).was_done


def test_auto_keeps_the_precision_of_a_run(
    source: Path, out: Path, bilm: BiLM, small_windows: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_precision(out) is None
    rounding = Embedder(bilm, threads=1, precision="int8")
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(rounding, 1, RuntimeError("stop"), precision="int8"))
    assert find_precision(out) == "int8"
    assert find_precision(out, resume=False) is None
    embed_file(source, out, rounding)
    assert find_precision(out) == "int8"
    assert find_precision(out, overwrite=True) is None
    with pytest.raises(FormatError, match=r"exists with precision int8 instead of float32: .*--overwrite"):
        embed_file(source, out, Embedder(bilm, threads=1))


def test_a_finished_output_in_bfloat16_is_not_taken_for_float32(source: Path, out: Path, bilm: BiLM) -> None:
    if "bfloat16" not in rounding_precisions():
        pytest.skip("this processor has no instructions for bfloat16")
    embed_file(source, out, Embedder(bilm, threads=1, precision="bfloat16"))
    assert find_precision(out) == "bfloat16"
    with pytest.raises(FormatError, match=r"exists with precision bfloat16 instead of float32: .*--overwrite"):
        embed_file(source, out, Embedder(bilm, threads=1))


def test_a_run_is_finished_by_the_engine_that_began_it(
    source: Path, out: Path, embedder: Embedder, small_windows: None
) -> None:
    """Another one would mix vectors that differ in their last bits; a whole output is left as it is."""
    first = stop_after(embedder, 1, RuntimeError("stop"))
    first.runner.engine = PortableEngine()
    with pytest.raises(RuntimeError):
        embed_file(source, out, first)
    embedder.runner.engine = PlainEngine()
    with pytest.raises(FormatError, match=r"unfinished run with engine 'portable' instead of 'plain' .*--no-resume"):
        embed_file(source, out, embedder)
    embedder.runner.engine = PortableEngine()
    assert embed_file(source, out, embedder).num_resumed == 2
    embedder.runner.engine = PlainEngine()
    assert embed_file(source, out, embedder).was_done


@pytest.mark.parametrize("text", ["Another line\n", "The play was cancelled .\n", ""])
def test_outputs_and_journals_of_other_inputs_are_refused(
    source: Path, out: Path, embedder: Embedder, text: str, small_windows: None
) -> None:
    other = source.with_name("other.txt")
    other.write_text(text, encoding="utf-8")
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(embedder, 1, RuntimeError("stop")))
    with pytest.raises(FormatError, match=r"another input than .*other\.txt: give the same input"):
        embed_file(other, out, embedder)
    assert embed_file(source, out, embedder).num_resumed == 2
    with pytest.raises(FormatError, match=r"made from another input than .*other\.txt"):
        embed_file(other, out, embedder)


def test_input_that_grew_can_be_finished(source: Path, out: Path, embedder: Embedder, small_windows: None) -> None:
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(embedder, 2, RuntimeError("stop")))
    with source.open("a", encoding="utf-8") as file:
        file.write("one more\n")
    assert embed_file(source, out, embedder).num_resumed == 4
    with open_embeddings(out) as embeddings:
        assert embeddings[-1].text == "one more"


def test_a_kill_while_the_journal_is_removed(source: Path, out: Path, embedder: Embedder) -> None:
    embed_file(source, out, embedder)
    journal = out.with_name("vectors.hdf5.journal")
    for name in ((), ("lock",)):
        journal.mkdir()
        for file in name:
            (journal / file).touch()
        assert embed_file(source, out, embedder).was_done
        assert not journal.exists()


def test_starting_over(source: Path, out: Path, embedder: Embedder, small_windows: None) -> None:
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(embedder, 2, RuntimeError("stop")))
    done = embed_file(source, out, embedder, EmbedOptions(resume=False, layers="top"))
    assert (done.num_resumed, done.was_done) == (0, False)
    assert os.listdir(out.parent) == [out.name]


def test_an_interrupted_overwrite_goes_on(source: Path, out: Path, embedder: Embedder, small_windows: None) -> None:
    embed_file(source, out, embedder, EmbedOptions(layers="top"))
    before = out.read_bytes()
    options = EmbedOptions(overwrite=True)
    with pytest.raises(RuntimeError):
        embed_file(source, out, stop_after(embedder, 2, RuntimeError("stop")), options)
    assert out.read_bytes() == before
    assert embed_file(source, out, embedder, options).num_resumed == 4
    with open_embeddings(out) as embeddings:
        assert embeddings.meta.layers == "all"


def test_what_is_no_dump_or_journal_is_left_alone(source: Path, out: Path, embedder: Embedder) -> None:
    out.write_text("precious")
    with pytest.raises(FormatError, match=r"exists and is not a complete elmokit dump.*--overwrite"):
        embed_file(source, out, embedder)
    out.unlink()
    journal = out.with_name("vectors.hdf5.journal")
    journal.mkdir()
    (journal / "precious").touch()
    for resume in (True, False):
        with pytest.raises(FormatError, match="already holds files"):
            embed_file(source, out, embedder, EmbedOptions(resume=resume))
    assert os.listdir(journal) == ["precious"]


def test_a_run_that_fails_at_once_leaves_no_journal(tmp_path: Path, out: Path, embedder: Embedder) -> None:
    (tmp_path / "latin.txt").write_bytes(b"na\xefve\n")
    for _ in range(2):
        with pytest.raises(InputError, match="is not UTF-8"):
            embed_file(tmp_path / "latin.txt", out, embedder)
        assert os.listdir(out.parent) == []


def test_two_runs_at_once(source: Path, out: Path, embedder: Embedder) -> None:
    with StoreWriter.create(out.with_name("vectors.hdf5.journal"), Meta(width=3)):
        for options in (EmbedOptions(), EmbedOptions(resume=False)):
            with pytest.raises(FormatError, match=f"is being written by process {os.getpid()}, "):
                embed_file(source, out, embedder, options)


@pytest.mark.parametrize("suffix", [".hdf5", ".parquet", ".npz", ".jsonl"])
def test_a_full_disk_at_the_end(
    source: Path, out: Path, embedder: Embedder, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = out.with_suffix(suffix)
    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left on device.*vectors"):
        patch.setattr(bulk, "sync_file", _full_disk)
        embed_file(source, out, embedder)
    assert not out.exists()
    assert embed_file(source, out, embedder).num_resumed == len(LINES)
    assert os.listdir(out.parent) == [out.name]


@pytest.mark.parametrize("num_good", [0, 1, 5, 12, 18])
def test_a_full_disk_in_the_middle(
    source: Path, out: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch, small_windows: None, num_good: int
) -> None:
    fsync, left = os.fsync, [num_good]

    def fill_up(descriptor: int) -> None:
        left[0] -= 1
        fsync(descriptor) if left[0] >= 0 else _full_disk()

    with monkeypatch.context() as patch, pytest.raises(OSError, match=r"No space left on device.*vectors\.hdf5"):
        patch.setattr(os, "fsync", fill_up)
        embed_file(source, out, embedder)
    assert not out.exists()
    journal = out.parent / "vectors.hdf5.journal"
    num_committed = len(VectorStore(journal)) if journal.exists() else 0
    assert num_committed >= (num_good - 2) // 4  # a window of two lines is four or five files
    assert embed_file(source, out, embedder).num_resumed == num_committed
    assert os.listdir(out.parent) == [out.name]


def _full_disk(*args: object) -> None:
    raise OSError(28, "No space left on device")


def test_unusable_paths(source: Path, out: Path, embedder: Embedder) -> None:
    with pytest.raises(ConfigError, match=r"'\.csv'.*\.hdf5, \.h5, \.parquet, \.npz, \.jsonl"):
        embed_file(source, out.with_suffix(".csv"), embedder)
    with pytest.raises(ConfigError, match="does not exist: create it"):
        embed_file(source, out.parent / "no/such.hdf5", embedder)
    (out.parent / "folder.npz").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        embed_file(source, out.parent / "folder.npz", embedder)
    with pytest.raises(OSError, match="elmokit"):
        embed_file(source, "/proc/elmokit.hdf5", embedder)
    with pytest.raises(InputError, match="No such file"):
        embed_file(source.with_name("missing.txt"), out, embedder)
    with pytest.raises(InputError, match="cannot be read"):
        embed_file(out.parent, out, embedder)
    (source.parent / "no.gz").write_bytes(b"plain text")
    with pytest.raises(InputError, match=r"not a \.gz file"):
        embed_file(source.parent / "no.gz", out, embedder)


def test_settings_are_checked_before_anything_is_written(source: Path, out: Path, embedder: Embedder) -> None:
    for options in (
        EmbedOptions(layers=3),
        EmbedOptions(layers="upper"),
        EmbedOptions(layers=[1.0]),
        EmbedOptions(pooling="sum"),
        EmbedOptions(dtype="float64"),
        EmbedOptions(batch_size=0),
        EmbedOptions(input="words"),  # type: ignore[arg-type]
        EmbedOptions(errors="ignore"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ConfigError):
            embed_file(source, out, embedder, options)
    assert os.listdir(out.parent) == []


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_empty_file(tmp_path: Path, out: Path, embedder: Embedder, suffix: str) -> None:
    out = out.with_suffix(suffix)
    (tmp_path / "empty.txt").touch()
    assert embed_file(tmp_path / "empty.txt", out, embedder).num_lines == 0
    assert embed_file(tmp_path / "empty.txt", out, embedder).was_done
    with open_embeddings(out) as embeddings:
        assert (len(embeddings), embeddings.meta.width, embeddings.meta.num_layers) == (0, 12, 3)


def test_bytes_that_are_not_utf8(tmp_path: Path, out: Path, embedder: Embedder, small_windows: None) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"fine\nna\xc3\xafve\nb\xe9 d\nlast\n")
    with pytest.raises(InputError, match=r"line 3 of .*bad\.txt is not UTF-8 .*at byte 2.*--errors replace"):
        embed_file(path, out, embedder)
    path.write_bytes(b"fine\nna\xc3\xafve\nb\xe9\xed\xa0\x80 d\nlast\n")
    embed_file(path, out, embedder, EmbedOptions(errors="replace", resume=False))
    with open_embeddings(out) as embeddings:
        assert [record.text for record in embeddings] == ["fine", "naïve", "b\ufffd\ufffd\ufffd\ufffd d", "last"]


def test_only_line_feeds_end_lines(tmp_path: Path, out: Path, embedder: Embedder) -> None:
    (tmp_path / "odd.txt").write_bytes("a\r\nb\u2028c\x0bd\x85e\rf\n\n".encode())
    embed_file(tmp_path / "odd.txt", out, embedder)
    with open_embeddings(out) as embeddings:
        assert [record.text for record in embeddings] == ["a", "b\u2028c\x0bd\x85e\rf", ""]
        assert embeddings[1].tokens == ("b", "c", "d", "e", "f")


@pytest.mark.slow
def test_a_line_of_50000_tokens(tmp_path: Path, out: Path, embedder: Embedder) -> None:
    (tmp_path / "long.txt").write_text(f"a b\n{'word ' * 50_000}\nc\n")
    assert embed_file(tmp_path / "long.txt", out, embedder, EmbedOptions(layers="top")).num_tokens == 50_003
    with open_embeddings(out) as embeddings:
        assert embeddings[1].vectors.shape == (50_000, 12)
        assert len(embeddings.tokens(1)) == 50_000
        assert embeddings[2].text == "c"


def test_an_output_behind_a_link(source: Path, out: Path, embedder: Embedder) -> None:
    link = source.with_name("link.hdf5")
    link.symlink_to(out)
    embed_file(source, link, embedder)
    assert link.is_symlink()
    assert out.is_file()
    assert embed_file(source, link, embedder).was_done


def test_ctrl_c_keeps_what_is_committed(source: Path, out: Path, embedder: Embedder, small_windows: None) -> None:
    with pytest.raises(KeyboardInterrupt):
        embed_file(source, out, stop_after(embedder, 2, KeyboardInterrupt()))
    assert embed_file(source, out, embedder).num_resumed == 4
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_line_whose_vectors_are_not_finite_is_named(
    bilm: BiLM, source: Path, out: Path, suffix: str, small_windows: None
) -> None:
    with torch.no_grad():
        bilm.encoder.char_table[ord("/")] = float("nan")
    output = out.with_suffix(suffix)
    with pytest.raises(WeightsError, match=r"^the vectors of line 3 hold NaN"):
        embed_file(source, output, Embedder(bilm, threads=1))
    assert not output.exists()


def test_lines_too_large_for_float16_are_named(bilm: BiLM, source: Path, out: Path) -> None:
    with torch.no_grad():
        bilm.encoder.projection.bias.fill_(1e5)
    with pytest.raises(ConfigError, match=r"^the vectors of line 1 reach 1\d+, but float16 .*ask for dtype float32"):
        embed_file(source, out, Embedder(bilm, threads=1), EmbedOptions(dtype="float16"))
    assert not out.exists()


def test_no_json_line_is_cut_short_by_vectors_that_are_not_finite(
    bilm: BiLM, source: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with torch.no_grad():
        bilm.encoder.char_table[ord("/")] = float("nan")
    with pytest.raises(WeightsError, match="line 3"):
        embed_file(source, "-", Embedder(bilm, threads=1))
    for line in capfdbinary.readouterr().out.splitlines(keepends=True):
        assert line.endswith(b"\n") and b"NaN" not in line and json.loads(line)


def test_numpy_numbers_and_types_are_options_too(source: Path, out: Path, embedder: Embedder) -> None:
    options = EmbedOptions(layers=np.int64(1), batch_size=np.int64(2), dtype=np.float16)  # type: ignore[arg-type]
    embed_file(source, out, embedder, options)
    with open_embeddings(out) as embeddings:
        assert (embeddings.meta.layers, embeddings.meta.dtype) == ("1", "float16")
    plain = EmbedOptions(layers=1, batch_size=2, dtype="float16")
    assert embed_file(source, out, embedder, plain).was_done


def test_standard_output_without_bytes_is_named(
    source: Path, embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    with pytest.raises(ConfigError, match="takes no bytes here"):
        embed_file(source, "-", embedder)
