"""Wrong calls of text functions, and of what prepares and configures training."""

from collections import Counter
from typing import Any

import elmokit
from elmokit.corpus.check import check_corpus
from elmokit.corpus.counting import build_vocabulary, count_words
from elmokit.corpus.shards import write_shards
from elmokit.corpus.stream import SentenceStream
from elmokit.errors import ConfigError, FormatError, InputError, VocabularyError
from elmokit.text.dictionary import read_dictionary
from elmokit.text.files import find_files
from elmokit.text.lines import read_sentences
from elmokit.text.sentences import split_sentences
from elmokit.text.vocabulary import Vocabulary, read_vocabulary, write_vocabulary
from elmokit.training.checkpoint import load_checkpoint
from elmokit.training.config import FinetuneConfig, PretrainConfig, read_run
from tests.campaign.row import Kit, Row, row

MARKS = ["<S>", "</S>", "<UNK>"]


def _stream(kit: Kit, name: str = "good.txt", **settings: Any) -> SentenceStream:
    return SentenceStream([kit.file(name)], **settings)


def _shards(kit: Kit, name: str = "good.txt", **settings: Any) -> object:
    return write_shards([kit.file(name)], kit.new("shards"), **{"num_shards": 2, "input": "tokens", **settings})


TEXT: list[Row] = [
    row("tokenize-none", lambda k: elmokit.tokenize(None), "tokenize()|NoneType", InputError),
    row("tokenize-bytes", lambda k: elmokit.tokenize(b"a"), "tokenize()|bytes|decode", InputError),
    row("tokenize-list", lambda k: elmokit.tokenize(["a b"]), "tokenize()|list|once per text", InputError),
    row("tokenize-number", lambda k: elmokit.tokenize(3), "tokenize()|int", InputError),
    row("tokenize-split", lambda k: elmokit.tokenize("a", split_sentences="no"), "split_sentences ('no')", ConfigError),
    row("tokenize-positional", lambda k: elmokit.tokenize("a", True), "positional", TypeError),
    row("split-none", lambda k: split_sentences(None), "text|None", InputError),
    row("split-bytes", lambda k: split_sentences(b"a. b"), "text|bytes|decode", InputError),
    row("split-list", lambda k: split_sentences(["a. b"]), "text|list", InputError),
    row("vocabulary-nothing", lambda k: Vocabulary([]), "lacks <S>", VocabularyError),
    row("vocabulary-marks", lambda k: Vocabulary(["the", *MARKS]), "<S> on line 2", VocabularyError),
    row("vocabulary-twice", lambda k: Vocabulary([*MARKS, "<S>"]), "<S> on lines 1, 4", VocabularyError),
    row("vocabulary-str", lambda k: Vocabulary("abc"), "str 'abc'", InputError),
    row("vocabulary-none", lambda k: Vocabulary(None), "None", InputError),
    row("vocabulary-token", lambda k: Vocabulary([*MARKS, 3]), "token 3|3 (int)", InputError),
    row("vocabulary-ids-str", lambda k: k.bilm.vocabulary.to_ids("abc"), "str 'abc'", InputError),
    row("vocabulary-ids-none", lambda k: k.bilm.vocabulary.to_ids(None), "None", InputError),
    row("vocabulary-ids-token", lambda k: k.bilm.vocabulary.to_ids(["a", ["b"]]), "token 1|list", InputError),
    row("read-vocabulary-missing", lambda k: read_vocabulary(k.file("no.txt")), "no.txt|cannot be read", InputError),
    row("read-vocabulary-folder", lambda k: read_vocabulary(k.file("folder")), "folder|cannot be read", InputError),
    row(
        "read-vocabulary-marks",
        lambda k: read_vocabulary(k.file("no-marks.txt")),
        "no-marks.txt lacks <S>",
        VocabularyError,
    ),
    row("read-vocabulary-latin1", lambda k: read_vocabulary(k.file("latin1.txt")), "latin1.txt|UTF-8", InputError),
    row("read-vocabulary-gz", lambda k: read_vocabulary(k.file("not.gz")), "not.gz|damaged", InputError),
    row("read-vocabulary-none", lambda k: read_vocabulary(None), "path (None)", ConfigError),
    row(
        "write-vocabulary-space",
        lambda k: write_vocabulary(Vocabulary([*MARKS, " a"]), k.new("v.txt")),
        "' a'",
        VocabularyError,
    ),
    row(
        "write-vocabulary-line",
        lambda k: write_vocabulary(Vocabulary([*MARKS, "a\nb"]), k.new("v.txt")),
        "'a\\nb'",
        VocabularyError,
    ),
    row(
        "read-dictionary",
        lambda k: read_dictionary(k.file("char.dic"), num_rows=9),
        "char.dic, line 2",
        VocabularyError,
    ),
    row(
        "read-dictionary-rows",
        lambda k: read_dictionary(k.file("many/char.dic"), num_rows=2),
        "2 rows",
        VocabularyError,
    ),
]

