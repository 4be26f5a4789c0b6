"""AllenNLP 2.10.1's own ELMo modules, unmodified, as a peer to compare with.

The package cannot be installed beside a current torch, but the few files that make up its ELMo can be loaded from its
unpacked wheel: they run as they are. Everything else that they import is replaced by the minimal modules below. They
are in `sys.modules` only while the files are loaded (or while `importable()` is open), so that no other test sees
them.

    peer = load_peer()
    peer.Elmo(options_file, weight_file, 1, dropout=0.0)
    peer.batch_to_ids([["A", "sentence"]])
"""

import functools
import importlib.util
import itertools
import os
import sys
import types
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

# In the order of their imports of each other.
_FILES = (
    "allennlp.nn.util",
    "allennlp.modules.scalar_mix",
    "allennlp.modules.highway",
    "allennlp.modules.encoder_base",
    "allennlp.modules.lstm_cell_with_projection",
    "allennlp.modules.elmo_lstm",
    "allennlp.data.token_indexers.elmo_indexer",
    "allennlp.modules.elmo",
)


def find_peers() -> Path | None:
    """The directory that holds the unpacked wheel, or None."""
    candidates = [ROOT / ".venv" / "peers", Path(sys.prefix) / "peers"]
    if os.environ.get("ELMOKIT_PEERS"):
        candidates.insert(0, Path(os.environ["ELMOKIT_PEERS"]))
    return next((path for path in candidates if (path / "allennlp" / "modules" / "elmo.py").is_file()), None)


requires_peer = pytest.mark.skipif(
    find_peers() is None,
    reason="AllenNLP's wheel is not unpacked: `make test` does that (pip install --no-deps --target .venv/peers "
    "allennlp==2.10.1), or set ELMOKIT_PEERS to where it is",
)


# --- What the files import from the rest of the package --------------------------------------------------------------


class ConfigurationError(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class FromParams:
    """Elmo's second base; it only builds objects from configuration files."""


class TokenIndexer:
    def __init__(self, token_min_padding_length: int = 0) -> None:
        self._token_min_padding_length = token_min_padding_length

    @classmethod
    def register(cls, name: str):
        return lambda indexer: indexer


class Token:
    def __init__(self, text: str) -> None:
        self.text = text

    def ensure_text(self) -> str:
        return self.text


class Vocabulary:
    pass


class TextField:
    def __init__(self, tokens, token_indexers) -> None:
        self.tokens, self.token_indexers = tokens, token_indexers


class Instance:
    def __init__(self, fields) -> None:
        self.fields = fields


class Batch:
    """Just enough to turn `batch_to_ids`' fields into padded tensors, through the peer's own indexer."""

    def __init__(self, instances) -> None:
        self.instances = instances

    def index_instances(self, vocabulary) -> None:
        self.vocabulary = vocabulary

    def as_tensor_dict(self):
        fields = [instance.fields["elmo"] for instance in self.instances]
        longest = {"elmo_tokens": max(len(field.tokens) for field in fields)}
        rows = []
        for field in fields:
            indexer = field.token_indexers["character_ids"]
            indexed = indexer.tokens_to_indices(field.tokens, self.vocabulary)
            rows.append(indexer.as_padded_tensor_dict(indexed, longest)["elmo_tokens"])
        return {"elmo": {"character_ids": {"elmo_tokens": torch.stack(rows)}}}


class Embedding(torch.nn.Module):
    """The table of `vocab_to_cache`."""

    def __init__(self, num_embeddings, embedding_dim, weight, trainable, padding_index) -> None:
        super().__init__()
        assert weight.shape == (num_embeddings, embedding_dim)
        self.weight = torch.nn.Parameter(weight, requires_grad=trainable)
        self.padding_index = padding_index
        self.weight.data[padding_index].fill_(0)

    def forward(self, tokens):
        return torch.nn.functional.embedding(tokens, self.weight, padding_idx=self.padding_index)


def pad_sequence_to_length(sequence, desired_length, default_value):
    return [*sequence[:desired_length], *(default_value() for _ in range(desired_length - len(sequence)))]


def lazy_groups_of(iterable, group_size):
    iterator = iter(iterable)
    return iter(lambda: list(itertools.islice(iterator, group_size)), [])


def keep_weights(tensor, split_sizes) -> None:
    """In place of `block_orthogonal`, which draws initial values; those that count come from the file."""


_STUBS: dict[str, dict[str, Any]] = {
    "allennlp": {},
    "allennlp.common": {"FromParams": FromParams},
    "allennlp.common.checks": {"ConfigurationError": ConfigurationError},
    "allennlp.common.file_utils": {"cached_path": str},
    "allennlp.common.util": {
        "lazy_groups_of": lazy_groups_of,
        "pad_sequence_to_length": pad_sequence_to_length,
        "int_to_device": torch.device,
        "is_distributed": lambda: False,
        "is_global_primary": lambda: True,
    },
    "allennlp.data": {},
    "allennlp.data.batch": {"Batch": Batch},
    "allennlp.data.fields": {"TextField": TextField},
    "allennlp.data.instance": {"Instance": Instance},
    "allennlp.data.token_indexers": {},
    "allennlp.data.token_indexers.token_indexer": {"TokenIndexer": TokenIndexer, "IndexedTokenList": dict},
    "allennlp.data.tokenizers": {"Token": Token},
    "allennlp.data.tokenizers.token_class": {"Token": Token},
    "allennlp.data.vocabulary": {"Vocabulary": Vocabulary},
    "allennlp.modules": {},
    "allennlp.modules.token_embedders": {"Embedding": Embedding},
    "allennlp.nn": {},
    "allennlp.nn.initializers": {"block_orthogonal": keep_weights},
}


# --- Loading ---------------------------------------------------------------------------------------------------------


@contextmanager
def _allennlp_is(modules: dict[str, types.ModuleType]):
    """Let `import allennlp…` find these modules and no others; put everything back in the end."""
    before = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "allennlp"}
    for name in before:
        del sys.modules[name]
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "allennlp"]:
            del sys.modules[name]
        sys.modules.update(before)


