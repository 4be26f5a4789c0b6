"""Text in, vectors out: the embedder, the vector store and the dump formats."""
