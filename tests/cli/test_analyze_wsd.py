"""`elmokit analyze wsd` as a user meets it, on a small SemCor of two words."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import elmokit
from elmokit.embedding.embedder import Embedder
from elmokit.model.bilm import BiLM
from tests.analysis.sense_files import GOLD, write_index, write_semcor, write_set
from tests.analysis.test_layer_weights import write_model
from tests.running import Call, assert_help_has_examples, assert_one_line

SENSES = {"bank": ("1:17:01::", "1:14:00::"), "kind": ("3:00:00::", "5:00:00:good:01")}


def write_text(seed: int) -> str:
    """Twelve tagged sentences in the form of SemCor."""
    draw = random.Random(seed)
    lines = ["<contextfile concordance=brown>", f"<context filename=br-{seed} paras=yes>"]
    for number in range(12):
        lemma = draw.choice(list(SENSES))
        sense = draw.choice((0, 0, 1))
        tag = f"lemma={lemma} wnsn={sense + 1} lexsn={SENSES[lemma][sense]}"
        around = [f"<wf cmd=ignore pos=X>{draw.choice(['the', 'play', 'was', 'naïve'])}</wf>" for _ in range(4)]
        word = f"<wf cmd=done pos=NN {tag}>{lemma}</wf>"
        lines += [f"<s snum={number + 1}>", *around[:2], word, *around[2:], "<punc>''</punc>", "</s>"]
    return "\n".join([*lines, "</context>", "</contextfile>", ""])


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    elmokit.save(bilm, tmp_path / "model")
    (tmp_path / "wsd/eval").mkdir(parents=True)
    write_index(tmp_path / "wsd/wordnet3.0-index.sense.xz")
    texts = {f"semcor3.0/brown{1 + seed % 2}/tagfiles/br-{seed}": write_text(seed) for seed in range(8)}
    write_semcor(tmp_path / "wsd/semcor3.0.tar.xz", texts)
    for name in ("senseval2", "semeval2007"):
        write_set(tmp_path / "wsd/eval" / name)
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ELMOKIT_DATA", raising=False)
    return tmp_path


@pytest.fixture
def wsd(run: Call) -> Call:
    parts = ("--parts", "brown1,brown2")
    return lambda *words: run("analyze", "wsd", "--model", "model", "--threads", "1", *parts, *words)


def test_help(run: Call) -> None:
    assert_help_has_examples(run, "analyze", "wsd")


@pytest.mark.slow
def test_for_people_for_programs_and_as_files(wsd: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = wsd("--data", "wsd", "--output", "out")
    assert done.returncode == 0, done.stderr
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert [line[0] for line in lines] == [
        *("first sense", "layer 0", "layer 1", "layer 2", "mean of layers"),
        *("the paper's first sense", "the paper's layer 1", "the paper's layer 2"),
        *("first sense", "prior only", "vectors only", "prior and own vectors", "prior, own vectors and context"),
    ]
    assert lines[0][1:] == ["66.7"] * 4  # bank is wrong, take_place and kind are right
    assert lines[7][1:] == ["", "", "", "69.0"]
    assert lines[9][1:] == ["66.7"] * 4
    written = {path.name for path in (folder / "out").iterdir()}
    assert written == {"wsd.png", "wsd.svg", "table-1.csv", "table-2.csv", "report.json", "page.html"}

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("what was kept is embedded again")

    monkeypatch.setattr(Embedder, "embed_stream", refuse)
    again = wsd("--data", "wsd", "--json")
    assert json.loads(again.stdout) == json.loads((folder / "out/report.json").read_text())
    found = json.loads(again.stdout)
    assert found["instances"] == {"senseval2": 3, "semeval2007": 3, "ALL": 6, "ALL without semeval2007": 3}
    assert found["backed_off"] == {"senseval2": 1, "semeval2007": 1}
    assert found["semcor"] == {"parts": "brown1, brown2", "senses": 4, "occurrences": 96}
    assert found["nearest_sense"]["ALL"]["first sense"] == pytest.approx(200 / 3)
    assert set(found["votings"]) == {"vectors only", "prior and own vectors", "prior, own vectors and context"}


def test_data_from_the_environment(wsd: Call, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_one_line(wsd(), "--data", "ELMOKIT_DATA", "wsd", code=2)
    monkeypatch.setenv("ELMOKIT_DATA", str(folder))
    assert wsd("--json").returncode == 0


def _remove(*names: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for name in names:
            path = folder / "wsd" / name
            if path.is_dir():
                for inner in path.iterdir():
                    inner.unlink()
                path.rmdir()
            else:
                path.unlink()

    return remove


def _gold(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "wsd/eval/senseval2/senseval2.gold.key.txt").write_text(text)

    return write


def _one_text(folder: Path) -> None:
    write_semcor(folder / "wsd/semcor3.0.tar.xz", {"brown1/tagfiles/a": write_text(1), "brown2/tagfiles/b": ""})


def _damaged(folder: Path) -> None:
    path = folder / "wsd/semcor3.0.tar.xz"
    path.write_bytes(path.read_bytes()[:-40])


@pytest.mark.parametrize(
    ("words", "change", "code", "parts"),
    [
        (["--data", "nowhere"], None, 2, ["nowhere is not a folder"]),
        (["--data", "wsd", "--parts", "brown3"], None, 1, ["no part 'brown3': choose from brown1, brown2, brownv"]),
        (["--data", "wsd"], _remove("semcor3.0.tar.xz"), 1, ["wsd must have one file semcor*.tar*, and has none"]),
        (["--data", "wsd"], _remove("wordnet3.0-index.sense.xz"), 1, ["one file *index.sense*, and has none"]),
        (
            ["--data", "wsd"],
            _remove("eval/senseval2", "eval/semeval2007"),
            1,
            ["eval has none of senseval2, senseval3"],
        ),
        (["--data", "wsd"], _remove("eval/senseval2/senseval2.data.xml.xz"), 1, ["has no senseval2.data.xml"]),
        (["--data", "wsd"], _gold("tiny.d000.s000.t000 bank\n"), 1, ["line 1 is 'tiny.d000.s000.t000 bank'"]),
        (
            ["--data", "wsd"],
            _gold(GOLD.replace("bank%1:14:00::", "bank%1:14:99::")),
            1,
            ["gold key 'bank%1:14:99::' of tiny.d000.s000.t000 in senseval2 is not a sense in"],
        ),
        (["--data", "wsd"], _one_text, 1, ["single text", "give all of SemCor"]),
        (["--data", "wsd"], _damaged, 1, ["semcor3.0.tar.xz is damaged or not an archive"]),
        (["--data", "wsd", "--model", "gone"], None, 1, ["gone"]),
        (["--data", "wsd", "--model", "task"], None, 1, ["task"]),
    ],
)
def test_bad_input(
    words: list[str], change: Callable[[Path], None] | None, code: int, parts: list[str], wsd: Call, folder: Path
) -> None:
    write_model(folder / "task", [[0.0, 1.0]], [1.0])
    if change is not None:
        change(folder)
    assert_one_line(wsd(*words), *parts, code=code)
