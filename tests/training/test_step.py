"""A step's loss and gradients against autograd over the plain engine, and what must not change them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from elmokit.config import CharacterInput, ElmoConfig, LstmStack
from elmokit.corpus.windows import NO_TARGET, Sentences, Window, WindowStream
from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM
from elmokit.model.engines.tiles import TileProducts
from elmokit.native.library import NativeLibrary, forget_library
from elmokit.training.config import LossConfig, OptimizerConfig
from elmokit.training.distributed import Processes
from elmokit.training.optim import Optimizer
from elmokit.training.step import LanguageModelStep, RowDropout
from tests.conftest import WORDS
from tests.tolerances import AFTER_TRAINING

SENTENCES = [["The", "play", "was", "naïve", "."], ["the", "play"], ["模型"], ["was", "the", "play", "naïve", "?"]] * 3
FULL, SAMPLED = LossConfig(kind="full"), LossConfig(kind="sampled", num_negatives=4)


class Given(Sentences):
    def __init__(self) -> None:
        self.sentences: Iterator[list[str]] = iter(SENTENCES)

    def __next__(self) -> list[str]:
        return next(self.sentences)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        raise NotImplementedError


def windows_of(bilm: BiLM, num_rows: int = 4, num_steps: int = 5, rows: range | None = None) -> list[Window]:
    assert bilm.vocabulary is not None
    return list(WindowStream(Given(), bilm.vocabulary, bilm.indexer, num_rows=num_rows, num_steps=num_steps, rows=rows))


def build_step(bilm: BiLM, loss: LossConfig, **settings: object) -> LanguageModelStep:
    return LanguageModelStep(bilm, loss, num_rows=4, num_steps=5, **settings)  # type: ignore[arg-type]


def gradients(bilm: BiLM) -> dict[str, Tensor]:
    return {
        name: parameter.grad.to_dense() for name, parameter in bilm.named_parameters() if parameter.grad is not None
    }


def plain_loss(bilm: BiLM, windows: list[Window]) -> Tensor:
    """The last window's loss, summed over steps and averaged over rows and directions, with the state run up to it."""
    state = bilm.zero_state(4)
    for number, window in enumerate(windows):
        total, after = torch.zeros((), dtype=torch.float64), []
        for side, lstm in enumerate((bilm.forward_lstm, bilm.backward_lstm)):
            index = torch.from_numpy(window.inputs[side].T.reshape(-1))
            x = bilm.encoder.encode_types(torch.from_numpy(window.char_ids))[index]
            outputs, new = lstm(x, [4] * 5, state[side])
            targets = torch.from_numpy(window.targets[side].T.reshape(-1))
            total = total + cross_entropy(bilm.logits(outputs[-1]), targets, ignore_index=NO_TARGET, reduction="sum")
            after.append(new.detach())
        state = type(state)(*after)
        if number == len(windows) - 1:
            return total * 5 / (2 * window.num_predictions)
    raise AssertionError


@pytest.mark.parametrize("kind", ["softmax", "tied", "untied"])
@pytest.mark.parametrize("num_windows", [1, 2, 4])
def test_gradients_equal_those_of_autograd(tiny: Callable[[str], BiLM], kind: str, num_windows: int) -> None:
    bilm = tiny(kind).double()
    windows = windows_of(bilm)[:num_windows]
    assert num_windows < 4 or (windows[-1].targets == NO_TARGET).any()
    step = build_step(bilm, FULL)
    for number, window in enumerate(windows):
        bilm.zero_grad(set_to_none=True)
        result = step(window, number)
    found = gradients(bilm)
    bilm.zero_grad(set_to_none=True)
    loss = plain_loss(bilm, windows)
    loss.backward()
    assert result.loss == pytest.approx(loss.item() / 5, rel=1e-6)
    expected = gradients(bilm)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-7, msg=name)


def test_all_words_as_negatives_give_the_full_loss(bilm: BiLM) -> None:
    """With every word drawn and E(k) near 1 the sampled loss is the full one; gradients come as sparse rows."""
    window = windows_of(bilm)[0]
    full = build_step(bilm, FULL)(window, 0)
    expected = gradients(bilm)
    bilm.zero_grad(set_to_none=True)
    step = build_step(bilm, LossConfig(kind="sampled", num_negatives=len(WORDS)))
    sampled = step(window, 0)
    assert bilm.softmax is not None and bilm.softmax.weight is not None
    assert bilm.softmax.weight.grad is not None and bilm.softmax.weight.grad.is_sparse
    assert sampled.loss == pytest.approx(full.loss, rel=0.02)
    for name, gradient in gradients(bilm).items():
        torch.testing.assert_close(gradient, expected[name], rtol=0.1, atol=0.02, msg=name)


