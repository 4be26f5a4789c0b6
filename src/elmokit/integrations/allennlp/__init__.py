"""AllenNLP's ELMo for programs that were written for it (0.9 to 2.10): change the import line, keep the rest.

    from elmokit.integrations.allennlp import Elmo, ElmoEmbedder, batch_to_ids

Signatures, dictionary keys, layer norm and names in state dicts are AllenNLP's, and so is its statefulness: the biLM
remembers the rows of the last batch, so the same input gives other vectors the second time. For new programs use
`elmokit.Elmo` and `elmokit.Embedder`, which do not.
"""

from elmokit.integrations.allennlp.elmo import Elmo
from elmokit.integrations.allennlp.embedder import ElmoEmbedder
from elmokit.model.bilm import batch_to_ids

__all__ = ["Elmo", "ElmoEmbedder", "batch_to_ids"]
