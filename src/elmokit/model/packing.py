"""Run a padded batch without its padding.

Tokens of a batch are arranged by step instead of by row: the first tokens of all rows, longest row first, then the
second tokens, and so on. Step t has `batch_sizes[t]` rows, those that are long enough, and they are always the first
ones. So padding costs nothing, no mask is needed, and the state of a row stays unchanged after its last token.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from elmokit.errors import InputError


@dataclass(frozen=True)
class Packing:
    """The order of the N tokens of a (B, T) batch for each direction."""

    batch_sizes: tuple[int, ...]
    """Number of active rows at each step."""
    order: Tensor  # (B,) row numbers, longest first
    forward_index: Tensor  # (N,) places in the flattened (B·T) batch, read from the left
    backward_index: Tensor  # (N,) the same, each row read from its own end

    @classmethod
    def from_mask(cls, mask: Tensor) -> "Packing":
        """Plan a batch from its mask (B, T), which may be false only on the right."""
        num_steps = mask.shape[1]
        lengths = mask.sum(1)  # (B,)
        steps = torch.arange(num_steps, device=mask.device)  # (T,)
        if not torch.equal(mask, steps < lengths[:, None]):
            broken = int((mask != (steps < lengths[:, None])).any(1).nonzero()[0])
            raise InputError(
                f"row {broken} of char_ids has an all-zero position before its last token: "
                "zeros mean padding, and padding is allowed on the right only; drop the empty position."
            )
        return cls.from_lengths(lengths, num_steps)

    @classmethod
    def from_lengths(cls, lengths: Tensor, num_steps: int) -> "Packing":
        """Plan a batch from the lengths (B,) of its rows, padded to `num_steps` (T)."""
        steps = torch.arange(num_steps, device=lengths.device)  # (T,)
        order = lengths.argsort(descending=True, stable=True)  # (B,)
        running = steps[:, None] < lengths[order]  # (T, B)
        step, rank = running.nonzero(as_tuple=True)  # (N,), (N,)
        row = order[rank]  # (N,)
        return cls(
            batch_sizes=tuple(running.sum(1).tolist()),
            order=order,
            forward_index=row * num_steps + step,
            backward_index=row * num_steps + lengths[row] - 1 - step,
        )
