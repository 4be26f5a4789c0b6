"""An independent float64 implementation of ELMo in plain numpy loops, to compare elmokit with.

It is written from the description of the file formats (FORMATS.md; "§" below cites its sections) and never imports
elmokit. It works on the raw contents of files: an options dict and a dict of HDF5 arrays by path, or the dicts and
tensors of an ELMoForManyLangs directory. One sentence at a time, one word at a time, one step at a time: slow, and
without batching, padding or packing that could hide a mistake.

Notation: T tokens of one sentence without its boundaries, C characters per token, P projection per direction, H LSTM
cell, L layers including layer 0, V vocabulary, D = 2P.

A state is a list of rows; a row is {"forward": [(c, h), …], "backward": [(c, h), …]}, one pair of vectors per layer.
"""

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import h5py
import numpy as np
import torch

Arrays = dict[str, np.ndarray]
Row = dict[str, list[tuple[np.ndarray, np.ndarray]]]

DIRECTIONS = ("forward", "backward")


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def relu(x):
    return np.maximum(x, 0.0)


ACTIVATIONS = {"relu": relu, "tanh": np.tanh}


def clip(x, limit):
    return x if limit is None else np.minimum(np.maximum(x, -limit), limit)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


# --- Character ids (§1) ----------------------------------------------------------------------------------------------


def token_char_ids(token: str, max_characters: int) -> list[int]:
    """The inference ids of one token: bilm-tf's ids plus one, because 0 marks padding positions."""
    if token == "<S>":
        inside = [256]
    elif token == "</S>":
        inside = [257]
    else:
        # Bytes, not characters; lone surrogates vanish; the cut may fall inside a character.
        inside = list(token.encode("utf-8", "ignore"))[: max_characters - 2]
    ids = [258, *inside, 259]
    ids += [260] * (max_characters - len(ids))
    return [i + 1 for i in ids]


def batch_char_ids(sentences: list[list[str]], max_characters: int) -> np.ndarray:
    """int64 (B, T, C) without boundaries, zeros on the right of the shorter sentences."""
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = np.zeros((len(sentences), longest, max_characters), dtype=np.int64)
    for row, sentence in enumerate(sentences):
        for position, token in enumerate(sentence):
            ids[row, position] = token_char_ids(token, max_characters)
    return ids


# --- The context-free token layer (§2) -------------------------------------------------------------------------------


def convolve_and_pool(vectors, kernel, bias):
    """Valid convolution over the characters, then the maximum: (C, d), (width, d, num), (num,) -> (num,)."""
    width = kernel.shape[0]
    windows = [vectors[start : start + width] for start in range(len(vectors) - width + 1)]
    return np.max([np.einsum("wd,wdn->n", window, kernel) + bias for window in windows], axis=0)


def bilm_token_vector(options: dict, arrays: Arrays, ids: list[int]) -> np.ndarray:
    """(P,) of one token from its ids: convolution, maximum, activation, highways, projection."""
    settings = options["char_cnn"]
    table = np.concatenate([np.zeros((1, arrays["char_embed"].shape[1])), arrays["char_embed"]])  # row 0: the mask
    characters = table[ids]  # (C, d), the pad-in-word rows take part
    activation = ACTIVATIONS[settings["activation"]]
    pooled = []
    for i in range(len(settings["filters"])):
        pooled.append(convolve_and_pool(characters, arrays[f"CNN/W_cnn_{i}"][0], arrays[f"CNN/b_cnn_{i}"]))
    x = activation(np.concatenate(pooled))  # (num filters,)
    for k in range(settings.get("n_highway") or 0):
        name = f"CNN_high_{k}"
        gate = sigmoid(x @ arrays[f"{name}/W_carry"] + arrays[f"{name}/b_carry"])
        candidate = relu(x @ arrays[f"{name}/W_transform"] + arrays[f"{name}/b_transform"])  # relu whatever the CNN's
        x = gate * candidate + (1.0 - gate) * x
    if "CNN_proj/W_proj" in arrays:  # absent if the filters already number P
        x = x @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"]
    return x


