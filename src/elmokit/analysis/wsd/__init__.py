"""Word senses: WordNet, SemCor, the evaluation sets, and two ways to distinguish senses by vectors."""
