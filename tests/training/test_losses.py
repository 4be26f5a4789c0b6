"""Losses and their gradients, against autograd over plainly written formulas."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import gradcheck
from torch.nn.functional import cross_entropy, log_softmax
from torch.utils._python_dispatch import TorchDispatchMode

from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM
from elmokit.model.softmax import Softmax
from elmokit.scoring import log_probs
from elmokit.scoring.log_probs import target_log_probs
from elmokit.training import full_softmax
from elmokit.training.full_softmax import full_loss, softmax_loss
from elmokit.training.sampled_softmax import Candidates, LogUniformSampler, sampled_loss
from tests.training.adaptive import build_adaptive

pytestmark = pytest.mark.usefixtures("one_thread")


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()


@pytest.fixture(params=[None, 1, 30], ids=["whole", "a-row-at-a-time", "chunks"])
def chunking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything at once, single rows, or chunks of which the last is smaller."""
    if request.param is not None:
        monkeypatch.setattr(full_softmax, "_CHUNK_SCORES", request.param)
        monkeypatch.setattr(full_softmax, "_LEAST_ROWS", 1)


# --- The full softmax ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("chunking")
def test_full_loss_is_cross_entropy_with_its_gradients() -> None:
    h, weight, bias = normal(10, 3), normal(7, 3, seed=1), normal(7, seed=2)
    targets = torch.arange(10) % 7
    found = full_loss(h, targets, weight, bias)
    expected = cross_entropy(h @ weight.T + bias, targets, reduction="sum")
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad(2.5 * found, (h, weight, bias)),
        torch.autograd.grad(2.5 * expected, (h, weight, bias)),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)
    assert gradcheck(lambda *tensors: full_loss(tensors[0], targets, *tensors[1:]), (h, weight, bias))


@pytest.mark.parametrize("wanted", [(), (0,), (1,), (2,), (0, 2), (1, 2)])
def test_full_loss_of_which_some_inputs_are_frozen(wanted: tuple[int, ...]) -> None:
    tensors = [normal(4, 3), normal(7, 3, seed=1), normal(7, seed=2)]
    targets = torch.tensor([0, 6, 6, 2])
    whole = torch.autograd.grad(full_loss(tensors[0], targets, *tensors[1:]), tensors)
    frozen = [tensor.detach().requires_grad_(place in wanted) for place, tensor in enumerate(tensors)]
    loss = full_loss(frozen[0], targets, *frozen[1:])
    assert loss.requires_grad == bool(wanted)
    if wanted:
        loss.backward()
    for place, tensor in enumerate(frozen):
        assert (tensor.grad is not None) == (place in wanted)
        if tensor.grad is not None:
            assert torch.equal(tensor.grad, whole[place])


def test_no_predictions_cost_nothing() -> None:
    h, weight, bias = normal(0, 3), normal(7, 3, seed=1), normal(7, seed=2)
    nothing = torch.empty(0, dtype=torch.int64)
    candidates = LogUniformSampler(7, 3).draw(np.random.default_rng(0), np.array([1]))
    ids = torch.from_numpy(candidates.ids)
    for loss in (full_loss(h, nothing, weight, bias), sampled_loss(h, nothing, weight[ids], bias[ids], candidates)):
        assert loss.item() == 0
        assert not any(gradient.any() for gradient in torch.autograd.grad(loss, (h, weight, bias)))


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor has that any operation gives."""

    def __init__(self) -> None:
        super().__init__()
        self.size = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        self.size = max([self.size, *(one.numel() for one in (found,) if isinstance(one, Tensor))])
        return found


def test_scores_of_all_predictions_are_never_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_softmax, "_CHUNK_SCORES", 1000)
    monkeypatch.setattr(full_softmax, "_LEAST_ROWS", 1)
    monkeypatch.setattr(log_probs, "_SCORE_ROWS", 20)
    monkeypatch.setattr(log_probs, "_SCORE_WORDS", 50)
    h, weight, bias, targets = normal(50, 2), normal(200, 2), normal(200), torch.zeros(50, dtype=torch.int64)
    softmax = Softmax(vocab_size=200, dim=2, cutoffs=(20, 80)).double()
    softmax.initialize(torch.Generator())
    for run in (
        lambda: full_loss(h, targets, weight, bias).backward(),
        lambda: softmax_loss(h, targets, softmax, None).backward(),
        lambda: target_log_probs(h, targets, softmax, None),
    ):
        with LargestTensor() as largest:
            run()
        assert 400 <= largest.size <= 1000


# --- The sampled softmax ---------------------------------------------------------------------------------------------


def plain_sampled_loss(h: Tensor, targets: Tensor, weight: Tensor, bias: Tensor, candidates: Candidates) -> Tensor:
    """Tensorflow's sampled_softmax_loss, one prediction at a time, over the whole softmax."""
    log_expected = dict(zip(candidates.ids.tolist(), candidates.log_expected.tolist(), strict=True))
    samples = candidates.ids[: candidates.num_samples].tolist()
    total = h.new_zeros(())
    for vector, target in zip(h, targets.tolist(), strict=True):
        others = [word for word in samples if word != target]
        logits = torch.stack([vector @ weight[word] + bias[word] - log_expected[word] for word in (target, *others)])
        total = total - log_softmax(logits, 0)[0]
    return total


