"""What a linear classifier can read from each layer."""
