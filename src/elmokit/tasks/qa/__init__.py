"""Questions that a span of a paragraph answers: SQuAD, exact match and token F1."""
