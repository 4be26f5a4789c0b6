"""Parameters of a biLM under AllenNLP's names: the token embedder and the LSTMs of its `_ElmoBiLm`.

The modules here own no tensors. They register the parameters of a `BiLM` under other names, so that regularizers and
parameter groups find them in `named_parameters()`. State dicts have AllenNLP's layout.
"""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from elmokit.errors import InputError
from elmokit.formats.allennlp_state import read_characters, read_lstms, write_characters, write_lstms
from elmokit.model.bilm import BiLM, BiLMState

_CHARACTERS = {"convolution": "char_conv_{}", "highway": "_highways._layers.{}", "projection": "_projection"}
_CHAR_TABLE = "_char_embedding_weights"


class Renamed(nn.Module):
    """A part of a biLM.

    Args:
        bilm: the biLM, which is no child of this module: each parameter has one name.
    """

    _patterns: ClassVar[dict[str, str]]
    """AllenNLP's names for ours."""
    bilm: BiLM

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.__dict__["bilm"] = bilm
        self._names: dict[str, str] = {}  # our name → the name here
        for ours, parameter in bilm.named_parameters():
            if (theirs := self._rename(ours)) is not None:
                self._names[ours] = theirs
                _register(self, theirs, parameter)
        self.register_state_dict_post_hook(_to_allennlp)
        self.register_load_state_dict_pre_hook(_from_allennlp)

    def _rename(self, name: str) -> str | None:
        """AllenNLP's name for one of ours; None if it does not belong to this part."""
        found = ((re.fullmatch(pattern, name), theirs) for pattern, theirs in self._patterns.items())
        return next((match.expand(theirs) for match, theirs in found if match), None)

    def write(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of this part in AllenNLP's layout, from those of the biLM."""
        raise NotImplementedError

    def read(self, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The reverse of `write`."""
        raise NotImplementedError

    def train(self, mode: bool = True) -> "Renamed":
        """Set the mode of the biLM too."""
        self.bilm.train(mode)
        super().train(mode)
        return self


class CharacterEncoder(Renamed):
    """AllenNLP's `_ElmoCharacterEncoder`: from character ids to context-free vectors."""

    _patterns: ClassVar[dict[str, str]] = {
        r"encoder\.char_table": _CHAR_TABLE,
        r"encoder\.convolutions\.(\d+)\.(\w+)": r"char_conv_\1.\2",
        # AllenNLP has both halves in one tensor. The second one gets a name that its patterns match too.
        r"encoder\.highways\.(\d+)\.transform\.(\w+)": r"_highways._layers.\1.\2",
        r"encoder\.highways\.(\d+)\.carry\.(\w+)": r"_highways._layers.\1.\2_carry",
        r"encoder\.projection\.(\w+)": r"_projection.\1",
        r"encoder\.(word_table|token_table)": r"\1",
    }

    @property
    def output_dim(self) -> int:
        """Width of a vector of one direction."""
        return self.bilm.config.output_dim // 2

    def get_output_dim(self) -> int:
        """Width of a vector of one direction."""
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """From ids (B, T, C) to `token_embedding` (B, T + 2, P) and `mask` (B, T + 2), boundaries included."""
        output = self.bilm(inputs, keep_boundaries=True)
        return {"mask": output.mask, "token_embedding": output.layers[0][..., : self.output_dim]}

    def write(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of this part in AllenNLP's layout, from those of the biLM."""
        theirs = write_characters(ours, **_CHARACTERS)
        for name in ("word_table", "token_table"):
            if f"encoder.{name}" in ours:
                theirs[name] = ours[f"encoder.{name}"]
        if "encoder.char_table" in ours:
            theirs[_CHAR_TABLE] = pad(ours["encoder.char_table"], (0, 0, 1, 0))  # the mask's zero row
        return theirs

    def read(self, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The reverse of `write`."""
        ours = read_characters(theirs, **_CHARACTERS)
        ours |= {f"encoder.{name}": theirs[name] for name in ("word_table", "token_table") if name in theirs}
        if _CHAR_TABLE in theirs:
            ours["encoder.char_table"] = theirs[_CHAR_TABLE][1:]
        return ours


class StatefulLstm(Renamed):
    """AllenNLP's `ElmoLstm` inside its biLM: the weights of the LSTMs, and the state that is kept between calls.

    `stateful = False` makes every call start from zero.
    """

    _patterns: ClassVar[dict[str, str]] = {
        r"(forward|backward)_lstm\.layers\.(\d+)\.input_weight": r"\1_layer_\2.input_linearity.weight",
        r"(forward|backward)_lstm\.layers\.(\d+)\.recurrent_weight": r"\1_layer_\2.state_linearity.weight",
        r"(forward|backward)_lstm\.layers\.(\d+)\.bias": r"\1_layer_\2.state_linearity.bias",
        r"(forward|backward)_lstm\.layers\.(\d+)\.projection_weight": r"\1_layer_\2.state_projection.weight",
    }

    def __init__(self, bilm: BiLM) -> None:
        super().__init__(bilm)
        self.stateful = True
        self.state: BiLMState | None = None

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Reset all rows, or those where the mask (B,) is true."""
        if mask is None or self.state is None:
            self.state = None
            return
        if len(mask) != self.state.num_rows:
            raise ValueError(f"the mask has {len(mask)} rows, but the state remembers {self.state.num_rows}.")
        kept = (~mask.bool())[None, :, None]  # (1, B, 1)
        self.state = BiLMState(*(type(side)(side.h * kept, side.c * kept) for side in self.state))

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """The state as AllenNLP keeps it: (L, B, 2P) and (L, B, 2H), both directions side by side; None is zero."""
        if self.state is None:
            return None
        forward, backward = self.state
        return torch.cat([forward.h, backward.h], -1), torch.cat([forward.c, backward.c], -1)

    @_states.setter
    def _states(self, states: tuple[Tensor, Tensor] | None) -> None:
        if states is None:
            self.state = None
            return
        zero = self.bilm.zero_state(1).forward
        widths = [2 * part.shape[-1] for part in zero]
        depth = len(zero.h)
        if [(len(one), one.dim(), one.shape[-1]) for one in states] != [(depth, 3, width) for width in widths]:
            raise InputError(
                f"_states are None or tensors ({depth}, B, {widths[0]}) and ({depth}, B, {widths[1]}): assign what "
                "_states returned earlier."
            )
        (forward_h, backward_h), (forward_c, backward_c) = (one.chunk(2, -1) for one in states)
        self.state = BiLMState(type(zero)(forward_h, forward_c), type(zero)(backward_h, backward_c))

    def write(self, ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of this part in AllenNLP's layout, from those of the biLM."""
        stack = self.bilm.config.lstm
        return write_lstms(ours, num_layers=stack.num_layers, forget_bias=stack.forget_bias)

    def read(self, theirs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The reverse of `write`."""
        return read_lstms(theirs, forget_bias=self.bilm.config.lstm.forget_bias)


def _register(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Register a parameter under a dotted name, in plain modules that are made on the way."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    module.register_parameter(last, parameter)


def _to_allennlp(module: nn.Module, state: dict[str, Tensor], prefix: str, _metadata: Any) -> None:
    """Convert the result of `state_dict()` to AllenNLP's tensors."""
    assert isinstance(module, Renamed)
    ours = {name: state.pop(prefix + theirs) for name, theirs in module._names.items()}
    state.update({prefix + name: tensor for name, tensor in module.write(ours).items()})


def _from_allennlp(module: nn.Module, state: dict[str, Tensor], prefix: str, *_ignored: Any) -> None:
    """Convert AllenNLP's tensors to those that this module loads."""
    assert isinstance(module, Renamed)
    theirs = {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}
    if theirs:
        ours = module.read(theirs)
        state.update({prefix + module._names[name]: tensor for name, tensor in ours.items() if name in module._names})
