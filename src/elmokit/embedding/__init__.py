"""Turn text into vectors: the embedder, embedding of whole files, the vector store and the dump formats."""

from typing import TYPE_CHECKING

from elmokit.lazy import lazy_names

if TYPE_CHECKING:
    from elmokit.embedding.bulk import EmbedOptions, embed_file
    from elmokit.embedding.dumps import open_embeddings
    from elmokit.embedding.elmo import Elmo
    from elmokit.embedding.embedder import Embedder
    from elmokit.embedding.records import Meta
    from elmokit.embedding.store import VectorStore
    from elmokit.embedding.store_writer import StoreWriter

__all__ = ["Elmo", "EmbedOptions", "Embedder", "Meta", "StoreWriter", "VectorStore", "embed_file", "open_embeddings"]

_HOMES = {
    "Elmo": "elmokit.embedding.elmo",
    "EmbedOptions": "elmokit.embedding.bulk",
    "Embedder": "elmokit.embedding.embedder",
    "Meta": "elmokit.embedding.records",
    "StoreWriter": "elmokit.embedding.store_writer",
    "VectorStore": "elmokit.embedding.store",
    "embed_file": "elmokit.embedding.bulk",
    "open_embeddings": "elmokit.embedding.dumps",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
