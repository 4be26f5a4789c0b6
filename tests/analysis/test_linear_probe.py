"""The probe against torch's own softmax regression, and what it must find in made-up vectors."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from elmokit.analysis.probes.linear import LinearProbe, Training, fit_probes
from elmokit.errors import ConfigError, InputError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
NUM_LABELS, WIDTH = 5, 8


def make(num_rows: int, seed: int, noise: float = 1.0) -> tuple[Floats, Ints]:
    """Vectors around one center a label; columns of very different size and offset."""
    generator = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(NUM_LABELS, WIDTH)) * 2
    labels = generator.integers(NUM_LABELS, size=num_rows)
    vectors = centers[labels] + noise * generator.normal(size=(num_rows, WIDTH))
    return (vectors * 10.0 ** np.arange(-3, 5) + 7).astype(np.float32), labels


TRAIN, DEV, TEST = make(600, 0), make(200, 1), make(200, 2)


def fit_probe(*given: Any, seed: int = 0, **settings: Any) -> LinearProbe:
    (probe,) = fit_probes(*given, seeds=[seed], **settings)
    return probe


def accuracy(probe: LinearProbe, vectors: Floats, labels: Ints) -> float:
    return float((probe.predict(vectors) == labels).mean())


def by_autograd(vectors: Floats, labels: Ints, l2: float, seed: int, training: Training) -> nn.Linear:
    """The protocol in torch's own pieces."""
    x = torch.from_numpy(vectors.astype(np.float64))
    x = ((x - x.mean(0)) / x.std(0, correction=0)).float()
    y = torch.from_numpy(labels)
    model = nn.Linear(WIDTH, NUM_LABELS)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    groups: list[dict[str, Any]] = [{"params": [model.weight], "weight_decay": l2}, {"params": [model.bias]}]
    optimizer = torch.optim.Adam(groups, lr=training.learning_rate)
    batches = -(-len(x) // training.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (training.epochs * batches))
    generator = torch.Generator().manual_seed(seed)
    for _ in range(training.epochs):
        for batch in torch.randperm(len(x), generator=generator).split(training.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[batch]), y[batch]).backward()
            optimizer.step()
            schedule.step()
    return model


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_each_strength_trains_as_if_alone(wanted: int) -> None:
    training = Training(l2=(0.0, 1e-2, 0.3), epochs=3, batch_size=64, learning_rate=0.05)
    calls: list[int] = []

    def prefer(predicted: Ints) -> float:
        calls.append(len(predicted))
        return float(len(calls) - 1 == wanted)

    probe = fit_probe(*TRAIN, *DEV, seed=3, training=training, score=prefer)
    assert calls == [200] * 3
    assert probe.l2 == training.l2[wanted]
    model = by_autograd(*TRAIN, training.l2[wanted], 3, training)
    torch.testing.assert_close(probe.weight, model.weight.T, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(probe.bias, model.bias, rtol=1e-3, atol=1e-4)


def test_it_learns_and_standardises() -> None:
    probe = fit_probe(*TRAIN, *DEV, training=Training(epochs=40, batch_size=32))
    assert probe.dev_score == accuracy(probe, *DEV)
    assert accuracy(probe, *TEST) > 0.95
    mean = TRAIN[0].mean(0, dtype=np.float64)
    np.testing.assert_allclose(probe.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(probe.scale, TRAIN[0].std(0, dtype=np.float64), rtol=1e-5)


def test_the_best_strength_on_dev_is_kept_the_first_of_equals() -> None:
    training = Training(l2=(100.0, 0.0, 0.0), epochs=3, batch_size=32)
    probe = fit_probe(*TRAIN, *DEV, training=training)
    assert probe.l2 == 0.0
    assert fit_probe(*TRAIN, *DEV, training=training, score=lambda _: 0.5).l2 == 100.0


def test_seeds_are_all_that_differs() -> None:
    training = Training(epochs=1, batch_size=32)
    one, two, again = fit_probes(*TRAIN, *DEV, seeds=[1, 2, 1], training=training)
    assert torch.equal(one.weight, again.weight)
    assert not torch.equal(one.weight, two.weight)


def test_half_precision_and_given_arrays_stay_as_they_are() -> None:
    vectors, labels = make(300, 5)
    vectors = vectors / 10.0 ** np.arange(-3, 5, dtype=np.float32)
    half, kept = vectors.astype(np.float16), vectors.astype(np.float16)
    full = vectors.copy()
    training = Training(epochs=5, batch_size=32)
    probes = [fit_probe(given, labels, given, labels, training=training) for given in (half, full)]
    assert np.array_equal(half, kept) and np.array_equal(full, vectors)
    assert (probes[0].predict(half) == probes[1].predict(full)).mean() > 0.98


def test_columns_that_never_change() -> None:
    vectors = TRAIN[0].copy()
    vectors[:, 2] = 0.1
    probe = fit_probe(vectors, TRAIN[1], vectors, TRAIN[1], training=Training(epochs=1))
    assert probe.scale[2] == 1
    assert torch.isfinite(probe.weight).all()


def test_labels_that_training_never_saw_are_missed() -> None:
    labels = np.where(DEV[1] == 0, -1, DEV[1])
    probe = fit_probe(*TRAIN, DEV[0], labels, num_labels=NUM_LABELS + 2, training=Training(epochs=40, batch_size=32))
    assert probe.weight.shape == (WIDTH, NUM_LABELS + 2)
    assert probe.dev_score == pytest.approx(1 - (DEV[1] == 0).mean(), abs=0.05)


def test_no_vectors_have_no_labels() -> None:
    probe = fit_probe(*TRAIN, *DEV, training=Training(epochs=1))
    assert probe.predict(TEST[0][:0]).shape == (0,)


def test_faults_are_named() -> None:
    (x, y), (dx, dy) = TRAIN, DEV
    with pytest.raises(InputError, match=r"vectors have shape \(200, 7\), expected \(N, 8\)"):
        fit_probe(x, y, dx[:, :7], dy)
    with pytest.raises(InputError, match=r"vectors have shape \(1, 600, 8\), expected \(N, D\)"):
        fit_probe(x[None], y, dx, dy)
    with pytest.raises(InputError, match="there are 599 and 200 labels for 600 and 200 vectors"):
        fit_probe(x, y[1:], dx, dy)
    with pytest.raises(InputError, match="labels of train run from -1 to 3: number them 0 to 3"):
        fit_probe(x, y - 1, dx, dy)
    with pytest.raises(InputError, match="labels of train run from 0 to 4: number them 0 to 3"):
        fit_probe(x, y, dx, dy, num_labels=4)
    with pytest.raises(InputError, match="not finite"):
        fit_probe(np.where(x == x[0, 0], np.float32(np.nan), x), y, dx, dy)
    with pytest.raises(InputError, match=r"expected \(N, 8\)"):
        fit_probe(x, y, dx, dy, training=Training(epochs=1)).predict(x[:, :3])
    for wrong in ({"l2": ()}, {"l2": (0.0, -1.0)}, {"epochs": 0}, {"batch_size": 0}):
        with pytest.raises(ConfigError, match="at least"):
            Training(**wrong)
