"""Wrong calls of models: loading, saving, settings, ids, mixes, and AllenNLP's classes."""

import io
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

import elmokit
from elmokit.config import CharacterInput, LstmStack, parse_config, read_config
from elmokit.errors import ConfigError, FormatError, InputError, VocabularyError, WeightsError
from elmokit.formats import describe, detect_format
from elmokit.integrations import allennlp
from elmokit.scoring.perplexity import measure_perplexity
from elmokit.scoring.sentences import score_sentences
from elmokit.scoring.substitutes import find_substitutes
from elmokit.text.characters import ByteIndexer, TableIndexer
from elmokit.text.lines import read_text
from elmokit.text.vocabulary import Vocabulary
from elmokit.training.config import FinetuneConfig, PretrainConfig, read_run
from elmokit.training.finetuning import add_softmax, extend_vocabulary, finetune
from elmokit.training.pretraining import pretrain
from elmokit.training.run_files import RunFiles
from tests.campaign.row import INF, NAN, Kit, Row, row


def _allennlp(kit: Kit, **settings: object) -> object:
    files = {"options_file": kit.file("bilm/options.json"), "weight_file": kit.file("bilm/weights.hdf5")}
    return allennlp.Elmo(**{**files, "num_output_representations": 1, **settings})


def _save(kit: Kit, path: Path, form: Any) -> object:
    return elmokit.save(kit.bilm, path, format=form)


def _pretrain(kit: Kit, output: Path, **settings: Any) -> object:
    return pretrain(read_run(PretrainConfig, "tiny"), RunFiles([str(kit.file("good.txt"))], [], output, **settings))


def _looped(kit: Kit) -> Path:
    kit.new("loop").symlink_to("loop")
    return kit.new("loop")


def _embed_file(kit: Kit, file: Any, output: Path) -> None:
    _allen_embedder(kit).embed_file(file, str(output))


def _closed_file(kit: Kit) -> IO[str]:
    with open(kit.file("good.txt"), encoding="utf-8") as file:
        return file


def _allen_embedder(kit: Kit) -> allennlp.ElmoEmbedder:
    return allennlp.ElmoEmbedder(str(kit.file("bilm/options.json")), str(kit.file("bilm/weights.hdf5")))


def _allen_module(module: Any) -> object:
    return allennlp.Elmo(None, None, 1, module=module)