@pytest.mark.usefixtures("engine_mode")
@pytest.mark.parametrize("loss", [FULL, SAMPLED], ids=lambda loss: loss.kind)
def test_threads_change_nothing(tiny: Callable[[str], BiLM], loss: LossConfig) -> None:
    found = []
    for threads in (1, 2):
        bilm = tiny("softmax")
        step = build_step(bilm, loss, dropout=0.3, threads=threads)
        losses = [step(window, number).loss for number, window in enumerate(windows_of(bilm))]
        found.append((losses, gradients(bilm)))
    assert found[0][0] == found[1][0]
    for name, gradient in found[0][1].items():
        assert torch.equal(gradient, found[1][1][name]), name


class Half(Processes):
    """One of two processes whose sums are made by the test."""

    def all_reduce(self, tensors: object) -> None:
        pass


@pytest.mark.parametrize("loss", [FULL, SAMPLED], ids=lambda loss: loss.kind)
def test_halves_of_the_rows_add_up_to_the_whole(tiny: Callable[[str], BiLM], loss: LossConfig) -> None:
    """Two processes with their rows have the gradients of one with all, dropout and negatives included."""
    whole = tiny("softmax").double()
    step = build_step(whole, loss, dropout=0.3)
    for number, window in enumerate(windows_of(whole)[:2]):
        step(window, number)
    sums: dict[str, Tensor] = {}
    for rank in (0, 1):
        half = tiny("softmax").double()
        step = build_step(half, loss, dropout=0.3, processes=Half(rank, 2))
        assert step.rows == range(2 * rank, 2 * rank + 2)
        for number, window in enumerate(windows_of(half, rows=step.rows)[:2]):
            step(window, number)
        for name, gradient in gradients(half).items():
            sums[name] = sums.get(name, torch.zeros_like(gradient)) + gradient
    for name, gradient in gradients(whole).items():
        torch.testing.assert_close(sums[name], gradient, rtol=1e-6, atol=1e-8, msg=name)


def test_state_goes_on_from_its_dict(bilm: BiLM) -> None:
    windows = windows_of(bilm)
    step = build_step(bilm, FULL)
    step(windows[0], 0)
    other = build_step(bilm, FULL)
    other.load_state_dict(step.state_dict())
    assert other(windows[1], 1).loss == step(windows[1], 1).loss
    assert build_step(bilm, FULL)(windows[1], 1).loss != step(windows[1], 1).loss


@pytest.mark.parametrize("part", ["encoder", "forward_lstm", "softmax"])
def test_what_needs_no_gradient_gets_none(bilm: BiLM, part: str) -> None:
    getattr(bilm, part).requires_grad_(False)
    build_step(bilm, SAMPLED)(windows_of(bilm)[0], 0)
    found = gradients(bilm)
    assert found and not [name for name in found if name.startswith(part)]


def test_adaptive_softmax() -> None:
    config = ElmoConfig(
        input=CharacterInput(char_dim=3, filters=((1, 4),), max_characters=12),
        lstm=LstmStack(cell_dim=5, projection_dim=4),
        vocab_size=len(WORDS),
        softmax=True,
        softmax_cutoffs=(4, 7),
    )
    bilm = BiLM(config, vocabulary=WORDS, seed=3).double()
    windows = windows_of(bilm)[:1]
    result = build_step(bilm, LossConfig(kind="adaptive"))(windows[0], 0)
    found = gradients(bilm)
    bilm.zero_grad(set_to_none=True)
    loss = plain_loss(bilm, windows)
    loss.backward()
    assert result.loss == pytest.approx(loss.item() / 5, rel=1e-6)
    for name, gradient in gradients(bilm).items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-5, atol=1e-7, msg=name)


def test_dropout_keeps_its_rate_and_belongs_to_rows() -> None:
    x = torch.ones(20 * 8, 64)
    drop = RowDropout(0.25, (1, 2), range(8), 20)
    first, second = drop(x), drop(x)
    assert first.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float((first == 0).double().mean()) == pytest.approx(0.25, abs=0.02)
    assert not torch.equal(first, second)
    later = RowDropout(0.25, (1, 2), range(5, 8), 20)(torch.ones(20 * 3, 64))
    assert torch.equal(later.view(20, 3, 64), first.view(20, 8, 64)[:, 5:])
    assert not torch.equal(RowDropout(0.25, (1, 3), range(8), 20)(x), first)