@pytest.mark.usefixtures("chunking")
@pytest.mark.parametrize("num_samples", [1, 4, 12])
def test_sampled_loss_against_the_plain_formula(num_samples: int) -> None:
    h, weight, bias = normal(9, 3), normal(12, 3, seed=1), normal(12, seed=2)
    targets = torch.tensor([0, 0, 1, 11, 5, 5, 7, 2, 0])  # frequent words are hit by accident, rare ones are not
    candidates = LogUniformSampler(12, num_samples).draw(np.random.default_rng(3), targets.numpy())
    assert 0 in candidates.ids[:num_samples]
    if num_samples < 12:
        assert len(candidates.ids) > num_samples
    ids, places = torch.from_numpy(candidates.ids), torch.from_numpy(candidates.places(targets.numpy()))
    assert torch.equal(ids[places], targets)

    def ours(h: Tensor, rows: Tensor, biases: Tensor) -> Tensor:
        return sampled_loss(h, places, rows, biases, candidates)

    rows, biases = (tensor.detach()[ids].requires_grad_() for tensor in (weight, bias))
    found, expected = ours(h, rows, biases), plain_sampled_loss(h, targets, weight, bias, candidates)
    torch.testing.assert_close(found, expected)
    dh, drows, dbiases = torch.autograd.grad(3 * found, (h, rows, biases))
    expected_dh, dweight, dbias = torch.autograd.grad(3 * expected, (h, weight, bias))
    torch.testing.assert_close(dh, expected_dh)
    torch.testing.assert_close(drows, dweight[ids])
    torch.testing.assert_close(dbiases, dbias[ids])
    assert gradcheck(ours, (h, rows, biases))


def test_all_words_as_samples_are_the_full_softmax() -> None:
    h, weight, bias, targets = normal(6, 3), normal(9, 3, seed=1), normal(9, seed=2), torch.arange(6)
    candidates = LogUniformSampler(9, 9).draw(np.random.default_rng(0), targets.numpy())
    assert sorted(candidates.ids) == list(range(9))
    certain = candidates._replace(log_expected=np.zeros(9, dtype=np.float32))
    ids, places = torch.from_numpy(candidates.ids), torch.from_numpy(candidates.places(targets.numpy()))
    found = sampled_loss(h, places, weight[ids], bias[ids], certain)
    torch.testing.assert_close(found, full_loss(h, targets, weight, bias))


# --- The draw --------------------------------------------------------------------------------------------------------


def probabilities(vocab_size: int) -> NDArray[np.float64]:
    k = np.arange(vocab_size)
    p: NDArray[np.float64] = np.log((k + 2) / (k + 1)) / np.log(vocab_size + 1)
    return p


@pytest.mark.parametrize(("vocab_size", "num_samples"), [(3, 1), (3, 3), (50, 7), (50, 50), (1000, 64)])
def test_a_draw_has_exactly_so_many_distinct_words_and_then_the_targets(vocab_size: int, num_samples: int) -> None:
    random, sampler = np.random.default_rng(1), LogUniformSampler(vocab_size, num_samples)
    for _ in range(20):
        targets = random.integers(0, vocab_size, 30)
        ids, number, log_expected = sampler.draw(random, targets)
        assert number == num_samples
        assert len(set(ids)) == len(ids) == len(log_expected)
        assert ids.min() >= 0 and ids.max() < vocab_size
        assert set(ids[num_samples:]) == set(targets) - set(ids[:num_samples])


