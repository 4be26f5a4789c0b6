"""The published sizes of ELMo, counted without allocating a single weight."""

import pytest
import torch

from elmokit import BiLM, ElmoConfig
from elmokit.text.vocabulary import Vocabulary

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
VOCABULARY = Vocabulary(["<S>", "</S>", "<UNK>"])


@pytest.mark.parametrize(
    ("name", "cell_dim", "projection_dim", "num_highway", "millions"),
    [("small", 1024, 128, 1, 13.6), ("medium", 2048, 256, 1, 28.0), ("original", 4096, 512, 2, 93.6)],
)
def test_parameters_in_millions(name, cell_dim, projection_dim, num_highway, millions):
    config = ElmoConfig.model_validate(
        {
            "input": {"filters": FILTERS, "char_dim": 16, "num_highway": num_highway, "kind": "characters"},
            "lstm": {"num_layers": 2, "cell_dim": cell_dim, "projection_dim": projection_dim},
        }
    )
    with torch.device("meta"):
        bilm = BiLM(config)
    assert all(parameter.is_meta for parameter in bilm.parameters())
    assert round(bilm.num_parameters / 1e6, 1) == millions


def test_a_softmax_counts_its_rows_and_biases_once():
    """V · P weights and V biases for both directions together; a tied one adds the biases only."""
    values = {"input": {"kind": "tokens"}, "lstm": {"cell_dim": 8, "projection_dim": 4}, "vocab_size": 3}
    kinds = {"none": {}, "own": {"softmax": True}, "tied": {"softmax": True, "tied_softmax": True}}
    counts = {}
    for name, softmax in kinds.items():
        with torch.device("meta"):
            counts[name] = BiLM(ElmoConfig.model_validate(values | softmax), vocabulary=VOCABULARY).num_parameters
    assert counts["own"] - counts["none"] == 3 * 4 + 3
    assert counts["tied"] - counts["none"] == 3
