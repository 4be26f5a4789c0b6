"""The stateful biLM inside AllenNLP's `Elmo` and `ElmoEmbedder`."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from elmokit.formats import load
from elmokit.integrations.allennlp.inputs import find_file
from elmokit.integrations.allennlp.renamed import CharacterEncoder, StatefulLstm
from elmokit.model.bilm import BiLM
from elmokit.text.tokens import check_tokens


class ElmoBiLm(nn.Module):
    """AllenNLP's `_ElmoBiLm`: from character ids to layers, carrying state from batch to batch."""

    bilm: BiLM

    def __init__(
        self,
        options_file: str,
        weight_file: str,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        options, weights = find_file("options_file", options_file), find_file("weight_file", weight_file)
        bilm = load(options, weights=weights).requires_grad_(requires_grad)
        self.__dict__["bilm"] = bilm  # not a child: its parameters are those of the next two
        self.num_layers = bilm.config.num_layers
        self._token_embedder = CharacterEncoder(bilm)
        self._elmo_lstm = StatefulLstm(bilm)
        self._word_embedding: nn.Embedding | None = None  # (V, P), the cached words
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
        vectors = self.bilm.encoder.encode(torch.cat(rows).to(device)).detach()  # (2 + V, P)
        self._bos_embedding, self._eos_embedding, words = vectors[0], vectors[1], vectors[2:].clone()
        words[:1] = 0  # the first word means padding and is never looked up
        self._word_embedding = nn.Embedding.from_pretrained(words)

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
        if word_inputs is None or self._word_embedding is None:
            return False
        return word_inputs.numel() == 0 or int(word_inputs.max()) < self._word_embedding.num_embeddings

    def _look_up(self, word_inputs: Tensor) -> tuple[Tensor, Tensor]:
        """The cached vectors (N, P) of sentences with their boundaries, and the mask (B, T + 2)."""
        assert self._word_embedding is not None
        mask = word_inputs > 0  # (B, T)
        rows = pad(word_inputs, (1, 1))  # (B, T + 2)
        places = torch.zeros_like(rows)  # (B, T + 2): 1 = begin, 2 = end
        places[:, 0] = 1
        places[torch.arange(len(rows), device=rows.device), mask.sum(1) + 1] = 2
        mask = pad(mask, (2, 0), value=True)  # (B, T + 2)
        vectors = self._word_embedding(rows[mask])  # (N, P)
        for place, vector in ((1, self._bos_embedding), (2, self._eos_embedding)):
            vectors[places[mask] == place] = vector.to(vectors)
        return vectors, mask
