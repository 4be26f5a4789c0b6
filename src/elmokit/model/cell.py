"""The equations of one LSTM step, as every engine must compute them.

Other places compute them faster: `PortableEngine` (engines/infer.py), `PortableCell` (engines/train.py, with the
gradients), and in C `cell` (native/vectors.h) and native/train.c. `tests/contracts/engine.py` compares each engine with
the plain one, which uses the function below.

Notation: n rows, H cell width, P output width. Gates are packed i, f, o, j (input, forget, output, candidate), so
that one sigmoid covers the first three.
"""

from typing import NamedTuple

from torch import Tensor


class LayerWeights(NamedTuple):
    """The weights of one LSTM layer. Matrices are stored for rows @ matrix, which is the faster order on a CPU."""

    input_weight: Tensor  # (P, 4H)
    recurrent_weight: Tensor  # (P, 4H)
    bias: Tensor  # (4H,), forget bias included
    projection_weight: Tensor | None  # (H, P)
    cell_clip: float | None
    projection_clip: float | None


def lstm_cell(gates: Tensor, c: Tensor, weights: LayerWeights) -> tuple[Tensor, Tensor]:
    """From gate inputs (n, 4H) and the memory (n, H) to the output (n, P) and the new memory (n, H).

    The memory is clipped before it is used; the output is clipped only if it is projected.
    """
    i, f, o = gates[:, : 3 * c.shape[1]].sigmoid().chunk(3, dim=1)  # 3 × (n, H)
    j = gates[:, 3 * c.shape[1] :].tanh()  # (n, H)
    c = f * c + i * j  # (n, H)
    if weights.cell_clip is not None:
        c = c.clamp(-weights.cell_clip, weights.cell_clip)
    h = o * c.tanh()  # (n, H)
    if weights.projection_weight is not None:
        h = h @ weights.projection_weight  # (n, P)
        if weights.projection_clip is not None:
            h = h.clamp(-weights.projection_clip, weights.projection_clip)
    return h, c
