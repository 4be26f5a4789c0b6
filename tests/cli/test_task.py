"""`elmokit task train | evaluate | predict` of all seven tasks as a user meets them, on files of a few lines."""

import csv
import json
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from elmokit.cli.task_inputs import InputReader
from elmokit.embedding.embedder import Embedder
from elmokit.formats import save
from elmokit.tasks import evaluation, pipeline
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.registry import find_task
from elmokit.tasks.scorer_files import FILE_NAMES
from elmokit.tasks.tag.reader import TagExample
from tests.cli.conftest import Terminal
from tests.conftest import build_tiny
from tests.running import Call, assert_help_has_examples, assert_one_line
from tests.tasks.small_files import FILES, NER, RAW, SIZES, SRL, TASKS, train_small

pytestmark = pytest.mark.slow  # a model of each task is trained first


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files and a trained model of every task."""
    folder = tmp_path_factory.mktemp("tasks")
    for name in FILES:
        train_small(folder, name)
    return folder


@pytest.fixture
def folder(trained: Path) -> Path:
    return trained


def predict(run: Call, name: str, *words: str, stdin: str = "") -> list[dict[str, Any]]:
    done = run("task", "predict", name, f"{name}/model", *words, "--json", stdin=stdin)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("command", ["train", "evaluate", "predict", "compare"])
def test_help_has_examples(run: Call, command: str) -> None:
    assert_help_has_examples(run, "task", command)


@pytest.mark.parametrize("name", TASKS)
def test_evaluate_and_predict(run: Call, name: str) -> None:
    done = run("task", "evaluate", name, f"{name}/model", FILES[name][0], "--json")
    assert done.returncode == 0, done.stderr
    assert all(0 <= figure <= 100 for figure in json.loads(done.stdout).values())
    assert predict(run, name, *RAW[name])
    shown = run("task", "predict", name, f"{name}/model", *RAW[name])
    assert shown.returncode == 0 and shown.stdout.strip()


def test_evaluation_has_bars_on_a_terminal(run: Call, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    def predict(trained: Any, files: Any, **reports: Any) -> Evaluation:
        given.append(reports)
        for number, report in enumerate(reports.values(), 1):
            if report is not None:
                report(number, 3)
        return Evaluation(trained.task, [TagExample(("a", "b"), ("X", "Y"))], [["X", "X"]])

    monkeypatch.setattr(evaluation, "predict_files", predict)
    words = ["task", "evaluate", "tag", "tag/model", FILES["tag"][0]]
    assert (run(*words).stderr, given) == ("", [{"embedding": None, "predicting": None}])
    shown = terminal()
    assert run(*words).stdout == "accuracy 50.00\n"
    for text in ("embedding", "33%", "predicting", "67%"):
        assert text in shown.getvalue()


@pytest.mark.parametrize("name", TASKS)
def test_evaluation_in_detail(folder: Path, run: Call, name: str) -> None:
    words = ["task", "evaluate", name, f"{name}/model", FILES[name][0]]
    output, scored = folder / f"{name}-page", folder / f"{name}-scored"
    done = run(*words, "--details", "--json", "--output", str(output), "--scorer-files", str(scored))
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert find_task(name).metric in figures and figures["by_type"] and figures["examples"]
    page = (output / "page.html").read_text(encoding="utf-8")
    assert "<html" in page and "All examples" in page and "http" not in page
    assert json.loads((output / "report.json").read_text(encoding="utf-8")) == figures
    assert {path.name for path in scored.iterdir()} <= set(FILE_NAMES) and f"wrote {scored}" in done.stderr


def test_evaluation_prints_tables_and_replaces_only_its_own(folder: Path, run: Call) -> None:
    words = ["task", "evaluate", "tag", "tag/model", FILES["tag"][0]]
    plain = run(*words).stdout
    assert json.loads(run(*words, "--json").stdout).keys() == {"accuracy"} and plain.startswith("accuracy ")
    shown = run(*words, "--details").stdout
    assert shown.startswith(plain) and "Tokens by label" in shown and "PROPN" in shown
    folders = ["--output", "page", "--scorer-files", "scored"]
    assert run(*words, *folders).returncode == 0
    assert_one_line(run(*words, *folders), "page")
    assert run(*words, *folders, "--overwrite").returncode == 0


def test_scorer_files_never_replace_other_files(folder: Path, run: Call) -> None:
    words = ["task", "evaluate", "ner", "ner/model", FILES["ner"][0], "--scorer-files", ".", "--overwrite"]
    assert_one_line(run(*words), "scorer files")
    assert not (folder / "conlleval.txt").exists()


@pytest.mark.parametrize("name", ["nli", "qa"])
def test_fields_may_be_named(run: Call, name: str) -> None:
    fields = {"nli": ("premise", "hypothesis"), "qa": ("context", "question")}[name]
    words = [word for field, text in zip(fields, RAW[name], strict=True) for word in (f"--{field}", text)]
    assert predict(run, name, *words) == predict(run, name, *words[2:], *words[:2]) == predict(run, name, *RAW[name])


@pytest.mark.parametrize("name", TASKS)
def test_files_and_stdin_give_what_arguments_give(folder: Path, run: Call, name: str) -> None:
    text = "\t".join(RAW[name]) + "\n"
    (folder / "raw.txt").write_text(text, encoding="utf-8")
    (expected,) = predict(run, name, *RAW[name])
    for words, place in ((["raw.txt"], "raw.txt"), (["-"], "standard input")):
        (found,) = predict(run, name, "--input-file", *words, stdin=text)
        assert found.pop("id") == (place if name == "coref" else 1)
        if name == "coref":
            found["text"] = found["text"].rstrip("\n")
        assert found == expected


def test_a_file_is_a_document_of_coref_and_a_text_a_line_elsewhere(folder: Path, run: Call) -> None:
    (folder / "lines.txt").write_text("Ada slept.\n\nShe woke.\n", encoding="utf-8")
    (document,) = predict(run, "coref", "--input-file", "lines.txt")
    assert document["sentences"] == [["Ada", "slept", "."], ["She", "woke", "."]]
    lines = predict(run, "ner", "--input-file", "lines.txt")
    assert [(line["index"], line["id"], line["tokens"]) for line in lines] == [
        (0, 1, ["Ada", "slept", "."]),
        (1, 2, []),
        (2, 3, ["She", "woke", "."]),
    ]


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("nli", [], "nli reads premise and hypothesis: give them as TEXT, --premise …, --hypothesis …, or give"),
        ("ner", [], "ner reads text: give them as TEXT, or give --input-file"),
        ("nli", ["one"], "but TEXT has 1 field"),
        ("nli", ["--premise", "one"], "nli reads premise and hypothesis, but this gives premise."),
        ("nli", ["--context", "one", "--question", "two"], "but this gives context and question."),
        ("qa", ["--context", "one", "--question", "two", "three"], "qa reads context and question: give them as"),
    ],
)
def test_what_is_missing_is_named(run: Call, name: str, words: list[str], said: str) -> None:
    done = run("task", "predict", name, f"{name}/model", *words)
    told = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2 and said in told, told


# --- Inputs and outputs of predict -----------------------------------------------------------------------------------


def say(run: Call, name: str, *words: str, stdin: str = "") -> str:
    done = run("task", "predict", f"{name}/model", *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", TASKS)
def test_the_name_of_the_task_may_be_left_out(run: Call, name: str) -> None:
    assert say(run, name, *RAW[name]) == run("task", "predict", name, f"{name}/model", *RAW[name]).stdout
    assert say(run, name, *RAW[name], "--json") == say(run, name, *RAW[name], "--format", "json")


def test_the_name_of_another_task_is_refused(run: Call) -> None:
    assert_one_line(run("task", "predict", "srl", "ner/model", "Ada ."), "ner/model is a model of ner, not of srl")


@pytest.mark.parametrize("name", TASKS)
def test_any_number_of_texts(run: Call, name: str) -> None:
    one = predict(run, name, *RAW[name])
    assert predict(run, name, *RAW[name], *RAW[name]) == [*one, one[0] | {"index": 1}]


def test_precision_reaches_the_bilm(folder: Path, run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a frozen biLM, in `predict` and `evaluate`; a tuned one is refused."""
    save(build_tiny("characters"), folder / "bilm")
    seen: list[str] = []
    original = Embedder.__init__

    def listen(self: Embedder, *args: Any, **extra: Any) -> None:
        original(self, *args, **extra)
        seen.append(self.precision)

    monkeypatch.setattr(Embedder, "__init__", listen)
    for place in ("frozen", "tuned"):
        (folder / place).mkdir()
        tuned = ["--set", "elmo.tuned=1"] if place == "tuned" else []
        train_small(folder / place, "ner", "--set", "elmo.place=input", "--model", str(folder / "bilm"), *tuned)
    files, calls = [FILES["ner"][0]], []
    for words in (["predict", "frozen/ner", "Ada saw Paris ."], ["evaluate", "ner", "frozen/ner", *files]):
        for given in ([], ["--precision", "int8"]):
            seen.clear()
            assert run("task", *words, *given).returncode == 0
            calls.append(list(seen))
    assert calls == [["float32"], ["int8"], ["float32"], ["int8"]]
    done = run("task", "predict", "tuned/ner", "Ada .", "--precision", "int8")
    assert_one_line(done, "precision int8 is for a frozen biLM")


