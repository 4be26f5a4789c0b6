"""A replacement for AllenNLP's ELMo (0.9 to 2.10): change the import line of a program and keep the rest.

    from elmokit.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Signatures, dictionary keys, layer norm and names in state dicts are AllenNLP's, and so is its statefulness: the biLM
keeps the state of the last batch, so the same input gives different vectors the second time. For new programs use
`elmokit.Elmo` and `elmokit.Embedder`, which are stateless by default.
"""

from elmokit.integrations.allennlp.elmo import Elmo
from elmokit.integrations.allennlp.embedder import ElmoEmbedder
from elmokit.integrations.allennlp.inputs import batch_to_ids

__all__ = ["Elmo", "ElmoEmbedder", "batch_to_ids"]
