"""Sentiment of sentences and phrases: trees of SST, labelled lines, accuracy."""
