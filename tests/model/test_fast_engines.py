"""The fast engines against the plain one, the native cell against the equations, and threads that stay on one core."""

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from elmokit.model.engines import infer
from elmokit.model.engines import packed as packed_module
from elmokit.model.engines.infer import NativeEngine, PortableEngine
from elmokit.model.engines.packed import BlockedMatrix, Packer
from elmokit.model.engines.workers import Workers
from elmokit.native.library import NativeLibrary
from tests.contracts.engine import EngineContract

pytestmark = pytest.mark.engine


class FastContract(EngineContract):
    differentiable = False
    dtype = torch.float32
    tolerance = 2e-6


class TestPortable(FastContract):
    engine = PortableEngine()


class TestNative(FastContract):
    @pytest.fixture(autouse=True)
    def _use_library(self, library: NativeLibrary) -> None:
        self.engine = NativeEngine(library)


class TestSmallChunks(FastContract):
    """Inputs multiplied a step at a time, and a table of one token."""

    engine = PortableEngine()

    @pytest.fixture(autouse=True)
    def _no_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(infer, "_CHUNK_BYTES", 1)
        monkeypatch.setattr(infer, "_TABLE_BYTES", 1)


class TestNativeSmallChunks(FastContract):
    @pytest.fixture(autouse=True)
    def _no_room(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(infer, "_CHUNK_BYTES", 1)
        monkeypatch.setattr(infer, "_TABLE_BYTES", 1)

    @pytest.fixture(autouse=True)
    def _use_library(self, library: NativeLibrary) -> None:
        self.engine = NativeEngine(library)


@pytest.mark.slow
def test_products_of_many_rows_copy_no_matrix() -> None:
    generator = torch.Generator().manual_seed(7)
    rows, matrix = torch.randn(600, 64, generator=generator), torch.randn(64, 16384, generator=generator)
    packed = BlockedMatrix(matrix)
    torch.testing.assert_close(packed.multiply_many(rows, torch.empty(600, 16384)), rows @ matrix)
    assert packed._blocks is None
    assert len(packed.blocks) == 4


def test_a_changed_weight_is_packed_again() -> None:
    packer, matrix, rows = Packer(BlockedMatrix), torch.eye(32).repeat(1, 80), torch.ones(9, 32)
    before = packer(matrix).multiply(rows, torch.empty(9, 2560))
    assert packer(matrix) is packer(matrix)
    matrix.mul_(2)
    torch.testing.assert_close(packer(matrix).multiply(rows, torch.empty(9, 2560)), 2 * before)


@pytest.mark.parametrize("rows", [1, 8, 130, 300])
@pytest.mark.parametrize("columns", [100, 2048, 2100])
def test_blocked_products(rows: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_module, "_BLOCK_BYTES", 4 * 40 * 256)
    generator = torch.Generator().manual_seed(6)
    a, matrix = torch.randn(rows, 40, generator=generator), torch.randn(40, columns, generator=generator)
    packed, expected = BlockedMatrix(matrix), a @ matrix
    assert len(packed.blocks) == (0 if columns == 100 else -(-columns // 256))
    torch.testing.assert_close(packed.multiply(a, torch.full((rows, columns), torch.nan)), expected, atol=1e-4, rtol=0)
    total = torch.ones(rows, columns)
    packed.accumulate(a, total)
    torch.testing.assert_close(total, expected + 1, atol=1e-4, rtol=0)


def test_workers_keep_order_and_pass_errors_on() -> None:
    workers = Workers(3)
    assert list(workers.map(lambda x: x * x, range(50))) == [x * x for x in range(50)]

    def fail(item: int) -> int:
        if item == 3:
            raise ValueError("three")
        return item

    results = workers.map(fail, range(10))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)
    assert all(workers.map(lambda _: torch.is_inference_mode_enabled(), range(3)))
    assert not torch.is_inference_mode_enabled()
    workers.close()


def test_workers_take_items_as_they_are_needed() -> None:
    taken: list[int] = []
    workers = Workers(2)
    results: Any = workers.map(lambda x: x, (taken.append(number) or number for number in range(100)))
    assert next(results) == 0
    assert len(taken) <= 4
    results.close()
    workers.close()


@pytest.mark.slow
def test_workers_compute_on_one_core_and_leave_others_alone() -> None:
    script = (
        "import torch, threading\n"
        "torch.set_num_threads(2)\n"
        "from elmokit.model.engines.workers import Workers\n"
        "print(*Workers(1).map(lambda _: torch.get_num_threads(), [0]), torch.get_num_threads())\n"
        "t = threading.Thread(target=lambda: print(torch.get_num_threads())); t.start(); t.join()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["1", "2", "2"]