CORPUS: list[Row] = [
    row("files-nothing", lambda k: find_files([str(k.file("no*.zip"))]), "no file matches|no*.zip", InputError),
    row("files-folder", lambda k: find_files([str(k.file("folder"))]), "is a folder|*.txt", InputError),
    row("files-none", lambda k: find_files(None), "patterns|None", ConfigError),
    row("files-str", lambda k: find_files(str(k.file("good.txt"))), "patterns is the str|list", ConfigError),
    row("files-number", lambda k: find_files([3]), "pattern|3", ConfigError),
    row("read-input", lambda k: list(read_sentences(k.file("good.txt"), input="raw")), "input 'raw'", ConfigError),
    row("read-missing", lambda k: list(read_sentences(k.file("no.txt"), input="text")), "no.txt", InputError),
    row(
        "read-latin1",
        lambda k: list(read_sentences(k.file("latin1.txt"), input="text")),
        "latin1.txt|UTF-8",
        InputError,
    ),
    row("read-none", lambda k: list(read_sentences(None, input="text")), "path (None)", ConfigError),
    row(
        "read-errors",
        lambda k: list(read_sentences(k.file("good.txt"), input="text", errors="maybe")),
        "errors 'maybe'",
        ConfigError,
    ),
    row("sentences-nothing", lambda k: SentenceStream([]), "no files", InputError),
    row("sentences-path", lambda k: SentenceStream(k.file("good.txt")), "paths|list", ConfigError),
    row("sentences-str", lambda k: SentenceStream(["good.txt"]), "paths|'good.txt'", ConfigError),
    row("sentences-missing", lambda k: _stream(k, "no.txt"), "no.txt", InputError),
    row("sentences-blank", lambda k: next(_stream(k, "blank.txt")), "no sentence|blank.txt", InputError),
    row("sentences-latin1", lambda k: next(_stream(k, "latin1.txt")), "latin1.txt|UTF-8", InputError),
    row("sentences-input", lambda k: _stream(k, input="raw"), "input 'raw'", ConfigError),
    row("sentences-seed", lambda k: _stream(k, seed=-1), "seed|-1", ConfigError),
    row("sentences-seed-str", lambda k: _stream(k, seed="0"), "seed|'0'", ConfigError),
    row("sentences-buffer", lambda k: _stream(k, buffer_sentences=0), "buffer_sentences|0", ConfigError),
    row("sentences-buffer-none", lambda k: _stream(k, buffer_sentences=None), "buffer_sentences|None", ConfigError),
    row("sentences-passage", lambda k: _stream(k, passage_sentences=1.5), "passage_sentences|1.5", ConfigError),
    row("sentences-epochs", lambda k: _stream(k, num_epochs=0), "num_epochs|0", ConfigError),
    row("sentences-order", lambda k: _stream(k, order="any"), "order 'any'|mixed or files", ConfigError),
    row("sentences-weights", lambda k: _stream(k, weights=2), "weights|2|wikipedia-*", ConfigError),
    row("sentences-weight-zero", lambda k: _stream(k, weights={"*": 0}), "'*'|0", ConfigError),
    row(
        "sentences-weights-of-none", lambda k: _stream(k, weights={"wiki*": 2}), "'wiki*'|no training file", ConfigError
    ),
    row("sentences-lengths", lambda k: _stream(k, lengths=[1, 2]), "lengths|2|1", ConfigError),
    row("sentences-open", lambda k: _stream(k, max_open_files=0), "max_open_files|0", ConfigError),
    row("sentences-state", lambda k: _stream(k).load_state_dict({}), "not a state", InputError),
    row("sentences-state-none", lambda k: _stream(k).load_state_dict(None), "not a state", InputError),
    row(
        "stream-state-other",
        lambda k: _stream(k).load_state_dict(_stream(k, seed=1).state_dict()),
        "seed is 0, but 1",
        InputError,
    ),
    row("count-missing", lambda k: count_words([k.file("no.txt")]), "no.txt", InputError),
    row("count-input", lambda k: count_words([k.file("good.txt")], input="raw"), "input 'raw'", ConfigError),
    row("count-processes", lambda k: count_words([k.file("good.txt")], processes=0), "processes", ConfigError),
    row("count-latin1", lambda k: count_words([k.file("latin1.txt")]), "line 1|latin1.txt", InputError),
    row("count-path", lambda k: count_words(k.file("good.txt")), "paths|list", ConfigError),
    row("count-strs", lambda k: count_words(["good.txt"]), "paths|'good.txt'", ConfigError),
    row("count-distinct", lambda k: count_words([k.file("good.txt")], max_distinct=0), "max_distinct", ConfigError),
    row("build-nothing", lambda k: build_vocabulary({}), "no word", InputError),
    row("build-rare", lambda k: build_vocabulary({"a": 1}, min_count=2), "no word occurs 2 times", InputError),
    row("build-min", lambda k: build_vocabulary({"a": 1}, min_count=0), "min_count (0)", ConfigError),
    row("build-max", lambda k: build_vocabulary({"a": 1}, max_size=3), "max_size (3)", ConfigError),
    row("build-list", lambda k: build_vocabulary(["a"]), "counts|list", ConfigError),
    row("build-min-str", lambda k: build_vocabulary(Counter("a"), min_count="1"), "min_count|'1'", ConfigError),
    row("shards-0", lambda k: _shards(k, num_shards=0), "num_shards|0", ConfigError),
    row("shards-str", lambda k: _shards(k, num_shards="2"), "num_shards|'2'", ConfigError),
    row("shards-seed", lambda k: _shards(k, seed=-1), "seed|-1", ConfigError),
    row("shards-passage", lambda k: _shards(k, passage_sentences=0), "passage_sentences|0", ConfigError),
    row("shards-compression", lambda k: _shards(k, compression="zip"), "compression 'zip'|xz, gz or none", ConfigError),
    row("shards-input", lambda k: _shards(k, input="raw"), "input 'raw'", ConfigError),
    row("shards-missing", lambda k: _shards(k, "no.txt"), "no.txt", InputError),
    row("shards-blank", lambda k: _shards(k, "blank.txt"), "no sentence|blank.txt", InputError),
    row("check-missing", lambda k: check_corpus([k.file("no.txt")], input="tokens"), "no.txt", InputError),
    row("check-input", lambda k: check_corpus([k.file("good.txt")], input="raw"), "input 'raw'", ConfigError),
]