def test_bfloat16_is_close_and_float16_is_refused_on_the_cpu(tiny: Callable[[str], BiLM]) -> None:
    losses = []
    for precision in ("float32", "bfloat16"):
        bilm = tiny("softmax")
        step = build_step(bilm, FULL, precision=precision)
        losses.append([step(window, number).loss for number, window in enumerate(windows_of(bilm))])
        assert all(bool(gradient.isfinite().all()) for gradient in gradients(bilm).values())
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    with pytest.raises(ConfigError, match=r"float16.*GPU"):
        build_step(tiny("softmax"), FULL, precision="float16")


@pytest.mark.parametrize("loss", [FULL, SAMPLED], ids=["full", "sampled"])
def test_bfloat16_by_tiles_is_close(
    tiny: Callable[[str], BiLM],
    loss: LossConfig,
    tiles: TileProducts,
) -> None:
    assert tiles is not None
    found = {}
    for precision in ("float32", "bfloat16"):
        bilm = tiny("softmax")
        with torch.no_grad():
            for parameter in bilm.parameters():
                parameter.div_(4)  # weights as they are in training, far from the clips
        step = build_step(bilm, loss, precision=precision)
        losses = [step(window, number).loss for number, window in enumerate(windows_of(bilm))]
        found[precision] = (losses, gradients(bilm))
    (losses, exact), (rounded_losses, rounded) = found.values()
    assert losses != rounded_losses
    assert losses == pytest.approx(rounded_losses, rel=1e-3)
    for name, gradient in exact.items():
        assert float((rounded[name] - gradient).norm()) < 0.02 * float(gradient.norm()), name


@pytest.mark.engine
def test_steps_with_the_native_library_equal_portable_ones(
    tiny: Callable[[str], BiLM], library: NativeLibrary, engine_environment: pytest.MonkeyPatch
) -> None:
    """Weights after updates, so that the layout of gradients in memory matters, too."""
    found = {}
    for native in ("1", "0"):
        engine_environment.setenv("ELMOKIT_NATIVE", native)
        forget_library()
        bilm = tiny("softmax")
        step = build_step(bilm, SAMPLED)
        assert ("native" in step.arithmetic.label) == (native == "1")
        optimizer = Optimizer(*step.parameters(), OptimizerConfig(eps=1e-3), 10)
        losses = []
        for number, window in enumerate(windows_of(bilm)):
            losses.append(step(window, number).loss)
            optimizer.update(number)
        found[native] = (losses, {name: tensor.clone() for name, tensor in bilm.state_dict().items()})
    assert found["1"][0] == pytest.approx(found["0"][0], rel=AFTER_TRAINING)
    for name, tensor in found["0"][1].items():
        torch.testing.assert_close(found["1"][1][name], tensor, rtol=0, atol=AFTER_TRAINING, msg=name)


def test_one_thread_computes_what_two_do(tiny: Callable[[str], BiLM], library: NativeLibrary) -> None:
    found = []
    for threads in (1, 2):
        bilm = tiny("softmax")
        result = build_step(bilm, SAMPLED, threads=threads)(windows_of(bilm)[0], 0)
        found.append((result.loss, gradients(bilm)))
    assert found[0][0] == found[1][0]
    for name, gradient in found[0][1].items():
        assert torch.equal(gradient, found[1][1][name]), name


def test_a_model_without_a_softmax_is_refused(tiny: Callable[[str], BiLM]) -> None:
    with pytest.raises(ConfigError, match="no softmax"):
        build_step(tiny("characters"), FULL)


def test_a_scale_is_that_of_float16_alone(tiny: Callable[[str], BiLM]) -> None:
    """A resumed run may come from another precision, whose scale of 1 would lose small gradients in float16."""
    step = build_step(tiny("softmax"), FULL)
    plain = step.state_dict()
    assert plain["loss_scale"] == 1
    step._precision, step.loss_scale = "float16", 2.0**14  # which only GPUs compute
    step.load_state_dict(plain)
    assert step.loss_scale == 2.0**14
    step.load_state_dict({**plain, "loss_scale": 2.0**9})
    assert step.loss_scale == 2.0**9
    other = build_step(tiny("softmax"), FULL)
    other.load_state_dict(step.state_dict())
    assert other.loss_scale == 1
