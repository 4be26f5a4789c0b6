"""Layer 0: the context-free vector of a token, from its characters or from a table.

Notation: N tokens, C columns of a token's row, D width of a character's vector, F filters, P output width.

A word's vector does not depend on its neighbors, so `encode` computes every distinct row once (`encode_types`) and
copies it to all its occurrences; training, embedding and the tasks all use it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

_TYPES_AT_ONCE = 512


class Affine(nn.Module):
    """A linear map with a bias, left uninitialized: weights come from a file or from `initialize`."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim))
        self.bias = nn.Parameter(torch.empty(out_dim))

    def forward(self, x: Tensor) -> Tensor:
        """From (N, in) to (N, out)."""
        return torch.addmm(self.bias, x, self.weight)


class Convolution(nn.Module):
    """One group of filters over the characters of a token, and the maximum of each filter."""

    def __init__(self, *, char_dim: int, width: int, num_filters: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, char_dim, num_filters))
        self.bias = nn.Parameter(torch.empty(num_filters))

    def forward(self, characters: Tensor) -> Tensor:
        """From (N, C, D) to (N, num_filters).

        Spans of consecutive characters are also consecutive in memory, so all of them form one matrix product.
        """
        width, char_dim, num_filters = self.weight.shape
        windows = characters.flatten(1).unfold(1, width * char_dim, char_dim)  # (N, C − width + 1, width·D)
        found = windows.reshape(-1, width * char_dim) @ self.weight.flatten(0, 1)  # (N·(C − width + 1), num_filters)
        return found.view(*windows.shape[:2], num_filters).amax(1) + self.bias


