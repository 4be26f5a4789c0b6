"""The bidirectional language model: two LSTM stacks over one token encoder.

Notation: B sentences, T tokens of the longest, C columns of a token's row, N tokens in all, L layers including
layer 0, P width of a direction, V words of the softmax.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from elmokit.arguments import check_integer, shown
from elmokit.config import CharacterInput, ElmoConfig, LstmStack
from elmokit.errors import ConfigError, InputError
from elmokit.model.char_encoder import CharEncoder, TokenEncoder, TypeEncoder
from elmokit.model.engines import Engine
from elmokit.model.lstm import Lstm, LstmLayer, LstmState
from elmokit.model.packing import Packing
from elmokit.model.softmax import Softmax
from elmokit.text.batching import sentences_to_char_ids
from elmokit.text.characters import ByteIndexer, Indexer, WordIndexer
from elmokit.text.vocabulary import Vocabulary


class BiLMState(NamedTuple):
    """The state of both directions for each row of the last batch; a value, never hidden in a module."""

    forward: LstmState
    backward: LstmState

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.forward.h.shape[1]

    def resized(self, num_rows: int) -> "BiLMState":
        """The state cut to the first rows, or extended with rows at zero."""
        return BiLMState(*(LstmState(*(_resize_rows(t, num_rows) for t in side)) for side in self))

    def updated(self, newer: "BiLMState") -> "BiLMState":
        """This state with its first rows replaced, as after a smaller batch in bilm-tf and AllenNLP."""
        return BiLMState(
            *(
                LstmState(*(torch.cat([t, old[:, t.shape[1] :]], 1) for t, old in zip(new, kept, strict=True)))
                for new, kept in zip(newer, self, strict=True)
            )
        )


def _resize_rows(tensor: Tensor, num_rows: int) -> Tensor:
    missing = num_rows - tensor.shape[1]
    return nn.functional.pad(tensor, (0, 0, 0, missing)) if missing > 0 else tensor[:, :num_rows]


class BiLMOutput(NamedTuple):
    """The output of a biLM for a batch."""

    layers: Tensor  # (L, B, T, 2P), zeros at padding
    mask: Tensor  # (B, T), True = real token
    state: BiLMState


class BiLM(nn.Module):
    """A bidirectional language model with its config, its indexer and, if it has one, its vocabulary.

    A new one has bilm-tf's random initial values, drawn from `seed`, in float32 regardless of torch's default;
    `elmokit.load` returns a trained one.

    Example:
        >>> bilm = elmokit.load("path/to/model")
        >>> layers, mask, state = bilm(bilm.to_char_ids([["A", "play", "."], ["They", "play"]]))
        >>> layers.shape  # (L, B, T, 2P)
    """

    encoder: CharEncoder | TokenEncoder

    def __init__(
        self, config: ElmoConfig, *, vocabulary: Vocabulary | None = None, indexer: Indexer | None = None, seed: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(config, ElmoConfig):
            raise ConfigError(f"BiLM() was given {shown(config)}: give an ElmoConfig, or use elmokit.load.")
        if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
            raise ConfigError(
                f"vocabulary is {shown(vocabulary)}: give a Vocabulary; elmokit.text.vocabulary.read_vocabulary reads "
                "one from a file."
            )
        check_integer("seed", seed, at_least=0, at_most=2**63 - 1)
        _check_vocabulary(config, vocabulary)
        self.config = config
        self.vocabulary = vocabulary
        self.indexer = indexer or _build_indexer(config, vocabulary)
        self.encoder = _build_encoder(config)
        self.forward_lstm = _build_lstm(config.lstm)
        self.backward_lstm = _build_lstm(config.lstm)
        self.softmax = _build_softmax(config)
        self.float()
        self.initialize(seed)

    def initialize(self, seed: int) -> None:
        """Draw bilm-tf's initial values from a seed, without changing any global random state."""
        device = next(self.parameters()).device
        if device.type == "meta":
            return
        generator = torch.Generator(device).manual_seed(seed)
        for module in (self.encoder, *self.forward_lstm.layers, *self.backward_lstm.layers, self.softmax):
            if module is not None:
                assert isinstance(module, TypeEncoder | LstmLayer | Softmax)
                module.initialize(generator)

    @property
    def num_parameters(self) -> int:
        """Number of trainable parameters, including the softmax."""
        return sum(parameter.numel() for parameter in self.parameters())

    def to_char_ids(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Convert the tokens of sentences to padded ids (B, T, C), without boundaries, on the model's device."""
        char_ids = sentences_to_char_ids(sentences, self.indexer)
        return torch.from_numpy(char_ids).to(next(self.parameters()).device)

    def zero_state(self, num_rows: int) -> BiLMState:
        """The state before any sentence."""
        check_integer("num_rows", num_rows, at_least=0)
        return BiLMState(self.forward_lstm.zero_state(num_rows), self.backward_lstm.zero_state(num_rows))

    def forward(
        self,
        char_ids: Tensor,
        state: BiLMState | None = None,
        *,
        keep_boundaries: bool = False,
        engine: Engine | None = None,
    ) -> BiLMOutput:
        """Compute the layers of sentences, given as ids (B, T, C) without boundaries, which are added here.

        Args:
            char_ids: token rows; all-zero rows on the right are padding. A sentence may be empty.
            state: state of the rows; None starts every row from zero.
            keep_boundaries: also return the layers of `<S>` and `</S>`, so that T grows by 2.
            engine: executes the LSTM layers; None uses the plain reference.
        """
        if not isinstance(char_ids, Tensor):
            raise InputError(f"char_ids are {shown(char_ids)}: make them with bilm.to_char_ids(sentences).")
        if char_ids.dim() != 3:
            raise InputError(f"char_ids have shape {tuple(char_ids.shape)}: give (B, T, C), sentences × tokens × ids.")
        mask = (char_ids != 0).any(-1)  # (B, T)
        lengths = mask.sum(1)  # (B,)
        self._check_ids(char_ids[mask])
        with_boundaries = self._add_boundaries(char_ids, lengths)  # (B, T + 2, C)
        return self.contextualize(
            self.encoder.encode(with_boundaries[with_boundaries.any(-1)]),
            nn.functional.pad(mask, (2, 0), value=True),
            state,
            keep_boundaries=keep_boundaries,
            engine=engine,
        )

    def contextualize(
        self,
        tokens: Tensor,
        mask_with_boundaries: Tensor,
        state: BiLMState | None = None,
        *,
        keep_boundaries: bool = False,
        engine: Engine | None = None,
    ) -> BiLMOutput:
        """Compute the layers from the token vectors (N, P) of all sentences end to end, including boundaries."""
        mask = mask_with_boundaries  # (B, T + 2)
        num_rows, num_steps = mask.shape
        packing = Packing.from_mask(mask)
        state = self.zero_state(num_rows) if state is None else _checked_state(state, num_rows)
        flat = tokens.new_zeros(num_rows * num_steps, tokens.shape[1])  # (B·(T + 2), P)
        flat = flat.index_put((mask.flatten().nonzero()[:, 0],), tokens)
        sides, states = [], []
        for lstm, index, before in (
            (self.forward_lstm, packing.forward_index, state.forward),
            (self.backward_lstm, packing.backward_index, state.backward),
        ):
            outputs, after = lstm(flat[index], packing.batch_sizes, before.select(packing.order), engine=engine)
            padded = torch.zeros_like(flat).expand(len(outputs), -1, -1)
            padded = padded.index_put((_every(outputs, index), index), torch.stack(outputs))
            sides.append(torch.cat([flat[None], padded]))  # (L, B·(T + 2), P)
            states.append(after.detach().select(packing.order.argsort()))
        layers = torch.cat(sides, dim=-1).view(self.config.num_layers, num_rows, num_steps, self.config.output_dim)
        if not keep_boundaries:
            layers, mask = remove_boundaries(layers, mask)
        return BiLMOutput(layers, mask, BiLMState(*states))

    def logits(self, h: Tensor) -> Tensor:
        """Scores (…, V) of the next word, from top-layer outputs (…, P) of either direction."""
        if self.softmax is None:
            raise ConfigError("this model has no softmax, so it cannot predict words: published models lack theirs.")
        scores: Tensor = self.softmax(h, self.token_table)
        return scores

    @property
    def token_table(self) -> nn.Parameter | None:
        """The table of a token embedding, which a tied softmax shares."""
        return self.encoder.token_table if isinstance(self.encoder, TokenEncoder) else None

    def _check_ids(self, char_ids: Tensor) -> None:
        """Refuse ids (N, C) that this model's indexer cannot produce, before they cause an index error."""
        width = self.indexer.width
        if char_ids.shape[-1] != width or char_ids.is_floating_point() or char_ids.dtype == torch.bool:
            raise InputError(
                f"char_ids have {char_ids.shape[-1]} columns of {char_ids.dtype}, but this model reads {width} columns "
                "of integers: make them with its own bilm.to_char_ids(sentences)."
            )
        for columns, (lowest, highest) in zip((slice(1), slice(1, None)), self.encoder.id_range, strict=True):
            ids = char_ids[:, columns].long()
            wrong = (ids < lowest) | (ids > highest)
            if wrong.any():
                raise InputError(
                    f"char_ids contain {int(ids[wrong][0])} where this model knows {lowest} to {highest}: "
                    "make them with its own bilm.to_char_ids(sentences)."
                )

    def _add_boundaries(self, char_ids: Tensor, lengths: Tensor) -> Tensor:
        """Add `<S>` before and `</S>` after every sentence: (B, T, C) → (B, T + 2, C)."""
        padded = nn.functional.pad(char_ids.long(), (0, 0, 1, 1))  # (B, T + 2, C)
        padded[:, 0] = torch.as_tensor(self.indexer.begin, device=char_ids.device)
        rows = torch.arange(len(padded), device=char_ids.device)
        padded[rows, lengths + 1] = torch.as_tensor(self.indexer.end, device=char_ids.device)
        return padded


def remove_boundaries(layers: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Drop `<S>` and `</S>`: layers (…, B, T + 2, 2P) and mask (B, T + 2) → (…, B, T, 2P) and (B, T)."""
    mask = mask[:, 2:]  # (B, T): there is a token wherever there is one two positions later
    return layers[..., 1:-1, :] * mask[..., None], mask


def _every(outputs: list[Tensor], index: Tensor) -> Tensor:
    return torch.arange(len(outputs), device=index.device)[:, None].expand(-1, len(index))


def _checked_state(state: BiLMState, num_rows: int) -> BiLMState:
    if not isinstance(state, BiLMState):
        raise InputError(f"state is {shown(state)}: give the state of an earlier output, or None to start from zero.")
    if state.num_rows != num_rows:
        raise InputError(
            f"the state remembers {state.num_rows} rows, but the batch has {num_rows}: "
            "fit it with state.resized(num_rows), and keep the rest with state.updated(new)."
        )
    return state


def _check_vocabulary(config: ElmoConfig, vocabulary: Vocabulary | None) -> None:
    needed = config.softmax or config.input.kind == "tokens"
    if needed and vocabulary is None:
        raise ConfigError("a model with a softmax or a token embedding needs its vocabulary: give vocab.txt with it.")
    if needed and vocabulary is not None and len(vocabulary) != config.vocab_size:
        raise ConfigError(
            f"the vocabulary has {len(vocabulary)} words, but the model has {config.vocab_size}: "
            "give the vocabulary that the model was trained with."
        )


def _build_indexer(config: ElmoConfig, vocabulary: Vocabulary | None) -> Indexer:
    if not isinstance(config.input, CharacterInput):
        assert vocabulary is not None
        return WordIndexer(vocabulary)
    if config.input.alphabet == "table":
        raise ConfigError("a model over a table of characters needs that table: give its TableIndexer.")
    return ByteIndexer(config.input.max_characters)


def _build_encoder(config: ElmoConfig) -> CharEncoder | TokenEncoder:
    settings: dict[str, Any] = {"output_dim": config.lstm.output_dim}
    if not isinstance(config.input, CharacterInput):
        assert config.vocab_size is not None
        return TokenEncoder(vocab_size=config.vocab_size, **settings)
    shape = config.input.model_dump(exclude={"kind", "alphabet", "max_characters"})
    return CharEncoder(**shape, **settings)


def _build_lstm(stack: LstmStack) -> Lstm:
    shape = stack.model_dump(exclude={"num_layers", "skip_connections"})
    layers = [LstmLayer(**shape) for _ in range(stack.num_layers)]
    return Lstm(layers, skip_connections=stack.skip_connections)


def _build_softmax(config: ElmoConfig) -> Softmax | None:
    if not config.softmax:
        return None
    assert config.vocab_size is not None
    return Softmax(
        vocab_size=config.vocab_size,
        dim=config.lstm.output_dim,
        tied=config.tied_softmax,
        cutoffs=config.softmax_cutoffs,
    )


def batch_to_ids(sentences: Sequence[Sequence[str]]) -> Tensor:
    """Convert token lists to int64 (B, T, 50), like AllenNLP's `batch_to_ids`; for models with 50 bytes per token."""
    return torch.from_numpy(sentences_to_char_ids(sentences, ByteIndexer()))
