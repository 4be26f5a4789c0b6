"""Named entity recognition: CoNLL-2003 and WNUT files, tag schemes, exact span F1."""