def bilm_token_layer(options: dict, arrays: Arrays, sentence: list[str], vocabulary: list[str] | None) -> np.ndarray:
    """(T + 2, P): the vectors of <S>, the tokens and </S>."""
    tokens = ["<S>", *sentence, "</S>"]
    if "char_cnn" in options:
        width = options["char_cnn"]["max_characters_per_token"]
        return np.stack([bilm_token_vector(options, arrays, token_char_ids(token, width)) for token in tokens])
    # Token input: one stored row per entry of the vocabulary file, unknown words read as <UNK>.
    assert vocabulary is not None
    index = {token: i for i, token in enumerate(vocabulary)}
    return np.stack([arrays["embedding"][index.get(token, index["<UNK>"])] for token in tokens])


# --- The LSTM (§2, cell, skip and state paragraphs) ------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """One layer of one direction in a neutral form: rows of `weight` are the input's first, then h's."""

    weight: np.ndarray  # (in + P, 4H)
    bias: np.ndarray  # (4H,), the forget bias included
    projection: np.ndarray | None  # (H, P)
    gates: str  # order of the four blocks; j is the candidate
    cell_clip: float | None
    proj_clip: float | None

    def zero_state(self):
        cell_dim = self.weight.shape[1] // 4
        return np.zeros(cell_dim), np.zeros(cell_dim if self.projection is None else self.projection.shape[1])

    def step(self, x, c, h):
        """One step: (in,), (H,), (P,) -> c (H,), h (P,)."""
        blocks = np.split(np.concatenate([x, h]) @ self.weight + self.bias, 4)
        z = dict(zip(self.gates, blocks, strict=True))
        c = clip(sigmoid(z["f"]) * c + sigmoid(z["i"]) * np.tanh(z["j"]), self.cell_clip)
        h = sigmoid(z["o"]) * np.tanh(c)  # of the clipped c
        if self.projection is not None:  # without a projection there is no proj_clip either
            h = clip(h @ self.projection, self.proj_clip)
        return c, h


def run_layer(cell: Cell, inputs: np.ndarray, state):
    """(n, in) in reading order -> outputs (n, P) and the state after the last position."""
    c, h = state
    outputs = []
    for x in inputs:
        c, h = cell.step(x, c, h)
        outputs.append(h)
    return np.stack(outputs), (c, h)


def run_direction(cells: list[Cell], token_layer: np.ndarray, states, backward: bool, skip: bool):
    """Outputs of every layer in sentence order, [(T + 2, P), …], and the new states of this direction."""
    x = token_layer[::-1] if backward else token_layer  # backward reads </S> … <S>
    outputs, new_states = [], []
    for index, (cell, state) in enumerate(zip(cells, states, strict=True)):
        output, new_state = run_layer(cell, x, state)
        new_states.append(new_state)  # h before the skip
        if skip and index > 0:  # never around the first LSTM layer; the sum is not clipped
            output = output + x
        outputs.append(output[::-1] if backward else output)
        x = output
    return outputs, new_states


def run_sentence(stacks: dict[str, list[Cell]], token_layer: np.ndarray, row: Row, skip: bool):
    """(L, T + 2, 2P) of one sentence with its boundaries, and the row of state that it leaves."""
    layers = [np.concatenate([token_layer, token_layer], axis=1)]
    outputs, new_row = {}, {}
    for name in DIRECTIONS:
        outputs[name], new_row[name] = run_direction(stacks[name], token_layer, row[name], name == "backward", skip)
    for forward, backward in zip(outputs["forward"], outputs["backward"], strict=True):
        layers.append(np.concatenate([forward, backward], axis=1))
    return np.stack(layers), new_row


def run_batch(stacks, token_layers: list[np.ndarray], state: list[Row], skip: bool):
    """Every sentence of a batch from its row of the state, and the state after the batch.

    A smaller batch uses and updates the first rows and leaves the others; further rows start at zero.
    """
    zero = {direction: [cell.zero_state() for cell in stacks[direction]] for direction in DIRECTIONS}
    results, rows = [], []
    for index, token_layer in enumerate(token_layers):
        layers, row = run_sentence(stacks, token_layer, state[index] if index < len(state) else zero, skip)
        results.append(layers)
        rows.append(row)
    return results, rows + state[len(rows) :]