LOADING: list[Row] = [
    row("load-none", lambda k: elmokit.load(None), "source (None)|must be a path", ConfigError),
    row("load-number", lambda k: elmokit.load(3), "source (3)", ConfigError),
    row("load-bytes", lambda k: elmokit.load(b"mini"), "source|bytes", ConfigError),
    row("load-empty", lambda k: elmokit.load(""), "source is empty", ConfigError),
    row("load-model", lambda k: elmokit.load(k.bilm), "source|BiLM", ConfigError),
    row("load-nowhere", lambda k: elmokit.load(k.file("nowhere")), "nowhere|does not exist", FormatError),
    row("load-nowhere-str", lambda k: elmokit.load(str(k.file("nowhere.zip"))), "nowhere.zip", FormatError),
    row("load-nul", lambda k: elmokit.load("nul\0nul"), "nul", FormatError),
    row("load-long", lambda k: elmokit.load("x" * 5000), "xxx", FormatError),
    row("load-published-typo", lambda k: elmokit.load("many-langs/xx"), "many-langs/xx", FormatError),
    row("load-empty-folder", lambda k: elmokit.load(k.file("folder")), "folder|holds no model", FormatError),
    row("load-text", lambda k: elmokit.load(k.file("good.txt")), "good.txt|not a model", FormatError),
    row("load-garbage-hdf5", lambda k: elmokit.load(k.file("garbage.hdf5")), "garbage.hdf5", FormatError),
    row("load-garbage-zip", lambda k: elmokit.load(k.file("garbage.zip")), "garbage.zip", FormatError),
    row("load-json", lambda k: elmokit.load(k.file("other.json")), "other.json", FormatError),
    row("load-no-weights", lambda k: elmokit.load(k.file("no-weights")), "model.safetensors|copy both", WeightsError),
    row("load-cut-weights", lambda k: elmokit.load(k.file("cut-weights")), "model.safetensors|cut short", WeightsError),
    row("load-no-config", lambda k: elmokit.load(k.file("no-config")), "config.json|cannot be read", ConfigError),
    row("load-many-langs", lambda k: elmokit.load(k.file("many")), "mine.json|architecture file", FormatError),
    row("load-task", lambda k: elmokit.load(k.file("task")), "task model|not a model", FormatError),
    row("load-weights-number", lambda k: elmokit.load(k.file("bilm/options.json"), weights=3), "weights (3)"),
    row(
        "load-weights-missing",
        lambda k: elmokit.load(k.file("bilm/options.json"), weights=k.file("no.hdf5")),
        "no.hdf5",
    ),
    row(
        "load-weights-text", lambda k: elmokit.load(k.file("bilm/options.json"), weights=k.file("good.txt")), "good.txt"
    ),
    row(
        "load-weights-swapped",
        lambda k: elmokit.load(k.file("bilm/weights.hdf5"), weights=k.file("bilm/options.json")),
        "weights.hdf5",
    ),
    row("load-device", lambda k: elmokit.load(k.file("model"), device="cpu"), "device", TypeError),
    row("detect-none", lambda k: detect_format(None), "path (None)", ConfigError),
    row("detect-nowhere", lambda k: detect_format(k.file("nowhere")), "nowhere|does not exist", FormatError),
    row("describe-text", lambda k: describe(k.file("good.txt")), "good.txt", FormatError),
    row("save-path-instead", lambda k: elmokit.save(k.file("model"), k.new("m")), "bilm|load it first", ConfigError),
    row("save-swapped", lambda k: elmokit.save(str(k.new("m")), k.bilm), "path|BiLM", ConfigError),
    row("save-none", lambda k: elmokit.save(k.bilm, None), "path (None)", ConfigError),
    row("save-empty", lambda k: elmokit.save(k.bilm, ""), "path is empty", ConfigError),
    row("save-format", lambda k: elmokit.save(k.bilm, k.new("m"), format="onnx"), "format 'onnx'|native, bilm or nlpl"),
    row("save-format-none", lambda k: elmokit.save(k.bilm, k.new("m"), format=None), "format None"),
    row("save-nlpl-folder", lambda k: elmokit.save(k.bilm, k.new("m"), format="nlpl"), ".zip"),
    row("save-float16-bilm", lambda k: elmokit.save(k.bilm, k.new("m"), format="bilm", float16=True), "float16|bilm"),
    row("save-float16-word", lambda k: elmokit.save(k.bilm, k.new("m"), float16="yes"), "float16|'yes'"),
    row("save-overwrite-word", lambda k: elmokit.save(k.bilm, k.new("m"), overwrite="no"), "overwrite|'no'"),
    row("save-loop", lambda k: elmokit.save(k.bilm, _looped(k)), "in a circle", FormatError),
    row("save-below-loop", lambda k: elmokit.save(k.bilm, _looped(k) / "m"), "in a circle", FormatError),
    row("save-inputs", lambda k: elmokit.save(k.bilm, k.new("m"), inputs="mini"), "inputs ('mini')", ConfigError),
    row("save-inputs-none", lambda k: elmokit.save(k.bilm, k.new("m"), inputs=None), "inputs (None)", ConfigError),
    *(
        line
        for form, suffix in (("native", ""), ("bilm", ""), ("nlpl", ".zip"))
        for line in (
            row(f"save-nul-{form}", lambda k, f=form, s=suffix: _save(k, k.new(f"a\0b{s}"), f), "no file can have"),
            row(f"save-long-{form}", lambda k, f=form, s=suffix: _save(k, k.new("m" * 300 + s), f), "too long|shorter"),
            row(f"save-nearly-long-{form}", lambda k, f=form, s=suffix: _save(k, k.new("m" * 250 + s), f), "too long"),
            row(
                f"save-below-{form}",
                lambda k, f=form, s=suffix: _save(k, k.file("good.txt") / f"m{s}", f),
                "good.txt is a file",
            ),
            row(
                f"save-far-below-{form}",
                lambda k, f=form, s=suffix: _save(k, k.file("good.txt") / "deep" / f"m{s}", f),
                "good.txt is a file",
            ),
            row(
                f"save-surrogate-{form}",
                lambda k, f=form, s=suffix: _save(k, k.new(f"m\ud800{s}"), f),
                "no file can have",
            ),
        )
    ),
]

