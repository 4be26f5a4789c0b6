"""The native library: products, LSTM steps and the character CNN in C, for every kind of processor in one file.

`build` compiles it when elmokit is installed, and `library` loads it and selects the kind for this processor. Without
it everything works on the portable path. Start with `infer.c`, which states the promise about bits.
"""
