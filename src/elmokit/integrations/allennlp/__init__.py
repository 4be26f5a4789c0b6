"""A replacement for AllenNLP's ELMo (0.9 to 2.10): change the import line of a program and keep the rest.

    from elmokit.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Signatures, dictionary keys, layer norm and names in state dicts are AllenNLP's, and so is its statefulness: the biLM
keeps the state of the last batch, so the same input gives different vectors the second time. For new programs use
`elmokit.Elmo` and `elmokit.Embedder`, which are stateless by default.
"""

from elmokit.integrations.allennlp.bilm import ElmoBiLm
from elmokit.integrations.allennlp.elmo import AllenMix, Elmo
from elmokit.integrations.allennlp.embedder import BATCH_SIZE, OPTIONS_FILE, WEIGHT_FILE, ElmoEmbedder
from elmokit.integrations.allennlp.inputs import batch_to_ids

# Names that programs import from AllenNLP's modules.
_ElmoBiLm = ElmoBiLm
ScalarMix = AllenMix
DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE, DEFAULT_BATCH_SIZE = OPTIONS_FILE, WEIGHT_FILE, BATCH_SIZE

__all__ = [
    "DEFAULT_BATCH_SIZE",
    "DEFAULT_OPTIONS_FILE",
    "DEFAULT_WEIGHT_FILE",
    "Elmo",
    "ElmoEmbedder",
    "ScalarMix",
    "_ElmoBiLm",
    "batch_to_ids",
]
