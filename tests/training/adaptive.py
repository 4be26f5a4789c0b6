"""A tiny biLM with an adaptive softmax, in which no tensor is constant."""

import torch

from elmokit.model.bilm import BiLM
from tests.conftest import CONFIGS, WORDS


def build_adaptive() -> BiLM:
    """As the tiny model "softmax", with its words in a head of five and clusters of three and two."""
    bilm = BiLM(CONFIGS["softmax"].model_copy(update={"softmax_cutoffs": (5, 8)}), vocabulary=WORDS)
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 2)
    return bilm.eval()
