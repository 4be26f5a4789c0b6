"""The common result of reading any format, and the function that turns it into a biLM."""

import hashlib
import json
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from elmokit.config import ElmoConfig
from elmokit.errors import ElmokitWarning, InputError, WeightsError
from elmokit.model.bilm import BiLM
from elmokit.text.characters import TableIndexer
from elmokit.text.dictionary import dictionary_text
from elmokit.text.vocabulary import Vocabulary, read_vocabulary


@dataclass(frozen=True)
class ModelParts:
    """A model as read from files: settings, tensors under our names, and word lists."""

    config: ElmoConfig
    tensors: dict[str, Tensor]
    vocabulary: Vocabulary | None = None
    indexer: TableIndexer | None = None

    def with_languages(self, languages: tuple[str, ...]) -> "ModelParts":
        """A copy with the languages filled in, unless its files named some."""
        if self.config.languages or not languages:
            return self
        return replace(self, config=self.config.model_copy(update={"languages": languages}))


def read_spare_vocabulary(path: Path) -> Vocabulary | None:
    """The vocabulary of a model that does not need one; an unusable one is ignored with a warning."""
    try:
        return read_vocabulary(path)
    except InputError as error:
        warnings.warn(
            f"the model is loaded without its vocabulary, which it does not need: {error}", ElmokitWarning, stacklevel=6
        )
        return None


def empty_model(config: ElmoConfig, vocabulary: Vocabulary | None, indexer: TableIndexer | None) -> BiLM:
    """A biLM whose tensors have shapes but no storage."""
    with torch.device("meta"):
        return BiLM(config, vocabulary=vocabulary, indexer=indexer)


def assemble(parts: ModelParts, *, origin: str) -> BiLM:
    """Build the biLM, in eval mode and float32, and check that all tensors exist and have the right shapes."""
    bilm = empty_model(parts.config, parts.vocabulary, parts.indexer)
    check_shapes(
        {name: tuple(tensor.shape) for name, tensor in parts.tensors.items()}, expected_shapes(bilm), origin=origin
    )
    for name, tensor in parts.tensors.items():
        if not tensor.is_floating_point():
            raise WeightsError(f"{origin}: tensor {name} holds {tensor.dtype}, but weights are floating point.")
    bilm.load_state_dict({name: tensor.float() for name, tensor in parts.tensors.items()}, assign=True)
    return bilm.requires_grad_().eval()


def expected_shapes(bilm: BiLM) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a model, by name."""
    return {name: tuple(tensor.shape) for name, tensor in bilm.state_dict().items()}


def check_shapes(found: dict[str, tuple[int, ...]], expected: dict[str, tuple[int, ...]], *, origin: str) -> None:
    """Raise an error for the first tensor that is missing, unknown or of the wrong shape."""
    for name, shape in expected.items():
        if name not in found:
            raise WeightsError(f"{origin} lacks the tensor {name} {shape}: the file is incomplete; fetch it again.")
        if found[name] != shape:
            raise shape_error(origin, name, found[name], shape)
    if unknown := sorted(set(found) - set(expected)):
        raise WeightsError(
            f"{origin} holds {len(unknown)} tensors that its config has no place for, e.g. {unknown[0]}: "
            "the config belongs to another model."
        )


def shape_error(origin: str, name: str, found: tuple[int, ...], expected: tuple[int, ...]) -> WeightsError:
    """The error for a tensor that contradicts the settings."""
    return WeightsError(
        f"{origin}: tensor {name} has shape {found}, but the settings ask for {expected}: "
        "weights and settings belong to different models."
    )


def fingerprint(bilm: BiLM) -> str:
    """SHA-256 of everything that affects a model's output; the same in every format that loses nothing."""
    digest = hashlib.sha256()
    has_words = bilm.config.softmax or bilm.config.input.kind == "tokens"
    settings = bilm.config.model_dump(mode="json", exclude={"foreign", "languages", "tokenizer"})
    if not has_words:
        settings["vocab_size"] = None
    digest.update(json.dumps(settings, sort_keys=True).encode())
    if isinstance(bilm.indexer, TableIndexer):
        for table in (bilm.indexer.characters, bilm.indexer.words):
            digest.update(dictionary_text(table or {}).encode("utf-8", "surrogatepass"))
    if bilm.vocabulary is not None and has_words:
        digest.update("\n".join(bilm.vocabulary.tokens).encode("utf-8", "surrogatepass"))
    for name, tensor in sorted(bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(memoryview(tensor.detach().float().cpu().contiguous().numpy()).cast("B"))
    return digest.hexdigest()
