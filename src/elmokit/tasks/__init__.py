"""Tasks on top of the vectors: what their files say and how answers are scored."""