SETTINGS: list[Row] = [
    row("config-empty", lambda k: elmokit.ElmoConfig(), "input", ValueError),
    row("config-unknown", lambda k: elmokit.ElmoConfig(input={"kind": "tokens"}, width=3), "width", ValueError),
    row("config-kind", lambda k: elmokit.ElmoConfig(input={"kind": "bytes"}), "input", ValueError),
    row("config-filters", lambda k: CharacterInput(filters=()), "filters", ValueError),
    row("config-wide", lambda k: CharacterInput(filters=((60, 4),)), "max_characters", ValueError),
    row("config-tokens", lambda k: elmokit.TokenInput(width=3), "width", ValueError),
    row("config-layers", lambda k: LstmStack(num_layers=0), "num_layers", ValueError),
    row("config-huge", lambda k: LstmStack(cell_dim=10**12), "cell_dim", ValueError),
    row("config-nan", lambda k: LstmStack(cell_clip=NAN), "cell_clip", ValueError),
    row("config-vocab", lambda k: elmokit.ElmoConfig(input={"kind": "tokens"}), "vocab_size", ValueError),
    row(
        "parse-config-list", lambda k: parse_config([], origin="x.json"), "x.json|not a valid model config", ConfigError
    ),
    row("read-config-missing", lambda k: read_config(k.file("no.json")), "no.json|cannot be read", ConfigError),
    row("read-config-broken", lambda k: read_config(k.file("broken.json")), "broken.json|not JSON", ConfigError),
    row("read-config-toml", lambda k: read_config(k.file("broken.toml")), "broken.toml|not TOML", ConfigError),
    row("read-config-other", lambda k: read_config(k.file("other.json")), "other.json|some", ConfigError),
    row("bilm-dict", lambda k: elmokit.BiLM({"input": {"kind": "tokens"}}), "ElmoConfig|dict", ConfigError),
    row("bilm-name", lambda k: elmokit.BiLM("mini"), "ElmoConfig|elmokit.load", ConfigError),
    row("bilm-no-vocabulary", lambda k: elmokit.BiLM(k.bilm.config), "vocabulary", ConfigError),
    row(
        "bilm-list", lambda k: elmokit.BiLM(k.bilm.config, vocabulary=["a"]), "vocabulary|read_vocabulary", ConfigError
    ),
    row(
        "bilm-other-words",
        lambda k: elmokit.BiLM(k.bilm.config, vocabulary=Vocabulary(["<S>", "</S>", "<UNK>"])),
        "3 words",
    ),
    row("bilm-seed", lambda k: elmokit.BiLM(k.plain.config, seed=-1), "seed (-1)", ConfigError),
    row("bilm-seed-huge", lambda k: elmokit.BiLM(k.plain.config, seed=10**30), "seed|at most", ConfigError),
    row("bilm-seed-float", lambda k: elmokit.BiLM(k.plain.config, seed=1.5), "seed (1.5)", ConfigError),
]

