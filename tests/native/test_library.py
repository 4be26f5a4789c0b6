"""The native library: files that cannot be used, processors that lack something, and the contract of every kind."""

import multiprocessing
import platform
import shutil
import threading
from pathlib import Path

import pytest
import torch

from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM
from elmokit.model.engines.choose import resolve_precision
from elmokit.model.engines.infer import NativeEngine
from elmokit.model.engines.train import TrainEngine
from elmokit.native import library as module
from elmokit.native.build import LIBRARY
from elmokit.native.library import (
    LIMITS,
    NativeLibrary,
    UnusableLibraryError,
    describe_library,
    find_library,
    require_library,
)
from tests.conftest import SENTENCES
from tests.contracts.engine import EngineContract

pytestmark = pytest.mark.engine

KINDS = ["neon"] if platform.machine() == "aarch64" else ["baseline", "avx2", "avx512"]


def kind(name: str) -> NativeLibrary:
    """The library limited to a kind, or a skipped test."""
    try:
        library = NativeLibrary(limit=name if name in LIMITS else None)
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    if library.kind != name:
        pytest.skip(f"this processor or compiler has no {name}")
    return library


@pytest.mark.parametrize("name", KINDS)
class TestKinds(EngineContract):
    """Every kind by the engine contract."""

    differentiable = False
    dtype = torch.float32
    tolerance = 2e-6

    @pytest.fixture(autouse=True)
    def _use_kind(self, name: str) -> None:
        self.engine = NativeEngine(kind(name))


@pytest.mark.parametrize("name", KINDS)
class TestTrainingKinds(EngineContract):
    dtype = torch.float32
    tolerance = 2e-5

    @pytest.fixture(autouse=True)
    def _use_kind(self, name: str) -> None:
        self.engine = TrainEngine(kind(name))


class TestBfloat16(EngineContract):
    """Close to the plain engine; weights of size 1 are far larger than in a trained model."""

    differentiable = False
    dtype = torch.float32
    tolerance = 0.05

    @pytest.fixture(autouse=True)
    def _use_bfloat16(self) -> None:
        try:
            self.engine = NativeEngine(NativeLibrary(precision="bfloat16"))
        except UnusableLibraryError as error:
            pytest.skip(str(error))


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (7, 5, 64), (2, 16, 65), (13, 33, 130), (6, 128, 100)])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_of_any_size(rows: int, depth: int, width: int, precision: str) -> None:
    try:
        library = NativeLibrary(precision=precision)  # type: ignore[arg-type]
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    generator = torch.Generator().manual_seed(1)
    x, matrix = torch.randn(rows + 3, depth, generator=generator), torch.randn(depth, width, generator=generator)
    index = torch.randint(0, rows + 3, (rows,), generator=generator)
    start = torch.randn(64 * -(-width // 64), generator=generator)
    wide = torch.full((rows, width + 5), 7.0)  # what surrounds the result is left alone
    library.product(x, library.pack(matrix), wide[:, :width], start=start, index=index, limit=2.5)
    if precision == "bfloat16":
        x, matrix = x.bfloat16().float(), matrix.bfloat16().float()
    expected = (x[index].double() @ matrix.double() + start[:width]).clamp(-2.5, 2.5)
    torch.testing.assert_close(wide[:, :width].double(), expected, atol=1e-4, rtol=1e-5)
    assert (wide[:, width:] == 7).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.0])
