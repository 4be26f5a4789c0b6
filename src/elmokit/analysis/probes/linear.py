"""Linear probes: how well one softmax per token predicts labels from frozen vectors.

Notation: N tokens, B of a batch, D width of a vector, Y labels, K strengths of L2 that are trained together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmokit.errors import ConfigError, InputError

L2_GRID = (0.0, 1e-5, 1e-4, 1e-3)
CHUNK = 65_536
"""Number of vectors to convert or label at a time."""
Vectors = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]
Score = Callable[[NDArray[np.int64]], float]
"""Score of the predicted labels (N,) of a set; higher is better."""


@dataclass(frozen=True)
class Training:
    """How a probe is trained: Adam with a learning rate that falls linearly to 0, on batches shuffled every epoch."""

    l2: tuple[float, ...] = L2_GRID
    """L2 strengths for the weight (not the bias), chosen on the dev set."""
    epochs: int = 10
    batch_size: int = 512
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        """Refuse invalid settings."""
        if not self.l2 or min(self.l2) < 0:
            raise ConfigError(f"l2 {self.l2} must name at least one strength, none below 0.")
        if self.epochs < 1 or self.batch_size < 1:
            raise ConfigError(f"epochs ({self.epochs}) and batch_size ({self.batch_size}) must be at least 1.")


PROTOCOL = Training()


@dataclass(frozen=True, eq=False)
class LinearProbe:
    """A softmax classifier over standardized vectors."""

    mean: Tensor  # (D,)
    scale: Tensor  # (D,)
    weight: Tensor  # (D, Y)
    bias: Tensor  # (Y,)
    l2: float
    """The chosen L2 strength."""
    dev_score: float

    def predict(self, vectors: Vectors) -> NDArray[np.int64]:
        """The label of each vector."""
        _check_vectors(vectors, len(self.mean))
        return _predict(_standardise(vectors, self.mean, self.scale), self.weight, self.bias)


def fit_probes(
    train: Vectors,
    train_labels: Labels,
    dev: Vectors,
    dev_labels: Labels,
    *,
    num_labels: int | None = None,
    seeds: Sequence[int],
    training: Training = PROTOCOL,
    score: Score | None = None,
) -> list[LinearProbe]:
    """For each seed, train one probe per L2 strength and keep the best on dev.

    Args:
        train: (N, D), float32 or float16; also determines mean and deviation of each column.
        train_labels: (N,), from 0 on.
        dev: (N', D), for model selection.
        dev_labels: (N',); a label that is not in training, such as -1, counts as an error.
        num_labels: Y; None takes it from the training labels.
        seeds: random seeds of the order of the batches; weights start at zero.
        training: L2 strengths, number of epochs and learning rate.
        score: the score for model selection, from the labels predicted for dev; None is accuracy.
    """
    _check_vectors(train, None)
    _check_vectors(dev, train.shape[1])
    if len(train) == 0 or len(train_labels) != len(train) or len(dev_labels) != len(dev):
        raise InputError(
            f"there are {len(train_labels)} and {len(dev_labels)} labels for {len(train)} and {len(dev)} vectors of "
            "train and dev: give one for each, and at least one."
        )
    num_labels = int(train_labels.max()) + 1 if num_labels is None else num_labels
    if train_labels.min() < 0 or train_labels.max() >= num_labels:
        raise InputError(
            f"labels of train run from {train_labels.min()} to {train_labels.max()}: number them 0 to {num_labels - 1}."
        )
    score = score or (lambda predicted: float((predicted == dev_labels).mean()))
    mean, scale = _moments(train)
    rows, dev_rows = _standardise(train, mean, scale), _standardise(dev, mean, scale)
    labels = torch.from_numpy(train_labels.astype(np.int64))
    probes = []
    for seed in seeds:
        weights, biases = _train(rows, labels, num_labels, seed, training)  # (K, D, Y), (K, Y)
        scores = [score(_predict(dev_rows, w, b)) for w, b in zip(weights, biases, strict=True)]
        best = scores.index(max(scores))
        probes.append(LinearProbe(mean, scale, weights[best], biases[best], training.l2[best], scores[best]))
    return probes


def _train(rows: Tensor, labels: Tensor, num_labels: int, seed: int, training: Training) -> tuple[Tensor, Tensor]:
    """Weights (K, D, Y) and biases (K, Y): one softmax per L2 strength, all on the same batches.

    They form one matrix, and the gradient of softmax regression is short enough to write by hand.
    """
    (num_rows, width), num_probes = rows.shape, len(training.l2)
    weight = torch.zeros(width, num_probes * num_labels)  # (D, K·Y)
    bias = torch.zeros(num_probes * num_labels)  # (K·Y,)
    weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
    decay = torch.tensor(training.l2).repeat_interleave(num_labels)  # (K·Y,)
    optimizer = torch.optim.Adam([weight, bias], lr=training.learning_rate, fused=True)
    generator = torch.Generator().manual_seed(seed)
    num_batches = -(-num_rows // training.batch_size)
    for epoch in range(training.epochs):
        order = torch.randperm(num_rows, generator=generator)
        for number, batch in enumerate(order.split(training.batch_size)):
            progress = (epoch * num_batches + number) / (training.epochs * num_batches)
            optimizer.param_groups[0]["lr"] = training.learning_rate * (1 - progress)
            x = rows.index_select(0, batch)  # (B, D)
            scores = torch.addmm(bias, x, weight).view(len(batch), num_probes, num_labels)
            error = scores.softmax(-1)  # (B, K, Y)
            error[torch.arange(len(batch)), :, labels[batch]] -= 1
            error = error.view(len(batch), -1).div_(len(batch))  # (B, K·Y)
            torch.mm(x.T, error, out=weight.grad)  # (D, K·Y)
            weight.grad.addcmul_(weight, decay)
            torch.sum(error, 0, out=bias.grad)  # (K·Y,)
            optimizer.step()
    return weight.view(width, num_probes, num_labels).transpose(0, 1).contiguous(), bias.view(num_probes, num_labels)


def _moments(vectors: Vectors) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each column; a constant column has deviation 1."""
    total, squares = np.zeros(vectors.shape[1]), np.zeros(vectors.shape[1])  # (D,), (D,)
    for start in range(0, len(vectors), CHUNK):
        total += vectors[start : start + CHUNK].sum(0, dtype=np.float64)
    mean = total / len(vectors)
    for start in range(0, len(vectors), CHUNK):
        squares += ((vectors[start : start + CHUNK] - mean) ** 2).sum(0)
    deviation = np.sqrt(squares / len(vectors))  # (D,)
    if not np.isfinite(deviation).all():
        raise InputError("vectors of train contain numbers that are not finite: check how they were computed.")
    deviation[deviation <= 1e-7 * np.abs(mean)] = 1
    return torch.from_numpy(mean).float(), torch.from_numpy(deviation).float()


def _standardise(vectors: Vectors, mean: Tensor, scale: Tensor) -> Tensor:
    """A standardized float32 copy (N, D)."""
    rows = torch.from_numpy(vectors.astype(np.float32))  # (N, D)
    return rows.sub_(mean).div_(scale)


def _predict(rows: Tensor, weight: Tensor, bias: Tensor) -> NDArray[np.int64]:
    parts = [torch.addmm(bias, part, weight).argmax(1) for part in rows.split(CHUNK)]  # (CHUNK,) each
    return torch.cat(parts).numpy() if parts else np.empty(0, dtype=np.int64)


def _check_vectors(vectors: Vectors, width: int | None) -> None:
    if vectors.ndim != 2 or width not in (None, vectors.shape[-1]):
        expected = f"(N, {width or 'D'})"
        raise InputError(
            f"vectors have shape {vectors.shape}, expected {expected}: give one row per token, of one width."
        )
