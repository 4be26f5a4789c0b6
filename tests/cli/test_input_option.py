"""Every command that reads a user's text takes it for raw text, unless --input or a shard says otherwise."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.analysis.neighbors.build import index_input
from elmokit.formats import save
from elmokit.model.bilm import BiLM
from elmokit.training.config import FinetuneConfig, PretrainConfig, preset_names
from tests.running import Call, assert_one_line
from tests.training.runs import BASE, merge

READERS = [
    *(("embed",), ("score",), ("substitutes",), ("perplexity",), ("pretrain",), ("finetune",)),
    *(("corpus", "check"), ("corpus", "vocab"), ("corpus", "shard")),
    *(("analyse", "neighbours"), ("analyse", "senses")),
]
TEXT = "The play was naïve. It wasn't, they say.\n"
TOKENS = "the <unk> play was naïve .\nit was , they say <unk> .\n"
WORDS = ["The", "play", "was", "naïve", "."]


@pytest.fixture
def folder(bilm: BiLM, tmp_path: Path) -> Path:
    save(bilm, tmp_path / "model")
    (tmp_path / "in.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "tokens.txt").write_text(TOKENS, encoding="utf-8")
    return tmp_path


@pytest.fixture
def shards(folder: Path, run: Call) -> str:
    words = ["--output", "shards", "--shards", "1", "--compression", "none", "--input", "tokens"]
    assert run("corpus", "shard", "tokens.txt", *words).returncode == 0
    return "shards/shard-00000.txt"


@pytest.mark.parametrize("names", READERS, ids=" ".join)
def test_every_command_has_the_option(names: tuple[str, ...], run: Call) -> None:
    text = " ".join(run(*names, "--help").stdout.replace("│", " ").split())
    default = "as in CONFIG" if names in (("pretrain",), ("finetune",)) else "text"
    assert "--input <tokens|text>" in text
    assert f"[default: ({default})]" in text.partition("--input <")[2][:300]


@pytest.mark.parametrize("kind", [PretrainConfig, FinetuneConfig])
def test_every_preset_names_its_input(kind: type[PretrainConfig] | type[FinetuneConfig]) -> None:
    """So that a change of the default changes no preset."""
    import tomllib
    from importlib import resources

    found = {}
    for name in preset_names(kind):
        path = resources.files("elmokit") / "presets" / kind.preset_folder / f"{name}.toml"
        found[name] = tomllib.loads(path.read_text(encoding="utf-8"))["corpus"]["input"]
    tokens = {"ptb", "wikitext-2", "small", "medium", "original"}
    assert found == {name: "tokens" if name in tokens else "text" for name in found}


def test_raw_text_is_the_default(folder: Path, run: Call) -> None:
    words = ("--model", "model", "--threads", "1")
    done = run("embed", "in.txt", "-", *words)
    assert json.loads(done.stdout.splitlines()[1])["tokens"][:5] == WORDS
    done = run("score", "in.txt", "--model", "model", "--json")
    assert json.loads(done.stdout.splitlines()[0])["tokens"] == WORDS
    done = run("perplexity", "model", "in.txt", "--json")
    assert json.loads(done.stdout)["reset"]["num_sentences"] == 2
    assert run("substitutes", "The play.", "--position", "2", "--model", "model").returncode == 0
    assert json.loads(run("corpus", "check", "in.txt", "--json").stdout)["num_sentences"] == 2
    assert run("corpus", "vocab", "in.txt", "--output", "vocab.txt").returncode == 0
    vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8").split()
    assert {"naïve", "n't", "."} < set(vocabulary) and "naïve." not in vocabulary
    assert run("corpus", "shard", "in.txt", "--output", "out", "--shards", "1", "--compression", "none").returncode == 0
    assert (folder / "out/shard-00000.txt").read_text(encoding="utf-8").splitlines()[0] == " ".join(WORDS)


@pytest.mark.parametrize("given", [[], ["--input", "tokens"]], ids=["default", "tokens"])
def test_shards_are_read_as_tokens(shards: str, given: list[str], run: Call, folder: Path) -> None:
    done = run("embed", shards, "-", "--model", "model", "--threads", "1", *given)
    assert json.loads(done.stdout.splitlines()[1])["tokens"] == TOKENS.splitlines()[0].split()
    assert '"input": "tokens"' in done.stdout.splitlines()[0]
    done = run("score", shards, "--model", "model", "--json", *given)
    assert "<unk>" in json.loads(done.stdout.splitlines()[0])["tokens"]
    assert json.loads(run("perplexity", "model", shards, "--json", *given).stdout)["reset"]["num_predictions"] == 15
    report = json.loads(run("corpus", "check", shards, "--heldout", shards, "--json", *given).stdout)
    assert (report["num_tokens"], report["heldout_overlap"]) == (13, 1.0)
    assert run("corpus", "vocab", shards, "--output", "vocab.txt", *given).returncode == 0
    assert "<unk>" in (folder / "vocab.txt").read_text().split()
    words = ["--model", "model", "--threads", "1", "--json", *given]
    assert run("analyse", "senses", "<unk>", "--corpus", shards, *words).returncode == 0
    done = run("analyse", "neighbours", "they play", "--word", "play", "--corpus", shards, "--index", "index", *words)
    assert done.returncode == 0
    assert index_input(folder / "index") == "tokens"


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("names", [("corpus", "check"), ("score", "--model", "model"), ("perplexity", "model")])
def test_shards_as_text_are_warned_about(names: tuple[str, ...], shards: str, run: Call) -> None:
    done = run(*names, shards, "--input", "text")
    assert done.returncode == 0
    assert done.stderr.count("shard-00000.txt was written by elmokit corpus shard") == 1


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize(
    "names", [("corpus", "check"), ("score", "--model", "model"), ("perplexity", "model"), ("embed",)], ids=" ".join
)
@pytest.mark.parametrize(
    ("text", "input", "advice"),
    [(TEXT * 3, "tokens", "--input text"), (TOKENS * 3, "text", "--input tokens")],
    ids=["text as tokens", "tokens as text"],
)
def test_the_other_kind_is_warned_about_once(
    names: tuple[str, ...], text: str, input: str, advice: str, folder: Path, run: Call
) -> None:
    (folder / "other.txt").write_text(text, encoding="utf-8")
    more = ["out.npz", "--model", "model", "--threads", "1"] if names == ("embed",) else []
    done = run(*names, "other.txt", *more, "--input", input)
    assert done.returncode == 0
    assert done.stderr.count("warning: other.txt looks like") == 1 and advice in done.stderr


# --- pretrain and finetune -------------------------------------------------------------------------------------------

FILES = ["--train", "in.txt", "--output", "run", "--threads", "1", "--set", "loss.num_negatives=4"]


def read_settings(folder: Path) -> Any:
    return json.loads((folder / "run/run.json").read_text(encoding="utf-8"))["config"]["corpus"]["input"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [([], "text"), (["--input", "tokens"], "tokens"), (["--set", "corpus.input=tokens"], "tokens")],
    ids=["default", "option", "setting"],
)
def test_a_run_reads_as_asked(given: list[str], expected: str, folder: Path, run: Call) -> None:
    assert run("pretrain", "tiny", *FILES, *given).returncode == 0
    assert read_settings(folder) == expected
    assert ("naïve." in (folder / "run/vocab.txt").read_text(encoding="utf-8").split()) == (expected == "tokens")


def test_fine_tuning_reads_as_asked(folder: Path, run: Call) -> None:
    words = ["--train", "in.txt", "--output", "run", "--threads", "1", "--set", "batch_size=2"]
    assert run("finetune", "model", *words, "--input", "tokens").returncode == 0
    assert read_settings(folder) == "tokens"


@pytest.mark.filterwarnings("always")
def test_runs_on_shards_read_tokens(shards: str, folder: Path, run: Call) -> None:
    words = ["pretrain", "tiny", "--train", shards, *FILES[2:]]
    assert run(*words).returncode == 0
    assert "<unk>" in (folder / "run/vocab.txt").read_text(encoding="utf-8").split()
    done = run(*words, "--resume", "--input", "text")
    assert done.returncode == 0 and "written by elmokit corpus shard" in done.stderr


def forget_input(folder: Path) -> None:
    """Make the record of a run as old as it can be."""
    path = folder / "run/run.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["config"]["corpus"]["input"]
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize("forgotten", [False, True])
def test_runs_of_the_old_default_resume_as_tokens(forgotten: bool, folder: Path, run: Call) -> None:
    config = merge(BASE, {"loop": {"max_steps": 4}, "loss": {"num_negatives": 4}})
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    words = ["pretrain", "config.json", "--train", "in.txt", "--output", "run", "--threads", "1"]
    assert run(*words, "--input", "tokens").returncode == 0
    if forgotten:
        forget_input(folder)
    assert run(*words, "--resume").returncode == 0
    assert_one_line(run(*words, "--resume", "--input", "text"), "corpus.input", '"tokens"')
    (folder / "config.json").write_text(json.dumps(merge(config, {"corpus": {"input": "text"}})), encoding="utf-8")
    assert_one_line(run(*words, "--resume"), "corpus.input", '"tokens"')
