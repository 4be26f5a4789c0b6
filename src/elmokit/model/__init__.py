"""The biLM and its mixes: tensors in, tensors out; no file is read or written here."""
