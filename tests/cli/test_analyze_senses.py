"""`elmokit analyze senses` as a user meets it."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import elmokit
from elmokit.model.bilm import BiLM
from tests.running import Call, Done, assert_help_has_examples, assert_one_line

HOSTILE = "<script>alert('play')</script> the play & <b>was</b> \"naïve\" ."


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    elmokit.save(bilm, tmp_path / "model")
    theatre = [f"{n} the play was naïve ." for n in range(14)]
    sport = [f"{n} 模型 play 模型 {n} 模型" for n in range(10)]
    (tmp_path / "corpus.txt").write_text("\n".join([*theatre, HOSTILE, "Play once", *sport]), encoding="utf-8")
    later = [f"play 模型 {n} ." for n in range(12)] + [f"naïve {n} play ." for n in range(8)]
    (tmp_path / "later.txt").write_text("\n".join(later), encoding="utf-8")
    (tmp_path / "empty.txt").write_text("\n \n", encoding="utf-8")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def senses(run: Call) -> Callable[..., Done]:
    def call(*words: str, corpus: str = "corpus.txt", model: str = "model") -> Done:
        fixed = ["--corpus", corpus, "--model", model, "--threads", "1"]
        return run("analyze", "senses", "--input", "tokens", *words, *fixed)  # the last --input counts

    return call


def figures(done: Done) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def flat(done: Done) -> str:
    """What was printed without the frames and line ends of boxes."""
    return " ".join("".join(" " if char in "│╭╮╰╯─" else char for char in done.stdout + done.stderr).split())


def test_help_ends_with_examples(run: Call) -> None:
    assert_help_has_examples(run, "analyze", "senses")


class TestOneCorpus:
    def test_groups_for_people(self, senses: Callable[..., Done]) -> None:
        done = senses("play", "--groups", "2")
        assert (done.returncode, done.stderr) == (0, "")
        text = flat(done)
        assert "How “play” is used in corpus.txt" in text
        assert "play occurs 26 times in corpus.txt." in text
        assert "2 groups, as asked for" in text
        for group in (1, 2):
            assert f"Group {group}" in text
        assert "– typical" in text and "– borderline" in text
        assert "corpus:1" in text

    def test_figures_for_programs(self, senses: Callable[..., Done]) -> None:
        found = figures(senses("play", "--groups", "2", "--json"))
        assert (found["word"], found["forms"], found["num_seen"], found["num_groups"]) == ("play", ["play"], [26], 2)
        rows = found["occurrences"]
        assert len(rows) == found["num_sampled"][0] == 26
        assert sorted({row["group"] for row in rows}) == [1, 2]
        assert [group["size"] for group in found["groups"]] == [sum(r["group"] == g for r in rows) for g in (1, 2)]
        for row in rows:
            assert row["sentence"].split()[row["place"]].lower() == "play"
            assert 0 <= row["fit"] <= 1
        assert {row["sentence"] for row in rows} >= {HOSTILE, "Play once"}
        assert len(found["model_sha256"]) == 64

    def test_groups_are_uses(self, senses: Callable[..., Done], folder: Path) -> None:
        lines = (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()
        clean = [line for line in lines if line not in (HOSTILE, "Play once")]
        (folder / "clean.txt").write_text("\n".join(clean), encoding="utf-8")
        found = figures(senses("play", "--json", corpus="clean.txt"))
        assert [group["size"] for group in found["groups"]] == [14, 10]
        assert {row["group"] == 2 for row in found["occurrences"] if "模型" in row["sentence"]} == {True}
        assert [word for word, _ in found["groups"][1]["words"]][:1] == ["模型"]

    def test_the_same_again_and_in_any_order(self, senses: Callable[..., Done], folder: Path) -> None:
        first = figures(senses("play", "--json", "--seed", "3"))
        assert figures(senses("play", "--json", "--seed", "3")) == first
        lines = (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()
        (folder / "turned.txt").write_text("\n".join(lines[::-1]), encoding="utf-8")
        turned = figures(senses("play", "--json", "--seed", "3", corpus="turned.txt"))
        for row in first["occurrences"] + turned["occurrences"]:
            del row["source"]
        assert turned["occurrences"] == first["occurrences"]
        assert turned["groups"] == first["groups"]

    @pytest.mark.slow
    def test_a_sample(self, senses: Callable[..., Done]) -> None:
        found = figures(senses("play", "--json", "--max-occurrences", "5"))
        assert (found["num_seen"], found["num_sampled"]) == ([26], [5])
        assert "(5 of them were looked at)" in flat(senses("play", "--max-occurrences", "5"))

    @pytest.mark.filterwarnings("ignore:corpus.txt looks like tokens")
    @pytest.mark.slow
    def test_forms_case_layers_and_text(self, senses: Callable[..., Done]) -> None:
        assert figures(senses("play", "--json", "--forms", "once, was"))["num_seen"] == [26 + 1 + 14]
        assert figures(senses("play", "--json", "--match-case"))["num_seen"] == [25]
        for layers in ("0", "average", "all", "0.5,0.25,0.25"):
            assert figures(senses("play", "--json", "--layers", layers))["num_seen"] == [26]
        assert figures(senses("play", "--json", "--input", "text"))["num_seen"] == [26 + 1]  # alert('play')

    def test_layers_are_embedded_once(self, senses: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
        first = figures(senses("play", "--json"))
        monkeypatch.setattr("elmokit.embedding.embedder.Embedder.embed_stream", None)
        assert figures(senses("play", "--json")) == first


class Elements(HTMLParser):
    """The elements of a page and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_escapes_the_corpus(senses: Callable[..., Done], folder: Path) -> None:
    done = senses("play", "--groups", "2", "--output", "page")
    assert done.returncode == 0, done.stderr
    page = (folder / "page/page.html").read_text(encoding="utf-8")
    elements = Elements(page)
    assert elements.tags.count("script") == 1  # the page's own
    assert "b" not in elements.tags
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert any(HOSTILE in text for text in elements.text)
    assert elements.tags.count("circle") == 26
    for name in ("groups.png", "groups.svg", "report.json"):
        assert (folder / "page" / name).stat().st_size > 500
    assert json.loads((folder / "page/report.json").read_text(encoding="utf-8"))["num_groups"] == 2


