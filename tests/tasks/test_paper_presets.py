"""The six presets of the paper: their settings, the sizes of their models, and real steps with them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from elmokit.tasks.base import Labels, Task
from elmokit.tasks.batches import TokenLookup
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.inputs import CharCnn, ElmoInputs, TokenInputs
from elmokit.tasks.registry import TASKS
from elmokit.tasks.step import TaskStep
from elmokit.tasks.words import WordTable
from elmokit.training.config import preset_names, read_run
from elmokit.training.optim import Optimizer
from tests.tasks.conftest import write_entities
from tests.tasks.coref.test_model import write_documents
from tests.tasks.nli.test_model import write_pairs
from tests.tasks.qa.test_model import write_squad
from tests.tasks.sentiment.test_model import write_trees
from tests.tasks.srl.test_model import write_roles

WORDS, LAYERS, ELMO = 100, 3, 1024
"""Width of word vectors without a file; layers of the paper's biLM and their width."""
PAPER: dict[str, dict[str, Any]] = {
    "ner": {
        "optimizer.kind": "adamw",
        "optimizer.learning_rate": 1e-3,
        "optimizer.clip_norm": 5.0,
        "batch_size": 64,
        "elmo.regularization": 0.1,
        "loop.patience": 25,
        "model.dropout": 0.5,
    },
    "sentiment": {
        "optimizer.kind": "adamw",
        "batch_size": 100,
        "loop.patience": 5,
        "model.phrases": True,
        "model.num_classes": 5,
        "model.input_dropout": 0.5,
    },
    "nli": {
        "optimizer.kind": "adamw",
        "optimizer.learning_rate": 4e-4,
        "optimizer.halve_after": 1,
        "batch_size": 32,
        "elmo.place": "both",
        "model.dropout": 0.5,
    },
    "qa": {
        "optimizer.kind": "adadelta",
        "optimizer.learning_rate": 1.0,
        "batch_size": 45,
        "average": 0.999,
        "elmo.place": "both",
        "model.dropout": 0.2,
        "model.max_answer": 17,
    },
    "srl": {
        "optimizer.kind": "adadelta",
        "optimizer.betas": (0.9, 0.95),
        "optimizer.clip_value": 1.0,
        "batch_size": 80,
        "elmo.place": "input",
        "elmo.regularization": 0.001,
        "model.dropout": 0.1,
    },
    "coref": {
        "optimizer.kind": "adamw",
        "optimizer.learning_rate": 1e-3,
        "batch_size": 1,
        "elmo.place": "input",
        "model.lexical_dropout": 0.5,
        "model.max_width": 10,
        "model.spans_per_word": 0.4,
        "model.max_antecedents": 100,
    },
}
"""What PAPER.md §5 says, where it is a setting and no size; Adam is AdamW without weight decay."""
NAMES = tuple(PAPER)


@pytest.mark.parametrize("name", NAMES)
def test_settings(name: str) -> None:
    config = read_run(TaskConfig, f"{name}-paper")
    values = config.model_dump()
    values["model"] = TASKS[name].read_settings(config.model).model_dump()
    for path, expected in PAPER[name].items():
        found: Any = values
        for part in path.split("."):
            found = found[part]
        assert found == expected, path
    assert config.optimizer.weight_decay == 0
    assert config.elmo.layers == "all" and not config.elmo.tuned


def test_there_is_one_for_every_task_of_the_paper() -> None:
    assert {name for name in preset_names(TaskConfig) if name.endswith("-paper")} == {f"{name}-paper" for name in NAMES}
    assert {*NAMES, "tag"} == set(TASKS)


# --- Sizes, counted from the equations -------------------------------------------------------------------------------


def lstm(in_dim: int, hidden: int) -> int:
    """Both directions: four gates with two biases each, as torch has them."""
    return 2 * 4 * hidden * (in_dim + hidden + 2)


def gru(in_dim: int, hidden: int) -> int:
    return 2 * 3 * hidden * (in_dim + hidden + 2)


def dense(in_dim: int, out_dim: int) -> int:
    return (in_dim + 1) * out_dim


def characters(width: int, num_filters: int, span: int) -> int:
    """A table of 256 bytes and nothing, and the filters."""
    return 257 * width + dense(width * span, num_filters)


