"""How a word is used in a corpus, and how its use differs between two."""