class Recorded(np.random.Generator):
    """Keeps the uniform numbers that it gives."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.given: list[float] = []

    def random(self, size: int) -> NDArray[np.float64]:  # type: ignore[override]
        numbers = super().random(size)
        self.given += numbers.tolist()
        return numbers


@pytest.mark.parametrize(("vocab_size", "num_samples"), [(10, 1), (10, 4), (10, 10), (2000, 5), (40, 39)])
def test_samples_and_expected_counts_are_those_of_drawing_one_at_a_time(vocab_size: int, num_samples: int) -> None:
    p = probabilities(vocab_size)
    seen_tries = set()
    for seed in range(15):
        random = Recorded(seed)
        found = LogUniformSampler(vocab_size, num_samples).draw(random, np.arange(vocab_size))
        samples: list[int] = []
        num_tries = 0
        bounds = p.cumsum()
        for uniform in random.given:
            num_tries += 1
            word = int(np.searchsorted(bounds, uniform, side="right"))
            samples += [word] if word not in samples else []
            if len(samples) == num_samples:
                break
        assert found.ids[:num_samples].tolist() == samples
        if num_tries == num_samples:
            expected = num_samples * p
        else:
            expected = 1 - (1 - p) ** num_tries
        np.testing.assert_allclose(np.exp(found.log_expected), expected[found.ids], rtol=1e-5)
        seen_tries.add(num_tries == num_samples)
    assert vocab_size < 2000 or seen_tries == {True, False}


def test_words_are_drawn_as_often_as_zipfs_law_says() -> None:
    """A single sample is one draw by P; the bound is that of a chi-square with 19 degrees of freedom at 1e-4."""
    random, sampler = np.random.default_rng(5), LogUniformSampler(20, 1)
    counts, num_draws = np.zeros(20), 4000
    for _ in range(num_draws):
        counts[sampler.draw(random, np.empty(0, dtype=np.int64)).ids] += 1
    expected = num_draws * probabilities(20)
    assert expected.sum() == pytest.approx(num_draws)
    assert ((counts - expected) ** 2 / expected).sum() < 50


def test_the_correction_makes_the_partition_function_come_out_right() -> None:
    """Averaged over draws, Σ exp(score) / E over the samples is nearly the sum over all words.

    Nearly, because E takes the number of draws for given, while it was drawn as well.
    """
    scores = np.random.default_rng(0).standard_normal(500)
    random, sampler = np.random.default_rng(1), LogUniformSampler(500, 100)
    estimates = []
    for _ in range(500):
        ids, _, log_expected = sampler.draw(random, np.empty(0, dtype=np.int64))
        estimates.append(np.exp(scores[ids] - log_expected).sum())
    assert np.log(np.mean(estimates)) == pytest.approx(np.log(np.exp(scores).sum()), abs=0.03)


@pytest.mark.parametrize("num_samples", [0, 21, 8192])
def test_more_samples_than_words_are_refused(num_samples: int) -> None:
    with pytest.raises(ConfigError, match=rf"num_negatives \({num_samples}\).* 20 words.*full"):
        LogUniformSampler(20, num_samples)


# --- The adaptive softmax --------------------------------------------------------------------------------------------


def adaptive(cutoffs: tuple[int, ...]) -> Softmax:
    softmax = Softmax(vocab_size=12, dim=3, cutoffs=cutoffs).double()
    for number, parameter in enumerate(softmax.parameters()):
        parameter.data = normal(*parameter.shape, seed=number).detach()
    return softmax


@pytest.mark.parametrize("cutoffs", [(4,), (4, 7), (1, 2, 11)])
@pytest.mark.usefixtures("chunking")
def test_the_adaptive_loss_is_that_of_its_probabilities(cutoffs: tuple[int, ...]) -> None:
    softmax, h, targets = adaptive(cutoffs), normal(15, 3, seed=9), torch.arange(15) % 12
    log_probs = softmax(h)
    torch.testing.assert_close(log_probs.logsumexp(-1), torch.zeros(15, dtype=torch.float64))
    found, expected = softmax_loss(h, targets, softmax, None), -log_probs.gather(1, targets[:, None]).sum()
    torch.testing.assert_close(found, expected)
    wanted = (h, *softmax.parameters())
    ours, theirs = torch.autograd.grad(found, wanted), torch.autograd.grad(expected, wanted)
    for gradient, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(gradient, other)


def test_adaptive_probabilities_by_hand() -> None:
    """p(word) = p(cluster) p(word | cluster), each by a softmax of its own."""
    softmax, h = adaptive((4, 7)), normal(3, seed=9).detach()
    assert softmax.weight is not None and softmax.cluster_weight is not None and softmax.cluster_bias is not None
    scores = softmax.weight @ h + softmax.bias  # (12,)
    clusters = softmax.cluster_weight @ h + softmax.cluster_bias  # (2,)
    head = torch.cat([scores[:4], clusters]).softmax(0)  # (6,)
    expected = torch.cat([head[:4], head[4] * scores[4:7].softmax(0), head[5] * scores[7:].softmax(0)])
    torch.testing.assert_close(softmax(h).exp(), expected)


def test_adaptive_gradients_are_right() -> None:
    softmax, h, targets = adaptive((4, 7)), normal(6, 3, seed=9), torch.tensor([0, 3, 4, 6, 7, 11])
    names = list(dict(softmax.named_parameters()))

    def loss(h: Tensor, *values: Tensor) -> Tensor:
        own = adaptive((4, 7))
        for name, value in zip(names, values, strict=True):
            delattr(own, name)
            setattr(own, name, value)
        return softmax_loss(h, targets, own, None)

    assert gradcheck(loss, (h, *softmax.parameters()))


@pytest.mark.usefixtures("chunking")
@pytest.mark.parametrize("kind", ["softmax", "untied", "tied", "adaptive"])
def test_target_log_probs_are_those_of_the_logits(kind: str, tiny: Callable[[str], BiLM]) -> None:
    bilm = build_adaptive() if kind == "adaptive" else tiny(kind)
    assert bilm.softmax is not None
    h, targets = normal(20, 6).float(), torch.arange(20) % 10
    found = target_log_probs(h, targets, bilm.softmax, bilm.token_table)
    expected = bilm.logits(h).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(found, expected)
    assert not found.requires_grad
    torch.testing.assert_close(-found.sum(), softmax_loss(h, targets, bilm.softmax, bilm.token_table))
    assert target_log_probs(h[:0], targets[:0], bilm.softmax, bilm.token_table).shape == (0,)


@pytest.mark.parametrize("cutoffs", [(), (2, 4)], ids=["plain", "adaptive"])
def test_biases_alone_can_predict_frequencies(cutoffs: tuple[int, ...]) -> None:
    softmax = Softmax(vocab_size=6, dim=3, cutoffs=cutoffs).double()
    softmax.initialize(torch.Generator().manual_seed(0))
    counts = torch.tensor([9, 99, 0, 49, 4, 19])
    softmax.init_bias_from_counts(counts)
    found = softmax(torch.zeros(1, 3, dtype=torch.float64)).log_softmax(-1).exp()[0]
    torch.testing.assert_close(found, (counts + 1).double() / 186)


@pytest.mark.parametrize(("rows", "words"), [(1, 1), (2, 3), (512, 4), (4, 1024)])
@pytest.mark.parametrize("kind", ["softmax", "untied", "tied", "adaptive"])
def test_target_log_probs_do_not_depend_on_blocks_or_on_what_is_shared(
    kind: str, rows: int, words: int, tiny: Callable[[str], BiLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    bilm = (build_adaptive() if kind == "adaptive" else tiny(kind)).double()
    assert bilm.softmax is not None
    h, targets = normal(5, bilm.config.lstm.output_dim).detach(), torch.arange(12) % 10
    places = torch.tensor([4, 0, 0, 2, 2, 4, 1, 0, 2, 4, 4, 1])  # one output is not used
    expected = bilm.logits(h).log_softmax(-1)[places, targets]
    monkeypatch.setattr(log_probs, "_SCORE_ROWS", rows)
    monkeypatch.setattr(log_probs, "_SCORE_WORDS", words)
    for found in (
        target_log_probs(h, targets, bilm.softmax, bilm.token_table, places),
        target_log_probs(h[places], targets, bilm.softmax, bilm.token_table),
    ):
        torch.testing.assert_close(found, expected)


def test_words_that_cannot_be_have_no_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of words that all have the score −∞ does not make the others NaN."""
    monkeypatch.setattr(log_probs, "_SCORE_WORDS", 3)
    softmax = Softmax(vocab_size=7, dim=2).double()
    softmax.initialize(torch.Generator())
    softmax.bias.data[:4] = -torch.inf
    h, targets = normal(7, 2).detach(), torch.arange(7)
    found = target_log_probs(h, targets, softmax, None)
    torch.testing.assert_close(found, softmax(h).log_softmax(-1)[targets, targets].detach())
    assert found[:4].isneginf().all() and found[4:].isfinite().all()
