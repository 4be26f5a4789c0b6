"""A model says which tokenizer it was trained with; every command that tokenizes raw text for it reports another."""

import json
from pathlib import Path

import pytest

from elmokit.config import TokenizerConfig
from elmokit.formats import load, save
from elmokit.model.bilm import BiLM
from elmokit.text.tokenizers import EXTERNAL, OWN
from tests.running import Call, assert_one_line
from tests.tasks.small_files import FILES as TASK_FILES
from tests.tasks.small_files import RAW, SIZES
from tests.training.runs import BASE, merge

TEXT = "".join(
    f"The play was naïve. They saw {n} plays, and it wasn't a good play.\n{n} play well.\n" for n in range(4)
)
TOKENS = "".join(f"the play was naïve {n} .\nthey saw {n} a play .\n" for n in range(4))
MODELS = {
    "own": OWN,
    "silent": None,
    "newer": TokenizerConfig(name="elmokit", version=(OWN.version or 0) + 1),
    "external": EXTERNAL,
    "unknown": TokenizerConfig(name="later", version=3),
}
SAID = {
    "newer": f"trained with version {(OWN.version or 0) + 1} of elmokit's",
    "external": "trained with tokens of another",
}
RUN = ["--train", "FILE", "--output", "run"]
COMMANDS = {
    "embed": ["embed", "FILE", "-", "--model", "MODEL"],
    "score": ["score", "FILE", "--model", "MODEL"],
    "perplexity": ["perplexity", "MODEL", "FILE"],
    "substitutes": ["substitutes", "the play was", "--position", "1", "--model", "MODEL"],
    "contexts": [
        *("analyze", "neighbors", "the play was", "--word", "play", "--corpus", "FILE", "--index", "index"),
        *("--model", "MODEL"),
    ],
    "types": ["analyze", "neighbors", "--type", "play", "--corpus", "FILE", "--model", "MODEL"],
    "senses": ["analyze", "senses", "play", "--corpus", "FILE", "--model", "MODEL"],
    "ranking": [
        *("analyze", "senses", "--rank", "2", "--min-count", "2", "--corpus", "FILE", "--against", "FILE"),
        *("--model", "MODEL"),
    ],
    "finetune": ["finetune", "MODEL", *RUN, "--set", "batch_size=2", "--set", "num_epochs=1"],
    "pretrain": ["pretrain", "config.json", *RUN, "--init", "MODEL"],
}
pytestmark = pytest.mark.filterwarnings("always")


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, tokenizer in MODELS.items():
        bilm.config = bilm.config.model_copy(update={"tokenizer": tokenizer})
        save(bilm, tmp_path / name)
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "tokens.txt").write_text(TOKENS, encoding="utf-8")
    config = merge(BASE, {"loop": {"max_steps": 2}, "loss": {"num_negatives": 4}})
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    monkeypatch.setenv("ELMOKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("elmokit.analysis.usage.ranking.COMMON_TYPES", 0)
    return tmp_path


def words_of(command: str, model: str, file: str) -> list[str]:
    names = {"MODEL": model, "FILE": file}
    return [names.get(word, word) for word in COMMANDS[command]]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", ["newer", "external"])
def test_another_tokenizer_is_reported_once(command: str, model: str, run: Call) -> None:
    done = run(*words_of(command, model, "text.txt"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID[model]) == done.stderr.count("cut differently") == 1, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", ["own", "silent"])
def test_the_same_and_none_are_not(command: str, model: str, run: Call) -> None:
    done = run(*words_of(command, model, "text.txt"))
    assert done.returncode == 0, done.stderr
    assert "trained with" not in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_tokenizer_is_refused(command: str, run: Call, folder: Path) -> None:
    done = run(*words_of(command, "unknown", "text.txt"))
    assert_one_line(done, "the tokenizer 'later'", "install a newer elmokit, or give tokens")
    assert not (folder / "run").exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("model", ["newer", "external", "unknown"])
def test_tokens_work_with_any(command: str, model: str, run: Call) -> None:
    done = run(*words_of(command, model, "tokens.txt"), "--input", "tokens")
    assert done.returncode == 0, done.stderr
    assert "trained with" not in done.stderr


# --- Tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", TASK_FILES)
def test_tasks(name: str, folder: Path, run: Call) -> None:
    """Predicting is always of raw text; the files of two tasks hold it too."""
    file, text = TASK_FILES[name]
    (folder / file).write_text(text, encoding="utf-8")
    sizes = [word.replace("elmo.place=none", "elmo.place=input") for word in SIZES]
    words = ["--train", file, "--dev", file, "--model", "newer", "--output", "run", *sizes, "--threads", "1"]
    expected = int(name in ("nli", "qa"))
    done = run("task", "train", name, *words)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SAID["newer"]) == expected
    done = run("task", "evaluate", name, "run/model", file)
    assert done.returncode == 0 and done.stderr.count(SAID["newer"]) == expected
    done = run("task", "predict", name, "run/model", *RAW[name])
    assert done.returncode == 0 and done.stderr.count(SAID["newer"]) == 1
    assert "--input" not in done.stderr
    done = run("task", "predict", name, "run/model", *RAW[name], "--model", "own")  # the fingerprint is the same
    assert done.returncode == 0 and "trained with" not in done.stderr


# --- What training records -------------------------------------------------------------------------------------------


def shard(run: Call, file: str, *more: str) -> str:
    assert run("corpus", "shard", file, "--output", "shards", "--shards", "1", *more).returncode == 0
    return "shards/shard-00000.txt.xz"


def pretrain(run: Call, file: str, *more: str) -> TokenizerConfig | None:
    done = run("pretrain", "config.json", "--train", file, "--output", "run", "--threads", "1", *more)
    assert done.returncode == 0 and "tokeniz" not in done.stderr
    return load("run/model").config.tokenizer


@pytest.mark.parametrize(("file", "input", "expected"), [("text.txt", "text", OWN), ("tokens.txt", "tokens", EXTERNAL)])
def test_pretraining_records_it(file: str, input: str, expected: TokenizerConfig, run: Call) -> None:
    assert pretrain(run, file, "--input", input) == expected


@pytest.mark.parametrize(("file", "input", "expected"), [("text.txt", "text", OWN), ("tokens.txt", "tokens", EXTERNAL)])
def test_shards_record_it_for_pretraining(
    file: str, input: str, expected: TokenizerConfig, folder: Path, run: Call
) -> None:
    shards = shard(run, file, "--input", input)
    told = json.loads((folder / "shards/corpus.json").read_text(encoding="utf-8"))
    assert told["tokenizer"] == expected.model_dump()
    assert pretrain(run, shards) == expected
    done = run("corpus", "shard", shards, "--output", "again", "--shards", "1", "--json")
    assert json.loads(done.stdout)["tokenizer"] == expected.model_dump()


def change_record(path: Path, tokenizer: TokenizerConfig | None) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(told | {"tokenizer": tokenizer and tokenizer.model_dump()}), encoding="utf-8")