RUNS: list[Row] = [
    row("run-preset", lambda k: read_run(PretrainConfig, "gigantic"), "'gigantic'|mini", ConfigError),
    row("run-none", lambda k: read_run(PretrainConfig, None), "source|None", ConfigError),
    row(
        "run-missing", lambda k: read_run(PretrainConfig, str(k.file("no.toml"))), "no.toml|cannot be read", ConfigError
    ),
    row(
        "run-broken",
        lambda k: read_run(PretrainConfig, str(k.file("broken.toml"))),
        "broken.toml|not TOML",
        ConfigError,
    ),
    row(
        "run-list",
        lambda k: read_run(PretrainConfig, str(k.file("list.json"))),
        "list.json|table of settings",
        ConfigError,
    ),
    row(
        "run-unknown",
        lambda k: read_run(PretrainConfig, str(k.file("unknown-key.toml"))),
        "unknown-key.toml|model",
        ConfigError,
    ),
    row(
        "run-set-unknown",
        lambda k: read_run(PretrainConfig, "mini", {"optimizer.rate": "1"}),
        "optimizer.rate",
        ConfigError,
    ),
    row(
        "run-set-rate",
        lambda k: read_run(PretrainConfig, "mini", {"optimizer.learning_rate": "-1"}),
        "learning_rate",
        ConfigError,
    ),
    row(
        "run-set-nan",
        lambda k: read_run(PretrainConfig, "mini", {"optimizer.learning_rate": "nan"}),
        "learning_rate",
        ConfigError,
    ),
    row("run-set-group", lambda k: read_run(PretrainConfig, "mini", {"seed.x": "1"}), "seed", ConfigError),
    row("run-set-batch", lambda k: read_run(PretrainConfig, "mini", {"batch_size": "0"}), "batch_size", ConfigError),
    row(
        "run-set-precision", lambda k: read_run(PretrainConfig, "mini", {"precision": "int8"}), "precision", ConfigError
    ),
    row(
        "run-set-huge",
        lambda k: read_run(PretrainConfig, "mini", {"model.lstm.cell_dim": "1000000000000"}),
        "cell_dim",
        ConfigError,
    ),
    row("run-set-list", lambda k: read_run(PretrainConfig, "mini", ["batch_size=8"]), "changes|list", ConfigError),
    row("run-freeze", lambda k: read_run(FinetuneConfig, "default", {"freeze": '["head"]'}), "freeze", ConfigError),
    row("checkpoint-missing", lambda k: load_checkpoint(k.file("no.pt")), "no.pt", FormatError),
    row("checkpoint-garbage", lambda k: load_checkpoint(k.file("garbage.bin")), "garbage.bin", FormatError),
    row("checkpoint-model", lambda k: load_checkpoint(k.file("many/encoder.pkl")), "encoder.pkl", FormatError),
]

ROWS = (*TEXT, *CORPUS, *RUNS)
