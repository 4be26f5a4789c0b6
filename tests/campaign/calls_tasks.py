"""Wrong calls of tasks and of analyses."""

from functools import partial
from typing import Any

import numpy as np

from elmokit import Embedder
from elmokit.analysis.neighbors.build import open_index
from elmokit.analysis.neighbors.contexts import NeighborOptions, find_neighbors, locate_word
from elmokit.analysis.page import write_report
from elmokit.analysis.report import Chart, Report
from elmokit.analysis.usage.analyze import UsageOptions, analyze_senses
from elmokit.analysis.usage.groups import induce
from elmokit.analysis.usage.occurrences import Corpus, check_word, collect
from elmokit.analysis.wsd.data import read_wsd_data
from elmokit.embedding.layer_cache import LayerCache
from elmokit.errors import ConfigError, FormatError, InputError
from elmokit.tasks.config import read_task_config
from elmokit.tasks.coref.files import read_documents
from elmokit.tasks.ner.reader import read_entities
from elmokit.tasks.nli.reader import read_nli
from elmokit.tasks.qa.reader import read_squad
from elmokit.tasks.registry import TASKS, find_task
from elmokit.tasks.runner import TaskFiles, train_task
from elmokit.tasks.saved import load_task
from elmokit.tasks.sentiment.reader import read_sentiment_labels, read_sst
from elmokit.tasks.sets import read_sets
from elmokit.tasks.srl import files as srl
from elmokit.tasks.words import WordTable, build_table, read_vectors
from tests.campaign.row import Kit, Row, row

READERS: dict[str, Any] = {
    "entities": read_entities,
    "sst": read_sst,
    "sentiment": partial(read_sentiment_labels, input="tokens"),
    "nli": partial(read_nli, input="tokens"),
    "squad": read_squad,
    "srl": srl.read_sentences,
    "coref": read_documents,
}


def _all(reader: str, kit: Kit, name: str) -> list[Any]:
    return list(READERS[reader](kit.file(name)))


def _sets(kit: Kit, **files: Any) -> object:
    given = {"train": [str(kit.file("tags.txt"))], "dev": [str(kit.file("tags.txt"))], **files}
    return read_sets(TASKS["ner"], read_task_config("ner", "small"), **given)


def _corpus(kit: Kit) -> Corpus:
    return Corpus.find([str(kit.file("good.txt"))])


def _usage(kit: Kit, **options: Any) -> object:
    return analyze_senses(kit.embedder, (_corpus(kit),), UsageOptions(**{"forms": ("play",), **options}))


def _index(kit: Kit) -> Any:
    return open_index(kit.embedder, kit.file("good.txt"), kit.new("index"))


def _run(kit: Kit) -> Any:
    return read_task_config("ner", "small"), TaskFiles(["a"], ["b"], kit.new("r"))


