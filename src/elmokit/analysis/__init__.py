"""What the vectors know: probes of the layers of a frozen model."""
