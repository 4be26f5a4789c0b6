"""Training text: finding, checking, counting, sharding and reading it, without torch."""
