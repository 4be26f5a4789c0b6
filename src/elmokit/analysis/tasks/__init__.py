"""What task runs show about the layers: mixing, placement, sample efficiency, learned weights."""