def mixes(number: int) -> int:
    return number * (LAYERS + 1)


def count_ner(rows: int, labels: Labels) -> int:
    tags = len(labels["tags"])
    encoder = lstm(WORDS + 128 + ELMO, 200) + lstm(400, 200)
    crf = tags * tags + 2 * tags
    return rows * WORDS + characters(16, 128, 3) + mixes(1) + encoder + dense(400, tags) + crf


def count_sentiment(rows: int, labels: Labels) -> int:
    encoder = dense(WORDS + ELMO, 300) + lstm(300, 300)
    integrator = lstm(3 * 600, 300) + dense(600, 1)
    maxouts = 2 * 2400 + dense(2400, 4 * 1200) + 2 * 1200 + dense(1200, 4 * 600)
    return rows * WORDS + mixes(1) + encoder + integrator + maxouts + dense(600, 5)


def count_nli(rows: int, labels: Labels) -> int:
    compare = dense(4 * (600 + ELMO), 300) + lstm(300, 300)
    return rows * WORDS + mixes(2) + lstm(WORDS + ELMO, 300) + compare + dense(8 * 300, 300) + dense(300, 3)


def count_qa(rows: int, labels: Labels) -> int:
    """Words do not learn."""
    encoder = characters(20, 100, 5) + mixes(2) + gru(WORDS + 100 + ELMO, 90)
    asked = 3 * (180 + ELMO) + dense(4 * (180 + ELMO), 180)
    itself = gru(180, 90) + 3 * 180 + dense(3 * 180, 180)
    return encoder + asked + itself + gru(180, 90) + dense(180, 1) + gru(2 * 180, 90) + dense(180, 1)


def count_srl(rows: int, labels: Labels) -> int:
    """The biLSTM of 64 that finds predicates is elmokit's own."""
    layers = sum(6 * 300 * (WORDS + ELMO + 100 if k == 0 else 300) + 5 * 300 * (300 + 1) for k in range(8))
    roles, finder = dense(300, len(labels["tags"])), lstm(WORDS + ELMO, 64) + dense(128, 1)
    return rows * WORDS + mixes(1) + 2 * 100 + layers + roles + finder


def count_coref(rows: int, labels: Labels) -> int:
    """With speakers and one genre: three more features of 20 in all, distances among them."""
    inputs = WORDS + 150 + ELMO
    span = 400 + 400 + inputs + 20

    def scorer(width: int) -> int:
        return dense(width, 150) + dense(150, 150) + dense(150, 1)

    features = 20 * (10 + 9 + 3 + (1 + len(labels["genres"])))  # widths, buckets of distances, speakers, genres
    scorers = scorer(400) + scorer(span) + scorer(3 * span + 3 * 20)
    return rows * WORDS + characters(8, 150, 4) + mixes(1) + lstm(inputs, 200) + scorers + features


@dataclass(frozen=True)
class Case:
    """How to write a few examples of a task, how many parameters its model has, and shapes of some."""

    write: Callable[[Path], object]
    count: Callable[[int, Labels], int]
    shapes: dict[str, tuple[int, ...]]
    file_name: str


CASES = {
    "ner": Case(
        lambda path: write_entities(path, 3, 0),
        count_ner,
        {"encoder.layers.0.ahead.weight_ih_l0": (800, 1252), "inputs.char_cnn.convolution.weight": (128, 16, 3)},
        "few.conll",
    ),
    "sentiment": Case(
        lambda path: write_trees(path, 1, 0),
        count_sentiment,
        {"integrator.layers.0.ahead.weight_ih_l0": (1200, 1800), "maxouts.0.2.linear.weight": (4800, 2400)},
        "few.txt",
    ),
    "nli": Case(
        lambda path: write_pairs(path, 4, 0),
        count_nli,
        {
            "encoder.layers.0.ahead.weight_ih_l0": (1200, 1124),
            "compare.weight": (300, 6496),
            "classify.4.weight": (3, 300),
        },
        "few.jsonl",
    ),
    "qa": Case(
        lambda path: write_squad(path, 2, 0),
        count_qa,
        {"encoder.layers.0.input_weight": (2, 1224, 270), "merge.0.weight": (180, 4816), "to_itself.product": (180,)},
        "few.json",
    ),
    "srl": Case(
        lambda path: write_roles(path, 3, 1),
        count_srl,
        {"encoder.layers.0.input_weight": (1224, 1800), "encoder.layers.7.recurrent_weight": (300, 1500)},
        "few.gold_conll",
    ),
    "coref": Case(
        lambda path: write_documents(path, 1, 0),
        count_coref,
        {"encoder.layers.0.ahead.weight_ih_l0": (800, 1274), "spans.mentions.first.weight": (150, 2094)},
        "few_conll",
    ),
}


