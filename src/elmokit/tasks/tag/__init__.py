"""Tagging: a label for each token, such as its part of speech, from CoNLL-U or columns."""
