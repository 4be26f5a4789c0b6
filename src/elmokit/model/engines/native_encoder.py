"""The character encoder in C: the numbers of a word depend on nothing but the word (see infer.c)."""

import torch
from torch import Tensor
from torch.nn.functional import embedding, pad

from elmokit.model.char_encoder import Affine, CharEncoder, Convolution, Highway, trim_padding
from elmokit.model.engines.packed import Packer
from elmokit.native.library import NativeLibrary


class NativeEncoder:
    """Computes what `CharEncoder.encode_types` does, for float32 on the CPU and without gradients."""

    def __init__(self, encoder: CharEncoder, library: NativeLibrary) -> None:
        self._encoder, self._library = encoder, library
        self._filters, self._packed = Packer(library.pack_filters), Packer(library.pack)

    def __call__(self, char_ids: Tensor) -> Tensor:
        """The vectors (N, P) of token rows (N, C), none of which is padding."""
        encoder = self._encoder
        parts = []
        if encoder.word_table is not None:
            parts.append(embedding(char_ids[:, 0] - 1, encoder.word_table))  # (N, word_dim)
            char_ids = char_ids[:, 1:]
        if encoder.char_table is not None:
            parts.append(self._convolve(char_ids, encoder.char_table))  # (N, F)
        x = torch.cat(parts, dim=-1)  # (N, word_dim + F)
        return x if encoder.projection is None else self._multiply(x, encoder.projection)  # (N, P)

    def _convolve(self, char_ids: Tensor, char_table: Tensor) -> Tensor:
        groups = [group for group in self._encoder.convolutions if isinstance(group, Convolution)]
        char_ids = trim_padding(char_ids, max(group.weight.shape[0] for group in groups))  # (N, C')
        characters = embedding(char_ids, pad(char_table, (0, 0, 1, 0))).contiguous()  # (N, C', D)
        x = characters.new_empty(len(characters), sum(group.bias.numel() for group in groups))  # (N, F)
        relu = self._encoder.activation == "relu"
        for group, out in zip(groups, x.split([group.bias.numel() for group in groups], dim=1), strict=True):
            panels = self._filters(group.weight)
            self._library.convolve(characters, group.weight.shape[0], panels, _padded(group.bias), out, relu=relu)
        for highway in self._encoder.highways:
            assert isinstance(highway, Highway)
            self._library.highway(self._multiply(x, highway.transform), self._multiply(x, highway.carry), x)
        return x

    def _multiply(self, x: Tensor, affine: Affine) -> Tensor:
        out = x.new_empty(len(x), affine.bias.numel())
        return self._library.product(x, self._packed(affine.weight), out, start=_padded(affine.bias))


def _padded(bias: Tensor) -> Tensor:
    return pad(bias, (0, -bias.numel() % 64))
