"""`elmokit analyze neighbors` as a user meets it."""

import json
import subprocess
from pathlib import Path

import pytest

import elmokit
from elmokit.embedding.embedder import Embedder
from elmokit.model.bilm import BiLM
from tests.running import Call, Done, command_runner

TEXT = """The play was naïve. They play well.

He made a play on the grounder.
They play well.
A play about plays.
"""
SENTENCE = "Chico made a play on it ."


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    elmokit.save(bilm, tmp_path / "model")
    (tmp_path / "corpus.txt").write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process: a new one takes seconds to load torch."""

    command = command_runner(folder, monkeypatch, capsys)

    def call(*words: str, model: str = "model") -> Done:
        return command("analyze", "neighbors", *words, "--model", model, "--threads", "1")

    return call


def assert_refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 1) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    if code == 1:
        assert done.stderr.count("\n") == 1, done.stderr
    for word in words:
        assert word in " ".join(done.stderr.replace("│", " ").split()), done.stderr


@pytest.mark.slow
def test_contexts_are_printed_written_and_given_as_json(folder: Path, run: Call) -> None:
    words = [SENTENCE, "--word", "play", "--corpus", "corpus.txt", "--input", "text", "--layers", "1", "-k", "3"]
    done = run(*words, "--layers", "0.2,0.3,0.5", "--output", "out")
    assert done.returncode == 0, done.stderr
    assert "Contexts nearest by layer 1, of 5 occurrences of “play”" in done.stdout
    assert "mix 0.2, 0.3, 0.5" in done.stdout
    assert done.stdout.count(", line ") == 6
    stem = "neighbours"
    tables = (f"table-{number}.csv" for number in (1, 2, 3, 4))
    files = (f"{stem}.png", f"{stem}.svg", *tables, "report.json", "page.html")
    assert done.stderr.splitlines() == [f"wrote out/{name}" for name in files]
    assert "grounder" in (folder / "out" / "page.html").read_text(encoding="utf-8")
    again = run(*words, "--layers", "0.2,0.3,0.5", "--json")
    figures = json.loads(again.stdout)
    assert figures == json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    assert figures["word"] == "play"
    found = {(one["sentence"], one["line"]) for one in figures["contexts"][0]["neighbours"]}
    assert found <= {("The play was naïve .", 1), ("They play well .", 1), ("A play about plays .", 5),
                     ("He made a play on the grounder .", 3)}  # fmt: skip
    assert len(found) == 3
    assert [path.name for path in (folder / "cache" / "neighbours").iterdir()] == [
        f"{figures['model_sha256'][:16]}-{figures['corpus_sha256'][:16]}-text"
    ]


def test_british_names_do_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command_runner(folder, monkeypatch, capsys)
    words = [SENTENCE, "--word", "play", "--corpus", "corpus.txt", "--input", "text", "--model", "model"]
    american = run("analyze", "neighbors", *words)
    assert american.returncode == 0 and "Contexts nearest" in american.stdout
    for names in (("analyse", "neighbours"), ("analyze", "neighbours"), ("analyse", "neighbors")):
        assert run(*names, *words).stdout == american.stdout


def test_an_index_of_ones_own_needs_no_corpus_once_it_is_built(folder: Path, run: Call) -> None:
    words = [SENTENCE, "--word", "made", "--against", "tokens", "--input", "text", "--index", "index", "--json"]
    first = run(*words, "--corpus", "corpus.txt")
    assert first.returncode == 0, first.stderr
    (folder / "corpus.txt").unlink()
    assert run(*words).stdout == first.stdout
    assert not (folder / "cache").exists()
    figures = json.loads(first.stdout)
    assert figures["num_compared"] == 26
    assert len(figures["contexts"][0]["neighbours"]) == 10


def test_approximate_search(run: Call) -> None:
    pytest.importorskip("faiss")
    words = [SENTENCE, "--word", "made", "--against", "tokens", "--input", "text", "--corpus", "corpus.txt"]
    exact, approximate = json.loads(run(*words, "--json").stdout), json.loads(run(*words, "--json", "--ann").stdout)
    assert approximate.pop("approximate") and not exact.pop("approximate")
    assert approximate == exact


@pytest.mark.slow
def test_types_need_no_index_and_no_sentence(folder: Path, run: Call) -> None:
    words = ["--type", "playz", "--corpus", "corpus.txt", "--input", "text", "-k", "4"]
    done = run(*words)
    assert done.returncode == 0, done.stderr
    assert "It does not occur in the corpus, which has 16 types." in done.stdout
    assert not (folder / "cache").exists()
    alone = json.loads(run(*words, "--json").stdout)
    assert len(alone["neighbours"]) == 4
    run(SENTENCE, "--word", "play", "--corpus", "corpus.txt", "--input", "text")
    run(SENTENCE, "--word", "play", "--corpus", "corpus.txt", "--input", "text", "--index", "index")
    (indexed,) = (folder / "cache" / "neighbours").iterdir()
    from_cache = json.loads(run(*words, "--json").stdout)
    from_folder = json.loads(run("--type", "playz", "--index", "index", "--input", "text", "-k", "4", "--json").stdout)
    assert alone == from_cache == from_folder
    (indexed / "words" / "types").write_text("", encoding="utf-8")
    assert_refused(run(*words), "types is missing or damaged")  # so it was read


def test_an_occurrence_among_several(run: Call) -> None:
    words = ["We play a play .", "--word", "play", "--corpus", "corpus.txt", "--input", "text"]
    assert_refused(run(*words), "'play' occurs 2 times", "choose a --position of 1, 3")
    figures = json.loads(run(*words, "--position", "3", "--json").stdout)
    assert figures["position"] == 3
    assert_refused(run(*words, "--position", "9"), "position 9 is outside the sentence")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "give a sentence with --word, or --type"),
        ([SENTENCE, "--type", "x"], "give a sentence with --word, or --type"),
        ([SENTENCE], "it names a token of SENTENCE"),
        (["--type", "x", "--word", "y"], "it names a token of SENTENCE"),
        ([SENTENCE, "--word", "play"], "give the text to search, or a finished --index"),
        ([SENTENCE, "--word", "play", "--corpus", "corpus.txt", "--ann"], "it is for --against tokens"),
        ([SENTENCE, "--word", "play", "--corpus", "corpus.txt", "--layers", "1,x"], "'1,x' is not a list of numbers"),
        ([SENTENCE, "--word", "play", "--corpus", "corpus.txt", "-k", "0"], "Invalid value for '-k'"),
    ],
)
def test_wrong_usage(run: Call, words: list[str], told: str) -> None:
    assert_refused(run(*words), told, code=2)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([SENTENCE, "--word", "plai"], ["has no token 'plai': did you mean 'play'?"]),
        (["", "--word", "play"], ["the text has 0 sentences: give one."]),
        (["Wellness .", "--word", "Wellness"], ["the corpus has no token 'Wellness'"]),
        ([SENTENCE, "--word", "play", "--layers", "best"], ["layers 'best' is unknown"]),
        ([SENTENCE, "--word", "play", "--layers", "7"], ["there is no layer 7: this model has layers 0 to 2."]),
        ([SENTENCE, "--word", "play", "--layers", "1,2"], ["give one finite number for each of the 3 layers"]),
        (["They play well.", "--word", "well"], ["'well' occurs in the corpus only in the query sentence"]),
        (["--type", "two words"], ["has white space in it"]),
    ],
)
def test_bad_input_is_one_sentence(run: Call, words: list[str], told: list[str]) -> None:
    assert_refused(run(*words, "--corpus", "corpus.txt", "--input", "text"), *told)


def test_bad_corpora_and_indexes_are_one_sentence(folder: Path, bilm: BiLM, run: Call) -> None:
    words = [SENTENCE, "--word", "play"]
    (folder / "empty.txt").write_text("\n", encoding="utf-8")
    assert_refused(run(*words, "--corpus", "empty.txt"), "the corpus empty.txt has no token")
    assert_refused(run(*words, "--corpus", "no.txt"), "no.txt does not exist (did you mean corpus.txt?): give the text")
    (folder / "unfinished").mkdir()
    assert_refused(run(*words, "--index", "unfinished"), "unfinished holds no finished index: give the corpus too")
    assert_refused(run(*words, "--index", "index"), "index does not exist: give a finished index")
    assert_refused(run("--type", "x", "--index", "index"), "index does not exist: give a finished index")
    assert run(*words, "--corpus", "corpus.txt", "--index", "index").returncode == 0
    with open(folder / "corpus.txt", "a", encoding="utf-8") as file:
        file.write("more\n")
    assert_refused(run(*words, "--corpus", "corpus.txt", "--index", "index"), "SHA-256", "the corpus given is")
    first = Embedder(bilm).fingerprint
    next(bilm.parameters()).data += 1
    elmokit.save(bilm, folder / "other")
    assert_refused(run(*words, "--index", "index", model="other"), first, Embedder(bilm).fingerprint)
