"""Embed the lines of a whole file into a dump, in constant memory; a run can resume after a kill at any moment.

Lines are read in windows whose boundaries depend only on the lines, and batches are formed inside a window. Finished
windows are committed to a journal beside the output (a vector store). Meanwhile the dump is written inside the journal;
at the end it is renamed to its final name, and the journal is removed. A resumed run starts at the boundary of a
window, so its output is bit-identical to that of an uninterrupted run.

A dump says of which lines it was made, by their digest. So a regular file is read once before; the dump of a pipe, or
of a file that changed meanwhile, is written from the journal at the end.
"""

import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_flag, check_integer, check_path, shown
from elmokit.embedding.dump_thread import DumpThread
from elmokit.embedding.dumps import check_output, dump_format, guard_dump, jsonl, open_embeddings, write_part
from elmokit.embedding.embedder import CARRY_ROWS, Embedded, Embedder, Output, TextOrTokens, check_dtype
from elmokit.embedding.journal import (
    ENGINE,
    START_OVER,
    describe_difference,
    discard_journal,
    journal_path,
    open_journal,
    pack_state,
    recorded_precision,
    unpack_state,
)
from elmokit.embedding.lines import Errors, LineReader, read_digest
from elmokit.embedding.pooling import Layers
from elmokit.embedding.records import Meta, Record
from elmokit.embedding.store import VectorStore
from elmokit.embedding.store_writer import StoreWriter
from elmokit.embedding.windows import cut_windows
from elmokit.errors import ConfigError, ElmokitError, ElmokitWarning, FormatError
from elmokit.filesystem import naming_destination, refuse_input, sync_directory, sync_file
from elmokit.text.input_kind import DEFAULT_INPUT, INPUTS, InputKind, actual_input, watched
from elmokit.wording import counted

REPORT_RECORDS = 256
"""Records between progress reports while the dump is written from the journal."""


@dataclass(frozen=True)
class EmbedOptions:
    """How to embed a file."""

    layers: Layers = "all"
    pooling: str = "none"
    input: InputKind = DEFAULT_INPUT
    """Raw text, or tokens separated by white space; shards of `write_shards` are always read as tokens."""
    dtype: str = "float32"
    batch_size: int | None = None
    errors: Errors = "strict"
    """What to do about invalid UTF-8."""
    resume: bool = True
    """Resume from the journal of an earlier run; False starts over."""
    overwrite: bool = False
    """Replace a finished output."""


