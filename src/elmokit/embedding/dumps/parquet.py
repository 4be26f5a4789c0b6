"""Parquet: one row per sentence, for pandas, polars, DuckDB and Spark.

Columns: `index`, `text`, `tokens` (list of strings), and the vectors: `vectors`, or for all layers one column per layer
(`layer_0`, `layer_1` …), so that a reader can load only the one it needs. A cell is a list of T fixed-size lists of D
numbers; if pooled, one such list. The schema's metadata has the origin of the vectors under `elmokit` (JSON).
"""

import bisect
import json
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from elmokit.embedding.records import Embeddings, Meta, Record, Sentence, Vectors, checked, to_json
from elmokit.errors import ConfigError, FormatError, InputError, brief, closed_error

GROUP_BYTES, GROUP_ROWS = 8 * 2**20, 4096
"""Size of a row group, which is in memory at a time and must be read to get a single row."""
_META = b"elmokit"
_WITH_STATISTICS = ["index", "text", "tokens.list.element"]
"""Columns whose smallest and largest values are stored; those of vectors would cost two fifths of the writing."""


def require_pyarrow() -> None:
    """Raise an error that says how to install pyarrow, if it is missing; does not import it, which takes time."""
    if find_spec("pyarrow") is None:
        raise _missing()


def load_pyarrow() -> tuple[Any, Any]:
    """Import pyarrow and its parquet module, or raise an error that says how to install them."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise _missing() from None


def _missing() -> ConfigError:
    return ConfigError('.parquet files need pyarrow, which is not installed: run pip install "elmokit[parquet]".')


def write(records: Iterable[Record], path: Path, meta: Meta) -> int:
    """Write a file."""
    pyarrow, parquet = load_pyarrow()
    stream, meta = checked(records, meta)
    columns = _columns(meta)
    cell = pyarrow.list_(pyarrow.from_numpy_dtype(np.dtype(meta.dtype)), meta.width)
    vectors = cell if meta.pooled else pyarrow.list_(cell)
    fields = [("index", pyarrow.int64()), ("text", pyarrow.string()), ("tokens", pyarrow.list_(pyarrow.string()))]
    schema = pyarrow.schema([*fields, *((name, vectors) for name in columns)])
    schema = schema.with_metadata({_META: to_json(meta.to_dict())})
    count, size = 0, 0
    group: list[Record] = []
    with (
        open(path, "wb") as file,
        parquet.ParquetWriter(
            file, schema, compression="none", use_dictionary=False, write_statistics=_WITH_STATISTICS
        ) as writer,
    ):
        for record in stream:
            group.append(record)
            size += record.vectors.nbytes
            if size >= GROUP_BYTES or len(group) == GROUP_ROWS:
                writer.write_table(_table(pyarrow, schema, group, count, meta))
                count, size, group = count + len(group), 0, []
        if group:
            writer.write_table(_table(pyarrow, schema, group, count, meta))
    return count + len(group)


def _columns(meta: Meta) -> list[str]:
    return ["vectors"] if meta.num_layers is None else [f"layer_{depth}" for depth in range(meta.num_layers)]


def _table(pyarrow: Any, schema: Any, group: list[Record], first: int, meta: Meta) -> Any:
    try:
        texts = pyarrow.array([record.text for record in group], pyarrow.string())
        tokens = pyarrow.array([list(record.tokens) for record in group], pyarrow.list_(pyarrow.string()))
    except UnicodeEncodeError:
        raise InputError("a sentence holds half a surrogate pair, which parquet cannot: correct the text.") from None
    arrays = [pyarrow.array(range(first, first + len(group)), pyarrow.int64()), texts, tokens]
    for depth, _ in enumerate(_columns(meta)):
        parts = [record.vectors if meta.num_layers is None else record.vectors[depth] for record in group]
        rows = np.stack(parts) if meta.pooled else np.concatenate(parts)  # (N, D)
        cells = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), meta.width)
        if not meta.pooled:
            ends = np.cumsum([0, *(len(part) for part in parts)], dtype=np.int32)
            cells = pyarrow.ListArray.from_arrays(pyarrow.array(ends), cells)
        arrays.append(cells)
    return pyarrow.Table.from_arrays(arrays, schema=schema)


def read(path: Path) -> Embeddings:
    """Open a file that `write` made."""
    pyarrow, parquet = load_pyarrow()
    try:
        file = parquet.ParquetFile(path)
    except (pyarrow.ArrowException, ValueError) as error:
        raise FormatError(f"{path} is cut short, damaged or not parquet ({brief(error)}): make it again.") from None
    try:
        return _ParquetDump(path, file, (pyarrow.ArrowException, OSError))
    except BaseException:
        file.close()
        raise


class _ParquetDump(Embeddings):
    """See the module's docstring; keeps the row group that was read last."""

    layout = "parquet"

    def __init__(self, path: Path, file: Any, damaged: tuple[type[Exception], ...]) -> None:
        self.path = path
        self._file = file
        self._closed = False
        self._damaged = damaged
        try:
            values = json.loads((file.schema_arrow.metadata or {})[_META])
            self.meta = Meta.from_dict(values, origin=str(path))
            if not {"text", "tokens", *_columns(self.meta)} <= set(file.schema_arrow.names):
                raise KeyError
        except (KeyError, ValueError):
            raise FormatError(f"{path} was not written by elmokit: its schema has no meta; give a dump.") from None
        groups = range(file.metadata.num_row_groups)
        self._starts = [0]
        for group in groups:
            self._starts.append(self._starts[-1] + file.metadata.row_group(group).num_rows)
        self._read: dict[tuple[str, ...], tuple[int, Any]] = {}

    def __len__(self) -> int:
        return self._starts[-1]

    def read_vectors(self, index: int) -> Vectors:
        table, row = self._group(index, *_columns(self.meta))
        layers = [self._cell(table.column(name)[row]) for name in _columns(self.meta)]
        return layers[0] if self.meta.num_layers is None else np.stack(layers)

    def _cell(self, cell: Any) -> Vectors:
        values = cell.values if self.meta.pooled else cell.values.flatten()
        numbers: Vectors = values.to_numpy(zero_copy_only=False)
        width = self.meta.width or 0
        shape = (width,) if self.meta.pooled else (len(numbers) // max(width, 1), width)
        return numbers.reshape(shape)

    def read_sentence(self, index: int) -> Sentence:
        table, row = self._group(index, "text", "tokens")
        return table.column("text")[row].as_py(), tuple(table.column("tokens")[row].as_py())

    def _group(self, index: int, *columns: str) -> tuple[Any, int]:
        if self._closed:
            raise closed_error(self.path)
        number = bisect.bisect_right(self._starts, index) - 1
        if self._read.get(columns, (-1, None))[0] != number:
            self._read.pop(columns, None)
            try:
                self._read[columns] = (number, self._file.read_row_group(number, columns=list(columns)))
            except self._damaged as error:
                raise FormatError(f"{self.path} is damaged ({brief(error)}): make it again.") from None
        return self._read[columns][1], index - self._starts[number]

    def close(self) -> None:
        self._closed = True
        self._read.clear()
        self._file.close()
