"""AllenNLP's `Elmo` module."""

import warnings
from collections.abc import MutableMapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.arguments import check_integer, check_number, shown
from elmokit.errors import ConfigError, ElmokitWarning, InputError
from elmokit.integrations.allennlp.bilm import ElmoBiLm
from elmokit.integrations.allennlp.inputs import read_params
from elmokit.model.bilm import remove_boundaries
from elmokit.model.scalar_mix import MOST, ScalarMix


class AllenMix(ScalarMix):
    """AllenNLP's `ScalarMix`: one parameter (1,) per layer, and gamma as (1,).

    Args:
        mixture_size: number of layers.
        do_layer_norm: normalize each layer over the whole batch first.
        initial_scalar_parameters: the unnormalized weights; None begins with their average.
        trainable: whether the weights and gamma are trained.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(
            mixture_size,
            layer_norm="batch" if do_layer_norm else False,
            initial_weights=initial_scalar_parameters,
            trainable=trainable,
            eps=1e-13,
        )
        start, gamma = self._parameters.pop("weights"), self._parameters.pop("gamma")
        assert start is not None and gamma is not None
        parts = [nn.Parameter(part.detach().clone(), requires_grad=trainable) for part in start.split(1)]
        self.scalar_parameters = nn.ParameterList(parts)
        self.gamma = nn.Parameter(gamma.detach().reshape(1), requires_grad=trainable)

    def __getattr__(self, name: str) -> Any:
        """The weights (L,) as one tensor, which `ScalarMix` computes with."""
        return torch.cat(list(self.scalar_parameters)) if name == "weights" else super().__getattr__(name)

    def forward(self, layers: Tensor | Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """From layers (L, B, T, D), a tensor or a list, and mask (B, T) to their mix (B, T, D)."""
        if not isinstance(layers, Tensor):
            layers = torch.stack(list(layers))
        return super().forward(layers, mask)


def _is_layers(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


class Elmo(nn.Module):
    """ELMo representations with AllenNLP's constructor, inputs and outputs.

    Args:
        options_file: path or URL of the options JSON.
        weight_file: path or URL of the HDF5 weights.
        num_output_representations: number of mixes to learn.
        requires_grad: train the biLM too.
        do_layer_norm: normalize each layer over the whole batch before mixing.
        dropout: dropout rate on each representation, in training.
        vocab_to_cache: words whose token layer is computed once; `word_inputs` are positions in this list.
        keep_sentence_boundaries: keep the vectors of `<S>` and `</S>`.
        scalar_mix_parameters: fixed unnormalized weights; they and gamma are then not trained.
        module: another kind of biLM instead of the two files.
    """

    def __init__(
        self,
        options_file: str | None,
        weight_file: str | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        super().__init__()
        if (module is None) != (options_file is not None and weight_file is not None):
            raise ConfigError("give options_file and weight_file, or module and neither of them.")
        check_integer("num_output_representations", num_output_representations, at_least=1, at_most=MOST)
        check_number("dropout", dropout, at_least=0, below=1)
        if module is None:
            assert options_file is not None and weight_file is not None
            module = ElmoBiLm(options_file, weight_file, requires_grad, vocab_to_cache)
        elif not (isinstance(module, nn.Module) and _is_layers(getattr(module, "num_layers", None))):
            raise ConfigError(
                f"module is {shown(module)}: give a biLM in AllenNLP's manner, an nn.Module with num_layers and "
                "get_output_dim(), such as ElmoBiLm."
            )
        self._elmo_lstm = module
        self._has_cached_vocab = vocab_to_cache is not None
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._scalar_mixes: list[ScalarMix] = []
        for index in range(num_output_representations):
            mix = AllenMix(
                int(getattr(module, "num_layers")),  # noqa: B009
                do_layer_norm,
                scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{index}", mix)
            self._scalar_mixes.append(mix)

    @classmethod
    def from_params(cls, params: MutableMapping[str, Any]) -> "Elmo":
        """Build from a dict of settings, or from AllenNLP's `Params`, whose numbers and flags may be text."""
        return cls(**read_params(cls, params))

    def get_output_dim(self) -> int:
        """Width of a representation."""
        return int(self._elmo_lstm.get_output_dim())  # type: ignore[operator]

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """Compute representations of ids (B, T, C) or (B, …, T, C).

        Args:
            inputs: character ids from `batch_to_ids`.
            word_inputs: positions (B, T) or (B, …, T) in `vocab_to_cache`, used instead of `inputs` if all are cached.

        Returns:
            `elmo_representations`, a list of (B, …, T, 2P), and `mask` (B, …, T).
        """
        if word_inputs is not None and not self._has_cached_vocab:
            warnings.warn(
                "word_inputs are ignored: this Elmo was made without vocab_to_cache.", ElmokitWarning, stacklevel=2
            )
            word_inputs = None
        if word_inputs is not None and not isinstance(word_inputs, Tensor):
            raise InputError(f"word_inputs are {shown(word_inputs)}: give a tensor (B, T) of places in vocab_to_cache.")
        if word_inputs is None and (not isinstance(inputs, Tensor) or inputs.dim() < 3):
            given = f"have shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else f"are {shown(inputs)}"
            raise InputError(f"inputs {given}: give ids (B, T, C), as batch_to_ids makes them.")
        shape = inputs.shape[:-1] if word_inputs is None else word_inputs.shape  # (B, …, T)
        flat_words = None if word_inputs is None else word_inputs.flatten(0, -2)
        output = self._elmo_lstm(inputs.flatten(0, -3), flat_words)
        layers = torch.stack(list(output["activations"]))  # (L, B', T + 2, 2P)
        mask = output["mask"]  # (B', T + 2)
        mixed = torch.stack([mix(layers, mask) for mix in self._scalar_mixes])  # (outputs, B', T + 2, 2P)
        if not self._keep_sentence_boundaries:
            mixed, mask = remove_boundaries(mixed, mask)
        if len(shape) > 2:
            mixed = mixed.unflatten(1, shape[:-1])
            mask = mask.unflatten(0, shape[:-1])
        return {"elmo_representations": [self._dropout(one) for one in mixed], "mask": mask}
