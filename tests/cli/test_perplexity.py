"""`elmokit perplexity`, `score` and `substitutes` as a user meets them."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from elmokit.formats import load, save
from elmokit.model.bilm import BiLM
from elmokit.model.engines.workers import Workers
from elmokit.scoring import scorer
from elmokit.scoring.perplexity import measure_perplexity
from elmokit.scoring.sentences import score_sentences
from elmokit.scoring.substitutes import find_substitutes
from tests.cli.conftest import Terminal
from tests.running import Call, Done, assert_help_has_examples, assert_one_line

TEXT = "the play was unheard .\n\nnaïve 模型\n"


@pytest.fixture
def folder(bilm: BiLM, tiny: Callable[[str], BiLM], tmp_path: Path) -> Path:
    save(bilm, tmp_path / "model")
    save(tiny("characters"), tmp_path / "bare")
    (tmp_path / "in.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path


def json_lines(done: Done) -> list[dict[str, object]]:
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("command", ["perplexity", "score", "substitutes"])
def test_every_help_ends_with_examples(command: str, run: Call) -> None:
    assert_help_has_examples(run, command)


# --- perplexity ------------------------------------------------------------------------------------------------------


def test_perplexity_for_people_and_for_programs(folder: Path, run: Call) -> None:
    text = ["the play was unheard .", "naïve 模型"]
    expected = {
        state: measure_perplexity(load(folder / "model"), text, carry=state == "carry").to_dict()
        for state in ("carry", "reset")
    }
    assert json_lines(run("perplexity", "model", "in.txt", "--input", "tokens", "--json")) == [expected]
    done = run("perplexity", "model", "in.txt", "--input", "tokens")
    assert (done.returncode, done.stderr) == (0, "")
    for figures in expected.values():
        for value in (figures["forward"]["perplexity"], figures["average"], figures["average_known"]):
            assert f"{value:.2f}" in done.stdout
    assert "9 predictions per direction in 2 sentences; vocabulary of 10, 14.29% of the words unknown" in done.stdout


def test_other_precisions(folder: Path, run: Call) -> None:
    model, sentences = load(folder / "model"), [["the", "play", "was", "unheard", "."], ["naïve", "模型"]]
    found = json_lines(run("perplexity", "model", "in.txt", "--input", "tokens", "--json", "--precision", "int8"))
    expected = measure_perplexity(model, [" ".join(tokens) for tokens in sentences], precision="int8").to_dict()
    assert found[0]["carry"] == expected
    lines = json_lines(run("score", "in.txt", "--model", "model", "--input", "tokens", "--json", "--precision", "int8"))
    scores = score_sentences(model, sentences, precision="int8")
    assert [line["forward"] for line in lines] == [score.forward.tolist() for score in scores]


def test_perplexity_of_raw_text_and_several_files(folder: Path, run: Call) -> None:
    (folder / "in-2.txt").write_text("It was. Why?\n")
    (found,) = json_lines(run("perplexity", "model", "in*.txt", "--json"))
    assert found["reset"]["num_sentences"] == 4


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["model", "missing.txt"], ["no file matches 'missing.txt'"]),
        (["model", "blank.txt"], ["no sentence"]),
        (["missing", "in.txt"], ["missing", "published name"]),
        (["bare", "in.txt"], ["no softmax", "elmokit finetune"]),
        (["model", "latin.txt"], ["latin.txt", "UTF-8"]),
    ],
)
def test_bad_input_to_perplexity_is_one_line(folder: Path, run: Call, words: list[str], expected: list[str]) -> None:
    (folder / "blank.txt").write_text("\n \n")
    (folder / "latin.txt").write_bytes("naïve\n".encode("latin-1"))
    assert_one_line(run("perplexity", *words), *expected)


# --- score -----------------------------------------------------------------------------------------------------------


def test_scores_for_programs(folder: Path, run: Call) -> None:
    """A blank line has no score, but the other lines keep their numbers."""
    found = json_lines(run("score", "in.txt", "--model", "model", "--input", "tokens", "--json"))
    sentences = [["the", "play", "was", "unheard", "."], ["naïve", "模型"]]
    assert found == [
        {
            "line": number,
            "tokens": score.tokens,
            "forward": score.forward.tolist(),
            "backward": score.backward.tolist(),
            "perplexity": score.perplexity,
            "unknown": ["unheard"] if number == 0 else [],
        }
        for number, score in zip((0, 2), score_sentences(load(folder / "model"), sentences), strict=True)
    ]
    assert json_lines(run("score", "-", "--model", "model", "--input", "tokens", "--json", stdin=TEXT)) == found


def test_scores_for_people(folder: Path, run: Call) -> None:
    done = run("score", "in.txt", "--model", "model", "--input", "tokens")
    assert (done.returncode, done.stderr) == (0, "")
    blocks = done.stdout.split("# ")[1:]
    assert [block.split(":")[0] for block in blocks] == ["0", "2"]
    (score,) = score_sentences(load(folder / "model"), [["naïve", "模型"]])
    (f1, f2, f3), (b0, b1, b2) = score.forward, score.backward
    assert blocks[1].splitlines() == [
        f"2: perplexity {score.perplexity:.2f}",
        "token\tforward\tbackward",
        f"<S>\t\t{b0:.3f}",
        f"naïve\t{f1:.3f}\t{b1:.3f}",
        f"模型\t{f2:.3f}\t{b2:.3f}",
        f"</S>\t{f3:.3f}\t",
    ]


def test_raw_text_may_have_several_sentences_a_line(run: Call) -> None:
    words = ["score", "-", "--model", "model", "--json"]
    found = json_lines(run(*words, stdin="It's late. Why?\n\nthe play\n"))
    assert [(entry["line"], entry["tokens"]) for entry in found] == [
        (0, ["It", "'s", "late", "."]),
        (0, ["Why", "?"]),
        (2, ["the", "play"]),
    ]


def test_text_without_a_sentence_has_no_scores(run: Call) -> None:
    for words in ([], ["--json"], ["--input", "text"]):
        done = run("score", "-", "--model", "model", *words, stdin="\n  \n\t\n")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_bytes_that_are_not_utf8_can_be_replaced(folder: Path, run: Call) -> None:
    (folder / "latin.txt").write_bytes("fine\nnaïve\n".encode("latin-1"))
    words = ["score", "latin.txt", "--model", "model", "--input", "tokens"]
    assert_one_line(run(*words), "line 2 of latin.txt", "--errors replace")
    assert json_lines(run(*words, "--errors", "replace", "--json"))[1]["tokens"] == ["na\ufffdve"]


def test_bad_input_to_score_is_one_line(run: Call) -> None:
    assert_one_line(run("score", "missing.txt", "--model", "model"), "missing.txt", "No such file")
    assert_one_line(run("score", "in.txt", "--model", "bare"), "no softmax", "elmokit finetune")


# --- progress and threads --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "label"), [(["score", "in.txt", "--model"], "scoring"), (["perplexity"], "measuring")]
)
def test_a_bar_on_a_terminal_and_nothing_elsewhere(
    words: list[str], label: str, folder: Path, run: Call, terminal: Terminal
) -> None:
    words = [*words, "model"] + ([] if words[0] == "score" else ["in.txt"])
    assert run(*words).stderr == ""
    plain = run(*words, "--json").stdout
    shown = terminal()
    assert run(*words, "--json").stdout == plain
    assert label in shown.getvalue() and "100%" in shown.getvalue()


def test_no_bar_among_scores_on_the_same_terminal(
    folder: Path, run: Call, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = terminal()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("score", "in.txt", "--model", "model").returncode == 0
    assert shown.getvalue() == ""


@pytest.mark.parametrize("words", [["score", "in.txt", "--model", "model"], ["perplexity", "model", "in.txt"]])
def test_threads_are_kept_to(words: list[str], run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(scorer, "Workers", lambda threads: started.append(threads) or Workers(threads))
    results = [run(*words, "--json", "--threads", str(threads)).stdout for threads in (1, 3)]
    assert set(started) == {1, 3} and results[0] == results[1] != ""
    done = run(*words, "--threads", "0")
    assert (done.returncode, done.stdout) == (2, "")


# --- substitutes -----------------------------------------------------------------------------------------------------


def test_substitutes_for_people_and_for_programs(folder: Path, run: Call) -> None:
    tokens = ["the", "play", "was", "."]
    expected = find_substitutes(load(folder / "model"), tokens, 1, number=3)
    words = ["substitutes", "the play was .", "--position", "1", "--model", "model", "-n", "3"]
    (found,) = json_lines(run(*words, "--json"))
    assert found == [one._asdict() for one in expected]
    done = run(*words)
    lines = [f"{one.word}\t{one.score:.3f}\t{one.forward:.3f}\t{one.backward:.3f}" for one in expected]
    assert done.stdout.splitlines() == ["word\tscore\tforward\tbackward", *lines]
    words[3] = "-3"
    assert run(*words).stdout == done.stdout
    assert run(*words, "--input", "text").stdout == done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["the play", "--position", "2"], ["position 2", "0 to 1"]),
        (["", "--position", "0"], ["0 sentences"]),
        (["Go home. Stay here.", "--position", "0", "--input", "text"], ["2 sentences"]),
    ],
)
def test_bad_input_to_substitutes_is_one_line(run: Call, words: list[str], expected: list[str]) -> None:
    assert_one_line(run("substitutes", *words, "--model", "model"), *expected)


def test_usage_errors(run: Call) -> None:
    for words in (
        ["substitutes", "the play", "--model", "model"],
        ["substitutes", "the play", "--position", "x", "--model", "model"],
        ["substitutes", "the play", "--position", "0", "--model", "model", "-n", "0"],
        ["score"],
        ["score", "in.txt", "--model", "model", "--input", "pdf"],
        ["perplexity", "model"],
    ):
        done = run(*words)
        assert (done.returncode, done.stdout) == (2, ""), words
        assert "Traceback" not in done.stderr
