"""Pretraining a biLM: its corpus, its batches, its loop."""