@dataclass(frozen=True)
class Built:
    """A preset's model, and a batch of it."""

    config: TaskConfig
    labels: Labels
    model: Any
    num_words: int
    batch: tuple[list[Any], Any]


def build(name: str, folder: Path) -> Built:
    """The preset's model over a few examples, read from a file as they come; random numbers stand for the biLM's."""
    config, task = read_run(TaskConfig, f"{name}-paper"), TASKS[name]
    settings = task.read_settings(config.model)
    path = folder / CASES[name].file_name
    CASES[name].write(path)
    examples = list(task.read([path], settings, training=True))
    torch.manual_seed(0)
    table = WordTable(sorted({token for sentence in task.sentences(examples) for token in sentence}))
    filters = task.char_cnn_shape(settings)
    cnn = CharCnn(char_dim=filters[0], num_filters=filters[1], width=filters[2]) if filters else None
    elmo = ElmoInputs(config.elmo, num_layers=LAYERS, width=ELMO)
    vectors = 0.1 * torch.randn(len(table), WORDS)
    inputs = TokenInputs(vectors, tune_words=config.words.tuned, char_cnn=cnn, elmo=elmo)
    labels = task.find_labels(examples)
    return Built(
        config, labels, task.build(settings, inputs, labels), len(table), collate(task, examples, labels, table)
    )


def collate(task: Task[Any], examples: list[Any], labels: Labels, table: WordTable) -> tuple[list[Any], Any]:
    lookup = TokenLookup(table)
    texts = [lookup.batch(each) for each in zip(*map(task.texts, examples), strict=True)]
    texts = [replace(text, layers=0.3 * torch.randn(LAYERS, *text.mask.shape, ELMO)) for text in texts]
    return texts, task.collate(examples, labels, texts)


def silence(model: nn.Module) -> int:
    """Set every rate of dropout to 0; how many there were above it."""
    found = 0
    for module in model.modules():
        for name in ("p", "rate", "dropout"):
            if isinstance(value := getattr(module, name, None), float):
                found += value > 0
                setattr(module, name, 0.0)
    return found


def build_optimizer(built: Built) -> Optimizer:
    """As the runner does: the word table's gradients are sparse."""
    learning = [pair for pair in built.model.named_parameters() if pair[1].requires_grad]
    rows = [pair for pair in learning if pair[0] == "inputs.word_table"]
    return Optimizer([pair for pair in learning if pair[0] != "inputs.word_table"], rows, built.config.optimizer, 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_sizes_and_steps(name: str, tmp_path: Path) -> None:
    """The number of what learns is what the paper's sizes give; steps on one batch lower its loss.

    Of SRL only the first step must: Adadelta at a rate of 1 begins with sign-like steps of 4e-3, too wide for eight
    layers and a handful of sentences, and the loss swings.
    """
    built = build(name, tmp_path)
    learning = {key: parameter for key, parameter in built.model.named_parameters() if parameter.requires_grad}
    assert sum(parameter.numel() for parameter in learning.values()) == CASES[name].count(built.num_words, built.labels)
    for key, shape in CASES[name].shapes.items():
        assert learning[key].shape == shape, key
    step, optimizer = TaskStep(built.model.train(), average=built.config.average), build_optimizer(built)
    losses = []
    for number in range(4):
        losses.append(step(built.batch, number).loss)  # the first with dropout, as training is
        assert losses[-1] > 0 and torch.tensor(losses[-1]).isfinite()
        if number:
            norm = optimizer.update(number - 1)
            assert 0 < norm < float("inf")
        else:
            optimizer.clear()
            assert silence(built.model) > 0
    assert losses[2] < losses[1], losses
    assert losses[3] < losses[1] or name == "srl", losses
