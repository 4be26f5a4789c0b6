"""AllenNLP 0.9's `ElmoEmbedder`: numpy vectors of token lists, and dumps of whole files."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit._version import __version__
from elmokit.arguments import check_integer, check_path, shown
from elmokit.errors import ConfigError, InputError
from elmokit.filesystem import atomic_path, check_name, guard_output
from elmokit.formats.published import PUBLISHED
from elmokit.integrations.allennlp.bilm import ElmoBiLm
from elmokit.integrations.allennlp.inputs import split_characters
from elmokit.model.bilm import remove_boundaries
from elmokit.model.devices import check_device
from elmokit.text.tokens import check_sentences

_MARK = "elmokit_version"
"""The attribute that marks our dumps; AllenNLP ignores it."""
OPTIONS_FILE, WEIGHT_FILE = (file.url for file in PUBLISHED["original"].files)
BATCH_SIZE = 64


class ElmoEmbedder:
    """A biLM that embeds token lists and keeps the state of the last batch, as AllenNLP's does.

    Args:
        options_file: path or URL of the options JSON; the original English model by default.
        weight_file: path or URL of the HDF5 weights.
        cuda_device: number of a CUDA device, or −1 for the CPU.
    """

    def __init__(self, options_file: str = OPTIONS_FILE, weight_file: str = WEIGHT_FILE, cuda_device: int = -1) -> None:
        self.elmo_bilm = ElmoBiLm(options_file, weight_file).eval()
        if check_integer("cuda_device", cuda_device) >= 0:
            self.elmo_bilm = self.elmo_bilm.to(check_device(f"cuda:{cuda_device}"))
        self.cuda_device = cuda_device

    @torch.no_grad()
    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """From token lists to layers (B, L, T, 2P) and mask (B, T)."""
        output = self.elmo_bilm(self.elmo_bilm.bilm.to_char_ids(split_characters(batch)))
        layers, mask = remove_boundaries(torch.stack(output["activations"]), output["mask"])  # (L, B, T, 2P)
        return layers.transpose(0, 1), mask

    def embed_sentence(self, sentence: Sequence[str]) -> NDArray[np.float32]:
        """The layers (L, T, 2P) of one sentence."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        """The layers (L, T, 2P) of each sentence; a batch of one empty sentence does not change the state."""
        batch = list(check_sentences(split_characters(batch), "batch"))
        if batch == [()]:
            config = self.elmo_bilm.bilm.config
            return [np.zeros((config.num_layers, 0, config.output_dim), dtype=np.float32)]
        layers, _ = self.batch_to_embeddings(batch)
        return [one[:, : len(sentence)].cpu().numpy() for one, sentence in zip(layers, batch, strict=True)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = BATCH_SIZE
    ) -> Iterator[NDArray[np.float32]]:
        """The layers of each sentence of a stream, in order."""
        check_integer("batch_size", batch_size, at_least=1)
        stream = iter(sentences)
        while batch := list(islice(stream, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: str = "all",
        batch_size: int = BATCH_SIZE,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Write the vectors of a file to HDF5; each line is one sentence, with tokens separated by white space.

        Args:
            input_file: the open file; it is closed at the end.
            output_file_path: path of the dump, which appears only when it is complete. As in AllenNLP, an earlier dump
                of this method is replaced; any other file is refused.
            output_format: "all" layers, "top" or "average".
            batch_size: sentences per batch; because of the carried state it affects the vectors.
            forget_sentences: leave out `sentence_to_index`.
            use_sentence_keys: use the sentences instead of line numbers as names of the datasets.
        """
        if output_format not in ("all", "top", "average"):
            raise ConfigError(f"output_format {output_format!r} must be all, top or average.")
        if not hasattr(input_file, "readline"):
            raise InputError(f"input_file is {shown(input_file)}: give an open file of text, not its path.")
        _check_readable(input_file)
        if not check_name(check_path("output_file_path", output_file_path)).parent.is_dir():
            raise ConfigError(f"the folder of output_file_path ({output_file_path}) does not exist: create it.")
        source = getattr(input_file, "name", None)
        guard_output(
            output_file_path,
            kind="a dump of embed_file",
            is_ours=_is_own_dump,
            inputs=[source] if isinstance(source, str | Path) else [],
            overwrite=True,  # as AllenNLP does
        )
        index: dict[str, str] = {}
        with input_file, atomic_path(output_file_path) as temporary, h5py.File(temporary, "w") as dump:
            dump.attrs[_MARK] = __version__
            lines = _Lines(input_file)
            for number, layers in enumerate(self.embed_sentences(lines, batch_size)):
                sentence = lines.pending.pop(number)
                key = sentence if use_sentence_keys else str(number)
                if use_sentence_keys and (not key or key in dump):
                    raise InputError(
                        f"line {number + 1} ({sentence[:40]!r}) is blank or repeats an earlier one, so it cannot be a "
                        "key: leave out use_sentence_keys."
                    )
                dump.create_dataset(key, data=_reduce(layers, output_format), dtype="float32")
                index[sentence] = key
            if not forget_sentences and not use_sentence_keys:
                dump.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = json.dumps(index)


def _check_readable(file: IO[str]) -> None:
    if getattr(file, "closed", False):
        raise InputError("input_file is closed: open it again; it is closed once its dump is written.")
    if hasattr(file, "readable") and not file.readable():
        raise InputError("input_file was not opened for reading: open it with mode 'r'.")


def _is_own_dump(path: Path) -> bool:
    try:
        with h5py.File(path, "r") as dump:
            return _MARK in dump.attrs
    except OSError:
        return False


def _reduce(layers: NDArray[np.float32], output_format: str) -> NDArray[np.float32]:
    if output_format == "all":
        return layers  # (L, T, 2P)
    reduced: NDArray[np.float32] = layers[-1] if output_format == "top" else np.mean(layers, axis=0)  # (T, 2P)
    return reduced


class _Lines:
    """The tokens of each line of a file; keeps the lines of the current batch."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self.pending: dict[int, str] = {}

    def __iter__(self) -> Iterator[list[str]]:
        try:
            for number, line in enumerate(self._file):
                self.pending[number] = line.strip()
                yield self.pending[number].split()
        except UnicodeDecodeError as error:
            raise InputError(
                f"input_file is not {error.encoding.upper()} ({error.reason} at byte {error.start + 1} of what was "
                "read last): open it with its own encoding, or errors='replace'."
            ) from None