def test_training_over_shards_of_another_version(folder: Path, run: Call) -> None:
    shards = shard(run, "text.txt")
    change_record(folder / "shards/corpus.json", MODELS["newer"])
    assert pretrain(run, shards) == MODELS["newer"]
    done = run(*words_of("finetune", "own", shards), "--output", "tuned")
    assert done.returncode == 0
    assert done.stderr.count("but the shards were tokenized with version") == 1
    assert load(folder / "tuned/model").config.tokenizer == OWN
    done = run(*words_of("finetune", "newer", shards), "--output", "more")
    assert done.returncode == 0 and "tokeniz" not in done.stderr


def test_text_of_several_tokenizers(folder: Path, run: Call) -> None:
    shards = shard(run, "text.txt")
    change_record(folder / "shards/corpus.json", MODELS["newer"])
    words = ["--train", shards, "--train", "text.txt", "--output", "run", "--threads", "1"]
    done = run("pretrain", "config.json", *words)
    assert done.returncode == 0
    assert done.stderr.count("tokenized in more than one way") == 1
    assert load(folder / "run/model").config.tokenizer is None


@pytest.mark.parametrize(("model", "file"), [("silent", "text.txt"), ("newer", "text.txt"), ("external", "tokens.txt")])
def test_fine_tuning_keeps_it(model: str, file: str, folder: Path, run: Call) -> None:
    assert run(*words_of("finetune", model, file), "--input", file.removesuffix(".txt")).returncode == 0
    assert load(folder / "run/model").config.tokenizer == MODELS[model]


# --- What users see of it --------------------------------------------------------------------------------------------


def test_info(run: Call) -> None:
    def rows(model: str) -> str:
        lines = run("info", model).stdout.splitlines()
        return next(line.removeprefix("tokenizer").strip() for line in lines if line.startswith("tokenizer"))

    assert rows("own") == f"elmokit, version {OWN.version}"
    assert rows("silent") == "not stated"
    assert rows("newer").endswith(f"(here: version {OWN.version})")
    assert rows("unknown") == "later, version 3 (not in this elmokit)"
    told = json.loads(run("info", "own", "--json").stdout)
    assert told["config"]["tokenizer"] == {"name": "elmokit", "version": OWN.version}


@pytest.mark.parametrize("format", ["bilm", "nlpl", "native"])
@pytest.mark.parametrize("model", MODELS)
def test_conversion_keeps_it(format: str, model: str, folder: Path, run: Call) -> None:
    copy = "copy.zip" if format == "nlpl" else "copy"
    assert run("convert", model, copy, "--to", format).returncode == 0
    assert load(folder / copy).config.tokenizer == MODELS[model]
