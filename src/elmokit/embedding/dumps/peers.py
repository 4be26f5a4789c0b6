"""HDF5 layouts of embeddings written by AllenNLP, bilm-tf, ELMoForManyLangs and e2e-coref."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import h5py
import numpy as np

from elmokit.embedding.dumps.hdf5_access import DumpFile
from elmokit.embedding.records import Embeddings, Meta, Sentence, Vectors, wanted_sentence
from elmokit.errors import FormatError

_INDEX = "sentence_to_index"
_MANY_LANGS = re.compile(r"\.ly-?\d+\.(?:hdf5|h5)$")


def is_model(file: h5py.File) -> bool:
    """Whether a file has the weights of a biLM."""
    return "RNN_0" in file or "char_embed" in file or set(file) == {"embedding"}


def read_index(file: DumpFile) -> dict[str, str] | None:
    """`sentence_to_index`, or None if there is none."""
    dataset = file.find(_INDEX)
    if dataset is None:
        return None
    with file.damage_reported():
        index = json.loads(dataset[0])
        if not isinstance(index, dict) or not all(str(number).isdecimal() for number in index.values()):
            raise ValueError(f"{_INDEX} is not a table of sentences")
        return index


class LineDump(Embeddings):
    """AllenNLP's and bilm-tf's files, keyed by line number; AllenNLP's may include the sentences."""

    layout = "line-numbers"

    def __init__(self, file: DumpFile) -> None:
        self._file = file
        self.path = file.path
        with file.damage_reported():
            self._length = len(file.root) - (_INDEX in file.root)
        if not self._length and _INDEX not in file.root:
            raise FormatError(f"{file.path} is empty: give a file of embeddings.")
        for number in {0, self._length - 1} if self._length else ():
            file.checked(str(number))
        self.meta = Meta(elmokit="")
        if self._length:
            self.meta = self.meta.completed(file.vectors("0"))
        self._index: dict[str, str] | None = None
        self._texts: dict[int, str] | None = None

    def __len__(self) -> int:
        return self._length

    def read_vectors(self, index: int) -> Vectors:
        """See `Embeddings`."""
        return self._file.vectors(str(index))

    def read_sentence(self, index: int) -> Sentence:
        """See `Embeddings`; AllenNLP stores only the last of equal lines, bilm-tf stores none."""
        self._file.check_open()
        if self._texts is None:
            self._texts = {int(number): text for text, number in self._read_index().items()}
        text = self._texts.get(index, "")
        return text, tuple(text.split())

    def find(self, sentence: str | Sequence[str]) -> list[int]:
        """See `Embeddings`."""
        self._file.check_open()
        index = self._read_index()
        if not index and len(self):
            raise FormatError(f"{self.path} does not hold its sentences: look records up by number.")
        wanted = wanted_sentence(sentence)[1]
        if isinstance(wanted, str):
            return [int(index[wanted])] if wanted in index else []
        return sorted(int(number) for text, number in index.items() if tuple(text.split()) == wanted)

    def _read_index(self) -> dict[str, str]:
        if self._index is None:
            self._index = read_index(self._file) or {}
        return self._index

    def close(self) -> None:
        """See `Embeddings`."""
        self._file.close()


