"""The biLM and its mixes: tensors in, tensors out; nothing here reads or writes files."""
