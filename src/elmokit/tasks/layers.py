"""Layers that several task models share.

Notation: B examples, T tokens, E and H widths, K tags.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmokit.tasks.gru import BiGru, reverse_rows
from elmokit.tasks.posteriors import Posteriors

_CLOSED = -1e30


class Dropout(nn.Module):
    """Elementwise dropout with sixteen random bits per element; takes a third of the time of PyTorch's on a CPU."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Apply dropout to a tensor of any shape; identity outside training."""
        return x * self._draw(x) if self.training and self.rate else x

    def _draw(self, x: Tensor) -> Tensor:
        """The factor of each element."""
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(-(2**63), None)
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)
        kept = (bits >= round(self.rate * 2**16) - 2**15).to(x.dtype)
        return kept.mul_(1 / (1 - self.rate))


class InputDropout(Dropout):
    """Dropout of (B, T, E) with one mask per example, shared by all its tokens."""

    def _draw(self, x: Tensor) -> Tensor:
        return x.new_empty(len(x), 1, x.shape[2]).bernoulli_(1 - self.rate) / (1 - self.rate)  # (B, 1, E)


class BiRnn(nn.Module):
    """Bidirectional recurrent layers over the real tokens only, with dropout before each layer.

    Rows are padded, and reversed for the backward direction, so that padding after a row's last token has no effect
    on the tokens before it. PyTorch's packed sequences give the same result, but train several times slower on a CPU.
    `hidden_dim` is the width of one direction, and `kind` is "lstm" or "gru".
    """

    def __init__(
        self,
        in_dim: int,
        hidden_dim: int,
        *,
        num_layers: int = 1,
        dropout: float = 0.0,
        kind: str = "lstm",
    ) -> None:
        super().__init__()
        build = {"lstm": _BiLstm, "gru": BiGru}[kind]
        widths = [in_dim, *[2 * hidden_dim] * (num_layers - 1)]
        self.layers = nn.ModuleList(build(width, hidden_dim) for width in widths)
        self.dropout = InputDropout(dropout)
        self.dim = 2 * hidden_dim
        """Width of the output."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """From (B, T, in_dim) to (B, T, dim); zeros where the mask (B, T) is False."""
        places = torch.arange(mask.shape[1], device=mask.device)  # (T,)
        turn = torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)  # (B, T), its own inverse
        for layer in self.layers:
            x = self.dropout(x)  # (B, T, …)
            ahead, back = layer(x, turn)  # (B, T, H) each
            x = torch.cat([ahead, reverse_rows(back, turn)], 2) * mask[:, :, None]  # (B, T, 2H)
        return x


class _BiLstm(nn.Module):
    """One layer in both directions."""

    def __init__(self, in_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.ahead, self.back = (nn.LSTM(in_dim, hidden_dim, batch_first=True) for _ in range(2))

    def forward(self, x: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs 2 × (B, T, H) from rows (B, T, E); those of the backward direction are still reversed."""
        return self.ahead(x)[0], self.back(reverse_rows(x, turn))[0]


class Crf(nn.Module):
    """A linear-chain conditional random field over K tags.

    Args:
        num_tags: K.
        allowed: (K, K) whether a tag may follow another; None allows all.
        may_start: (K,) whether a sequence may begin with a tag.
        may_end: (K,) whether it may end with it.
    """

    allowed: Tensor
    may_start: Tensor
    may_end: Tensor

    def __init__(
        self,
        num_tags: int,
        *,
        allowed: Tensor | None = None,
        may_start: Tensor | None = None,
        may_end: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags).uniform_(-0.1, 0.1))  # (from, to)
        self.start = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))  # (K,)
        self.end = nn.Parameter(torch.empty(num_tags).uniform_(-0.1, 0.1))  # (K,)
        every = torch.ones(num_tags, dtype=torch.bool)
        self.register_buffer("allowed", every.expand(num_tags, -1).clone() if allowed is None else allowed, False)
        self.register_buffer("may_start", every if may_start is None else may_start, False)
        self.register_buffer("may_end", every if may_end is None else may_end, False)

    def loss(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """−log p of the gold tags (B, T), summed over the examples, from scores (B, T, K)."""
        transitions, start, end = self.transitions, self.start, self.end
        gold = start[tags[:, 0]] + scores[:, 0].gather(1, tags[:, :1])[:, 0]  # (B,)
        alpha = start + scores[:, 0]  # (B, K)
        for t in range(1, scores.shape[1]):
            real = mask[:, t]  # (B,)
            own = scores[:, t]  # (B, K)
            step = transitions[tags[:, t - 1], tags[:, t]] + own.gather(1, tags[:, t, None])[:, 0]  # (B,)
            gold = gold + step * real
            alpha = torch.where(real[:, None], (alpha[:, :, None] + transitions).logsumexp(1) + own, alpha)  # (B, K)
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0]  # (B,)
        return ((alpha + end).logsumexp(1) - gold - end[last]).sum()

    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """The best allowed tags of each example."""
        return best_tags(scores, mask, *self._allowed_chain())

    def posteriors(self, scores: Tensor, mask: Tensor) -> Posteriors:
        """The distribution over allowed tag sequences."""
        return Posteriors(scores, mask, *self._allowed_chain())

    def _allowed_chain(self) -> tuple[Tensor, Tensor, Tensor]:
        """Transitions, starts and ends, with those closed that are not allowed."""
        return (
            self.transitions.masked_fill(~self.allowed, _CLOSED),
            self.start.masked_fill(~self.may_start, _CLOSED),
            self.end.masked_fill(~self.may_end, _CLOSED),
        )