def _stub(name: str, members: dict) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__path__ = []  # a package, so that its children can be imported
    vars(module).update(members)
    return module


def _load_file(name: str, root: Path) -> None:
    path = (root / name.replace(".", "/")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)  # for `from allennlp.nn import util`


@contextmanager
def quiet():
    """No warnings of the peer's old code; open it around every call of the peer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@functools.cache
def _peer_modules() -> dict[str, types.ModuleType]:
    root = find_peers()
    assert root is not None, "mark the test with requires_peer"
    with quiet(), _allennlp_is({name: _stub(name, members) for name, members in _STUBS.items()}):
        for name in _FILES:
            _load_file(name, root)
        return {name: module for name, module in sys.modules.items() if name.split(".")[0] == "allennlp"}


@contextmanager
def importable():
    """`import allennlp…` works inside: for peer code that imports when called, as `vocab_to_cache` does."""
    with _allennlp_is(_peer_modules()):
        yield


def load_peer() -> types.SimpleNamespace:
    """The peer's classes and functions, loaded once."""
    modules = _peer_modules()
    elmo, indexer = modules["allennlp.modules.elmo"], modules["allennlp.data.token_indexers.elmo_indexer"]
    return types.SimpleNamespace(
        Elmo=elmo.Elmo,
        _ElmoBiLm=elmo._ElmoBiLm,
        _ElmoCharacterEncoder=elmo._ElmoCharacterEncoder,
        batch_to_ids=elmo.batch_to_ids,
        ELMoCharacterMapper=indexer.ELMoCharacterMapper,
        ELMoTokenCharactersIndexer=indexer.ELMoTokenCharactersIndexer,
        ScalarMix=modules["allennlp.modules.scalar_mix"].ScalarMix,
        ElmoLstm=modules["allennlp.modules.elmo_lstm"].ElmoLstm,
        remove_sentence_boundaries=modules["allennlp.nn.util"].remove_sentence_boundaries,
        ConfigurationError=ConfigurationError,
    )
