"""The character encoder in C: the numbers of a word depend on nothing but the word (see infer.c)."""

from functools import partial

from torch import Tensor
from torch.nn.functional import pad

from elmokit.model.char_encoder import Affine, CharEncoder, Highway
from elmokit.model.engines.packed import Packer
from elmokit.native.library import NativeLibrary


class NativeEncoder:
    """Computes what `CharEncoder.encode_types` does, for float32 on the CPU and without gradients."""

    def __init__(self, encoder: CharEncoder, library: NativeLibrary) -> None:
        self._encoder, self._library = encoder, library
        self._filters, self._packed = Packer(library.pack_filters), Packer(library.pack)

    def __call__(self, char_ids: Tensor) -> Tensor:
        """The vectors (N, P) of token rows (N, C), none of which is padding."""
        projection = self._encoder.projection
        project = None if projection is None else partial(self._multiply, affine=projection)
        return self._encoder.join(char_ids, self._convolve, project)

    def _convolve(self, characters: Tensor) -> Tensor:
        groups = self._encoder.groups()
        characters = characters.contiguous()  # (N, C', D)
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