def test_json_lines_have_ids(folder: Path, run: Call) -> None:
    lines = [{"id": "a", "text": "Ada slept. She woke."}, {"id": 2, "sentences": [["Ada", "slept", "."]]}, {"text": ""}]
    (folder / "documents.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = predict(run, "coref", "--input-file", "documents.jsonl")
    assert [(one["id"], len(one["tokens"])) for one in found] == [("a", 6), (2, 3), (3, 0)]


def test_lines_of_several_files_are_told_apart(folder: Path, run: Call) -> None:
    for name in ("a.txt", "b.txt"):
        (folder / name).write_text("Ada .\n\nBob .\n", encoding="utf-8")
    found = predict(run, "ner", "--input-file", "a.txt", "--input-file", "b.txt")
    assert [one["id"] for one in found] == [f"{name}:{number}" for name in ("a.txt", "b.txt") for number in (1, 2, 3)]


def test_tokens_are_not_split(run: Call) -> None:
    (found,) = predict(run, "ner", "--input-file", "-", "--input", "tokens", stdin="can't stop. now\n")
    assert found["tokens"] == ["can't", "stop.", "now"]
    (found,) = predict(run, "ner", "can't stop. now", "--input", "tokens")
    assert found["tokens"] == ["can't", "stop.", "now"]


BAD = b"""{"id": 1, "text": "Ada ."}
{"id": 2}
nonsense
{"id": 4, "text": "\xff"}
{"id": [], "text": "x"}
{"text": "Bob ."}
"""


def test_a_bad_line_stops_with_its_number(folder: Path, run: Call) -> None:
    (folder / "bad.jsonl").write_bytes(BAD)
    done = run("task", "predict", "ner/model", "--input-file", "bad.jsonl", "--json")
    assert done.returncode == 1
    assert done.stderr.startswith("elmokit: bad.jsonl, line 2, the object has none of them: give one of text")
    (folder / "pairs.txt").write_text("one\ttwo\nthree\n", encoding="utf-8")
    done = run("task", "predict", "nli/model", "--input-file", "pairs.txt", "--json")
    assert "pairs.txt, line 2, has 1 field, but nli reads premise and hypothesis: put a tab between" in done.stderr


def test_bad_lines_are_skipped_and_named(folder: Path, run: Call) -> None:
    (folder / "bad.jsonl").write_bytes(BAD)
    done = run("task", "predict", "ner/model", "--input-file", "bad.jsonl", "--json", "--errors", "skip")
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 6]
    assert [f"line {number}, " in done.stderr for number in range(1, 7)] == [False, True, True, True, True, False]
    assert done.stderr.endswith("elmokit: skipped 4 bad lines\n")


