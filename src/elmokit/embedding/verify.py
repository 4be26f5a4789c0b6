"""Check on this machine that float32 vectors have the promised bits.

The promise: `Embedder` and `elmokit embed` give a text the same float32 vectors, to the last bit, alone or in any
batch, with any number of threads, on every x86-64 processor with fused multiply-adds (AVX2 or newer) and on AArch64
(NEON, so far tested in emulation).
"""

import hashlib
from dataclasses import dataclass
from typing import Literal

from elmokit.embedding.embedder import Embedder
from elmokit.native.library import describe_library, find_library

TEXTS = (
    "The play was cancelled because the actors refused to play chess with the director.",
    "She sat on the bank of the river and counted the money that the bank had lent her!",
    "Naïve café-goers paid €4.50 for 模型 at 10:30 a.m.; nobody complained.",
    "Yes.",
)
SHA256 = "d065684535960b9fe044c5c65388cd6c254d8fa011547a2605358918a9edc8d7"
"""Of the vectors of all layers of `mini` for `TEXTS`, one text after the other."""


@dataclass(frozen=True)
class Verification:
    """What a check of this machine found."""

    outcome: Literal["verified", "failed", "not promised"]
    sha256: str

    def __str__(self) -> str:
        if self.outcome == "verified":
            return f"verified: float32 vectors have the promised bits (SHA-256 {self.sha256[:16]}…)"
        if self.outcome == "failed":
            found, promised = self.sha256[:16], SHA256[:16]
            return f"failed: the vectors have SHA-256 {found}…, but {promised}… is promised; please report it"
        return f"not promised on this processor ({describe_library()}); vectors are equal within 1e-5"


def verify_bits(threads: int | None = None) -> Verification:
    """Embed fixed texts with the packaged model `mini`, and compare the SHA-256 of their vectors with the promise."""
    embedder = Embedder.from_pretrained("mini", threads=threads)
    digest = hashlib.sha256()
    for vectors in embedder.embed(list(TEXTS)):
        digest.update(vectors.astype("<f4", copy=False).tobytes())
    library = find_library()
    if library is None or not library.same_bits:
        return Verification("not promised", digest.hexdigest())
    return Verification("verified" if digest.hexdigest() == SHA256 else "failed", digest.hexdigest())