TASK: list[Row] = [
    *(row(f"{n}-missing", partial(_all, n, name="no.txt"), "no.txt|cannot be read", InputError) for n in READERS),
    *(row(f"{n}-folder", partial(_all, n, name="folder"), "folder", InputError) for n in READERS if n != "coref"),
    *(row(f"{n}-latin1", partial(_all, n, name="latin1.txt"), "latin1.txt", InputError) for n in READERS),
    *(row(f"{n}-cut", partial(_all, n, name="cut.gz"), "cut.gz", InputError) for n in READERS),
    row("entities-columns", lambda k: _all("entities", k, "tags.txt"), "tags.txt|2", InputError),
    row("entities-prose", lambda k: _all("entities", k, "good.txt"), "good.txt", InputError),
    row("sst-tree", lambda k: _all("sst", k, "tree.txt"), "tree.txt|1", InputError),
    row("sst-classes", lambda k: list(read_sst(k.file("tree.txt"), num_classes=3)), "num_classes|3", ConfigError),
    row("sentiment-prose", lambda k: _all("sentiment", k, "good.txt"), "good.txt", InputError),
    row(
        "sentiment-input",
        lambda k: list(read_sentiment_labels(k.file("good.txt"), input="raw")),
        "input 'raw'",
        ConfigError,
    ),
    row("nli-keys", lambda k: _all("nli", k, "nli.jsonl"), "nli.jsonl", InputError),
    row("nli-input", lambda k: list(read_nli(k.file("nli.jsonl"), input="raw")), "input 'raw'", ConfigError),
    row("squad-json", lambda k: _all("squad", k, "broken.json"), "broken.json|not JSON", InputError),
    row("squad-list", lambda k: _all("squad", k, "list.json"), "list.json|data", InputError),
    row("squad-title", lambda k: _all("squad", k, "squad.json"), "squad.json|title", InputError),
    row("coref-columns", lambda k: _all("coref", k, "coref.conll"), "coref.conll", InputError),
    row(
        "coref-format", lambda k: list(read_documents(k.file("coref.conll"), format="xml")), "format 'xml'", ConfigError
    ),
    row(
        "srl-format", lambda k: list(srl.read_sentences(k.file("props.txt"), format="xml")), "format 'xml'", ConfigError
    ),
    row("srl-props", lambda k: _all("srl", k, "props.txt"), "props.txt", InputError),
    row("find-task", lambda k: find_task("pos"), "'pos'|ner", ConfigError),
    row("find-task-none", lambda k: find_task(None), "None|ner", ConfigError),
    row("task-config", lambda k: read_task_config("ner", "huge"), "ner-huge|ner-small", ConfigError),
    row("task-config-other", lambda k: read_task_config("ner", str(k.file("other.json"))), "other.json", ConfigError),
    row(
        "task-config-set", lambda k: read_task_config("ner", "small", {"elmo.place": "top"}), "elmo.place", ConfigError
    ),
    row("task-config-none", lambda k: read_task_config("ner", None), "preset|None", ConfigError),
    row("task-settings", lambda k: TASKS["ner"].read_settings({"width": 3}), "ner|width", ConfigError),
    row("load-trained-missing", lambda k: load_task(k.file("no")), "does not exist|task train", FormatError),
    row("load-trained-model", lambda k: load_task(k.file("model")), "model|task model", FormatError),
    row("load-trained-version", lambda k: load_task(k.file("task")), "elmokit-task 9", FormatError),
    row("load-trained-none", lambda k: load_task(None), "path (None)", ConfigError),
    row("sets-nothing", lambda k: _sets(k, train=[]), "no training files", InputError),
    row("sets-no-dev", lambda k: _sets(k, dev=[]), "no dev files", InputError),
    row("sets-missing", lambda k: _sets(k, train=["no.conll"]), "no.conll", InputError),
    row("vectors-short", lambda k: read_vectors(k.file("vectors.txt")), "vectors.txt line 2", InputError),
    row("vectors-empty", lambda k: read_vectors(k.file("empty.txt")), "empty.txt|no vector", InputError),
    row("vectors-missing", lambda k: read_vectors(k.file("no.txt")), "no.txt", InputError),
    row("table-twice", lambda k: WordTable(["a", "a"]), "twice", InputError),
    row("table-width", lambda k: build_table({}, [], width=0, min_count=1, seed=0), "width", ConfigError),
    row("store-carry", lambda k: LayerCache(Embedder(k.bilm, state="carry"), k.new("s")), "state 'carry'", ConfigError),
    row("store-token", lambda k: LayerCache(k.embedder, k.new("s")).prepare([["a", 3]]), "token 1|3 (int)", InputError),
    row("store-read", lambda k: LayerCache(k.embedder, k.new("s")).read(["never"]), "never", InputError),
]

