"""Question answering by a span of a paragraph: SQuAD, exact match and token F1."""
