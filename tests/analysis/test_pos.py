from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from elmokit.analysis.probes.linear import Training, Vectors
from elmokit.analysis.probes.pos import PosExample, pos_task, read_conllu, read_pos
from elmokit.errors import ConfigError, InputError
from tests.data import DATA, needs_data

FAST = Training(epochs=20, batch_size=8, learning_rate=0.05)


def row(number: str, word: str, upos: str = "X", xpos: str = "Y") -> str:
    return "\t".join([number, word, "lemma", upos, xpos, *"_" * 5])


def write(path: Path, sentences: Sequence[Sequence[str]]) -> Path:
    path.write_text("\n\n".join("\n".join(sentence) for sentence in sentences) + "\n\n", encoding="utf-8")
    return path


def test_words_only(tmp_path: Path) -> None:
    first = [
        "# text = I don't",
        row("1", "I", "PRON", "PRP"),
        row("2-3", "don't", "_", "_"),
        row("2", "do", "AUX", "VBP"),
        row("3", "n't", "PART", "RB"),
        row("3.1", "go", "VERB", "VB"),
    ]
    path = write(tmp_path / "a.conllu", [first, [row("1", "a b", "NOUN", "NN")]])
    assert list(read_conllu(path)) == [
        PosExample(("I", "do", "n't"), xpos=("PRP", "VBP", "RB"), upos=("PRON", "AUX", "PART")),
        PosExample(("a b",), xpos=("NN",), upos=("NOUN",)),
    ]
    assert read_pos(path, tags="upos", max_sentences=1).tags == (("PRON", "AUX", "PART"),)
    assert read_pos(path).tags[1] == ("NN",)


def test_faults_are_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.conllu", [["# c", row("1", "a"), row("x", "b")]])
    with pytest.raises(InputError, match=r"a\.conllu line 3 has the ID 'x', expected a number, a range such as 1-2"):
        list(read_conllu(path))
    path.write_text("1\ta\tb\n")
    with pytest.raises(InputError, match=r"line 1 has 3 columns, expected 10 \(ID, FORM, "):
        list(read_conllu(path))
    write(path, [[row("1", "a", "NOUN", "_")]])
    with pytest.raises(InputError, match="has words without XPOS: choose the other tags"):
        read_pos(path)
    assert read_pos(path, tags="upos").tags == (("NOUN",),)
    with pytest.raises(ConfigError, match="tags 'pos' are unknown: choose xpos or upos"):
        read_pos(path, tags="pos")  # type: ignore[arg-type]


def embed(sentences: Sequence[Sequence[str]]) -> list[Vectors]:
    return [np.array([[[len(t) == 1, len(t) == 2] for t in tokens]], dtype=np.float32) for tokens in sentences]


def test_probe(tmp_path: Path) -> None:
    """The treebank's own tags follow from the vectors, the universal ones of test contradict those of train."""
    tags = {"a": ("X", "ONE"), "bb": ("Y", "TWO")}
    swapped = {"a": ("Y", "ONE"), "bb": ("X", "TWO")}
    for name, table in (("train", tags), ("dev", tags), ("test", swapped)):
        write(
            tmp_path / f"{name}.conllu", [[row(str(n + 1), w, *table[w]) for n, w in enumerate(["a", "bb", "a"])]] * 8
        )
    task = pos_task("xpos")
    found = task.probe(embed, task.read_sets(tmp_path), seeds=[0], training=FAST)
    assert (found.chosen, found.metric, found.best.dev, found.best.test) == ("layer 0", "accuracy", (1,), (1,))
    task = pos_task("upos")
    found = task.probe(embed, task.read_sets(tmp_path, 3), seeds=[0], training=FAST)
    assert (found.best.dev, found.best.test) == ((1,), (0,))


@pytest.mark.slow
@needs_data("pos")
@pytest.mark.parametrize(
    ("name", "expected"), [("train", (12_544, 204_577)), ("dev", (2_001, 25_147)), ("test", (2_077, 25_094))]
)
def test_counts_of_ewt(name: str, expected: tuple[int, int]) -> None:
    tagged = read_pos(DATA / "pos" / "ud_ewt" / f"{name}.conllu.xz")
    assert (len(tagged.sentences), len(tagged.flat_tags)) == expected
