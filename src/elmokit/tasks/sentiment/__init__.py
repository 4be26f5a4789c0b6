"""Sentiment of sentences and phrases: SST trees, labeled lines, accuracy."""