class TestTwoCorpora:
    @pytest.mark.slow
    def test_shift_for_people_and_programs(self, senses: Callable[..., Done], folder: Path) -> None:
        done = senses("play", "--against", "later.txt", "--groups", "2", "--output", "page")
        assert done.returncode == 0
        text = flat(done)
        assert "differs between corpus.txt and later.txt" in text
        assert "In later.txt, farthest from anything in corpus.txt" in text
        assert (folder / "page/shares.svg").exists() and (folder / "page/corpora.png").exists()
        found = figures(senses("play", "--against", "later.txt", "--groups", "2", "--json"))
        assert found["num_seen"] == [26, 20]
        assert found["corpora"] == ["corpus.txt", "later.txt"]
        for name in ("apd", "prt", "jsd"):
            assert 0.001 <= found[name]["chance"] <= 1 and found[name]["value"] >= 0
        assert found["apd"]["chance"] < 0.01
        assert found["shift"] == pytest.approx(found["apd"]["value"] - sum(found["within"]) / 2)
        assert [sum(row) for row in found["shares"]] == pytest.approx([1, 1])
        assert {row["corpus"] for row in found["occurrences"]} == {"corpus.txt", "later.txt"}

    def test_a_corpus_against_itself(self, senses: Callable[..., Done]) -> None:
        found = figures(senses("play", "--against", "corpus.txt", "--json"))
        assert found["corpora"] == ["corpus.txt (1)", "corpus.txt (2)"]
        assert found["apd"]["chance"] > 0.5
        assert found["prt"]["value"] == pytest.approx(0, abs=1e-9)

    @pytest.mark.slow
    def test_rank(self, folder: Path, senses: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 0)
        words = ("--rank", "2", "--against", "later.txt", "--min-count", "5")
        done = senses(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "2 words of" in flat(done)
        found = figures(senses(*words, "--json"))
        assert len(found["words"]) == 2 and found["num_words"] >= 2
        assert {"word", "counts", "shift", "noise", "halves", "chance", "apd", "examples"} <= set(found["words"][0])
        assert found["words"][0]["shift"] >= found["median_shift"]
        assert senses(*words, "--output", "page").returncode == 0
        written = {path.name for path in (folder / "page").iterdir()}
        assert written == {
            "shifts.png",
            "shifts.svg",
            *(f"table-{n}.csv" for n in (1, 2, 3)),
            "page.html",
            "report.json",
        }


class TestBadInput:
    def test_words_that_cannot_be_looked_at(self, senses: Callable[..., Done]) -> None:
        assert_one_line(senses("plya"), "'plya' does not occur in corpus.txt; it has play")
        assert_one_line(senses("once"), "'once' occurs in only one sentence of corpus.txt")
        assert_one_line(senses("play", "--groups", "27"), "'play' occurs 26 times", "too few for 27 groups")
        assert_one_line(senses("the play"), "'the play' is 2 tokens")
        assert_one_line(senses("play", "--forms", "play on"), "'play on' is 2 tokens")
        assert_one_line(senses("was", "--against", "later.txt"), "'was' does not occur in later.txt")

    def test_corpora_that_cannot_be_read(self, senses: Callable[..., Done]) -> None:
        assert_one_line(senses("play", corpus="empty.txt"), "the corpus empty.txt has no text")
        assert_one_line(senses("play", corpus="nowhere.txt"), "no file matches 'nowhere.txt'")
        assert_one_line(
            senses("--rank", "3", "--against", "later.txt"), "no word occurs 20 times in both corpus.txt and later.txt"
        )
        assert_one_line(senses("--rank", "3", "--against", "empty.txt"), "the corpus empty.txt has no text")

    def test_other_models_and_layers(self, senses: Callable[..., Done]) -> None:
        assert_one_line(senses("play", "--layers", "7"), "there is no layer 7")
        assert_one_line(senses("play", "--layers", "best"), "layers 'best' is unknown")
        assert_one_line(senses("play", model="nowhere"), "nowhere")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("play", "--groups", "0"), "'0' is not a number of groups"),
            (("play", "--groups", "-1"), "'-1' is not a number of groups"),
            (("play", "--groups", "many"), "'many' is not a number of groups"),
            (("play", "--layers", "1,x"), "'1,x' is not a list of numbers"),
            ((), "give a word, or --rank"),
            (("play", "--rank", "3", "--against", "later.txt"), "give a word, or --rank"),
            (("--rank", "3"), "add --against"),
            (("--rank", "3", "--against", "later.txt", "--forms", "plays"), "are for a WORD"),
            (("--rank", "3", "--against", "later.txt", "--groups", "2"), "are for a WORD"),
            (("--rank", "0", "--against", "later.txt"), "--rank"),
            (("play", "--max-occurrences", "1"), "--max-occurrences"),
            (("play", "--seed", "-1"), "--seed"),
        ],
    )
    def test_usage(self, senses: Callable[..., Done], words: tuple[str, ...], said: str) -> None:
        done = senses(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert said in flat(done)
