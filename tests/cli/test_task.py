"""`elmokit task train | evaluate | predict` of all seven tasks as a user meets them, on files of a few lines."""

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from elmokit.cli.main import app
from elmokit.tasks import evaluation
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.registry import find_task
from elmokit.tasks.scorer_files import FILE_NAMES
from elmokit.tasks.tag.reader import TagExample
from tests.cli.conftest import Terminal
from tests.running import Call, assert_help_has_examples, assert_one_line

pytestmark = pytest.mark.slow  # a model of each task is trained first

NER = "Ada\tB-PER\nsaw\tO\nParis\tB-LOC\n.\tO\n\nBob\tB-PER\nleft\tO\n.\tO\n"
TAGS = "Ada PROPN\nsaw VERB\nParis PROPN\n. PUNCT\n\nBob PROPN\nleft VERB\n. PUNCT\n"
TREES = "(3 (2 It) (3 (3 works) (2 .)))\n(1 (2 It) (1 (1 fails) (2 .)))\n"
PAIRS = [("A dog runs .", "An animal moves .", "entailment"), ("A dog runs .", "It sleeps .", "contradiction")]
NLI = "".join(json.dumps({"sentence1": a, "sentence2": b, "gold_label": label}) + "\n" for a, b, label in PAIRS)
CONTEXT = "Ada was born in London. She wrote to Charles."
QUESTIONS = [("Where was Ada born?", "London"), ("To whom did she write?", "Charles")]
QA = json.dumps({
    "version": "1.1",
    "data": [{"title": "Ada", "paragraphs": [{"context": CONTEXT, "qas": [
        {"id": str(number), "question": question, "answers": [{"text": text, "answer_start": CONTEXT.index(text)}]}
        for number, (question, text) in enumerate(QUESTIONS)
    ]}]}],
})  # fmt: skip
SRL = "".join(
    f"doc\t0\t{number}\t{word}\tX\t*\t{lemma}\t{sense}\t{role}\n"
    for number, (word, lemma, sense, role) in enumerate(
        [
            ("Ada", "-", "-", "(ARG0*)"),
            ("saw", "see", "see.01", "(V*)"),
            ("Bob", "-", "-", "(ARG1*)"),
            (".", "-", "-", "*"),
        ]
    )
)
COREF = "#begin document (d); part 000\n" + "".join(
    f"d 0 {number} {word} X * - - - - * {mention}\n" + ("\n" if word == "." else "")
    for number, (word, mention) in enumerate(
        [("Ada", "(1)"), ("slept", "-"), (".", "-"), ("She", "(1)"), ("woke", "-"), (".", "-")]
    )
) + "#end document\n"  # fmt: skip
FILES = {
    "ner": ("data.conll", NER),
    "sentiment": ("trees.txt", TREES),
    "nli": ("pairs.jsonl", NLI),
    "qa": ("squad.json", QA),
    "srl": ("roles.gold_conll", SRL),
    "coref": ("story.v4_gold_conll", COREF),
    "tag": ("words.columns", TAGS),
}
SIZES = ["--set", "elmo.place=none", "--set", "num_epochs=1", "--set", "words.width=4", "--set", "words.min_count=1"]
RAW = {
    "ner": ["Ada saw Paris."],
    "sentiment": ["It works."],
    "nli": ["A dog runs .", "It sleeps ."],
    "qa": [CONTEXT, "Where was Ada born?"],
    "srl": ["Ada saw Bob."],
    "coref": ["Ada slept. She woke."],
    "tag": ["Ada saw Paris."],
}
TASKS = list(FILES)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files and a trained model of every task."""
    folder = tmp_path_factory.mktemp("tasks")
    for name, (file, text) in FILES.items():
        path = folder / file
        path.write_text(text, encoding="utf-8")
        words = ["task", "train", name, "--train", str(path), "--dev", str(path), "--output", str(folder / name)]
        app([*words, *SIZES, "--threads", "1"], standalone_mode=False)
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
    expected = predict(run, name, *RAW[name])
    assert predict(run, name, "--input-file", "raw.txt") == expected
    assert predict(run, name, "--input-file", "-", stdin=text) == expected


def test_a_file_is_a_document_of_coref_and_a_text_a_line_elsewhere(folder: Path, run: Call) -> None:
    (folder / "lines.txt").write_text("Ada slept.\n\nShe woke.\n", encoding="utf-8")
    (document,) = predict(run, "coref", "--input-file", "lines.txt")
    assert document["sentences"] == [["Ada", "slept", "."], ["She", "woke", "."]]
    assert len(predict(run, "ner", "--input-file", "lines.txt")) == 2


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("nli", [], "nli reads premise and hypothesis: give them as TEXT, --premise …, --hypothesis …, or give"),
        ("ner", [], "ner reads text: give them as TEXT, or give --input-file"),
        ("nli", ["one"], "but TEXT has 1 field"),
        ("nli", ["--premise", "one"], "nli reads premise and hypothesis, but this gives premise."),
        ("nli", ["--context", "one", "--question", "two"], "but this gives context and question."),
        ("qa", ["--context", "one", "--question", "two", "three"], "qa reads context and question: give them as"),
        ("nli", ["--input-file", "trees.txt"], "but trees.txt, line 1, has 1 field"),
    ],
)
def test_what_is_missing_is_named(run: Call, name: str, words: list[str], said: str) -> None:
    done = run("task", "predict", name, f"{name}/model", *words)
    told = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2 and said in told, told


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