@dataclass(frozen=True)
class EmbedSummary:
    """What `embed_file` did."""

    output: str
    num_lines: int
    num_tokens: int
    """Tokens embedded by this run."""
    num_unknown: int
    """Tokens that a model over words does not know."""
    num_resumed: int
    """Lines that an earlier run had embedded."""
    seconds: float
    was_done: bool
    """Whether the output already existed, from the same model, input and settings."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


@dataclass
class EmbedProgress:
    """The progress of a run."""

    num_lines: int = 0
    num_tokens: int = 0
    num_unknown: int = 0
    num_blank: int = 0
    share: float | None = None
    """Share of the input file that was read."""
    num_written: int = 0
    """Lines written to the dump, if the run is waiting for that; otherwise 0."""


EmbedCallback = Callable[[EmbedProgress], None]


def embed_file(
    source: str | Path,
    output: str | Path,
    embedder: Embedder,
    options: EmbedOptions | None = None,
    *,
    report: EmbedCallback | None = None,
) -> EmbedSummary:
    """Embed the lines of a file into a dump.

    Args:
        source: one text per line; compressed if it ends in .gz, .xz or .bz2; "-" is standard input.
        output: the dump, its format by suffix (.hdf5, .h5, .parquet, .npz, .jsonl); "-" is JSON lines on standard
            output, without a journal.
        embedder: the embedder of the model. With state "carry", its carried state is reset first.
        options: settings of the run; None uses the defaults.
        report: called after each window, and regularly while the dump is written.

    Raises:
        FormatError: if `output` or its journal belongs to another model, input or settings; nothing is changed.
    """
    check_path("source", source)
    check_path("output", output)
    if not isinstance(embedder, Embedder):
        raise ConfigError(f"embedder is {shown(embedder)}: give an Embedder, e.g. Embedder('mini').")
    if options is not None and not isinstance(options, EmbedOptions):
        raise ConfigError(f"options is {shown(options)}: give EmbedOptions(…).")
    options = options or EmbedOptions()
    run = _Run(source, embedder, options, report or (lambda progress: None))
    if str(output) == "-":
        if not hasattr(sys.stdout, "buffer"):
            raise ConfigError("output '-' is standard output, which takes no bytes here: give the name of a file.")
        return run.to_stream(sys.stdout.buffer)
    check_output(output)
    final = Path(output).resolve()
    journal = journal_path(final)
    inputs = [source, embedder.name]
    refuse_input(output, inputs)
    refuse_input(journal, inputs)
    if check_flag("overwrite", options.overwrite):
        guard_dump(output, inputs=inputs, overwrite=True)
    try:
        return replace(run.to_file(final, journal), output=str(output))
    except OSError as error:
        if error.filename is None or Path(str(error.filename)).is_relative_to(journal):
            error.filename = None
            with naming_destination(output):
                raise
        raise


@dataclass(frozen=True)
class _End:
    """The lines of a window, and the state of the run at its end."""

    lines: list[str]
    num_lines: int
    digest: str
    share: float | None
    carried: dict[str, NDArray[Any]] = field(default_factory=dict)
    """The state of the LSTMs, if it is carried."""


class _Run:
    """One call of `embed_file`."""

    def __init__(self, source: str | Path, embedder: Embedder, options: EmbedOptions, report: EmbedCallback) -> None:
        for name, value, known in (("errors", options.errors, ("strict", "replace")), ("input", options.input, INPUTS)):
            if value not in known:
                raise ConfigError(f"{name} {value!r} is unknown: choose {' or '.join(known)}.")
        options = replace(options, dtype=check_dtype(options.dtype).name)
        check_flag("resume", options.resume)
        self._source = source
        self._embedder = embedder
        if str(source) != "-":
            options = replace(options, input=actual_input(Path(source), options.input))
        self._options = options
        self._report = report
        self._output = Output(embedder.select(options.layers, options.pooling), np.dtype(options.dtype))
        self._started = time.monotonic()
        self._progress = EmbedProgress()
        if embedder.state == "carry":
            embedder.runner.carried = None
        size = None if options.batch_size is None else check_integer("batch_size", options.batch_size, at_least=1)
        carry = embedder.state == "carry"
        self._batch_size = size or (CARRY_ROWS if carry else None)
        self._step = self._batch_size or 1 if carry else 1

    @property
    def _meta(self) -> Meta:
        options, selection = self._options, self._output.selection
        return Meta(
            model=self._embedder.name,
            fingerprint=self._embedder.fingerprint,
            layers=layers_text(options.layers),
            pooling=selection.pooling or "none",
            state=self._embedder.state,
            dtype=np.dtype(options.dtype).name,
            num_layers=selection.num_layers if selection.weights is None else None,
            width=self._embedder.bilm.config.output_dim,
            extra={
                "input": options.input,
                "errors": options.errors,
                "batch_size": self._batch_size,
                "batch_tokens": self._embedder.runner.max_tokens,
                "int8": self._embedder.precision == "int8",
                ENGINE: self._embedder.runner.engine_name,
            },
        )

    def to_stream(self, file: Any) -> EmbedSummary:
        """Write JSON lines, window by window."""
        reader = LineReader(self._source, errors=self._options.errors)

        def records() -> Iterator[Record]:
            for _, results in self._embed(reader, ahead=False):
                yield from results
                file.flush()

        jsonl.write_stream(records(), file, self._meta)
        file.flush()
        return self._summary("-", reader.num_lines, 0)

    def to_file(self, final: Path, journal: Path) -> EmbedSummary:
        """Fill the journal, write the dump, and remove the journal."""
        meta, options = self._meta, self._options
        if final.exists() and not options.overwrite:
            done = self._check_done(final, meta)
            discard_journal(journal)
            return done
        digest = read_digest(self._source, errors=options.errors)
        reader = LineReader(self._source, errors=options.errors)
        num_committed = None  # unknown as long as the journal is not ours
        try:
            with closing(reader), open_journal(journal, meta, resume=options.resume) as writer:
                num_resumed = writer.num_committed
                try:
                    self._catch_up(reader, writer.committed)
                    meta = replace(meta, model=writer.meta.model)
                    self._write(writer, reader, final, meta, digest)
                finally:
                    num_committed = writer.num_committed
        except BaseException:
            if num_committed == 0:  # nothing to resume from
                discard_journal(journal)
            raise
        discard_journal(journal)
        return self._summary(str(final), reader.num_lines, num_resumed)

    def _check_done(self, final: Path, meta: Meta) -> EmbedSummary:
        """The summary of a finished output, if it has the same model, input and settings."""
        remedy = "give another name, or --overwrite (overwrite=True) to replace it"
        try:
            with open_embeddings(final) as embeddings:
                found = embeddings.meta
        except ElmokitError:
            raise FormatError(f"{final} exists and is not a complete elmokit dump: {remedy}.") from None
        # A finished output comes from a single engine, so a different engine is not a reason to refuse it.
        without_engine = replace(meta, extra={name: value for name, value in meta.extra.items() if name != ENGINE})
        if (own := recorded_precision(found)) != self._embedder.precision:
            raise FormatError(f"{final} exists with precision {own} instead of {self._embedder.precision}: {remedy}.")
        if difference := describe_difference(found, without_engine):
            raise FormatError(f"{final} exists with {difference}: {remedy}.")
        reader = LineReader(self._source, errors=self._options.errors)
        deque(reader, maxlen=0)
        if reader.digest != found.extra.get("input_sha256"):
            raise FormatError(f"{final} exists and was made from another input than {reader.name}: {remedy}.")
        return replace(self._summary(str(final), reader.num_lines, reader.num_lines), was_done=True)

    def _catch_up(self, reader: LineReader, committed: VectorStore) -> None:
        """Skip the lines that are done, compare them with the journal, and restore its state."""
        if not len(committed):
            return
        lines = iter(reader)
        for _ in range(len(committed)):
            if next(lines, None) is None:
                break
        if reader.num_lines < len(committed) or reader.digest != committed.note.get("sha256"):
            raise FormatError(
                f"{committed.path} holds an unfinished run over another input than {reader.name}: give the same "
                f"input to finish it, {START_OVER}."
            )
        self._embedder.runner.carried = unpack_state(committed.read_arrays(), self._embedder.runner.device)

    def _write(self, writer: StoreWriter, reader: LineReader, final: Path, meta: Meta, digest: str | None) -> None:
        """Embed the remaining lines, and write journal and dump.

        The dump is written inside the journal, so that a kill leaves no files elsewhere, and renamed. `digest` is that
        of all lines, if it is known.
        """
        part = writer.path / f".dump.tmp{final.suffix}"
        early = None if digest is None else part
        with DumpThread(writer, early, _with_digest(meta, digest), self._report_writing) as dump:
            for end, results in self._embed(reader, ahead=digest is not None):
                for record in results:
                    dump.add(record)
                dump.end_window({"sha256": end.digest}, end.carried)
        if reader.digest != digest:
            self._progress.num_lines = reader.num_lines  # also if an earlier run had embedded them all
            with VectorStore(writer.path) as store:
                write_part(self._reported(store), part, _with_digest(meta, reader.digest), dump_format(final))
        sync_file(part)
        os.replace(part, final)
        sync_directory(final.parent)

    def _watched(self, reader: LineReader) -> Iterator[str]:
        """The lines, with a warning if they look like the other kind of input."""
        return watched(reader, self._options.input, reader.name)

    def _report_writing(self, num_written: int) -> None:
        """Report that the run is waiting for the dump."""
        self._report(replace(self._progress, num_written=num_written))

    def _reported(self, store: VectorStore) -> Iterator[Record]:
        """The records of the journal; reports how many were read."""
        for number, record in enumerate(store, start=1):
            yield record
            if number % REPORT_RECORDS == 0 or number == len(store):
                self._report_writing(number)

    def _embed(self, reader: LineReader, *, ahead: bool) -> Iterator[tuple["_End", Iterator[Record]]]:
        """The windows of the remaining lines: where each ends, valid after its records were taken, and its records.

        With `ahead`, the next window is read while one is embedded.
        """
        embedder, first, read = self._embedder, reader.num_lines + 1, deque[_End]()

        def windows() -> Iterator[list[TextOrTokens]]:
            for lines in cut_windows(self._watched(reader), self._step):
                read.append(_End(lines, reader.num_lines, reader.digest, reader.share))
                yield [line if self._options.input == "text" else line.split() for line in lines]

        for part in [windows()] if ahead else ([window] for window in windows()):
            for results in embedder.embed_windows(
                part, self._output, batch_size=self._batch_size, what="line", first=first
            ):
                end = read.popleft()
                yield end, self._records(end, results)
                first += len(end.lines)

    def _records(self, end: "_End", results: Iterator[Embedded]) -> Iterator[Record]:
        """The records of a window; then reports the progress."""
        progress = self._progress
        for line, embedded in zip(end.lines, results, strict=True):
            progress.num_tokens += len(embedded.tokens)
            progress.num_unknown += self._embedder.count_unknown(embedded.tokens)
            progress.num_blank += not embedded.tokens
            yield Record(0, line, embedded.tokens, embedded.vectors)
        if self._embedder.state == "carry":
            end.carried.update(pack_state(self._embedder.runner.carried))
        progress.num_lines = end.num_lines
        progress.share = end.share
        self._report(progress)

    def _summary(self, output: str, num_lines: int, num_resumed: int) -> EmbedSummary:
        if self._progress.num_blank and self._output.selection.pooling:
            warnings.warn(
                f"{counted(self._progress.num_blank, 'line')} without tokens: the pooled vector is zeros.",
                ElmokitWarning,
                stacklevel=2,
            )
        seconds = time.monotonic() - self._started
        done = self._progress
        return EmbedSummary(output, num_lines, done.num_tokens, done.num_unknown, num_resumed, seconds, was_done=False)


def layers_text(layers: Layers) -> str:
    """The requested layers, as stored in dumps."""
    if isinstance(layers, str | int | np.integer):
        return str(layers)
    return ",".join(repr(float(weight)) for weight in layers)


def _with_digest(meta: Meta, digest: str | None) -> Meta:
    """The meta of a dump: that of its journal, and the digest of the lines."""
    return meta if digest is None else replace(meta, extra=meta.extra | {"input_sha256": digest})
