"""Training a biLM: its batches, its loss, its loop."""
