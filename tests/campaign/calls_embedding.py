"""Wrong calls of the embedder, of whole files, and of files of embeddings."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import elmokit
from elmokit import Embedder, open_embeddings
from elmokit.embedding.bulk import EmbedOptions, embed_file
from elmokit.embedding.dumps import convert_dump, dump_format, is_dump, write_dump
from elmokit.embedding.records import Embeddings, Meta, Record
from elmokit.embedding.store import VectorStore
from elmokit.embedding.store_writer import StoreWriter, delete_store
from elmokit.errors import ConfigError, ElmokitError, FormatError, InputError, WeightsError
from tests.campaign.row import INF, NAN, Kit, Row, row
from tests.conftest import build_tiny

FINE = np.ones((2, 4), np.float32)
"""Vectors of two tokens."""


def _broken(number: float) -> Embedder:
    """A model with a number in its weights that is none."""
    bilm = build_tiny("characters")
    with torch.no_grad():
        bilm.encoder.projection.bias[0] = number
    return Embedder(bilm, threads=1)


def _embed(kit: Kit, source: str, output: str, **options: Any) -> object:
    return embed_file(kit.file(source), kit.new(output), kit.embedder, EmbedOptions(**options))


def _asked(kit: Kit, name: str, question: Callable[[Embeddings], object]) -> object:
    with open_embeddings(kit.file(name)) as embeddings:
        return question(embeddings)


def _write(kit: Kit, name: str, *arrays: Any, meta: Meta | None = None) -> object:
    records = [Record(number, "a b", ("a", "b"), array) for number, array in enumerate(arrays)]
    return write_dump(records, kit.new(name), meta or Meta(width=4))


def _pipe(kit: Kit, name: str) -> Path:
    os.mkfifo(kit.new(name))
    return kit.new(name)


def _record(kit: Kit, suffix: str, text: Any, tokens: Any) -> object:
    return write_dump([Record(0, text, tokens, FINE)], kit.new(f"o.{suffix}"), Meta(width=4))


def _add(kit: Kit, text: Any, tokens: Any, vectors: Any, note: Any = None) -> None:
    with StoreWriter.create(kit.new("s"), Meta(width=4)) as writer:
        writer.add(text, tokens, vectors)
        writer.commit(note)


def _closed_writer(kit: Kit) -> StoreWriter:
    with StoreWriter.create(kit.new("s"), Meta(width=4)) as writer:
        return writer


TEXTS: list[Row] = [
    row("embed-str", lambda k: k.embedder.embed("abc"), "inputs is the str 'abc'|[text]", InputError),
    row("embed-none", lambda k: k.embedder.embed(None), "inputs is None", InputError),
    row("embed-number", lambda k: k.embedder.embed(3), "inputs is 3 (int)", InputError),
    row("embed-bytes", lambda k: k.embedder.embed(b"abc"), "inputs|bytes|decode", InputError),
    row("embed-dict", lambda k: k.embedder.embed({"a": 1}), "inputs|dict|make a list", InputError),
    row("embed-set", lambda k: k.embedder.embed({"a"}), "inputs|set|make a list", InputError),
    row("embed-none-inside", lambda k: k.embedder.embed(["a", None]), "text 1 is None|empty cells", InputError),
    row("embed-nan-inside", lambda k: k.embedder.embed([NAN, "a"]), "text 0 is nan|empty cells", InputError),
    row("embed-bytes-inside", lambda k: k.embedder.embed([b"abc"]), "text 0|decode", InputError),
    row("embed-number-inside", lambda k: k.embedder.embed(["a", 0]), "text 1 is 0 (int)", InputError),
    row("embed-dict-inside", lambda k: k.embedder.embed([{"text": "a"}]), "text 0|dict", InputError),
    row("embed-token-zero", lambda k: k.embedder.embed([["a", 0]]), "token 1 of text 0 is 0 (int)", InputError),
    row("embed-token-none", lambda k: k.embedder.embed([["a"], [None]]), "token 0 of text 1 is None", InputError),
    row("embed-token-nan", lambda k: k.embedder.embed([["a", NAN]]), "token 1 of text 0 is nan", InputError),
    row("embed-token-bytes", lambda k: k.embedder.embed([["a", b"b"]]), "token 1 of text 0|decode", InputError),
    row("embed-token-list", lambda k: k.embedder.embed([[["a"]]]), "token 0 of text 0|list", InputError),
    row("embed-token-false", lambda k: k.embedder.embed([["a", False]]), "token 1 of text 0 is False", InputError),
    row("embed-numbers", lambda k: k.embedder.embed(np.zeros((2, 3))), "token 0 of text 0|float64", InputError),
    row("embed-tensor", lambda k: k.embedder.embed(torch.zeros(3)), "text 0|Tensor", InputError),
    row("stream-str", lambda k: k.embedder.embed_stream("abc"), "inputs is the str 'abc'", InputError),
    row("stream-none", lambda k: k.embedder.embed_stream(None), "inputs is None", InputError),
    row("stream-inside", lambda k: list(k.embedder.embed_stream(iter(["a", None]))), "text 1 is None", InputError),
    row("stream-window", lambda k: k.embedder.embed_stream([], window=0), "window (0)", ConfigError),
    row("stream-window-float", lambda k: k.embedder.embed_stream([], window=1.5), "window (1.5)", ConfigError),
    row("encode-nothing", lambda k: k.embedder.encode(), "texts|sentences", InputError),
    row("encode-both", lambda k: k.embedder.encode(["a"], sentences=["b"]), "texts|sentences", InputError),
    row("encode-number", lambda k: k.embedder.encode(3), "texts is 3", InputError),
    row("encode-sentences", lambda k: k.embedder.encode(sentences=3), "sentences is 3", InputError),
    row("encode-none-inside", lambda k: k.embedder.encode(["a", None]), "text 1 is None", InputError),
    row("encode-bytes", lambda k: k.embedder.encode(b"a"), "texts|decode", InputError),
    row("count-unknown", lambda k: Embedder(k.words).count_unknown(3), "tokens|3 (int)", InputError),
    row("count-unknown-str", lambda k: Embedder(k.words).count_unknown("abc"), "tokens|str 'abc'", InputError),
]

SETTINGS: list[Row] = [
    row(
        "layers-name", lambda k: k.embedder.embed(["a"], layers="best"), "layers 'best'|all, top, average", ConfigError
    ),
    row("layers-far", lambda k: k.embedder.embed(["a"], layers=3), "no layer 3|0 to 2", ConfigError),
    row("layers-minus", lambda k: k.embedder.embed(["a"], layers=-1), "no layer -1", ConfigError),
    row("layers-true", lambda k: k.embedder.embed(["a"], layers=True), "no layer True", ConfigError),
    row("layers-none", lambda k: k.embedder.embed(["a"], layers=None), "layers (None)", ConfigError),
    row("layers-float", lambda k: k.embedder.embed(["a"], layers=1.5), "layers (1.5)", ConfigError),
    row(
        "layers-few",
        lambda k: k.embedder.embed(["a"], layers=[1, 2]),
        "layers has 2 weights|a single layer",
        ConfigError,
    ),
    row("layers-one", lambda k: k.embedder.embed(["a"], layers=[2]), "layers has 1 weight,|layers=2", ConfigError),
    row("layers-nan", lambda k: k.embedder.embed(["a"], layers=[1, NAN, 0]), "layers|finite", ConfigError),
    row("layers-inf", lambda k: k.embedder.embed(["a"], layers=[1, INF, 0]), "layers|finite", ConfigError),
    row("layers-zeros", lambda k: k.embedder.embed(["a"], layers=[0, 0, 0]), "layers|not all zero", ConfigError),
    row("layers-words", lambda k: k.embedder.embed(["a"], layers=["a", "b", "c"]), "layers has 3 weights", ConfigError),
    row("layers-dict", lambda k: k.embedder.embed(["a"], layers={0: 1.0}), "layers|dict", ConfigError),
    row(
        "pooling-name", lambda k: k.embedder.embed(["a"], pooling="sum"), "pooling 'sum'|mean, max or none", ConfigError
    ),
    row("pooling-number", lambda k: k.embedder.embed(["a"], pooling=1), "pooling 1", ConfigError),
    row("dtype-name", lambda k: k.embedder.embed(["a"], dtype="int8"), "dtype 'int8'|float32 or float16", ConfigError),
    row("dtype-double", lambda k: k.embedder.embed(["a"], dtype=np.float64), "dtype|float32 or float16", ConfigError),
    row("dtype-none", lambda k: k.embedder.embed(["a"], dtype=None), "dtype None", ConfigError),
    row("dtype-torch", lambda k: k.embedder.embed(["a"], dtype=torch.float16), "dtype|torch.float16", ConfigError),
    row("batch-size-0", lambda k: k.embedder.embed(["a"], batch_size=0), "batch_size (0)", ConfigError),
    row("batch-size-str", lambda k: k.embedder.embed(["a"], batch_size="8"), "batch_size ('8')", ConfigError),
    row("batch-size-float", lambda k: k.embedder.embed(["a"], batch_size=8.0), "batch_size (8.0)", ConfigError),
    row("split", lambda k: k.embedder.embed(["a"], split_sentences="no"), "split_sentences ('no')", ConfigError),
    row("tensor", lambda k: k.embedder.embed(["a"], convert_to_tensor="pt"), "convert_to_tensor ('pt')", ConfigError),
    row("tokens", lambda k: k.embedder.embed(["a"], with_tokens=1), "with_tokens (1)", ConfigError),
    row("unknown-argument", lambda k: k.embedder.embed(["a"], layer="top"), "layer", TypeError),
    row("embedder-none", lambda k: Embedder(None), "Embedder() was given None", ConfigError),
    row("embedder-number", lambda k: Embedder(3), "Embedder() was given 3", ConfigError),
    row("embedder-nowhere", lambda k: Embedder(k.file("nowhere")), "nowhere|does not exist", FormatError),
    row("embedder-text", lambda k: Embedder(k.file("good.txt")), "good.txt|not a model", FormatError),
    row("embedder-elmo", lambda k: Embedder(elmokit.Elmo(k.plain)), "Embedder() was given", ConfigError),
    row("state", lambda k: Embedder(k.bilm, state="keep"), "state 'keep'|reset, carry or warm", ConfigError),
    row("state-none", lambda k: Embedder(k.bilm, state=None), "state None", ConfigError),
    row("threads-0", lambda k: Embedder(k.bilm, threads=0), "threads (0)", ConfigError),
    row("threads-str", lambda k: Embedder(k.bilm, threads="2"), "threads ('2')", ConfigError),
    row("batch-tokens", lambda k: Embedder(k.bilm, batch_tokens=0), "batch_tokens (0)", ConfigError),
    row("int8-word", lambda k: Embedder(k.bilm, int8="yes"), "int8 ('yes')", ConfigError),
    row(
        "int8-double",
        lambda k: Embedder(build_tiny("characters").double(), int8=True),
        "int8|float32",
        ConfigError,
    ),
    row("pretrained-none", lambda k: Embedder.from_pretrained(None), "source (None)", ConfigError),
    row(
        "pretrained-device",
        lambda k: Embedder.from_pretrained(k.file("model"), device="warp"),
        "device 'warp'",
        ConfigError,
    ),
    row(
        "pretrained-threads",
        lambda k: Embedder.from_pretrained(k.file("model"), threads=-1),
        "threads (-1)",
        ConfigError,
    ),
    row("to-number", lambda k: k.embedder.to([]), "device '[]'", ConfigError),
    row("to-meta", lambda k: k.embedder.to("meta"), "device 'meta'", ConfigError),
    row(
        "encode-value", lambda k: k.embedder.encode(["a"], output_value="tokens"), "output_value 'tokens'", ConfigError
    ),
    row("encode-value-none", lambda k: k.embedder.encode(["a"], output_value=None), "output_value None", ConfigError),
    row(
        "encode-precision", lambda k: k.embedder.encode(["a"], precision="ubinary"), "precision 'ubinary'", ConfigError
    ),
    row("encode-prompt", lambda k: k.embedder.encode(["a"], prompt="q: "), "prompt", ConfigError),
    row("encode-prompt-name", lambda k: k.embedder.encode(["a"], prompt_name="q"), "prompt_name", ConfigError),
    row("encode-truncate", lambda k: k.embedder.encode(["a"], truncate_dim=3), "truncate_dim", ConfigError),
    row("encode-batch-size", lambda k: k.embedder.encode(["a"], batch_size=-1), "batch_size (-1)", ConfigError),
    row("encode-device", lambda k: k.embedder.encode(["a"], device="warp"), "device 'warp'", ConfigError),
    row(
        "encode-normalize",
        lambda k: k.embedder.encode(["a"], normalize_embeddings=2),
        "normalize_embeddings (2)",
        ConfigError,
    ),
    row(
        "encode-numpy",
        lambda k: k.embedder.encode(["a"], convert_to_numpy="np"),
        "convert_to_numpy ('np')",
        ConfigError,
    ),
    row(
        "encode-bar",
        lambda k: k.embedder.encode(["a"], show_progress_bar="yes"),
        "show_progress_bar ('yes')",
        ConfigError,
    ),
    row("encode-unknown", lambda k: k.embedder.encode(["a"], normalize=True), "normalize", TypeError),
    row("nan-weights", lambda k: _broken(NAN).embed([["a"]]), "text 0|encoder.projection.bias", WeightsError),
    row("inf-weights", lambda k: _broken(INF).embed([["a"]]), "text 0|encoder.projection.bias", WeightsError),
    row("nan-stream", lambda k: list(_broken(NAN).embed_stream(["", "a"])), "text 1|NaN", WeightsError),
    row("nan-encode", lambda k: _broken(NAN).encode("a"), "text 0|NaN", WeightsError),
    row(
        "float16-overflow", lambda k: _broken(1e6).embed([["a"]], dtype="float16"), "text 0|65,504|float32", ConfigError
    ),
]

FILES: list[Row] = [
    row("file-missing", lambda k: _embed(k, "no.txt", "o.hdf5"), "no.txt|cannot be read", InputError),
    row("file-folder", lambda k: _embed(k, "folder", "o.hdf5"), "folder|cannot be read", InputError),
    row("file-latin1", lambda k: _embed(k, "latin1.txt", "o.hdf5"), "line 1|latin1.txt|not UTF-8", InputError),
    row("file-not-gz", lambda k: _embed(k, "not.gz", "o.hdf5"), "not.gz|damaged", InputError),
    row("file-cut-gz", lambda k: _embed(k, "cut.gz", "o.hdf5"), "cut.gz|damaged", InputError),
    row("file-suffix", lambda k: _embed(k, "good.txt", "o.csv"), "o.csv|.hdf5", ConfigError),
    row("file-no-suffix", lambda k: _embed(k, "good.txt", "o"), "no suffix", ConfigError),
    row("file-no-folder", lambda k: _embed(k, "good.txt", "no/o.hdf5"), "folder|does not exist", ConfigError),
    row("file-layers", lambda k: _embed(k, "good.txt", "o.npz", layers=7), "no layer 7", ConfigError),
    row("file-pooling", lambda k: _embed(k, "good.txt", "o.npz", pooling="sum"), "pooling 'sum'", ConfigError),
    row("file-input", lambda k: _embed(k, "good.txt", "o.npz", input="raw"), "input 'raw'", ConfigError),
    row("file-dtype", lambda k: _embed(k, "good.txt", "o.npz", dtype="int8"), "dtype 'int8'", ConfigError),
    row("file-errors", lambda k: _embed(k, "good.txt", "o.npz", errors="ignore"), "errors 'ignore'", ConfigError),
    row("file-batch-size", lambda k: _embed(k, "good.txt", "o.npz", batch_size=0), "batch_size", ConfigError),
    row(
        "file-batch-size-str", lambda k: _embed(k, "good.txt", "o.npz", batch_size="8"), "batch_size ('8')", ConfigError
    ),
    row("file-source-none", lambda k: embed_file(None, k.new("o.npz"), k.embedder), "source (None)", ConfigError),
    row("file-output-none", lambda k: embed_file(k.file("good.txt"), None, k.embedder), "output (None)", ConfigError),
    row("file-name", lambda k: embed_file(k.file("good.txt"), k.new("o.npz"), "mini"), "embedder|'mini'", ConfigError),
    row(
        "file-options",
        lambda k: embed_file(k.file("good.txt"), k.new("o.npz"), k.embedder, {"layers": 0}),
        "options|EmbedOptions",
    ),
    row(
        "file-nan", lambda k: embed_file(k.file("good.txt"), k.new("o.jsonl"), _broken(NAN)), "line 1|NaN", WeightsError
    ),
    row(
        "file-float16",
        lambda k: embed_file(k.file("good.txt"), k.new("o.npz"), _broken(1e6), EmbedOptions(dtype="float16")),
        "line 1|float32",
    ),
    row("options-unknown", lambda k: EmbedOptions(layer=0), "layer", TypeError),
]

DUMPS: list[Row] = [
    row("open-none", lambda k: open_embeddings(None), "path (None)", ConfigError),
    row("open-number", lambda k: open_embeddings(3), "path (3)", ConfigError),
    row("open-empty", lambda k: open_embeddings(""), "path is empty", ConfigError),
    row("open-missing", lambda k: open_embeddings(k.file("no.hdf5")), "no.hdf5|does not exist", FormatError),
    row("open-folder", lambda k: open_embeddings(k.file("folder")), "folder|not a vector store", FormatError),
    row("open-text", lambda k: open_embeddings(k.file("good.txt")), "good.txt|not a file of embeddings", FormatError),
    row("open-model", lambda k: open_embeddings(k.file("bilm/weights.hdf5")), "weights.hdf5|elmokit.load", FormatError),
    row(
        "open-garbage-hdf5", lambda k: open_embeddings(k.file("garbage.hdf5")), "garbage.hdf5|not an HDF5", FormatError
    ),
    *(
        row(f"open-pipe-{suffix}", lambda k, s=suffix: open_embeddings(_pipe(k, f"p.{s}")), "a pipe", FormatError)
        for suffix in ("hdf5", "npz", "jsonl", "parquet")
    ),
    row("convert-pipe", lambda k: convert_dump(_pipe(k, "p.npz"), k.new("o.hdf5")), "a pipe", FormatError),
    row("open-garbage-npz", lambda k: open_embeddings(k.file("garbage.npz")), "garbage.npz", FormatError),
    row("open-garbage-jsonl", lambda k: open_embeddings(k.file("garbage.jsonl")), "garbage.jsonl", FormatError),
    row("open-garbage-parquet", lambda k: open_embeddings(k.file("garbage.parquet")), "garbage.parquet", FormatError),
    *(
        line
        for name in ("dump.hdf5", "dump.npz", "dump.jsonl", "dump.parquet")
        for line in (
            row(f"closed-{name}", lambda k, n=name: k.closed(n)[0], "is closed|open it again", ElmokitError),
            row(f"closed-iter-{name}", lambda k, n=name: list(k.closed(n)), "is closed", ElmokitError),
            row(f"closed-find-{name}", lambda k, n=name: k.closed(n).find("a"), "is closed", ElmokitError),
            row(f"far-{name}", lambda k, n=name: _asked(k, n, lambda e: e[2]), "no record 2|holds 2", IndexError),
        )
    ),
    row("index-str", lambda k: _asked(k, "dump.npz", lambda e: e["a"]), "index|'a'", TypeError),
    row("index-float", lambda k: _asked(k, "dump.npz", lambda e: e[0.5]), "index|0.5", TypeError),
    row("index-none", lambda k: _asked(k, "dump.npz", lambda e: e[None]), "index|None", TypeError),
    row("tokens-str", lambda k: _asked(k, "dump.npz", lambda e: e.tokens("a")), "index|'a'", TypeError),
    row("find-number", lambda k: _asked(k, "dump.npz", lambda e: e.find(3)), "3 (int)", InputError),
    row("find-none", lambda k: _asked(k, "dump.hdf5", lambda e: e.find(None)), "None", InputError),
    row("find-token", lambda k: _asked(k, "dump.jsonl", lambda e: e.find(["a", None])), "token 1|None", InputError),
    row("format-none", lambda k: dump_format(None), "path (None)", ConfigError),
    row("format-csv", lambda k: dump_format("a.csv"), "a.csv|.hdf5, .h5, .parquet, .npz, .jsonl", ConfigError),
    row("is-dump-none", lambda k: is_dump(None), "path (None)", ConfigError),
    row("convert-none", lambda k: convert_dump(None, k.new("o.npz")), "source (None)", ConfigError),
    row("convert-to-none", lambda k: convert_dump(k.file("dump.npz"), None), "target (None)", ConfigError),
    row("convert-suffix", lambda k: convert_dump(k.file("dump.npz"), k.new("o.csv")), "o.csv", ConfigError),
    row(
        "convert-missing",
        lambda k: convert_dump(k.file("no.npz"), k.new("o.hdf5")),
        "no.npz|does not exist",
        FormatError,
    ),
    row("convert-garbage", lambda k: convert_dump(k.file("garbage.npz"), k.new("o.hdf5")), "garbage.npz", FormatError),
    row(
        "convert-nan",
        lambda k: convert_dump(k.file("nan.hdf5"), k.new("o.jsonl")),
        "record 0|NaN",
        FormatError,
    ),
    row("write-suffix", lambda k: _write(k, "o.csv", np.zeros((2, 4), np.float32)), "o.csv", ConfigError),
    row(
        "write-shape",
        lambda k: _write(k, "o.npz", np.zeros((2, 4), np.float32), np.zeros((2, 5), np.float32)),
        "(2, 5)",
    ),
    row("write-dtype", lambda k: _write(k, "o.hdf5", np.zeros((2, 4), np.float64)), "float64|float32", FormatError),
    row("write-dims", lambda k: _write(k, "o.npz", np.zeros((1, 2, 3, 4)), meta=Meta()), "(1, 2, 3, 4)", FormatError),
    row("write-list", lambda k: _write(k, "o.npz", [[0.0] * 4]), "record 0|numpy", FormatError),
    row("write-record", lambda k: write_dump(["a"], k.new("o.npz"), Meta(width=4)), "records|Record|'a'", FormatError),
    row("write-records", lambda k: write_dump(3, k.new("o.npz"), Meta(width=4)), "records|3", FormatError),
    row("write-meta", lambda k: write_dump([], k.new("o.npz"), {"width": 4}), "meta|dict", FormatError),
    row(
        "write-nan",
        lambda k: _write(k, "o.jsonl", np.full((2, 4), NAN, np.float32)),
        "record 0|NaN",
        FormatError,
    ),
    *(
        line
        for suffix in ("hdf5", "npz", "parquet")
        for line in (
            row(f"write-nan-{suffix}", lambda k, s=suffix: _write(k, f"o.{s}", FINE, FINE * NAN), "record 1|NaN"),
            row(f"write-inf-{suffix}", lambda k, s=suffix: _write(k, f"o.{s}", FINE * INF), "record 0|infinite"),
        )
    ),
    *(
        line
        for suffix in ("hdf5", "npz", "jsonl", "parquet")
        for line in (
            row(f"write-few-{suffix}", lambda k, s=suffix: _write(k, f"o.{s}", FINE[:1]), "record 0|2 tokens|1 vector"),
            row(f"write-text-{suffix}", lambda k, s=suffix: _record(k, s, None, ("a", "b")), "text of record 0|None"),
            row(f"write-str-{suffix}", lambda k, s=suffix: _record(k, s, "ab", "ab"), "record 0|str 'ab'", InputError),
            row(f"write-int-{suffix}", lambda k, s=suffix: _record(k, s, "", ("a", 1)), "token 1|record 0", InputError),
        )
    ),
    row("write-words", lambda k: _write(k, "o.npz", np.full((2, 4), "a"), meta=Meta()), "record 0|<U1", FormatError),
    row("write-int64", lambda k: _write(k, "o.npz", np.ones((2, 4), int), meta=Meta()), "record 0|int64", FormatError),
    row("write-nul", lambda k: _write(k, "o\0.npz", FINE), "no file can have|character", FormatError),
    row("write-long", lambda k: _write(k, f"{'o' * 300}.npz", FINE), "too long|shorter", FormatError),
    row("write-nearly-long", lambda k: _write(k, f"{'o' * 245}.npz", FINE), "too long|shorter", FormatError),
    row(
        "write-below", lambda k: write_dump([], k.file("good.txt") / "o.npz", Meta()), "good.txt is a file", FormatError
    ),
    row("convert-nul", lambda k: convert_dump(k.file("dump.npz"), k.new("o\0.npz")), "no file can have", FormatError),
    row("file-output-nul", lambda k: _embed(k, "good.txt", "o\0.npz"), "no file can have", FormatError),
    row("file-output-long", lambda k: _embed(k, "good.txt", f"{'o' * 300}.npz"), "too long", FormatError),
    row(
        "file-output-below",
        lambda k: embed_file(k.file("good.txt"), k.file("good.txt") / "o.npz", k.embedder),
        "good.txt is a file",
    ),
    row("file-source-empty", lambda k: embed_file("", k.new("o.npz"), k.embedder), "source is empty", ConfigError),
    row("file-source-nul", lambda k: embed_file("a\0b", k.new("o.npz"), k.embedder), "cannot be read", InputError),
    row(
        "open-index-array",
        lambda k: _asked(k, "dump.npz", lambda e: e[np.array([0, 1])]),
        "an int or a slice",
        TypeError,
    ),
    row("open-slice-beyond", lambda k: _asked(k, "dump.npz", lambda e: e[0:2][5]), "no record 5", IndexError),
    row("store-open", lambda k: VectorStore(k.file("folder")), "not a vector store", FormatError),
    row("store-append", lambda k: StoreWriter.append(k.file("folder")), "not a vector store", FormatError),
    row("store-width", lambda k: StoreWriter.create(k.new("s"), Meta()), "width", FormatError),
    row("store-path", lambda k: StoreWriter.create(None, Meta(width=4)), "path (None)", ConfigError),
    row("store-meta", lambda k: StoreWriter.create(k.new("s"), {"width": 4}), "meta|dict", FormatError),
    row("store-nul", lambda k: StoreWriter.create(k.new("s\0"), Meta(width=4)), "no file can have", FormatError),
    row("store-below", lambda k: StoreWriter.create(k.file("good.txt") / "s", Meta(width=4)), "is a file", FormatError),
    row("store-append-none", lambda k: StoreWriter.append(None), "path (None)", ConfigError),
    row("store-text", lambda k: _add(k, None, ("a", "b"), FINE), "text|None", FormatError),
    row("store-bytes", lambda k: _add(k, b"a b", ("a", "b"), FINE), "text|bytes", FormatError),
    row("store-tokens-none", lambda k: _add(k, "a b", None, FINE), "tokens|None", InputError),
    row("store-tokens-str", lambda k: _add(k, "a b", "ab", FINE), "str 'ab'", InputError),
    row("store-token-int", lambda k: _add(k, "a b", ("a", 1), FINE), "token 1|1 (int)", InputError),
    row("store-list", lambda k: _add(k, "a b", ("a", "b"), [[0.0] * 4] * 2), "vectors|numpy", FormatError),
    row("store-none", lambda k: _add(k, "a b", ("a", "b"), None), "vectors|None|numpy", FormatError),
    row("store-tensor", lambda k: _add(k, "a b", ("a", "b"), torch.zeros(2, 4)), "vectors|Tensor|numpy", FormatError),
    row("store-few", lambda k: _add(k, "a b", ("a", "b"), FINE[:1]), "2 tokens|1 vector", FormatError),
    row("store-note", lambda k: _add(k, "a b", ("a", "b"), FINE, note=3), "note|3", FormatError),
    row("store-note-object", lambda k: _add(k, "a", ("a", "b"), FINE, note={"a": {1}}), "note|JSON", FormatError),
    row("store-closed", lambda k: _closed_writer(k).add("a b", ("a", "b"), FINE), "is closed", FormatError),
    row("store-closed-commit", lambda k: _closed_writer(k).commit(), "is closed", FormatError),
    row("store-delete-none", lambda k: delete_store(None), "path (None)", ConfigError),
    row("store-delete-missing", lambda k: delete_store(k.new("s")), "s|does not exist", FormatError),
    row("store-delete", lambda k: delete_store(k.file("model")), "not a vector store", FormatError),
]

ROWS = (*TEXTS, *SETTINGS, *FILES, *DUMPS)