IDS: list[Row] = [
    row("ids-str", lambda k: elmokit.batch_to_ids("the play"), "sentences is the str|elmokit.tokenize", InputError),
    row("ids-strs", lambda k: elmokit.batch_to_ids(["the play"]), "sentence 0 is the str", InputError),
    row("ids-none", lambda k: elmokit.batch_to_ids(None), "sentences is None", InputError),
    row("ids-number", lambda k: elmokit.batch_to_ids([["a"], 3]), "sentence 1 is 3 (int)", InputError),
    row("ids-zero", lambda k: elmokit.batch_to_ids([["a", 0]]), "token 1 of sentence 0 is 0 (int)", InputError),
    row(
        "ids-nan", lambda k: elmokit.batch_to_ids([["a", NAN]]), "token 1 of sentence 0 is nan|empty cells", InputError
    ),
    row("ids-bytes", lambda k: elmokit.batch_to_ids([[b"a"]]), "token 0 of sentence 0|decode", InputError),
    row("ids-dict", lambda k: elmokit.batch_to_ids({"a": 1}), "sentences|dict", InputError),
    row("to-ids-none", lambda k: k.bilm.to_char_ids([None]), "sentence 0 is None", InputError),
    row("to-ids-nested", lambda k: k.bilm.to_char_ids([[["a"]]]), "token 0 of sentence 0|list", InputError),
    row("to-ids-words", lambda k: k.words.to_char_ids([["the", None]]), "token 1 of sentence 0 is None", InputError),
    row("forward-list", lambda k: k.bilm([[1, 2]]), "char_ids|to_char_ids", InputError),
    row("forward-strings", lambda k: k.bilm([["the"]]), "char_ids|to_char_ids", InputError),
    row("forward-2d", lambda k: k.bilm(torch.zeros(2, 3)), "char_ids have shape (2, 3)", InputError),
    row("forward-float", lambda k: k.bilm(torch.ones(1, 1, 12)), "torch.float32", InputError),
    row("forward-width", lambda k: k.bilm(torch.ones(1, 1, 50, dtype=torch.long)), "50 columns", InputError),
    row("forward-range", lambda k: k.bilm(torch.full((1, 1, 12), 999)), "999", InputError),
    row("forward-negative", lambda k: k.bilm(torch.full((1, 1, 12), -1)), "-1", InputError),
    row(
        "forward-state",
        lambda k: k.bilm(k.bilm.to_char_ids([["a"]]), k.bilm.zero_state(2)),
        "2 rows|batch has 1",
        InputError,
    ),
    row("forward-state-tensor", lambda k: k.bilm(k.bilm.to_char_ids([["a"]]), torch.zeros(1)), "state is", InputError),
    row("zero-state", lambda k: k.bilm.zero_state(-1), "num_rows (-1)", ConfigError),
    row("logits-plain", lambda k: k.plain.logits(torch.zeros(6)), "softmax", ConfigError),
    row("indexer-width", lambda k: ByteIndexer(2), "max_characters (2)", ConfigError),
    row("indexer-type", lambda k: ByteIndexer("50"), "max_characters|'50'", ConfigError),
    row("indexer-token", lambda k: ByteIndexer().to_char_ids(["a", 3]), "token 1|3 (int)", InputError),
    row("indexer-str", lambda k: ByteIndexer().to_char_ids("abc"), "str 'abc'", InputError),
    row(
        "table-token",
        lambda k: TableIndexer(None, {"<bos>": 0, "<eos>": 1, "<oov>": 2}).to_char_ids([None]),
        "token 0|None",
    ),
    row("table-marks", lambda k: TableIndexer({"a": 0}, None), "char.dic lacks", VocabularyError),
    row("words-token", lambda k: k.words.indexer.to_char_ids([1.5]), "token 0|1.5", InputError),
]