def without_boundaries(layers: np.ndarray) -> np.ndarray:
    return layers[:, 1:-1]


# --- bilm-tf models (§2) ---------------------------------------------------------------------------------------------


def in_float64(arrays: Arrays) -> Arrays:
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def bilm_cell(options: dict, arrays: Arrays, direction: str, layer: int) -> Cell:
    prefix = f"RNN_{DIRECTIONS.index(direction)}/RNN"
    name = f"{prefix}/MultiRNNCell/Cell{layer}/LSTMCell"
    if f"{name}/W_0" not in arrays and options["lstm"]["n_layers"] == 1:
        name = f"{prefix}/LSTMCell"  # the layout of dumps with one layer
    bias = arrays[f"{name}/B"].copy()
    hidden = len(bias) // 4
    bias[2 * hidden : 3 * hidden] += 1.0  # gates are i, j, f, o; the forget bias is not in the file
    return Cell(
        weight=arrays[f"{name}/W_0"],
        bias=bias,
        projection=arrays.get(f"{name}/W_P_0"),
        gates="ijfo",
        cell_clip=options["lstm"].get("cell_clip"),
        proj_clip=options["lstm"].get("proj_clip"),
    )


def bilm_stacks(options: dict, arrays: Arrays) -> dict[str, list[Cell]]:
    layers = range(options["lstm"]["n_layers"])
    return {direction: [bilm_cell(options, arrays, direction, layer) for layer in layers] for direction in DIRECTIONS}


def run_bilm(options: dict, arrays: Arrays, sentences, state=None, vocabulary=None):
    """[(L, T + 2, 2P), …] with boundaries, one per sentence, and the state after the batch.

    An empty sentence is <S> </S> like any other: two positions, and its row of the state moves on.
    """
    arrays = in_float64(arrays)
    token_layers = [bilm_token_layer(options, arrays, sentence, vocabulary) for sentence in sentences]
    skip = bool(options["lstm"].get("use_skip_connections"))
    return run_batch(bilm_stacks(options, arrays), token_layers, state or [], skip)


def bilm_log_probabilities(arrays: Arrays, layers: np.ndarray) -> dict[str, np.ndarray]:
    """Per direction (n, V) of one sentence's layers (L, n, 2P): full softmax over the top layer's own half.

    A token-input model may share its embedding with the softmax, which then has only a bias of its own.
    """
    weight = arrays["lm/softmax/W"] if "lm/softmax/W" in arrays else arrays["embedding"]
    return log_probabilities(layers, weight, arrays["lm/softmax/b"])


