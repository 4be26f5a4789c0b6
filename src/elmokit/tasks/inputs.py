"""Token inputs of task models: word vectors, character features, ELMo.

Notation: B examples, T tokens, K different ones, C characters, L layers, D width of a layer, E width of what comes out.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM
from elmokit.model.elmo import ElmoMixes
from elmokit.model.engines.choose import training_engine
from elmokit.tasks.batches import LiveSentences, TokenBatch, TokenTypes
from elmokit.tasks.config import ElmoSettings


class Inputs(NamedTuple):
    """The tokens of a batch."""

    tokens: Tensor  # (B, T, E) for the task's encoder
    extra: Tensor | None  # (B, T, D) to concatenate to the encoder's output
    mask: Tensor  # (B, T)


class CharCnn(nn.Module):
    """Filters over the bytes of a token, followed by max pooling."""

    def __init__(self, *, char_dim: int, num_filters: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(257, char_dim, padding_idx=0)
        self.convolution = nn.Conv1d(char_dim, num_filters, width, padding=width - 1)

    def forward(self, types: TokenTypes) -> Tensor:
        """(B, T, num_filters); equal tokens are computed once."""
        characters = self.table(types.char_ids).transpose(1, 2)  # (K, char_dim, C)
        found: Tensor = self.convolution(characters)  # (K, num_filters, C + width − 1)
        ends = (types.char_ids != 0).sum(1) + self.convolution.kernel_size[0] - 1  # (K,): filters see no more of it
        beyond = torch.arange(found.shape[2], device=found.device) >= ends[:, None]  # (K, C + width − 1)
        features = found.masked_fill(beyond[:, None], -torch.inf).amax(2).relu()  # (K, num_filters)
        return features[types.rows]


class ElmoInputs(nn.Module):
    """The mixes of a task model, over layers from a store or from a biLM that is trained with the task.

    Args:
        settings: where the representations are added, and how layers are mixed.
        num_layers: L.
        width: D.
        bilm: the model that is trained with the task; None if layers come with the batch.
    """

    def __init__(self, settings: ElmoSettings, *, num_layers: int, width: int, bilm: BiLM | None = None) -> None:
        super().__init__()
        if isinstance(settings.layers, int) and settings.layers >= num_layers:
            raise ConfigError(f"elmo.layers is {settings.layers}, but the biLM has layers 0 to {num_layers - 1}.")
        self.settings, self.bilm = settings, bilm
        self.width = width * (num_layers if settings.layers == "concat" else 1)
        """Width of one representation."""
        self._engine = None if bilm is None else training_engine(next(bilm.parameters()))
        num_mixed = num_layers if settings.layers == "all" else 1
        self.mixes = ElmoMixes(num_mixed, settings.num_mixes, dropout=settings.dropout, layer_norm=settings.layer_norm)
        if not settings.gamma:
            for name, parameter in self.mixes.named_parameters():
                parameter.requires_grad_(not name.endswith("gamma"))

    def forward(self, batch: TokenBatch) -> tuple[Tensor, ...]:
        """One representation per place: (B, T, D), or (B, T, L·D) for concatenated layers."""
        layers = batch.layers if self.bilm is None else self._run(self.bilm, batch.live)  # (L, B, T, D)
        assert layers is not None
        choice = self.settings.layers
        if choice == "average":
            layers = layers.mean(0, keepdim=True)  # (1, B, T, D)
        elif choice == "concat":
            layers = layers.movedim(0, 2).flatten(2)[None]  # (1, B, T, L·D)
        elif choice != "all":
            layers = layers[-1:] if choice == "top" else layers[choice : choice + 1]  # (1, B, T, D)
        representations: tuple[Tensor, ...] = self.mixes(layers, batch.mask)
        return representations

    def _run(self, bilm: BiLM, live: LiveSentences | None) -> Tensor:
        assert live is not None
        layers: Tensor = bilm(live.char_ids, engine=self._engine)[0]  # (L, S, U, D)
        return layers.flatten(1, 2)[:, live.places]  # (L, B, T, D)

    def regularization(self) -> Tensor:
        """The penalty that the mixes add to the task's loss."""
        return self.mixes.regularization(self.settings.regularization)


class TokenInputs(nn.Module):
    """All token inputs of a task model, concatenated.

    Args:
        vectors: initial values (W, E) of the word table.
        tune_words: whether word vectors are trained.
        char_cnn: character features; None for none.
        elmo: the mixes of layers; None for a model without ELMo.
    """

    def __init__(
        self, vectors: Tensor, *, tune_words: bool, char_cnn: CharCnn | None = None, elmo: ElmoInputs | None = None
    ) -> None:
        super().__init__()
        self.word_table = nn.Parameter(vectors, requires_grad=tune_words)
        self.char_cnn = char_cnn
        place = "none" if elmo is None else elmo.settings.place
        self.elmo = None if place == "none" else elmo
        self._at_input, self._at_output = place in ("input", "both"), place in ("output", "both")
        features = 0 if char_cnn is None else char_cnn.convolution.out_channels
        width = 0 if elmo is None else elmo.width
        self.dim = vectors.shape[1] + features + width * self._at_input
        """E."""
        self.extra_dim = width * self._at_output
        """Width of the representation concatenated to the encoder's output; 0 for none."""

    def forward(self, batch: TokenBatch) -> Inputs:
        """Look up, compute and mix."""
        parts = [embedding(batch.word_rows, self.word_table, sparse=self.word_table.requires_grad)]  # (B, T, …)
        if self.char_cnn is not None:
            parts.append(self.char_cnn(batch.types))
        mixed: tuple[Tensor, ...] = () if self.elmo is None else self.elmo(batch)
        if self._at_input:
            parts.append(mixed[0])
        return Inputs(torch.cat(parts, 2), mixed[-1] if self._at_output else None, batch.mask)

    def regularization(self) -> Tensor:
        """The penalty that its parts add to the task's loss."""
        return self.word_table.new_zeros(()) if self.elmo is None else self.elmo.regularization()
