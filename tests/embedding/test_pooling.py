"""Which layers are meant: a list is weights, and one that looks like numbers of layers is warned of."""

import warnings

import numpy as np
import pytest

from elmokit.cli.options import parse_layers
from elmokit.embedding.pooling import Layers, parse_selection
from elmokit.errors import ElmokitWarning


@pytest.mark.parametrize("layers", [[0, 1, 2], (2, 1, 0), [0, 2, 1], np.arange(3)])
def test_a_list_that_names_every_layer_once_is_warned_of(layers: Layers) -> None:
    with pytest.warns(ElmokitWarning, match=r"taken as weights.*'all'.*\(\d\.0, \d\.0, \d\.0\)"):
        selection = parse_selection(layers, None, 3)
    assert selection.weights == tuple(map(float, layers))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("layers", "num_layers"),
    [
        ([0.0, 1.0, 2.0], 3),
        ([1, 1, 1], 3),
        ([0, 0, 1], 3),
        ([0, 1, 1], 3),
        ([1, 2, 3], 3),
        ([0, 1], 2),
        (np.array([0.0, 1, 2]), 3),
        ([True, False, True], 3),
    ],
)
def test_plausible_weights_are_not(layers: Layers, num_layers: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_selection(layers, None, num_layers).weights is not None


def test_the_option_is_warned_of_too() -> None:
    with pytest.warns(ElmokitWarning, match="layers 0, 1, 2 are taken as weights"):
        assert parse_layers("0,1, 2") == [0.0, 1.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_layers("0.,1,2") == [0.0, 1.0, 2.0]
        assert parse_layers("1,1,1") == [1.0, 1.0, 1.0]