def test_records_are_printed_as_they_come(run: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "WINDOW_TOKENS", 1)
    shown: list[int] = []
    original = InputReader.read_files

    def read(self: InputReader, names: Any) -> Iterator[Any]:
        for item in original(self, names):
            shown.append(sys.stdout.getvalue().count("\n"))
            yield item

    monkeypatch.setattr(InputReader, "read_files", read)
    run("task", "predict", "ner/model", "--input-file", "-", "--json", stdin="Ada .\nBob .\nAda .\n")
    assert shown == [0, 1, 2]


@pytest.mark.parametrize("name", ["sentiment", "nli", "qa"])
def test_classes_have_no_columns(run: Call, name: str) -> None:
    for format, remedy in (("conll", "choose text, json"), ("transformers", "choose json")):
        assert_one_line(run("task", "predict", f"{name}/model", *RAW[name], "--format", format), name, remedy)


@pytest.mark.parametrize("name", TASKS)
def test_csv_has_a_header_and_rows_of_its_width(run: Call, name: str) -> None:
    rows = list(csv.reader(say(run, name, *RAW[name], *RAW[name], "--format", "csv").splitlines()))
    assert rows[0][:2] == ["index", "id"] and {len(row) for row in rows} == {len(rows[0])}
    assert {row[0] for row in rows[1:]} <= {"0", "1"}