class _KeyedDump(Embeddings):
    """Files whose keys are sentences or identify them; records are in the order of the file's keys."""

    def __init__(
        self,
        files: Sequence[DumpFile],
        layout: str,
        keys: Sequence[tuple[str, ...]],
        understand: Callable[[tuple[str, ...]], Sentence],
    ) -> None:
        self._files = files
        self._keys = keys
        self._understand = understand
        self._by_text: dict[str, int] | None = None
        self.path = files[0].path
        self.layout = layout
        self.meta = Meta(elmokit="").completed(self.read_vectors(0))

    def __len__(self) -> int:
        return len(self._keys)

    def read_vectors(self, index: int) -> Vectors:
        if self.layout == "e2e-coref":
            return self._files[0].vectors(*self._keys[index]).transpose(2, 0, 1)  # (T, D, L) → (L, T, D)
        layers = [file.vectors(*self._keys[index]) for file in self._files]
        if len(layers) == 1:
            return layers[0]
        if len({layer.shape for layer in layers}) > 1:
            raise FormatError(f"{self.path} and its other layers do not fit together: make them again.")
        return np.stack(layers)

    def read_sentence(self, index: int) -> Sentence:
        self._files[0].check_open()
        return self._understand(self._keys[index])

    def find(self, sentence: str | Sequence[str]) -> list[int]:
        """In a cache of e2e-coref, the key of a document finds its sentences."""
        self._files[0].check_open()
        wanted = wanted_sentence(sentence)[1]
        if not isinstance(wanted, str):
            return super().find(sentence)
        if self.layout == "e2e-coref":
            document = wanted.replace("/", ":")
            return [index for index, key in enumerate(self._keys) if document in (key[0], ":".join(key))]
        if self._by_text is None:
            self._by_text = {text: index for index, (text, _) in enumerate(self.sentences())}
        if self.layout == "sentences":  # a path in HDF5 knows neither empty parts nor "."
            wanted = "/".join(name for name in wanted.split("/") if name not in ("", "."))
        return [self._by_text[wanted]] if wanted in self._by_text else []

    def close(self) -> None:
        for file in self._files:
            file.close()


def read_keyed(file: DumpFile) -> Embeddings:
    """AllenNLP's files keyed by sentence, one layer of ELMoForManyLangs, or a cache of e2e-coref."""
    with file.damage_reported():
        if is_model(file.root):
            raise FormatError(f"{file.path} holds a model's weights, not embeddings: load it with elmokit.load.")
    keys = list(file.walk())
    if not keys:
        raise FormatError(f"{file.path} is empty: give a file of embeddings.")
    first = file.checked(*keys[0])
    if first.ndim == 1:
        raise FormatError(
            f"{file.path} is not a file of embeddings: {keys[0][0][:60]!r} holds a single row of numbers."
        )
    if _MANY_LANGS.search(file.path.name) or (first.ndim == 2 and _tabbed(keys)):
        return _KeyedDump([file], "many-langs", keys, _many_langs_sentence)
    if first.ndim == 3 and first.shape[2] < first.shape[1] and all(len(k) == 2 and k[1].isdecimal() for k in keys):
        keys.sort(key=lambda key: (key[0], int(key[1])))
        return _KeyedDump([file], "e2e-coref", keys, lambda key: ("/".join(key), ()))
    return _KeyedDump([file], "sentences", keys, _plain_sentence)


def read_many_langs(prefix: Path, paths: Sequence[Path]) -> Embeddings:
    """All layers of a dump of ELMoForManyLangs, one file each."""
    files: list[DumpFile] = []
    try:
        files += map(DumpFile, paths)
        keys = list(files[0].walk())
        if not keys or any(len(file.root) != len(files[0].root) for file in files):
            raise FormatError(
                f"{prefix}: the layers {paths[0].name} … {paths[-1].name} do not hold the same sentences."
            )
        return _KeyedDump(files, "many-langs", keys, _many_langs_sentence)
    except BaseException:
        for file in files:
            file.close()
        raise


def _tabbed(keys: Sequence[tuple[str, ...]]) -> bool:
    texts = ["/".join(key) for key in keys]
    marked = any("\t" in text or "$period$" in text or "$backslash$" in text for text in texts)
    return marked and not any(" " in text for text in texts)


def _many_langs_sentence(key: tuple[str, ...]) -> Sentence:
    text = "/".join(key).replace("$backslash$", "/").replace("$period$", ".")
    tokens = tuple(text.split("\t"))
    return " ".join(tokens), tokens


def _plain_sentence(key: tuple[str, ...]) -> Sentence:
    text = "/".join(key)
    return text, tuple(text.split())
