"""Semantic role labeling: PropBank files of three layouts, argument F1 as srl-eval counts it."""
