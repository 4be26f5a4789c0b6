"""Natural language inference: SNLI, MultiNLI, SICK and files like them, accuracy."""