MIXES: list[Row] = [
    row("elmo-none", lambda k: elmokit.Elmo(None), "Elmo() was given None", ConfigError),
    row("elmo-number", lambda k: elmokit.Elmo(3), "Elmo() was given 3", ConfigError),
    row("elmo-config", lambda k: elmokit.Elmo(k.bilm.config), "Elmo() was given", ConfigError),
    row("elmo-nowhere", lambda k: elmokit.Elmo(k.file("nowhere")), "nowhere|does not exist", FormatError),
    row("elmo-outputs-0", lambda k: elmokit.Elmo(k.bilm, num_outputs=0), "num_outputs (0)|at least 1", ConfigError),
    row("elmo-outputs-minus", lambda k: elmokit.Elmo(k.bilm, num_outputs=-1), "num_outputs (-1)", ConfigError),
    row(
        "elmo-outputs-float", lambda k: elmokit.Elmo(k.bilm, num_outputs=1.0), "num_outputs (1.0)|integer", ConfigError
    ),
    row("elmo-outputs-true", lambda k: elmokit.Elmo(k.bilm, num_outputs=True), "num_outputs (True)", ConfigError),
    row("elmo-dropout-nan", lambda k: elmokit.Elmo(k.bilm, dropout=NAN), "dropout (nan)", ConfigError),
    row("elmo-dropout-1", lambda k: elmokit.Elmo(k.bilm, dropout=1.0), "dropout (1.0)|below 1", ConfigError),
    row("elmo-dropout-minus", lambda k: elmokit.Elmo(k.bilm, dropout=-0.1), "dropout (-0.1)", ConfigError),
    row("elmo-dropout-str", lambda k: elmokit.Elmo(k.bilm, dropout="0.5"), "dropout ('0.5')", ConfigError),
    row("elmo-norm", lambda k: elmokit.Elmo(k.bilm, layer_norm="layer"), "layer_norm ('layer')", ConfigError),
    row("elmo-norm-none", lambda k: elmokit.Elmo(k.bilm, layer_norm=None), "layer_norm (None)", ConfigError),
    row("elmo-trainable", lambda k: elmokit.Elmo(k.bilm, trainable="no"), "trainable ('no')", ConfigError),
    row("elmo-boundaries", lambda k: elmokit.Elmo(k.bilm, keep_boundaries=None), "keep_boundaries (None)", ConfigError),
    row("elmo-positional", lambda k: elmokit.Elmo(k.bilm, 2), "positional", TypeError),
    row("elmo-text", lambda k: elmokit.Elmo(k.bilm)(["the play"]), "char_ids|to_char_ids", InputError),
    row("elmo-2d", lambda k: elmokit.Elmo(k.bilm)(torch.zeros(2, 3)), "char_ids have shape (2, 3)", InputError),
    row("elmo-strength", lambda k: elmokit.Elmo(k.bilm).regularization(-1), "strength (-1)", ConfigError),
    row("elmo-strength-nan", lambda k: elmokit.Elmo(k.bilm).regularization(NAN), "strength (nan)", ConfigError),
    row("mixes-outputs", lambda k: elmokit.ElmoMixes(3, -1), "num_outputs (-1)", ConfigError),
    row("mixes-layers", lambda k: elmokit.ElmoMixes(0), "num_layers (0)", ConfigError),
    row("mixes-layers-none", lambda k: elmokit.ElmoMixes(None), "num_layers (None)", ConfigError),
    row("mixes-dropout", lambda k: elmokit.ElmoMixes(3, dropout=INF), "dropout (inf)", ConfigError),
    row(
        "mixes-forward", lambda k: elmokit.ElmoMixes(3)(torch.zeros(2, 1, 1, 4), None), "2 layers|mix of 3", InputError
    ),
    row("mix-huge", lambda k: elmokit.ScalarMix(10**15), "num_layers (1000000000000000)|at most", ConfigError),
    row("mix-endless", lambda k: elmokit.ScalarMix(10**30), "num_layers|at most", ConfigError),
    row("mixes-huge", lambda k: elmokit.ElmoMixes(3, 10**12), "num_outputs (1000000000000)|at most", ConfigError),
    row("elmo-huge", lambda k: elmokit.Elmo(k.bilm, num_outputs=10**12), "num_outputs|at most", ConfigError),
    row("mix-layers", lambda k: elmokit.ScalarMix("3"), "num_layers ('3')", ConfigError),
    row(
        "mix-weights-inf",
        lambda k: elmokit.ScalarMix(2, initial_weights=[0, INF]),
        "initial_weights|finite",
        ConfigError,
    ),
    row(
        "mix-weights-nan",
        lambda k: elmokit.ScalarMix(2, initial_weights=[NAN, 0]),
        "initial_weights|finite",
        ConfigError,
    ),
    row(
        "mix-weights-few", lambda k: elmokit.ScalarMix(3, initial_weights=[0, 1]), "initial_weights has 2", ConfigError
    ),
    row(
        "mix-weights-str",
        lambda k: elmokit.ScalarMix(2, initial_weights=["a", "b"]),
        "initial_weights|2 numbers",
        ConfigError,
    ),
    row("mix-weights-number", lambda k: elmokit.ScalarMix(2, initial_weights=1.0), "initial_weights", ConfigError),
    row("mix-eps", lambda k: elmokit.ScalarMix(2, eps=-1.0), "eps (-1.0)", ConfigError),
    row("mix-trainable", lambda k: elmokit.ScalarMix(2, trainable=1), "trainable (1)", ConfigError),
    row(
        "mix-3d", lambda k: elmokit.ScalarMix(2)(torch.zeros(2, 3, 4), torch.ones(3)), "layers are a tensor", InputError
    ),
    row("mix-list", lambda k: elmokit.ScalarMix(2)([torch.zeros(1)], None), "layers are a tensor|list", InputError),
    row(
        "mix-mask",
        lambda k: elmokit.ScalarMix(2, layer_norm="batch")(torch.zeros(2, 1, 3, 4), torch.ones(1, 2)),
        "mask|(1, 3)",
    ),
    row(
        "mix-mask-none", lambda k: elmokit.ScalarMix(2, layer_norm="batch")(torch.zeros(2, 1, 3, 4), None), "mask|None"
    ),
]

