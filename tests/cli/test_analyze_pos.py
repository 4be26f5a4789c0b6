"""`elmokit analyze pos` as a user meets it."""

import json
import random
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import elmokit
from elmokit.analysis.embed import layers_of
from elmokit.analysis.probes.pos import pos_task
from elmokit.embedding.embedder import Embedder
from elmokit.embedding.layer_cache import LayerCache
from elmokit.model.bilm import BiLM
from tests.analysis.test_layer_weights import write_model
from tests.analysis.test_pos import row, write
from tests.running import Call, assert_help_has_examples, assert_one_line

WORDS = {
    "the": ("DET", "DT"),
    "play": ("NOUN", "NN"),
    "was": ("AUX", "VBD"),
    ".": ("PUNCT", "."),
    "``": ("PUNCT", "``"),
}


def write_treebank(folder: Path) -> Path:
    draw = random.Random(1)
    folder.mkdir()
    for name, size in (("train", 20), ("dev", 8), ("test", 6)):
        sentences = [
            [row(str(n + 1), word, *WORDS[word]) for n, word in enumerate(draw.choices(list(WORDS), k=4))]
            for _ in range(size)
        ]
        write(folder / f"tiny-{name}.conllu", sentences)
    return folder


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    elmokit.save(bilm, tmp_path / "model")
    write_treebank(tmp_path / "bank")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ELMOKIT_DATA", raising=False)
    return tmp_path


@pytest.fixture
def pos(run: Call) -> Call:
    return lambda *words: run("analyze", "pos", "--model", "model", "--threads", "1", *words)


def test_help(run: Call) -> None:
    assert_help_has_examples(run, "analyze", "pos")


@pytest.mark.slow
def test_both_tags_beside_the_paper(pos: Call, folder: Path, bilm: BiLM) -> None:
    done = pos("--data", "bank", "--tags", "both", "--seeds", "0,5", "--output", "out")
    assert done.returncode == 0, done.stderr
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    rows = {line[0]: line[1:] for line in lines}
    assert list(rows) == ["layer 0", "layer 1", "layer 2", "mean", "concatenated"] + [
        f"the paper's layer {layer}, WSJ" for layer in (1, 2)
    ]
    assert rows["the paper's layer 1, WSJ"] == ["97.30", "", "", "", "", ""]
    assert all(cell for row in list(rows.values())[:5] for cell in row)
    found = json.loads((folder / "out/report.json").read_text())
    assert found["tokens"] == {"train": 80, "dev": 32, "test": 24}
    assert found["seeds"] == [0, 5]
    for tags in ("xpos", "upos"):
        task = pos_task(tags)
        expected = task.probe(layers_of(Embedder(bilm, threads=1)), task.read_sets(folder / "bank"), seeds=[0, 5])
        assert found["tags"][tags]["chosen"] == expected.chosen
        for name, candidate in expected.candidates.items():
            assert found["tags"][tags]["candidates"][name]["test"] == pytest.approx(100 * candidate.test_mean, abs=5)
    assert {path.name for path in (folder / "out").iterdir()} == {
        "pos.png",
        "pos.svg",
        "table-1.csv",
        "report.json",
        "page.html",
    }


def test_one_seed_has_no_deviation_and_penn_tags_are_xpos(pos: Call) -> None:
    done = pos("--data", "bank", "--tags", "upos", "--seeds", "3")
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert [line[0] for line in lines] == ["layer 0", "layer 1", "layer 2", "mean", "concatenated"]
    assert all(line[1] and not line[2] and line[3] for line in lines)


def test_layers_are_computed_once(pos: Call, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(import_module("elmokit.cli.analyze.probes"), "QUICK_SENTENCES", 3)
    first = pos("--data", "bank", "--seeds", "1", "--json")

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("what was kept is embedded again")

    monkeypatch.setattr(Embedder, "embed_stream", refuse)
    again = pos("--data", "bank", "--seeds", "1", "--json")
    assert first.stdout == again.stdout
    assert json.loads(pos("--data", "bank", "--seeds", "1", "--json", "--quick").stdout)["tokens"] == {
        "train": 12,
        "dev": 12,
        "test": 12,
    }
    store = LayerCache(Embedder.from_pretrained(folder / "model", threads=1))
    tokens = [line.split("\t")[1] for line in (folder / "bank/tiny-train.conllu").read_text().split("\n")[:4]]
    assert store.read([token.replace("``", '"') for token in tokens]).shape[1] == 4


def test_data_from_the_environment(pos: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_one_line(pos(), "--data", "ELMOKIT_DATA", code=2)
    (folder / "data/pos").mkdir(parents=True)
    (folder / "bank").rename(folder / "data/pos/ud_ewt")
    monkeypatch.setenv("ELMOKIT_DATA", str(folder / "data"))
    assert json.loads(pos("--seeds", "0", "--json").stdout)["data"] == "ud_ewt"


def test_printing_needs_no_matplotlib(pos: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = pos("--data", "bank", "--seeds", "0")
    assert (done.returncode, done.stderr) == (0, "")
    done = pos("--data", "bank", "--seeds", "0", "--output", "out")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert 'pictures need matplotlib, which is not installed: run pip install "elmokit[analysis]".' in done.stderr
    assert not (folder / "out").exists()


def _lose_test(folder: Path) -> None:
    (folder / "bank/tiny-test.conllu").unlink()


def _untag(folder: Path) -> None:
    write(folder / "bank/tiny-dev.conllu", [[row("1", "a", "NOUN", "_")]])


def _empty(folder: Path) -> None:
    (folder / "bank/tiny-dev.conllu").write_text("")


@pytest.mark.parametrize(
    ("words", "change", "code", "parts"),
    [
        (["--data", "nowhere"], None, 2, ["nowhere is not a folder"]),
        (["--data", "bank", "--tags", "pos"], None, 2, ["'xpos'", "'both'"]),
        (["--data", "bank", "--seeds", "x"], None, 2, ["'x' is not a list of numbers"]),
        (["--data", "bank"], _lose_test, 1, ["must have one file *test.conllu", "has none"]),
        (["--data", "bank"], _untag, 1, ["tiny-dev.conllu has words without XPOS: choose the other tags"]),
        (["--data", "bank"], _empty, 1, ["no sentence"]),
        (["--data", "bank", "--model", "gone"], None, 1, ["gone"]),
        (["--data", "bank", "--model", "task"], None, 1, ["task"]),
    ],
)
def test_bad_input(
    words: list[str], change: Callable[[Path], None] | None, code: int, parts: list[str], pos: Call, folder: Path
) -> None:
    write_model(folder / "task", [[0.0, 1.0]], [1.0])
    if change is not None:
        change(folder)
    assert_one_line(pos(*words), *parts, code=code)
