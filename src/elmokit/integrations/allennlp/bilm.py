"""The stateful biLM inside AllenNLP's `Elmo` and `ElmoEmbedder`."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from elmokit.arguments import check_path
from elmokit.formats import load
from elmokit.formats.allennlp_state import read_characters, read_lstms, write_characters, write_lstms
from elmokit.formats.published import PublishedModel, RemoteFile
from elmokit.formats.remote import fetch_published
from elmokit.model.bilm import BiLMState
from elmokit.text.tokens import check_tokens

_CHARACTERS = {
    "convolution": "_token_embedder.char_conv_{}",
    "highway": "_token_embedder._highways._layers.{}",
    "projection": "_token_embedder._projection",
}
_CHAR_TABLE = "_token_embedder._char_embedding_weights"
_TOKENS, _LSTMS = "_token_embedder.", "_elmo_lstm."


class CarriedState:
    """The state that the biLM keeps between calls; `stateful = False` makes every call start from zero."""

    def __init__(self) -> None:
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


class ElmoBiLm(nn.Module):
    """AllenNLP's `_ElmoBiLm`: from character ids to layers, carrying state from batch to batch."""

    def __init__(
        self,
        options_file: str,
        weight_file: str,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        options, weights = _local("options_file", options_file), _local("weight_file", weight_file)
        bilm = load(options, weights=weights).requires_grad_(requires_grad)
        self.bilm = bilm
        self.num_layers = bilm.config.num_layers
        self._elmo_lstm = CarriedState()
        self._cached_types: Tensor | None = None  # (2 + V, P): begin, end, then the cached words
        self.register_state_dict_post_hook(_to_allennlp)
        self.register_load_state_dict_pre_hook(_from_allennlp)
        if vocab_to_cache:
            self.create_cached_cnn_embeddings(vocab_to_cache)

    def get_output_dim(self) -> int:
        """Width of a vector."""
        return self.bilm.config.output_dim

    def create_cached_cnn_embeddings(self, tokens: Sequence[str]) -> None:
        """Compute the token layer of a word list once, so that `word_inputs` can be positions in the list."""
        indexer = self.bilm.indexer
        rows = [torch.as_tensor(indexer.begin)[None], torch.as_tensor(indexer.end)[None]]
        rows.append(torch.as_tensor(indexer.to_char_ids(check_tokens(tokens, "vocab_to_cache"))))
        device = next(self.bilm.parameters()).device
        self._cached_types = self.bilm.encoder.encode(torch.cat(rows).to(device)).detach()  # (2 + V, P)
        self._cached_types[2:3] = 0  # the first word means padding and is never looked up

    def forward(self, inputs: Tensor, word_inputs: Tensor | None = None) -> dict[str, Any]:
        """From ids (B, T, C) or cached word ids (B, T) to `activations`, (B, T + 2, 2P) per layer, and `mask`."""
        memory = self._elmo_lstm
        num_rows = len(inputs if word_inputs is None else word_inputs)
        before = memory.state if memory.stateful else None
        state = before.resized(num_rows) if before is not None else None
        if self._can_look_up(word_inputs):
            assert word_inputs is not None
            output = self.bilm.contextualize(*self._look_up(word_inputs), state, keep_boundaries=True)
        else:
            output = self.bilm(inputs, state, keep_boundaries=True)
        if memory.stateful:
            memory.state = output.state if before is None else before.updated(output.state)
        return {"activations": list(output.layers), "mask": output.mask}

    def _can_look_up(self, word_inputs: Tensor | None) -> bool:
        if word_inputs is None or self._cached_types is None:
            return False
        return word_inputs.numel() == 0 or int(word_inputs.max()) + 2 < len(self._cached_types)

    def _look_up(self, word_inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The cached vectors (N, P) of sentences with their boundaries, and the mask (B, T + 2)."""
        assert self._cached_types is not None
        mask = word_inputs > 0  # (B, T)
        rows = pad(word_inputs + 2, (1, 1))  # (B, T + 2), 0 = begin
        rows[torch.arange(len(rows), device=rows.device), mask.sum(1) + 1] = 1
        mask = pad(mask, (2, 0), value=True)  # (B, T + 2)
        return self._cached_types.to(rows.device)[rows[mask]], mask


def _to_allennlp(module: nn.Module, state: dict[str, Tensor], prefix: str, _metadata: Any) -> None:
    """Convert the result of `state_dict()` to AllenNLP's names."""
    assert isinstance(module, ElmoBiLm)
    ours = _pop_all(state, f"{prefix}bilm.")
    stack = module.bilm.config.lstm
    theirs = write_characters(ours, **_CHARACTERS)
    if "encoder.char_table" in ours:
        theirs[_CHAR_TABLE] = pad(ours["encoder.char_table"], (0, 0, 1, 0))  # the mask's zero row
    lstms = write_lstms(ours, num_layers=stack.num_layers, forget_bias=stack.forget_bias)
    theirs |= {_LSTMS + name: tensor for name, tensor in lstms.items()}
    if module._cached_types is not None:
        theirs["_word_embedding.weight"] = module._cached_types[2:]
    state.update({prefix + name: tensor for name, tensor in theirs.items()})


def _from_allennlp(module: nn.Module, state: dict[str, Tensor], prefix: str, *_ignored: Any) -> None:
    """Convert AllenNLP's names to those that this module loads."""
    assert isinstance(module, ElmoBiLm)
    characters = {f"{_TOKENS}{name}": t for name, t in _pop_all(state, prefix + _TOKENS).items()}
    lstms = _pop_all(state, prefix + _LSTMS)
    ours = read_characters(characters, **_CHARACTERS)
    if _CHAR_TABLE in characters:
        ours["encoder.char_table"] = characters[_CHAR_TABLE][1:]
    if lstms:
        ours |= read_lstms(lstms, forget_bias=module.bilm.config.lstm.forget_bias)
    if (words := state.pop(f"{prefix}_word_embedding.weight", None)) is not None and module._cached_types is not None:
        module._cached_types = torch.cat([module._cached_types[:2], words.to(module._cached_types)])
    state.update({f"{prefix}bilm.{name}": tensor for name, tensor in ours.items()})


def _pop_all(state: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Remove and return all entries with a prefix, named without it."""
    return {name.removeprefix(prefix): state.pop(name) for name in list(state) if name.startswith(prefix)}


def _local(name: str, file: str) -> Path:
    """A path unchanged; for a URL, the path of its verified download."""
    check_path(name, file)
    if not str(file).startswith(("http://", "https://")):
        return Path(file)
    remote = RemoteFile(str(file))
    folder = f"url/{hashlib.sha256(str(file).encode()).hexdigest()[:16]}"
    return fetch_published(PublishedModel(folder, (remote,))) / remote.name
