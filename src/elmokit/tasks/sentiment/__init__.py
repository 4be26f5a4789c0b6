"""Sentiment of sentences and phrases: trees of SST, labeled lines, accuracy."""
