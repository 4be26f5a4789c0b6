import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from elmokit.analysis.probes.linear import Training, Vectors
from elmokit.analysis.probes.ner import NER, read_ner, span_f1
from elmokit.errors import InputError

SENTENCE = "a x x O\nPeter x x I-PER\nSmith x x I-PER\nRome x x I-LOC\n\n"
KINDS = ["a", "Peter", "Smith", "Rome"]


def write_all(folder: Path, test: str) -> None:
    (folder / "eng.train").write_text("-DOCSTART- -X- O O\n\n" + SENTENCE * 12)
    (folder / "eng.testa.gz").write_bytes(gzip.compress((SENTENCE * 4).encode()))
    (folder / "eng.testb").write_text(test)


def embed(sentences: Sequence[Sequence[str]]) -> list[Vectors]:
    return [np.eye(4, dtype=np.float16)[[KINDS.index(token) for token in tokens]][None] for tokens in sentences]


def test_probe_counts_spans_and_not_tokens(tmp_path: Path) -> None:
    """Test has three entities; the probe finds two and splits the third, so that it predicts four."""
    write_all(tmp_path, SENTENCE + "Rome x x I-PER\nPeter x x I-PER\n\n")
    training = Training(epochs=30, batch_size=8, learning_rate=0.05)
    found = NER.probe(embed, NER.read_sets(tmp_path), seeds=[0, 1], training=training)
    assert found.metric == "span F1"
    assert found.best.dev == (1, 1)
    assert found.best.test == pytest.approx([2 * 2 / (3 + 4)] * 2)


def test_read_ner_has_iob2(tmp_path: Path) -> None:
    write_all(tmp_path, SENTENCE)
    tagged = read_ner(tmp_path / "eng.train", max_sentences=2)
    assert tagged.tags == (("O", "B-PER", "I-PER", "B-LOC"),) * 2
    assert tagged.sentences[0] == tuple(KINDS)


def test_span_f1() -> None:
    assert span_f1([["B-A", "I-A", "O"]], [["B-A", "I-A", "I-A"]]) == 0
    assert span_f1([["B-A", "I-A", "O"]], [["I-A", "I-A", "O"]]) == 1


def test_a_missing_file(tmp_path: Path) -> None:
    write_all(tmp_path, SENTENCE)
    (tmp_path / "eng.testb").unlink()
    with pytest.raises(InputError, match=r"must have one file \*eng\.testb"):
        NER.read_sets(tmp_path)
