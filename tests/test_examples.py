"""The demo: its sentences are what its README says, its measure measures, and it runs on any model."""

import importlib
import json
import re
import runpy
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import elmokit

EXAMPLES = Path(__file__).parents[1] / "examples"
HELD_OUT = {"Pygmalion", "Anarchism and Other Essays", "Right Ho, Jeeves", "South!", "Man and Superman"}


@pytest.fixture
def polysemy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("polysemy")


@pytest.fixture
def senses(polysemy: ModuleType) -> ModuleType:
    return importlib.import_module("senses")


@pytest.fixture
def run_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Run the demo as the command line does, in an empty folder."""

    def run(model: str) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "100")
        monkeypatch.setattr(sys, "argv", ["demo.py", model])
        monkeypatch.syspath_prepend(str(EXAMPLES))
        runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")

    return run


def test_sentences_follow_their_rule(polysemy: ModuleType) -> None:
    words = polysemy.read_words()
    assert 6 <= len(words) <= 8
    for word, occurrences in words.items():
        assert len({occurrence.sentence for occurrence in occurrences}) == len(occurrences)
        by_sense = Counter(occurrence.sense for occurrence in occurrences)
        assert 2 <= len(by_sense) <= 3
        assert set(by_sense.values()) == {8}
        by_book = Counter((occurrence.sense, occurrence.source) for occurrence in occurrences)
        assert max(by_book.values()) <= 2
        for occurrence in occurrences:
            assert occurrence.word == word
            assert 8 <= len(occurrence.sentence.split()) <= 30
            assert re.fullmatch(r'[A-Z][^"“”\t]*[.!?]', occurrence.sentence)
            assert [token.lower() for token in occurrence.tokens].count(word) == 1
            assert occurrence.tokens.count(word) == 1
            assert word.join(occurrence.around) == occurrence.sentence


def test_sources_are_named(polysemy: ModuleType) -> None:
    rows = [occurrence for occurrences in polysemy.read_words().values() for occurrence in occurrences]
    for occurrence in rows:
        author, title = occurrence.source.split(", ", 1)
        assert author
        assert occurrence.held_out == ("yes" if title in HELD_OUT else "no")
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    held_out = sum(occurrence.held_out == "yes" for occurrence in rows)
    assert f"{len(rows)} sentences" in readme
    assert f"{held_out} of the sentences" in readme


def test_share_of_nearest_with_the_same_sense(senses: ModuleType) -> None:
    angles = np.array([0.0, 0.1, 0.25, 1.0, 1.1])
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # (n, D)
    one_vector = np.tile(turned[:1], (5, 1))
    vectors = np.stack([one_vector, turned])
    assert senses.share_same(vectors, ["a", "a", "b", "b", "b"]) == pytest.approx([(2 * 1 / 4 + 3 * 2 / 4) / 5, 0.8])


@pytest.mark.parametrize(("trained", "random", "better"), [(0.9, 0.5, True), (0.74, 0.5, False), (0.9, 0.9, False)])
def test_beats_both(senses: ModuleType, trained: float, random: float, better: bool) -> None:
    assert senses.Shares(["a", "b"], [0.5, trained], [0.5, random], 0.5, 16).beats_both(1) is better


@pytest.mark.slow
def test_demo_shows_and_writes(
    tmp_path: Path,
    tiny_bilm: elmokit.BiLM,
    polysemy: ModuleType,
    run_demo: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    elmokit.save(tiny_bilm, tmp_path / "tiny")
    run_demo("tiny")
    shown, words = capsys.readouterr().out, polysemy.read_words()
    for word, occurrences in words.items():
        (row,) = [line for line in shown.splitlines() if line.strip().startswith(f"{word} ") and "%" in line]
        chance = np.mean([occurrences[0].sense == other.sense for other in occurrences[1:]])
        assert f" {chance:.0%} " in row  # layer 0 knows no context
    page = (tmp_path / "demo-out/senses.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    panels = json.loads(data)["panels"]
    assert [panel["word"] for panel in panels] == list(words)
    assert all(point["at"][0] == [0, 0] for panel in panels for point in panel["points"])
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert (tmp_path / "demo-out/senses.png").exists() != ("no picture" in shown)


@pytest.mark.slow
def test_demo_goes_on_without_matplotlib_and_softmax(
    tmp_path: Path,
    tiny: Callable[[str], elmokit.BiLM],
    run_demo: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    elmokit.save(tiny("characters"), tmp_path / "tiny")
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    run_demo("tiny")
    shown = capsys.readouterr().out
    assert "elmokit[analysis]" in shown
    assert "no softmax" in shown
    assert [path.name for path in (tmp_path / "demo-out").iterdir()] == ["senses.html"]


def test_unknown_model_is_one_sentence(run_demo: Callable[[str], None]) -> None:
    with pytest.raises(SystemExit, match=r"no/such/model"):
        run_demo("./no/such/model")


def test_page_cannot_be_broken_by_a_sentence(
    tmp_path: Path, tiny_bilm: elmokit.BiLM, polysemy: ModuleType, senses: ModuleType
) -> None:
    odd = [polysemy.Occurrence("play", sense, f"A play </script><b>{sense}", "A, B", "no") for sense in "aabb"]
    picture = importlib.import_module("picture")
    picture.write_page(tmp_path / "page.html", senses.study(elmokit.Embedder(tiny_bilm, threads=1), {"play": odd}))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 2
    assert "<b>" not in page