def log_probabilities(layers: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    halves = np.split(layers[-1], 2, axis=-1)  # one softmax serves both directions
    weight, bias = weight.astype(np.float64), bias.astype(np.float64)
    return {name: log_softmax(half @ weight.T + bias) for name, half in zip(DIRECTIONS, halves, strict=True)}


# --- Mixing layers (§2, the mix and layer norm paragraphs) -----------------------------------------------------------


def pad(results: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sentences (L, n, D) -> layers (L, B, longest, D) with zeros, and the mask (B, longest)."""
    longest = max(result.shape[1] for result in results)
    layers = np.zeros((results[0].shape[0], len(results), longest, results[0].shape[2]))
    mask = np.zeros((len(results), longest), dtype=bool)
    for row, result in enumerate(results):
        layers[:, row, : result.shape[1]] = result
        mask[row, : result.shape[1]] = True
    return layers, mask


def normalise_batch(layer: np.ndarray, mask: np.ndarray, eps: float) -> np.ndarray:
    """AllenNLP's layer norm: one mean and one biased variance over all real elements; padding is not masked again."""
    elements = layer[mask]  # (real positions, D)
    return (layer - elements.mean()) / np.sqrt(elements.var() + eps)


def normalise_tokens(layer: np.ndarray, eps: float) -> np.ndarray:
    """The usual layer norm, each position by itself."""
    return (layer - layer.mean(-1, keepdims=True)) / np.sqrt(layer.var(-1, keepdims=True) + eps)


def mix(layers, mask, weights, gamma, layer_norm=None, eps=1e-13) -> np.ndarray:
    """γ Σ softmax(w)_k layer_k: (L, B, T, D), (B, T) -> (B, T, D)."""
    weights = np.exp(log_softmax(np.asarray(weights, dtype=np.float64)))
    total = np.zeros(layers.shape[1:])
    for weight, layer in zip(weights, layers, strict=True):
        if layer_norm == "batch":
            layer = normalise_batch(layer, mask, eps)
        elif layer_norm == "token":
            layer = normalise_tokens(layer, eps)
        total += weight * layer
    return gamma * total


# --- ELMoForManyLangs (§3) -------------------------------------------------------------------------------------------


@dataclass
class ManyLangs:
    """The contents of a model directory: JSONs, tensors by name, dictionaries."""

    architecture: dict
    embedder: Arrays
    encoder: Arrays
    words: dict[str, int]
    chars: dict[str, int]
    classifier: Arrays = field(default_factory=dict)

    @property
    def max_characters(self) -> int:
        return self.architecture["token_embedder"].get("max_characters_per_token", 50)


def many_langs_char_ids(model: ManyLangs, token: str) -> list[int]:
    """Begin and end of word are swapped, as the released models were trained; pads are ordinary characters."""
    chars = model.chars
    inside = [chars[token]] if token in ("<bos>", "<eos>") else [chars.get(c, chars["<oov>"]) for c in token]
    ids = [chars["<eow>"], *inside, chars["<bow>"]]
    return ids + [chars["<pad>"]] * (model.max_characters - len(ids))


def many_langs_char_vector(model: ManyLangs, token: str) -> np.ndarray:
    tensors = model.embedder
    activation = ACTIVATIONS[model.architecture["token_embedder"].get("activation", "relu")]
    characters = tensors["char_emb_layer.embedding.weight"][many_langs_char_ids(model, token)]  # (C, d)
    pooled: list[np.ndarray] = []
    while (name := f"convolutions.{len(pooled)}") + ".weight" in tensors:
        kernel = tensors[f"{name}.weight"].transpose(2, 1, 0)  # (num, d, width) -> (width, d, num)
        pooled.append(activation(convolve_and_pool(characters, kernel, tensors[f"{name}.bias"])))
    x = np.concatenate(pooled)
    k = 0
    while (name := f"highways._layers.{k}") + ".weight" in tensors:
        nonlinear, gate = np.split(tensors[f"{name}.weight"] @ x + tensors[f"{name}.bias"], 2)
        x = sigmoid(gate) * x + (1.0 - sigmoid(gate)) * relu(nonlinear)  # here the gate keeps x
        k += 1
    return x


def many_langs_token_vector(model: ManyLangs, token: str) -> np.ndarray:
    """(P,): the word's own row first, then its characters, projected together. No lower-casing."""
    parts = []
    if "word_emb_layer.embedding.weight" in model.embedder:
        row = model.words.get(token, model.words["<oov>"])
        parts.append(model.embedder["word_emb_layer.embedding.weight"][row])
    if "char_emb_layer.embedding.weight" in model.embedder:
        parts.append(many_langs_char_vector(model, token))
    return model.embedder["projection.weight"] @ np.concatenate(parts) + model.embedder["projection.bias"]


def many_langs_token_layer(model: ManyLangs, sentence: list[str]) -> np.ndarray:
    """(T + 2, P): the vectors of <bos>, the tokens and <eos>."""
    sentence = [token[: model.max_characters - 2] for token in sentence]  # Unicode characters; for both look-ups
    return np.stack([many_langs_token_vector(model, token) for token in ["<bos>", *sentence, "<eos>"]])


def many_langs_cell(model: ManyLangs, direction: str, layer: int) -> Cell:
    name = f"{direction}_layer_{layer}"
    tensors, settings = model.encoder, model.architecture["encoder"]
    return Cell(
        weight=np.concatenate([tensors[f"{name}.{part}_linearity.weight"].T for part in ("input", "state")]),
        bias=tensors[f"{name}.state_linearity.bias"],  # forget bias inside
        projection=tensors[f"{name}.state_projection.weight"].T,
        gates="ifjo",
        cell_clip=settings.get("cell_clip", 3),
        proj_clip=settings.get("proj_clip", 3),
    )


def run_many_langs(model: ManyLangs, sentences, state=None):
    """[(L, T + 2, 2P), …] with <bos> and <eos>, and the state after the batch; rules as for bilm-tf."""
    model = replace(model, embedder=in_float64(model.embedder), encoder=in_float64(model.encoder))
    layers = range(sum(name.startswith("forward_layer_") and "input_lin" in name for name in model.encoder))
    stacks = {direction: [many_langs_cell(model, direction, layer) for layer in layers] for direction in DIRECTIONS}
    token_layers = [many_langs_token_layer(model, sentence) for sentence in sentences]
    return run_batch(stacks, token_layers, state or [], skip=True)


def many_langs_log_probabilities(model: ManyLangs, layers: np.ndarray) -> dict[str, np.ndarray]:
    tensors = model.classifier
    return log_probabilities(layers, tensors["column_emb.weight"], tensors["column_bias.weight"][:, 0])


# --- Random models in the foreign layouts ----------------------------------------------------------------------------


@dataclass(frozen=True)
class BilmSettings:
    """What a random bilm-tf model can vary. The small default clips bind on a good part of the values."""

    char_dim: int = 5
    filters: tuple[tuple[int, int], ...] = ((1, 4), (2, 6), (3, 8))
    activation: str = "relu"
    n_highway: int | None = 1  # None: no such key
    max_characters: int = 12
    n_characters: int = 262
    dim: int = 12
    projection_dim: int = 6
    n_layers: int = 2
    cell_clip: float | None = 0.5
    proj_clip: float | None = 0.25
    clip_keys: bool = True  # False: no such keys, instead of null
    skip: bool = True
    one_layer_layout: bool = False
    vocabulary_size: int | None = None  # token input if set
    softmax_size: int | None = None
    tied: bool = False  # the softmax borrows the token embedding


def normal(rng, shape, scale=1.0) -> np.ndarray:
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def random_char_cnn(rng, settings: BilmSettings) -> Arrays:
    total = sum(number for _, number in settings.filters)
    arrays = {"char_embed": normal(rng, (261, settings.char_dim))}
    for i, (width, number) in enumerate(settings.filters):
        scale = 1.0 / np.sqrt(width * settings.char_dim)
        arrays[f"CNN/W_cnn_{i}"] = normal(rng, (1, width, settings.char_dim, number), scale)
        arrays[f"CNN/b_cnn_{i}"] = normal(rng, number, 0.3)
    for k in range(settings.n_highway or 0):
        for name in ("carry", "transform"):
            arrays[f"CNN_high_{k}/W_{name}"] = normal(rng, (total, total), 1.0 / np.sqrt(total))
            arrays[f"CNN_high_{k}/b_{name}"] = normal(rng, total, 0.5)
    if total != settings.projection_dim:
        arrays["CNN_proj/W_proj"] = normal(rng, (total, settings.projection_dim), 1.0 / np.sqrt(total))
        arrays["CNN_proj/b_proj"] = normal(rng, settings.projection_dim, 0.3)
    return arrays


def random_lstm(rng, settings: BilmSettings) -> Arrays:
    arrays, dim, projection = {}, settings.dim, settings.projection_dim
    for direction in range(2):
        for layer in range(settings.n_layers):
            middle = "" if settings.one_layer_layout else f"MultiRNNCell/Cell{layer}/"
            name = f"RNN_{direction}/RNN/{middle}LSTMCell"
            arrays[f"{name}/W_0"] = normal(rng, (2 * projection, 4 * dim), 1.5 / np.sqrt(2 * projection))
            arrays[f"{name}/B"] = normal(rng, 4 * dim, 0.5)
            if dim != projection:
                arrays[f"{name}/W_P_0"] = normal(rng, (dim, projection), 1.5 / np.sqrt(dim))
    return arrays


def bilm_options(settings: BilmSettings) -> dict:
    lstm = {key: getattr(settings, key) for key in ("dim", "projection_dim", "n_layers")}
    lstm["use_skip_connections"] = settings.skip
    if settings.clip_keys:
        lstm |= {"cell_clip": settings.cell_clip, "proj_clip": settings.proj_clip}
    options = {"bidirectional": True, "lstm": lstm}
    if settings.vocabulary_size is None:
        options["char_cnn"] = {
            "activation": settings.activation,
            "embedding": {"dim": settings.char_dim},
            "filters": [list(pair) for pair in settings.filters],
            "max_characters_per_token": settings.max_characters,
            "n_characters": settings.n_characters,
        }
        if settings.n_highway is not None:
            options["char_cnn"]["n_highway"] = settings.n_highway
    size = settings.vocabulary_size or settings.softmax_size
    if size is not None:
        options["n_tokens_vocab"] = size
    return options


def random_bilm(seed: int, **settings) -> tuple[dict, Arrays]:
    """Options and HDF5 arrays of a random bilm-tf model; keywords as in BilmSettings."""
    chosen = BilmSettings(**settings)
    rng = np.random.default_rng(seed)
    if chosen.vocabulary_size is None:
        arrays = random_char_cnn(rng, chosen)
    else:
        arrays = {"embedding": normal(rng, (chosen.vocabulary_size, chosen.projection_dim))}
    arrays |= random_lstm(rng, chosen)
    if chosen.softmax_size is not None:
        if not chosen.tied:
            arrays["lm/softmax/W"] = normal(rng, (chosen.softmax_size, chosen.projection_dim))
        arrays["lm/softmax/b"] = normal(rng, chosen.softmax_size)
    return bilm_options(chosen), arrays


@dataclass(frozen=True)
class ManyLangsSettings:
    """What a random ELMoForManyLangs model can vary."""

    word_dim: int = 4
    char_dim: int = 5
    filters: tuple[tuple[int, int], ...] = ((1, 4), (2, 6), (3, 8))
    activation: str = "relu"
    n_highway: int = 2
    max_characters: int = 12
    dim: int = 12
    projection_dim: int = 6
    n_layers: int = 2
    cell_clip: float = 0.5
    proj_clip: float = 0.25
    words: tuple[str, ...] = ("the", "cat", "sat", "Ünïcode", "on")
    chars: str = "abcdefgthenosïÜ."
    classifier: bool = True


def numbered(specials: list[str], entries) -> dict[str, int]:
    return {entry: i for i, entry in enumerate(dict.fromkeys([*specials, *entries]))}


def random_many_langs_embedder(rng, settings: ManyLangsSettings, num_words: int, num_chars: int) -> Arrays:
    tensors, total = {}, 0
    if settings.word_dim:
        tensors["word_emb_layer.embedding.weight"] = normal(rng, (num_words, settings.word_dim))
    if settings.char_dim:
        total = sum(number for _, number in settings.filters)
        tensors["char_emb_layer.embedding.weight"] = normal(rng, (num_chars, settings.char_dim))
        for i, (width, number) in enumerate(settings.filters):
            scale = 1.0 / np.sqrt(width * settings.char_dim)
            tensors[f"convolutions.{i}.weight"] = normal(rng, (number, settings.char_dim, width), scale)
            tensors[f"convolutions.{i}.bias"] = normal(rng, number, 0.3)
        for k in range(settings.n_highway):
            tensors[f"highways._layers.{k}.weight"] = normal(rng, (2 * total, total), 1.0 / np.sqrt(total))
            tensors[f"highways._layers.{k}.bias"] = normal(rng, 2 * total, 0.5)
    width = total + settings.word_dim
    tensors["projection.weight"] = normal(rng, (settings.projection_dim, width), 1.0 / np.sqrt(width))
    tensors["projection.bias"] = normal(rng, settings.projection_dim, 0.3)
    return tensors


def random_many_langs_encoder(rng, settings: ManyLangsSettings) -> Arrays:
    tensors, dim, projection = {}, settings.dim, settings.projection_dim
    scale = 1.5 / np.sqrt(2 * projection)
    for direction in DIRECTIONS:
        for layer in range(settings.n_layers):
            name = f"{direction}_layer_{layer}"
            tensors[f"{name}.input_linearity.weight"] = normal(rng, (4 * dim, projection), scale)
            tensors[f"{name}.state_linearity.weight"] = normal(rng, (4 * dim, projection), scale)
            tensors[f"{name}.state_linearity.bias"] = normal(rng, 4 * dim, 0.5)
            tensors[f"{name}.state_projection.weight"] = normal(rng, (projection, dim), 1.5 / np.sqrt(dim))
    return tensors


def many_langs_architecture(settings: ManyLangsSettings) -> dict:
    values = asdict(settings)
    encoder = {key: values[key] for key in ("projection_dim", "cell_clip", "proj_clip", "dim", "n_layers")}
    embedder = {key: values[key] for key in ("activation", "filters", "n_highway", "word_dim", "char_dim")}
    return {
        "encoder": {"name": "elmo"} | encoder,
        "token_embedder": {"name": "cnn", "max_characters_per_token": settings.max_characters} | embedder,
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }


def random_many_langs(seed: int, **settings) -> ManyLangs:
    """A random ELMoForManyLangs model; keywords as in ManyLangsSettings."""
    chosen = ManyLangsSettings(**settings)
    rng = np.random.default_rng(seed)
    words = numbered(["<oov>", "<bos>", "<eos>", "<pad>"], chosen.words)
    chars = numbered(["<bos>", "<eos>", "<oov>", "<bow>", "<eow>", "<pad>"], chosen.chars)
    embedder = random_many_langs_embedder(rng, chosen, len(words), len(chars))
    encoder = random_many_langs_encoder(rng, chosen)
    width = chosen.projection_dim
    shapes = {"column_emb.weight": (len(words), width), "column_bias.weight": (len(words), 1), "oov_column": (width, 1)}
    classifier = {name: normal(rng, shape) for name, shape in shapes.items()} if chosen.classifier else {}
    return ManyLangs(many_langs_architecture(chosen), embedder, encoder, words, chars, classifier)


# --- Writing them as files -------------------------------------------------------------------------------------------


def write_bilm(directory: Path, options: dict, arrays: Arrays, vocabulary: list[str] | None = None) -> Path:
    """options.json, weights.hdf5 and, if given, vocab.txt; returns the path of the weights."""
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "options.json").write_text(json.dumps(options), encoding="utf-8")
    with h5py.File(directory / "weights.hdf5", "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    if vocabulary is not None:
        (directory / "vocab.txt").write_text("".join(f"{token}\n" for token in vocabulary), encoding="utf-8")
    return directory / "weights.hdf5"


def read_arrays(path: Path) -> Arrays:
    """Every dataset of an HDF5 file by its path."""
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: arrays.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return arrays


def write_many_langs(directory: Path, model: ManyLangs) -> Path:
    """config.json, its architecture JSON, two .dic files and the pickles; returns the directory."""
    directory = Path(directory)
    (directory / "configs").mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"config_path": "configs/cnn.json", "seed": 1}))
    (directory / "configs" / "cnn.json").write_text(json.dumps(model.architecture))
    for name, entries in (("word", model.words), ("char", model.chars)):
        lines = "".join(f"{entry}\t{i}\n" for entry, i in entries.items())
        (directory / f"{name}.dic").write_text(lines, encoding="utf-8")
    pickles = {"token_embedder": model.embedder, "encoder": model.encoder, "classifier": model.classifier}
    for name, arrays in pickles.items():
        if arrays:
            torch.save({key: torch.from_numpy(array) for key, array in arrays.items()}, directory / f"{name}.pkl")
    return directory
