"""Settings of a run: presets, files, changes by dotted name, and one sentence on what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import ConfigError
from elmokit.settings import list_settings
from elmokit.tasks.config import TaskConfig, read_task_config
from elmokit.training.config import FinetuneConfig, PretrainConfig, preset_names, read_run


def test_every_preset_of_pretraining_makes_a_model() -> None:
    names = preset_names(PretrainConfig)
    assert {"tiny", "mini", "original"} <= set(names)
    for name in names:
        model = read_run(PretrainConfig, name).build_model(5000)
        assert model.softmax and model.vocab_size == 5000


def test_changes_by_dotted_name() -> None:
    changes = {
        "optimizer.learning_rate": "1e-3",
        "loss.kind": "full",
        "model.lstm.cell_dim": "24",
        "model.input.filters": "[[1, 4]]",
        "corpus.max_vocab": "90",
        "seed": "7",
    }
    found = read_run(PretrainConfig, "tiny", changes)
    assert (found.optimizer.learning_rate, found.loss.kind, found.corpus.max_vocab, found.seed) == (1e-3, "full", 90, 7)
    assert found.build_model(90).lstm.cell_dim == 24
    assert read_run(PretrainConfig, "tiny").seed == 0


@pytest.mark.parametrize("word", ["none", "None", "null", '"none"'])
def test_a_setting_that_may_be_none_can_be_set_to_it(word: str, tmp_path: Path) -> None:
    changes = {"corpus.max_vocab": word, "optimizer.clip_norm": word, "model.lstm.cell_clip": word}
    found = read_run(PretrainConfig, "tiny", changes)
    assert (found.corpus.max_vocab, found.optimizer.clip_norm) == (None, None)
    assert found.build_model(90).lstm.cell_clip is None
    (tmp_path / "a.toml").write_text(f"[optimizer]\nclip_norm = '{word.strip(chr(34))}'\n")
    assert read_run(FinetuneConfig, str(tmp_path / "a.toml")).optimizer.clip_norm is None
    task = read_task_config("ner", "small", {"words.max_vectors": word, "elmo.place": "none"})
    assert (task.words.max_vectors, task.elmo.place) == (None, "none")


def test_every_setting_that_explains_none_may_be_none() -> None:
    explained = 0
    for kind in (PretrainConfig, FinetuneConfig, TaskConfig):
        for setting in list_settings(kind, kind.groups).values():
            if "none:" in setting.explanation:
                explained += 1
                assert setting.optional, setting.name
    assert explained >= 5


def test_files_of_both_kinds(tmp_path: Path) -> None:
    values: dict[str, Any] = {"batch_size": 3, "loss": {"kind": "full"}}
    (tmp_path / "a.json").write_text(json.dumps(values))
    (tmp_path / "a.toml").write_text('batch_size = 3\n[loss]\nkind = "full"\n')
    found = [read_run(FinetuneConfig, str(tmp_path / name)) for name in ("a.json", "a.toml")]
    assert found[0] == found[1] == FinetuneConfig.model_validate(values)


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        ("huge", {}, r"no preset named 'huge'.*mini"),
        ("missing.toml", {}, r"missing\.toml cannot be read"),
        ("hugo", {}, r"no preset named 'hugo'"),
        ("orignal", {}, r"no preset named 'orignal' \(did you mean original\?\)"),
        ("tiny", {"optimizer.rate": "1"}, r"--set: there is no setting 'optimizer\.rate' \(.*optimizer\.learning_rate"),
        ("tiny", {"learning_rate": "1"}, r"no setting 'learning_rate' \(did you mean optimizer\.learning_rate\?\)"),
        (
            "tiny",
            {"model.lstm.cel_dim": "1"},
            r"'model\.lstm\.cel_dim' \(did you mean model\.lstm\.cell_dim",
        ),
        ("tiny", {"dropuot": "1"}, r"no setting 'dropuot' \(did you mean dropout"),
        ("tiny", {"zzz": "1"}, r"no setting 'zzz'; `elmokit presets NAME` lists"),
        ("tiny", {"seed.x": "1"}, r"no setting 'seed\.x'"),
        ("tiny", {"optimizer": "{lerning_rate = 1}"}, r"tiny: there is no setting 'optimizer\.lerning_rate'"),
        ("tiny", {"batch_size.x": "1"}, r"no setting 'batch_size\.x' \(did you mean batch_size\?\)"),
        ("tiny", {"optimizer.learning_rate": "fast"}, r"learning_rate.*given: fast"),
        ("tiny", {"optimizer.learning_rate": "inf"}, "learning_rate"),
        ("tiny", {"model.lstm.cell_dim": "0"}, r"model: lstm\.cell_dim"),
        ("tiny", {"loss.kind": "adaptive"}, "go together"),
        ("tiny", {"model.softmax_cutoffs": "[20, 40]"}, "go together"),
        ("tiny", {"loss.num_negatives": "1001"}, r"num_negatives \(1001\) exceeds corpus.max_vocab \(1000\)"),
    ],
)
def test_a_fault_is_one_sentence(source: str, changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        read_run(PretrainConfig, source, changes)
    assert "\n" not in str(error.value)


def test_unknown_names_in_a_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("[loss]\nnumber_negatives = 3\n")
    with pytest.raises(ConfigError, match=r"a\.toml: .* no setting 'loss\.number_negatives' .*loss\.num_negatives"):
        read_run(FinetuneConfig, str(tmp_path / "a.toml"))


def test_a_group_is_replaced_as_a_whole() -> None:
    found = read_run(PretrainConfig, "tiny", {"optimizer": "{kind = 'adagrad'}", "loss.kind": "full"})
    assert (found.optimizer.kind, found.optimizer.learning_rate) == ("adagrad", 0.2)


def test_cutoffs_beyond_a_small_vocabulary_are_a_fault_of_the_settings() -> None:
    """How many words there are is known only when the text has been counted."""
    config = read_run(PretrainConfig, "tiny", {"model.softmax_cutoffs": "[20, 40]", "loss.kind": "adaptive"})
    assert config.build_model(41).softmax_cutoffs == (20, 40)
    with pytest.raises(ConfigError, match=r"does not fit a vocabulary of 40: softmax_cutoffs \(20, 40\)"):
        config.build_model(40)
