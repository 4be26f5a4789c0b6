"""An adaptive softmax is ours alone: the native format keeps it, the others say that they cannot."""

from pathlib import Path

import pytest

from elmokit.errors import FormatError
from elmokit.formats import SaveFormat, describe, load, save
from tests.contracts.format import assert_same_model
from tests.training.adaptive import build_adaptive


def test_the_native_format_keeps_it(tmp_path: Path) -> None:
    bilm = build_adaptive()
    save(bilm, tmp_path / "m")
    found = load(tmp_path / "m")
    assert_same_model(found, bilm)
    assert found.config.softmax_cutoffs == (5, 8)
    assert {"softmax.cluster_weight", "softmax.cluster_bias"} < set(found.state_dict())
    assert describe(tmp_path / "m").softmax


@pytest.mark.parametrize(("format", "name"), [("bilm", "m"), ("nlpl", "m.zip")])
def test_the_formats_of_others_refuse_it(format: SaveFormat, name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"adaptive softmax, which the bilm and nlpl formats cannot hold: save it as"):
        save(build_adaptive(), tmp_path / name, format=format)
    assert list(tmp_path.iterdir()) == []
