"""Nearest contexts of a word in a corpus, and nearest types."""
