"""Six tasks with and without ELMo: one folder each for reader, model and metric; everything else is shared."""
