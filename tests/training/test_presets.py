"""Every preset is valid and builds the model that it says."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmokit.config import ElmoConfig
from elmokit.embedding.bulk import EmbedOptions, embed_file
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError
from elmokit.formats import load
from elmokit.model.bilm import BiLM
from elmokit.text.vocabulary import SPECIALS, Vocabulary
from elmokit.training.config import FinetuneConfig, PretrainConfig, preset_names, read_run
from tests.tolerances import assert_close
from tests.training.runs import run, write_corpus

PUBLISHED = {"small": 13.6, "medium": 28.0, "original": 93.6}


def build(config: ElmoConfig) -> BiLM:
    assert config.vocab_size is not None
    words = Vocabulary([*SPECIALS, *(str(number) for number in range(config.vocab_size - len(SPECIALS)))])
    with torch.device("meta"):
        return BiLM(config, vocabulary=words)


def test_the_presets_are_there() -> None:
    assert set(preset_names(PretrainConfig)) >= {"tiny", "tiny-token", "mini", "small", "medium", "original", "ptb"}
    assert preset_names(FinetuneConfig) == ["default"]


@pytest.mark.parametrize("name", preset_names(PretrainConfig))
def test_every_preset_builds_its_model(name: str) -> None:
    config = read_run(PretrainConfig, name)
    bilm = build(config.build_model(1000))
    assert bilm.softmax is not None
    assert config.loss.kind != "sampled" or config.loss.num_negatives <= (config.corpus.max_vocab or 10_000)


@pytest.mark.parametrize(("name", "millions"), PUBLISHED.items())
def test_sizes_without_the_softmax_are_the_published_ones(name: str, millions: float) -> None:
    config = read_run(PretrainConfig, name).build_model(1000).model_copy(update={"softmax": False})
    assert round(build(config).num_parameters / 1e6, 1) == millions


def test_finetune_preset() -> None:
    assert read_run(FinetuneConfig, "default").loop.patience > 0


@pytest.mark.parametrize("kind", [PretrainConfig, FinetuneConfig])
def test_an_unknown_preset_lists_the_known_ones(kind: type[PretrainConfig] | type[FinetuneConfig]) -> None:
    with pytest.raises(ConfigError) as raised:
        read_run(kind, "huge")
    assert all(name in str(raised.value) for name in ["huge", *preset_names(kind)])


def test_tiny_token_trains_saves_and_embeds(tmp_path: Path) -> None:
    """Unknown words of a model over word ids are all the same word, `<UNK>`, and are counted."""
    corpus = write_corpus(tmp_path)
    with Path(corpus["heldout"][0]).open("a", encoding="utf-8") as file:
        file.write("unheard-of words here\n")
    done = run(read_run(PretrainConfig, "tiny-token", {"loop.max_steps": "12"}), corpus, tmp_path / "run")
    bilm = load(done.model_path)
    assert bilm.vocabulary is not None
    lines = Path(corpus["heldout"][0]).read_text(encoding="utf-8").split()
    unknown = [word for word in lines if word not in bilm.vocabulary]
    assert len(unknown) >= 3
    assert done.heldout["carry"]["oov_rate"] == pytest.approx(len(unknown) / len(lines))
    embedder = Embedder(bilm, threads=1)
    known, one, other = embedder.embed([["wa", "wb"], ["wa", "unheard-of"], ["wa", "here"]])
    assert_close(one, other)
    assert np.abs(known - one).max() > 1e-3
    summary = embed_file(corpus["heldout"][0], str(tmp_path / "vectors.npz"), embedder, EmbedOptions())
    assert (summary.num_unknown, summary.num_tokens) == (len(unknown), len(lines))
