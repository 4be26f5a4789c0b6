"""Write a corpus as shards of tokenized sentences."""

import gzip
import hashlib
import json
import lzma
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from elmokit.arguments import check_choice, check_integer
from elmokit.config import TokenizerConfig
from elmokit.corpus.blocks import Block, Errors, map_blocks, tokenize_lines
from elmokit.errors import ConfigError, InputError
from elmokit.filesystem import atomic_directory, foreign_files, guard_output
from elmokit.progress import ProgressCallback
from elmokit.text.input_kind import (
    CORPUS_FILE,
    CORPUS_FORMAT,
    DEFAULT_INPUT,
    InputKind,
    check_input,
    read_shard_summary,
)
from elmokit.text.tokenizers import text_tokenizer

Compression = Literal["xz", "gz", "none"]

_MAX_PENDING_BYTES = 64_000_000
_MAX_CHUNK_BYTES = 4_000_000
_MAX_SHARDS = 100_000


@dataclass(frozen=True)
class ShardSummary:
    """What `write_shards` wrote, as stored in `corpus.json`."""

    num_sentences: int
    num_tokens: int
    input: InputKind
    tokenizer: TokenizerConfig | None
    """Tokenizer of all sources; None if they differ."""
    seed: int
    passage_sentences: int
    shards: list[dict[str, Any]]
    """Name, num_sentences, num_tokens and sha256 of each shard."""
    sources: list[dict[str, Any]]
    """Name, num_bytes and sha256 of each source."""

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain values for JSON."""
        return asdict(self) | {"tokenizer": self.tokenizer and self.tokenizer.model_dump()}


def write_shards(
    paths: Sequence[Path],
    output_dir: Path,
    *,
    num_shards: int,
    input: InputKind = DEFAULT_INPUT,
    compression: Compression = "xz",
    seed: int = 0,
    passage_sentences: int = 1,
    processes: int | None = None,
    errors: Errors = "strict",
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
) -> ShardSummary:
    """Write a corpus as tokenized sentences, one per line, each to a random shard.

    Every shard is then a random sample of the corpus, so the buffer of a `SentenceStream` is well mixed. The file
    `corpus.json` beside the shards has their counts and the digests of the sources. The folder appears only when it is
    complete, and its content depends only on the sources, the settings and the seed.

    Args:
        paths: Files to read.
        output_dir: A folder that does not exist or is empty, and that contains none of the files.
        num_shards: Number of shards, at most the number of sentences.
        input: "tokens" or "text", as for `read_sentences`.
        compression: Compression of the shards.
        seed: Random seed; decides which shard a sentence goes to.
        passage_sentences: Maximum number of consecutive sentences to keep together; an empty line ends a passage early.
            Passages are written with an empty line after each.
        processes: Processes to tokenize with, and threads to compress with; None chooses by the number of cores.
        errors: Invalid UTF-8: "strict" fails, "replace" puts U+FFFD.
        overwrite: Replace an existing folder of shards.
        progress: Receives the number of bytes read and the total.

    Raises:
        InputError: If a source cannot be read, or the sources have no sentence.
        FormatError: If `output_dir` holds one of the files, or something that may not be replaced.
    """
    check_input(input)
    check_choice("errors", errors, get_args(Errors))
    check_choice("compression", compression, get_args(Compression))
    check_integer("num_shards", num_shards, at_least=1)
    check_integer("passage_sentences", passage_sentences, at_least=1)
    check_integer("seed", seed, at_least=0)
    if num_shards > _MAX_SHARDS:
        raise ConfigError(f"num_shards (--shards) is {num_shards:,}: give at most {_MAX_SHARDS:,}.")
    guard_output(output_dir, kind="a folder of shards", is_ours=_is_shards, inputs=paths, overwrite=overwrite)
    digests: dict[Path, str] = {}
    with atomic_directory(output_dir, overwrite=overwrite) as folder:
        with _ShardWriter(folder, num_shards, compression) as writer:
            function = partial(_passages_of_block, size=passage_sentences, input=input, errors=errors)
            blocks = map_blocks(function, paths, processes=processes, progress=progress, digests=digests)
            for number, passages in enumerate(blocks):
                key = np.random.SeedSequence([seed, number])
                shards = np.atleast_1d(np.random.Philox(key).random_raw(len(passages))) % num_shards
                for shard, passage in zip(shards.tolist(), passages, strict=True):
                    writer.add(shard, passage)
            writer.check()
        summary = ShardSummary(
            num_sentences=sum(writer.num_sentences),
            num_tokens=sum(writer.num_tokens),
            input=input,
            tokenizer=text_tokenizer(paths, input),
            seed=seed,
            passage_sentences=passage_sentences,
            shards=writer.describe(),
            sources=[_describe(path, digests[path]) for path in paths],
        )
        if not summary.num_sentences:
            raise InputError(f"there is no sentence in {paths[0]} or any other file: give files with text in them.")
        text = json.dumps({"format": CORPUS_FORMAT, "version": 1, **summary.to_dict()}, ensure_ascii=False, indent=2)
        (folder / CORPUS_FILE).write_text(text + "\n", encoding="utf-8")
    return summary


def _is_shards(folder: Path) -> bool:
    """Whether a folder holds shards that `write_shards` wrote, and nothing else."""
    summary = read_shard_summary(folder)
    if summary is None:
        return False
    return not foreign_files(folder, {CORPUS_FILE, *(shard["name"] for shard in summary["shards"])})


class _Passage(NamedTuple):
    """Lines of a shard that stay together."""

    text: bytes
    num_sentences: int
    num_tokens: int


def _passages_of_block(block: Block, *, size: int, input: InputKind, errors: Errors) -> list[_Passage]:
    passages: list[list[list[str]]] = [[]]
    for line in tokenize_lines(block, input=input, errors=errors):
        if not line:
            passages.append([])
        for sentence in line:
            if len(passages[-1]) == size:
                passages.append([])
            passages[-1].append(sentence)
    end = "\n" if size > 1 else ""
    return [
        _Passage(
            ("".join(" ".join(tokens) + "\n" for tokens in passage) + end).encode(),
            len(passage),
            sum(map(len, passage)),
        )
        for passage in passages
        if passage
    ]


def _describe(path: Path, digest: str) -> dict[str, Any]:
    if not path.is_file():  # a pipe or a device
        return {"name": path.name, "num_bytes": None, "sha256": None}
    return {"name": path.name, "num_bytes": path.stat().st_size, "sha256": digest}


_COMPRESS: dict[Compression, tuple[str, Callable[[bytes], bytes]]] = {
    "xz": (".txt.xz", partial(lzma.compress, preset=6)),
    "gz": (".txt.gz", partial(gzip.compress, mtime=0)),
    "none": (".txt", bytes),
}


class _ShardWriter:
    """Collects lines for each shard and appends them in compressed chunks.

    An open xz stream takes 100 MB and a process can open about a thousand files, while a chunk takes only the memory of
    its lines. A compressed shard is therefore several concatenated streams, which every reader treats as one.
    Compression runs in threads because it releases the interpreter lock.
    """

    def __init__(self, folder: Path, num_shards: int, compression: Compression) -> None:
        suffix, self._compress = _COMPRESS[compression]
        digits = max(5, len(str(num_shards - 1)))
        self._paths = [folder / f"shard-{number:0{digits}}{suffix}" for number in range(num_shards)]
        self._chunk_bytes = min(_MAX_CHUNK_BYTES, max(_MAX_PENDING_BYTES // num_shards, 1 << 14))
        self._lines: list[list[bytes]] = [[] for _ in self._paths]
        self._sizes = [0] * num_shards
        self._digests = [hashlib.sha256() for _ in self._paths]
        self.num_sentences = [0] * num_shards
        self.num_tokens = [0] * num_shards
        self._pool = ThreadPoolExecutor(2)
        self._waiting: deque[tuple[int, Future[bytes]]] = deque()

    def add(self, shard: int, passage: _Passage) -> None:
        self._lines[shard].append(passage.text)
        self._sizes[shard] += len(passage.text)
        self.num_sentences[shard] += passage.num_sentences
        self.num_tokens[shard] += passage.num_tokens
        if self._sizes[shard] >= self._chunk_bytes:
            self._flush(shard)

    def check(self) -> None:
        """Refuse to write more shards than there are sentences; an empty corpus is reported elsewhere."""
        if 0 < (total := sum(self.num_sentences)) < len(self._paths):
            raise ConfigError(
                f"{total:,} sentences cannot fill {len(self._paths):,} shards: give a smaller num_shards (--shards)."
            )

    def _flush(self, shard: int) -> None:
        self._waiting.append((shard, self._pool.submit(self._compress, b"".join(self._lines[shard]))))
        self._lines[shard], self._sizes[shard] = [], 0
        while len(self._waiting) > 4:
            self._append()

    def _append(self) -> None:
        shard, data = self._waiting.popleft()
        self._digests[shard].update(data.result())
        with self._paths[shard].open("ab") as file:
            file.write(data.result())

    def __enter__(self) -> "_ShardWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                for shard, num_sentences in enumerate(self.num_sentences):
                    if self._lines[shard] or not num_sentences:
                        self._flush(shard)
                while self._waiting:
                    self._append()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def describe(self) -> list[dict[str, Any]]:
        """Name, counts and digest of each shard."""
        return [
            _describe(path, digest.hexdigest()) | {"num_sentences": sentences, "num_tokens": tokens}
            for path, digest, sentences, tokens in zip(
                self._paths, self._digests, self.num_sentences, self.num_tokens, strict=True
            )
        ]