ANALYSIS: list[Row] = [
    row("index-embedder", lambda k: open_index(None, k.file("good.txt")), "embedder is None|Embedder", ConfigError),
    row("index-corpus", lambda k: open_index(k.embedder, 3), "corpus (3)", ConfigError),
    row("index-number", lambda k: open_index(k.embedder, k.file("good.txt"), 3), "folder (3)", ConfigError),
    row("index-nul", lambda k: open_index(k.embedder, k.file("good.txt"), k.new("i\0")), "no file can have"),
    row("train-task", lambda k: train_task("ner", *_run(k)), "task is 'ner'|Task", ConfigError),
    row("train-task-config", lambda k: train_task(TASKS["ner"], {}, _run(k)[1]), "config is {}"),
    row("train-task-files", lambda k: train_task(TASKS["ner"], _run(k)[0], None), "files is None"),
    row("train-task-output", lambda k: TaskFiles(["a"], ["b"], None), "output (None)", ConfigError),
    row("index-nothing", lambda k: open_index(k.embedder, None), "corpus|folder", InputError),
    row(
        "index-missing",
        lambda k: open_index(k.embedder, k.file("no.txt"), k.new("i")),
        "no.txt|cannot be read",
        InputError,
    ),
    row("index-input", lambda k: open_index(k.embedder, k.file("good.txt"), k.new("i"), input="raw"), "input 'raw'"),
    row(
        "index-carry", lambda k: open_index(Embedder(k.bilm, state="carry"), k.file("good.txt"), k.new("i")), "'carry'"
    ),
    row("index-unfinished", lambda k: open_index(k.embedder, None, k.file("folder")), "no finished index", FormatError),
    row("index-foreign", lambda k: open_index(k.embedder, k.file("good.txt"), k.file("model")), "model", FormatError),
    row("index-blank", lambda k: open_index(k.embedder, k.file("blank.txt"), k.new("i")), "blank.txt", InputError),
    row("index-latin1", lambda k: open_index(k.embedder, k.file("latin1.txt"), k.new("i")), "latin1.txt", InputError),
    row("neighbours-against", lambda k: NeighborOptions(against="all"), "against 'all'|word or tokens", ConfigError),
    row("neighbours-k", lambda k: NeighborOptions(k=0), "k (0)", ConfigError),
    row("neighbours-layers", lambda k: NeighborOptions(layers=()), "layers", ConfigError),
    row("neighbours-ann", lambda k: NeighborOptions(ann=True), "ann", ConfigError),
    row("neighbours-word", lambda k: find_neighbors(_index(k), k.embedder, ["xyz"], 0), "'xyz'", InputError),
    row(
        "neighbours-position",
        lambda k: find_neighbors(_index(k), k.embedder, ["the"], 3),
        "position (3)|1 token",
        InputError,
    ),
    row("neighbours-str", lambda k: find_neighbors(_index(k), k.embedder, "the", 0), "str 'the'", InputError),
    row("locate-absent", lambda k: locate_word(["the", "play"], "plays"), "'plays'|'play'", InputError),
    row("locate-twice", lambda k: locate_word(["a", "a"], "a"), "2 times|0, 1", InputError),
    row("locate-far", lambda k: locate_word(["a"], "a", 7), "position 7", InputError),
    row("locate-str", lambda k: locate_word("a play", "a"), "str 'a play'", InputError),
    row("corpus-missing", lambda k: Corpus.find([str(k.file("no.txt"))]), "no.txt", InputError),
    row("corpus-folder", lambda k: Corpus.find([str(k.file("folder"))]), "is a folder", InputError),
    row("corpus-input", lambda k: Corpus.find([str(k.file("good.txt"))], input="raw"), "input 'raw'", ConfigError),
    row("corpus-str", lambda k: Corpus.find(str(k.file("good.txt"))), "patterns is the str", ConfigError),
    row(
        "corpus-blank", lambda k: list(Corpus.find([str(k.file("blank.txt"))]).read()), "blank.txt|no text", InputError
    ),
    row("corpus-nothing", lambda k: Corpus.find([]), "patterns|at least one", InputError),
    row("collect-0", lambda k: collect(_corpus(k), ["play"], max_occurrences=0), "max_occurrences (0)", ConfigError),
    row("collect-str", lambda k: collect(_corpus(k), "play", max_occurrences=5), "forms|str 'play'", InputError),
    row("word-two", lambda k: check_word("two words", "tokens"), "'two words'|2 tokens", InputError),
    row("word-blank", lambda k: check_word(" ", "text"), "no token", InputError),
    row("usage-word", lambda k: _usage(k, forms=("xyz",)), "'xyz' does not occur", InputError),
    row("usage-layers", lambda k: _usage(k, layers=9), "no layer 9", ConfigError),
    row("usage-forms", lambda k: _usage(k, forms=()), "forms", ConfigError),
    row("usage-groups", lambda k: _usage(k, num_groups=50), "50 groups", InputError),
    row("groups-0", lambda k: induce(np.zeros((5, 4)), 0), "0 groups", InputError),
    row("groups-few", lambda k: induce(np.zeros((1, 4))), "1 occurrence ", InputError),
    row(
        "report-twice",
        lambda k: write_report(Report("t", (_chart(), _chart()), {}), k.new("r")),
        "two pictures|same",
        ValueError,
    ),
    row(
        "report-nan",
        lambda k: write_report(Report("t", (), {"x": float("nan")}), k.new("r")),
        "figures|NaN",
        ValueError,
    ),
    row(
        "report-figures",
        lambda k: write_report(Report("t", (), {"x": object()}), k.new("r")),
        "figures|object",
        TypeError,
    ),
    row("report-block", lambda k: write_report(Report("t", (3,), {}), k.new("r")), "block|3", TypeError),
    row("report-none", lambda k: write_report(None, k.new("r")), "report|None", TypeError),
    row("report-file", lambda k: write_report(Report("t", (), {}), k.file("good.txt")), "good.txt", FormatError),
    row("wsd-missing", lambda k: read_wsd_data(k.file("no")), "no|semcor", InputError),
    row("wsd-folder", lambda k: read_wsd_data(k.file("folder")), "folder|semcor", InputError),
]


def _chart() -> Chart:
    return Chart("same", "a title", "a picture", lambda figure: None)


ROWS = (*TASK, *ANALYSIS)