PREDICTING: list[Row] = [
    row("score-plain", lambda k: list(score_sentences(k.plain, [["a"]])), "softmax|finetune", ConfigError),
    row("score-str", lambda k: list(score_sentences(k.bilm, "the play")), "sentences is the str", InputError),
    row("score-strs", lambda k: list(score_sentences(k.bilm, ["the play"])), "sentence 0 is the str", InputError),
    row(
        "score-none",
        lambda k: list(score_sentences(k.bilm, [["a", None]])),
        "token 1 of sentence 0 is None",
        InputError,
    ),
    row("score-number", lambda k: list(score_sentences(k.bilm, 3)), "sentences is 3", InputError),
    row("score-path", lambda k: list(score_sentences("mini", [["a"]])), "bilm|'mini'", ConfigError),
    row("perplexity-plain", lambda k: measure_perplexity(k.plain, ["a"]), "softmax", ConfigError),
    row("perplexity-nothing", lambda k: measure_perplexity(k.bilm, []), "no sentence", InputError),
    row("perplexity-tokens", lambda k: measure_perplexity(k.bilm, [["a", "b"]]), "sentence 0|read_text", InputError),
    row("perplexity-str", lambda k: measure_perplexity(k.bilm, "the play"), "sentences is the str", InputError),
    row("perplexity-rows", lambda k: measure_perplexity(k.bilm, ["a"], num_rows=0), "num_rows (0)", ConfigError),
    row("perplexity-carry", lambda k: measure_perplexity(k.bilm, ["a"], carry="no"), "carry ('no')", ConfigError),
    row("read-text-input", lambda k: read_text([k.file("good.txt")], input="words"), "input 'words'", ConfigError),
    row(
        "read-text-missing", lambda k: read_text([k.file("no.txt")], input="text"), "no.txt|cannot be read", InputError
    ),
    row(
        "read-text-latin1",
        lambda k: read_text([k.file("latin1.txt")], input="text"),
        "latin1.txt|not UTF-8",
        InputError,
    ),
    row("substitutes-plain", lambda k: find_substitutes(k.plain, ["a"], 0), "softmax", ConfigError),
    row("substitutes-empty", lambda k: find_substitutes(k.bilm, [], 0), "no token", InputError),
    row("substitutes-str", lambda k: find_substitutes(k.bilm, "the play", 0), "is the str 'the play'", InputError),
    row("substitutes-none", lambda k: find_substitutes(k.bilm, None, 0), "None", InputError),
    row("substitutes-token", lambda k: find_substitutes(k.bilm, ["a", 3], 0), "token 1|3 (int)", InputError),
    row("substitutes-far", lambda k: find_substitutes(k.bilm, ["a"], 1), "position 1", InputError),
    row("substitutes-position", lambda k: find_substitutes(k.bilm, ["a"], "a"), "position|'a'", ConfigError),
    row("substitutes-number", lambda k: find_substitutes(k.bilm, ["a"], 0, number=0), "number|at least 1", ConfigError),
    row("pretrain-config", lambda k: pretrain(None, RunFiles(["a"], [], k.new("r"))), "config is None", ConfigError),
    row("pretrain-files", lambda k: pretrain(read_run(PretrainConfig, "tiny"), None), "files is None", ConfigError),
    row("pretrain-output", lambda k: RunFiles(["a"], [], None), "output (None)", ConfigError),
    row("pretrain-vocab", lambda k: RunFiles(["a"], [], k.new("r"), vocab=3), "vocab (3)", ConfigError),
    row("pretrain-output-nul", lambda k: _pretrain(k, k.new("r\0")), "no file can have", FormatError),
    row("pretrain-device", lambda k: _pretrain(k, k.new("r"), device=None), "device 'None'", ConfigError),
    row("read-run-long", lambda k: read_run(PretrainConfig, "x" * 5000), "no preset named", ConfigError),
    row("finetune-config", lambda k: finetune("mini", {}, RunFiles(["a"], [], k.new("r"))), "config is {}"),
    row("finetune-files", lambda k: finetune("mini", read_run(FinetuneConfig, "default"), None), "files is None"),
    row("extend-plain", lambda k: extend_vocabulary(k.plain, ["a"]), "no softmax", ConfigError),
    row("extend-str", lambda k: extend_vocabulary(k.bilm, "abc"), "words|'abc'", InputError),
    row("extend-number", lambda k: extend_vocabulary(k.bilm, ["a", 3]), "3 (int)", InputError),
    row("add-softmax-twice", lambda k: add_softmax(k.bilm, k.bilm.vocabulary), "softmax already", ConfigError),
    row("add-softmax-list", lambda k: add_softmax(k.plain, ["a"]), "vocabulary|list", ConfigError),
    row(
        "add-softmax-words",
        lambda k: add_softmax(k.words, Vocabulary(["<S>", "</S>", "<UNK>", "x"])),
        "its own vocabulary",
    ),
]

