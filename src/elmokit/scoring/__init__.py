"""How well a biLM predicts text: perplexity, surprisal per token, and the words it expects instead."""
