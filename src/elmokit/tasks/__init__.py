"""Six tasks with and without ELMo: each folder has a reader, a model and a metric; everything else is shared."""