class TagRules(nn.Module):
    """Decodes tag scores under hard rules, without transition scores.

    Args:
        allowed: (K, K) whether a tag may follow another.
        may_start: (K,) whether a sequence may begin with a tag.
    """

    transitions: Tensor
    start: Tensor
    end: Tensor

    def __init__(self, *, allowed: Tensor, may_start: Tensor) -> None:
        super().__init__()
        self.register_buffer("transitions", torch.zeros(allowed.shape).masked_fill(~allowed, _CLOSED), False)
        self.register_buffer("start", torch.zeros(may_start.shape).masked_fill(~may_start, _CLOSED), False)
        self.register_buffer("end", torch.zeros(may_start.shape), False)

    def decode(self, scores: Tensor, mask: Tensor) -> list[list[int]]:
        """For each example, the tags with the highest sum of scores (B, T, K) that obey the rules."""
        return best_tags(scores, mask, self.transitions, self.start, self.end)

    def posteriors(self, scores: Tensor, mask: Tensor) -> Posteriors:
        """The distribution over tag sequences that obey the rules."""
        return Posteriors(scores, mask, self.transitions, self.start, self.end)


def best_tags(scores: Tensor, mask: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> list[list[int]]:
    """For each example, the tags with the highest sum of scores (B, T, K), transitions (K, K), starts and ends (K,)."""
    best = start + scores[:, 0]  # (B, K)
    pointers = []
    for t in range(1, scores.shape[1]):
        value, pointer = (best[:, :, None] + transitions).max(1)  # (B, K), (B, K)
        best = torch.where(mask[:, t, None], value + scores[:, t], best)
        pointers.append(pointer)
    finals = (best + end).argmax(1).tolist()  # (B,)
    steps = torch.stack(pointers, 1).tolist() if pointers else [[] for _ in finals]  # B × (T − 1) × K
    return [
        trace_back(steps[row], final, length)
        for row, (final, length) in enumerate(zip(finals, mask.sum(1).tolist(), strict=True))
    ]


def trace_back(pointers: Sequence[Sequence[int]], last: int, length: int) -> list[int]:
    """The tags of a sequence from its last tag and, per later token, the best previous tag of each tag."""
    tags = [last]
    for t in range(length - 2, -1, -1):
        tags.append(pointers[t][tags[-1]])
    return tags[::-1]


class Maxout(nn.Module):
    """A linear layer with four pieces per output, of which the largest counts."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_dim, 4 * out_dim)

    def forward(self, x: Tensor) -> Tensor:
        """From (B, in_dim) to (B, out_dim)."""
        pieces: Tensor = self.linear(x).unflatten(1, (-1, 4))  # (B, out_dim, 4)
        return pieces.amax(2)


def attend(queries: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
    """Dot-product attention: for each query (B, T, E), the weighted mean of the real (B, U) keys (B, U, E)."""
    products = queries @ keys.transpose(1, 2)  # (B, T, U)
    weights = products.masked_fill(~mask[:, None], -torch.inf).softmax(2)  # (B, T, U)
    return weights @ keys  # (B, T, E)


def pool_mean_max(x: Tensor, mask: Tensor) -> Tensor:
    """Mean and maximum over the real tokens of (B, T, E), concatenated (B, 2E)."""
    real = mask[:, :, None]  # (B, T, 1)
    mean = (x * real).sum(1) / real.sum(1)  # (B, E)
    return torch.cat([mean, x.masked_fill(~real, -torch.inf).amax(1)], 1)


def pool_all(x: Tensor, mask: Tensor) -> Tensor:
    """Mean, maximum and minimum over the real tokens of (B, T, E), concatenated (B, 3E)."""
    least = x.masked_fill(~mask[:, :, None], torch.inf).amin(1)  # (B, E)
    return torch.cat([pool_mean_max(x, mask), least], 1)