def test_numbers_that_are_none(library: NativeLibrary, bilm: BiLM, value: float) -> None:
    """NaN and infinite weights give what the plain engine gives, and rows of zeros are no exception."""
    with torch.no_grad():
        next(iter(bilm.forward_lstm.parameters()))[0, 3] = value
    char_ids = bilm.to_char_ids(SENTENCES)
    with torch.inference_mode():
        plain = bilm(char_ids).layers
        native = bilm(char_ids, engine=NativeEngine(library)).layers
    assert torch.equal(plain.isnan(), native.isnan())
    torch.testing.assert_close(native, plain, equal_nan=True, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("content", [b"", b"not a library", None])
def test_a_damaged_library_is_ignored(
    content: bytes | None, tmp_path: Path, engine_environment: pytest.MonkeyPatch, bilm: BiLM
) -> None:
    path = tmp_path / "libelmokit.so"
    if content is None:
        if not LIBRARY.exists():
            pytest.skip("the library was not built")
        path.write_bytes(LIBRARY.read_bytes()[:5000])  # cut off while it was copied
    else:
        path.write_bytes(content)
    with pytest.raises(UnusableLibraryError, match="damaged"):
        NativeLibrary(path)
    engine_environment.delenv("ELMOKIT_NATIVE", raising=False)
    engine_environment.setattr(module, "NativeLibrary", lambda **options: NativeLibrary(path, **options))
    assert find_library() is None
    assert "portable path" in describe_library() and "damaged" in describe_library()
    assert Embedder(bilm, threads=1).runner.engine_name == "portable"


def test_a_library_of_other_sources_is_ignored(library: NativeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "source_hash", lambda: "another")
    with pytest.raises(UnusableLibraryError, match="other sources; install elmokit again"):
        NativeLibrary()


def test_a_library_without_its_functions_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system library has none of them."""
    found = next(iter(Path("/lib/x86_64-linux-gnu").glob("libz.so*")), None)
    if found is None:
        pytest.skip("there is no library to try")
    shutil.copy(found, tmp_path / "libelmokit.so")
    with pytest.raises(UnusableLibraryError, match="damaged"):
        NativeLibrary(tmp_path / "libelmokit.so")


def test_a_missing_library_is_no_error(tmp_path: Path) -> None:
    with pytest.raises(UnusableLibraryError, match="not built when elmokit was installed"):
        NativeLibrary(tmp_path / "libelmokit.so")


def test_an_unknown_limit_is_one_sentence(engine_environment: pytest.MonkeyPatch) -> None:
    engine_environment.delenv("ELMOKIT_NATIVE", raising=False)
    engine_environment.setenv("ELMOKIT_CPU", "pentium")
    with pytest.raises(ConfigError, match=f"ELMOKIT_CPU is 'pentium': choose {', '.join(LIMITS)}"):
        find_library()


def test_a_precision_that_the_processor_lacks(engine_environment: pytest.MonkeyPatch, bilm: BiLM) -> None:
    engine_environment.setenv("ELMOKIT_CPU", "avx2")
    if find_library() is None:
        pytest.skip(describe_library())
    with pytest.raises(
        ConfigError, match=r"'bfloat16' is not available: this processor has no .* choose float32 or auto"
    ):
        Embedder(bilm, precision="bfloat16")
    assert Embedder(bilm, precision="auto").precision == "float32"
    with pytest.raises(ConfigError, match="precision 'float8' is unknown: choose float32, bfloat16, int8 or auto"):
        Embedder(bilm, precision="float8")
    with pytest.raises(ConfigError, match="int8 is set, and precision is 'bfloat16'"):
        Embedder(bilm, precision="bfloat16", int8=True)
    with pytest.raises(ConfigError, match="bfloat16 runs float32 models on a CPU"):
        resolve_precision("bfloat16", torch.empty(1, dtype=torch.float64))


def test_without_the_library_bfloat16_is_refused(engine_environment: pytest.MonkeyPatch) -> None:
    engine_environment.setenv("ELMOKIT_NATIVE", "0")
    with pytest.raises(ConfigError, match=r"switched off \(ELMOKIT_NATIVE=0\); choose float32 or auto"):
        require_library("bfloat16")


def _embed(bilm: BiLM) -> list[list[float]]:
    return [vectors.flatten().tolist() for vectors in Embedder(bilm, threads=1).embed(SENTENCES)]


def test_many_threads_at_once(library: NativeLibrary, bilm: BiLM) -> None:
    expected = _embed(bilm)
    embedder = Embedder(bilm, threads=2)
    found: list[list[list[float]]] = []

    def run() -> None:
        for _ in range(5):
            found.append([vectors.flatten().tolist() for vectors in embedder.embed(SENTENCES)])

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 30


@pytest.mark.slow
def test_a_process_that_forks_after_loading(library: NativeLibrary, bilm: BiLM) -> None:
    """The library has no threads and no state of its own, so a child may use it."""
    x, panels = torch.ones(3, 4), library.pack(torch.ones(4, 5))
    library.product(x, panels, torch.empty(3, 5))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply(_multiply) == 12.0


def _multiply() -> float:
    library = find_library()
    assert library is not None
    out = library.product(torch.full((3, 4), 3.0), library.pack(torch.ones(4, 5)), torch.empty(3, 5))
    return float(out[0, 0])