def test_several_answers(run: Call) -> None:
    (found,) = predict(run, "qa", *RAW["qa"], "--num-best", "3")
    scores = [answer["score"] for answer in found["answers"]]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert_one_line(run("task", "predict", "ner/model", "Ada .", "--num-best", "2"), "ner predicts one answer")


@pytest.mark.parametrize(
    ("name", "other"),
    [pair for pair in permutations(TASKS, 2) if pair[0] != "tag"],  # it reads any columns
)
def test_files_of_another_task_are_named(run: Call, name: str, other: str) -> None:
    file = FILES[other][0]
    done = run("task", "evaluate", name, f"{name}/model", file)
    assert_one_line(done, file)


@pytest.mark.parametrize("name", TASKS)
def test_a_model_of_another_task_is_named(run: Call, name: str) -> None:
    other = TASKS[TASKS.index(name) - 1]
    done = run("task", "evaluate", name, f"{other}/model", FILES[name][0])
    assert_one_line(done, f"{other}/model is a model of {other}, not of {name}")


@pytest.mark.parametrize(
    ("name", "file", "text", "wanted"),
    [
        ("ner", "none.conll", "Ada\tO\n", "entity"),
        ("srl", "none.gold_conll", "doc\t0\t0\tAda\tX\t*\t-\t-\n", "predicate"),
        ("coref", "none.v4_gold_conll", "#begin document (d); part 000\nd 0 0 Ada X * - - - - * -\n\n#end document\n",
         "mention"),
    ],
)  # fmt: skip
def test_files_with_nothing_to_score_are_named(
    folder: Path, run: Call, name: str, file: str, text: str, wanted: str
) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    assert_one_line(run("task", "evaluate", name, f"{name}/model", file), f"there is no {wanted} of {name} in {file}")
    good = FILES[name][0]
    done = run("task", "train", name, "--train", file, "--dev", good, "--output", "never", *SIZES)
    assert_one_line(done, f"there is no {wanted} of {name} in {file}")
    assert not (folder / "never").exists()


@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("ner", "new.conll", NER.replace("LOC", "SHIP")),
        ("srl", "new.gold_conll", SRL.replace("ARG1", "SHIP")),
    ],
    ids=["ner", "srl"],
)
@pytest.mark.filterwarnings("default::elmokit.errors.ElmokitWarning")
def test_labels_that_training_never_saw_are_named(folder: Path, run: Call, name: str, file: str, text: str) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    done = run("task", "evaluate", name, f"{name}/model", file)
    assert done.returncode == 0 and done.stdout.startswith("f1 ")
    assert f"{file}: training never saw the labels SHIP (1)" in done.stderr and "first in 'Ada saw" in done.stderr
    assert "never saw" not in run("task", "evaluate", name, f"{name}/model", FILES[name][0]).stderr
