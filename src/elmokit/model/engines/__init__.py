"""Engines that execute one LSTM layer. All give the same numbers within float rounding.

An engine takes tensors and state, and has no parameters and no access to files. `tests/contracts/engine.py` compares
every engine with `plain`, which follows the equations of `elmokit.model.cell` step by step.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from elmokit.model.cell import LayerWeights


class Engine(Protocol):
    """Executes one layer of one direction over packed tokens (see `elmokit.model.packing`)."""

    def run_layer(
        self,
        weights: LayerWeights,
        x: Tensor,
        batch_sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        index: Tensor | None = None,
        starts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """From packed inputs (N, P) and state (B, P), (B, H) to outputs (N, P) and the state after each row's end.

        Rows of the state are in packed order, longest first; the state of rows without tokens is unchanged. With an
        `index` (N,), x has the vectors (K, P) of distinct tokens, and token k of the packed order is x[index[k]].
        Where `starts` (N,) is true, a token begins a new sentence, and its row is reset to the initial state.
        """
