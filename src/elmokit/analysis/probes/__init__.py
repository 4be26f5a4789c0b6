"""What a linear classifier reads off each layer."""
