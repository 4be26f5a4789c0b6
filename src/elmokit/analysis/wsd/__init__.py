"""Word senses: WordNet, SemCor, the evaluation sets, and two ways to tell senses apart by vectors."""
