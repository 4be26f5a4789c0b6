"""ELMo, deep contextualized word representations, on current PyTorch.

The public names are in `__all__`; each is imported on first use, so that `import elmokit` does not load torch.
"""

from typing import TYPE_CHECKING

from elmokit._version import __version__
from elmokit.errors import ElmokitError
from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.config import CharacterInput, ElmoConfig, LstmStack, TokenInput
    from elmokit.embedding.dumps import open_embeddings
    from elmokit.embedding.elmo import Elmo
    from elmokit.embedding.embedder import Embedder
    from elmokit.formats import load, save
    from elmokit.model.bilm import BiLM, batch_to_ids
    from elmokit.model.elmo import ElmoMixes
    from elmokit.model.scalar_mix import ScalarMix
    from elmokit.tasks.saved import load_task
    from elmokit.text.tokenize import tokenize

__all__ = [
    "BiLM",
    "CharacterInput",
    "Elmo",
    "ElmoConfig",
    "ElmoMixes",
    "ElmokitError",
    "Embedder",
    "LstmStack",
    "ScalarMix",
    "TokenInput",
    "__version__",
    "batch_to_ids",
    "load",
    "load_task",
    "open_embeddings",
    "save",
    "tokenize",
]

_HOMES = {
    "BiLM": "elmokit.model.bilm",
    "CharacterInput": "elmokit.config",
    "Elmo": "elmokit.embedding.elmo",
    "ElmoConfig": "elmokit.config",
    "ElmoMixes": "elmokit.model.elmo",
    "Embedder": "elmokit.embedding.embedder",
    "LstmStack": "elmokit.config",
    "ScalarMix": "elmokit.model.scalar_mix",
    "TokenInput": "elmokit.config",
    "batch_to_ids": "elmokit.model.bilm",
    "load": "elmokit.formats",
    "load_task": "elmokit.tasks.saved",
    "open_embeddings": "elmokit.embedding.dumps",
    "save": "elmokit.formats",
    "tokenize": "elmokit.text.tokenize",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