class Highway(nn.Module):
    """y = g·relu(transform(x)) + (1 − g)·x with g = σ(carry(x)), named as in bilm-tf."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.transform = Affine(dim, dim)
        self.carry = Affine(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """From (N, F) to (N, F)."""
        gate: Tensor = self.carry(x).sigmoid()  # (N, F)
        new: Tensor = self.transform(x).relu()  # (N, F)
        return gate * new + (1 - gate) * x


class TypeEncoder(nn.Module, ABC):
    """Base of both encoders: rows in, vectors out, equal rows computed once."""

    @property
    @abstractmethod
    def id_range(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Lowest and highest id accepted in the first column of a token's row, and in the others."""

    @abstractmethod
    def initialize(self, generator: torch.Generator) -> None:
        """Draw bilm-tf's initial values."""

    @abstractmethod
    def encode_types(self, char_ids: Tensor) -> Tensor:
        """The vectors (N, P) of token rows (N, C), none of which is padding."""

    def encode(self, char_ids: Tensor) -> Tensor:
        """Like `encode_types`, with every distinct row computed once."""
        types, inverse = torch.unique(char_ids, dim=0, return_inverse=True)  # (K, C), (N,)
        order, vectors = self.encode_by_length(types)  # (K,), (K, P)
        return vectors[order.argsort()[inverse]]  # (N, P)

    def encode_by_length(
        self, types: Tensor, encode: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Like `encode_types` for distinct rows (K, C), sorted by length: their order (K,) and vectors (K, P).

        `encode` is a faster `encode_types`, if there is one.
        """
        encode = encode or self.encode_types
        order = used_columns(types).argsort(stable=True)  # (K,): short words share a block and skip its padding
        blocks = [encode(part) for part in types[order].split(_TYPES_AT_ONCE)]
        return order, torch.cat(blocks)


class CharEncoder(TypeEncoder):
    """Characters → convolutions → maximum → activation → highways → projection.

    If the model also embeds whole words, the word's vector precedes the filters at the projection, and the word's id is
    in the first column of its row.
    """

    def __init__(
        self,
        *,
        num_characters: int,
        char_dim: int,
        filters: Sequence[tuple[int, int]],
        activation: str,
        num_highway: int,
        output_dim: int,
        projected: bool = True,
        num_words: int = 0,
        word_dim: int = 0,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.word_table = nn.Parameter(torch.empty(num_words, word_dim)) if num_words else None
        self.char_table = nn.Parameter(torch.empty(num_characters, char_dim)) if filters else None
        self.convolutions = nn.ModuleList(
            Convolution(char_dim=char_dim, width=width, num_filters=number) for width, number in filters
        )
        num_filters = sum(number for _, number in filters)
        self.highways = nn.ModuleList(Highway(num_filters) for _ in range(num_highway))
        self.projection = Affine(num_filters + word_dim, output_dim) if projected else None

    @property
    def id_range(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """A 0 among the characters is a zero vector; a word id is always in the table."""
        characters = (0, 0 if self.char_table is None else len(self.char_table))
        return (characters if self.word_table is None else (1, len(self.word_table))), characters

    def initialize(self, generator: torch.Generator) -> None:
        """Draw bilm-tf's initial values."""
        for table in (self.char_table, self.word_table):
            if table is not None:
                nn.init.uniform_(table, -1, 1, generator)
        num_filters = 0
        for group in self.groups():
            width, char_dim, num = group.weight.shape
            if self.activation == "relu":
                nn.init.uniform_(group.weight, -0.05, 0.05, generator)
            else:
                nn.init.normal_(group.weight, 0, 1 / math.sqrt(width * char_dim), generator)
            nn.init.zeros_(group.bias)
            num_filters += num
        for highway in self.highways:
            assert isinstance(highway, Highway)
            for affine, bias in ((highway.transform, 0.0), (highway.carry, -2.0)):
                nn.init.normal_(affine.weight, 0, 1 / math.sqrt(num_filters), generator)
                nn.init.constant_(affine.bias, bias)
        if self.projection is not None:
            in_dim = self.projection.weight.shape[0]
            nn.init.normal_(self.projection.weight, 0, 1 / math.sqrt(in_dim), generator)
            nn.init.zeros_(self.projection.bias)

    def encode_types(self, char_ids: Tensor) -> Tensor:
        """The vectors (N, P) of token rows (N, C), none of which is padding."""
        return self.join(char_ids, self._convolve, self.projection)

    def join(
        self, char_ids: Tensor, convolve: Callable[[Tensor], Tensor], project: Callable[[Tensor], Tensor] | None
    ) -> Tensor:
        """The vectors (N, P) of token rows (N, C): those of words and of characters, side by side and projected.

        Args:
            char_ids: token rows, none of which is padding.
            convolve: computes the filters (N, F) of the vectors (N, C', D) of characters.
            project: the projection; None returns the parts as they are.
        """
        parts = []
        if self.word_table is not None:
            parts.append(embedding(char_ids[:, 0] - 1, self.word_table))  # (N, word_dim)
            char_ids = char_ids[:, 1:]
        if self.char_table is not None:
            char_ids = trim_padding(char_ids, max(group.weight.shape[0] for group in self.groups()))  # (N, C')
            # AllenNLP reads a 0 inside a token as a zero vector. That row is created only here, so it is never trained.
            parts.append(convolve(embedding(char_ids, pad(self.char_table, (0, 0, 1, 0)))))  # (N, F)
        x = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)  # (N, word_dim + F)
        return x if project is None else project(x)  # (N, P)

    def _convolve(self, characters: Tensor) -> Tensor:
        x = torch.cat([group(characters) for group in self.convolutions], dim=-1)  # (N, F)
        x = x.relu() if self.activation == "relu" else x.tanh()  # (N, F)
        for highway in self.highways:
            x = highway(x)  # (N, F)
        return x

    def groups(self) -> list[Convolution]:
        """The groups of filters."""
        return [group for group in self.convolutions if isinstance(group, Convolution)]


def used_columns(char_ids: Tensor) -> Tensor:
    """The number of columns (N,) before the padding of each row (N, C), which is the run of equal ids at its end."""
    numbers = torch.arange(1, char_ids.shape[1] + 1, device=char_ids.device)  # (C,)
    return (numbers * (char_ids != char_ids[:, -1:])).amax(1)


def trim_padding(char_ids: Tensor, widest: int) -> Tensor:
    """Drop columns that cannot change the maximum: every filter still sees one span that is only padding."""
    if len(char_ids) == 0:
        return char_ids
    return char_ids[:, : int(used_columns(char_ids).max()) + widest]


class TokenEncoder(TypeEncoder):
    """A table with one row for every word of the vocabulary."""

    def __init__(self, *, vocab_size: int, output_dim: int) -> None:
        super().__init__()
        self.token_table = nn.Parameter(torch.empty(vocab_size, output_dim))

    @property
    def id_range(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The only column has the word's id."""
        return (1, len(self.token_table)), (0, 0)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw bilm-tf's initial values."""
        nn.init.xavier_uniform_(self.token_table, generator=generator)

    def encode_types(self, char_ids: Tensor) -> Tensor:
        """The vectors (N, P) of token rows (N, 1), none of which is padding."""
        return embedding(char_ids[:, 0] - 1, self.token_table)  # (N, P)
