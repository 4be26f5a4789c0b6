"""What runs of tasks say of the layers: mixing, placement, sample efficiency, learned weights."""