ALLENNLP: list[Row] = [
    row("allen-files", lambda k: _allennlp(k, weight_file=None), "options_file and weight_file", ConfigError),
    row("allen-missing", lambda k: _allennlp(k, options_file=k.file("no.json")), "no.json", FormatError),
    row(
        "allen-broken", lambda k: _allennlp(k, options_file=k.file("broken.json")), "broken.json|not JSON", ConfigError
    ),
    row("allen-bytes", lambda k: _allennlp(k, options_file=b"a"), "options_file|bytes", ConfigError),
    row("allen-outputs", lambda k: _allennlp(k, num_output_representations=0), "num_output_representations (0)"),
    row(
        "allen-outputs-str", lambda k: _allennlp(k, num_output_representations="2"), "num_output_representations ('2')"
    ),
    row("allen-dropout", lambda k: _allennlp(k, dropout=2), "dropout (2)", ConfigError),
    row("allen-weights", lambda k: _allennlp(k, scalar_mix_parameters=[1.0]), "1 values|3 layers", ConfigError),
    row("allen-weights-nan", lambda k: _allennlp(k, scalar_mix_parameters=[NAN, 0, 0]), "finite", ConfigError),
    row("allen-cache", lambda k: _allennlp(k, vocab_to_cache=["a", None]), "token 1|vocab_to_cache", InputError),
    row("allen-forward-text", lambda k: _allennlp(k)([["a"]]), "inputs|batch_to_ids", InputError),
    row("allen-forward-2d", lambda k: _allennlp(k)(torch.zeros(2, 3)), "inputs|(2, 3)", InputError),
    row("allen-forward-range", lambda k: _allennlp(k)(torch.full((1, 1, 12), 999)), "999", InputError),
    row("allen-outputs-huge", lambda k: _allennlp(k, num_output_representations=10**12), "num_output_rep|at most"),
    *(
        row(f"allen-module-{name}", lambda k, m=module: _allen_module(m(k)), "module|num_layers", ConfigError)
        for name, module in (
            ("linear", lambda k: nn.Linear(2, 2)),
            ("name", lambda k: "mini"),
            ("bilm", lambda k: k.bilm),
            ("class", lambda k: nn.Linear),
        )
    ),
    row(
        "allen-cuda",
        lambda k: allennlp.ElmoEmbedder(str(k.file("bilm/options.json")), str(k.file("bilm/weights.hdf5")), 99),
        "device 'cuda:99'",
        ConfigError,
    ),
    row(
        "allen-closed",
        lambda k: _embed_file(k, _closed_file(k), k.new("a.hdf5")),
        "input_file|closed",
        InputError,
    ),
    row(
        "allen-unreadable",
        lambda k: _embed_file(k, open(k.new("w.txt"), "w", encoding="utf-8"), k.new("a.hdf5")),
        "input_file|reading",
        InputError,
    ),
    row("allen-bytes-file", lambda k: _embed_file(k, io.BytesIO(b"a b\n"), k.new("a.hdf5")), "decode", InputError),
    row(
        "allen-latin1",
        lambda k: _embed_file(k, open(k.file("latin1.txt"), encoding="utf-8"), k.new("a.hdf5")),
        "input_file|not UTF-8",
        InputError,
    ),
    row("allen-output-nul", lambda k: _embed_file(k, io.StringIO("a\n"), k.new("a\0.hdf5")), "no file can have"),
    row("allen-output-long", lambda k: _embed_file(k, io.StringIO("a\n"), k.new("a" * 300)), "too long", FormatError),
    row("allen-output-below", lambda k: _embed_file(k, io.StringIO("a\n"), k.file("good.txt") / "a"), "is a file"),
    row("allen-params", lambda k: allennlp.Elmo.from_params({"options": "x"}), "no setting 'options'|weight_file"),
    row("allen-ids", lambda k: allennlp.batch_to_ids([["a"], 3]), "sentence 1 is 3 (int)", InputError),
    row(
        "allen-device",
        lambda k: allennlp.ElmoEmbedder(str(k.file("bilm/options.json")), str(k.file("bilm/weights.hdf5")), "cuda"),
        "cuda_device|'cuda'",
    ),
    row(
        "allen-sentence", lambda k: _allen_embedder(k).embed_sentence(["a", None]), "token 1 of sentence 0", InputError
    ),
    row("allen-batch", lambda k: _allen_embedder(k).embed_batch([["a"], None]), "sentence 1 is None", InputError),
    row(
        "allen-batch-size", lambda k: list(_allen_embedder(k).embed_sentences([["a"]], batch_size=0)), "batch_size (0)"
    ),
    row(
        "allen-format",
        lambda k: _allen_embedder(k).embed_file(io.StringIO("a b\n"), str(k.new("a.hdf5")), "best"),
        "output_format 'best'",
    ),
    row(
        "allen-input",
        lambda k: _allen_embedder(k).embed_file(str(k.file("good.txt")), str(k.new("a.hdf5"))),
        "input_file|open file",
    ),
    row(
        "allen-keys",
        lambda k: _allen_embedder(k).embed_file(
            io.StringIO("a b\nc\n\n"), str(k.new("a.hdf5")), use_sentence_keys=True
        ),
        "line 3|use_sentence_keys",
    ),
    row(
        "allen-folder",
        lambda k: _allen_embedder(k).embed_file(io.StringIO("a b\n"), str(k.new("no/a.hdf5"))),
        "output_file_path|does not exist",
    ),
]

ROWS = (*LOADING, *SETTINGS, *IDS, *MIXES, *PREDICTING, *ALLENNLP)
