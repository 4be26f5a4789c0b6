"""The cases of the CoNLL-2012 scorer's own tests, written from their published descriptions, through a file.

A letter is a mention; clusters are in the order of their files. A1 to A9 are described in the scorer's notes on its
tests, D and E are the example of Bagga and Baldwin (1998), F to L those of Vilain et al. (1995).
"""

from pathlib import Path

import pytest

from elmokit.tasks.coref.metric import Fractions, score_clusters
from elmokit.tasks.coref.reader import read_conll2012

Figures = tuple[float, float]
"""Recall and precision."""
LUO, ONE, SINGLE = "a bc def", "abcdef", "a b c d e f"
TWELVE = "abcde fg hijkl"

# Gold, predicted, and the figures that the scorer expects: MUC, B³ and CEAF-φ4, or those of them that it tests.
CASES: dict[str, tuple[str, str, dict[str, Figures]]] = {
    "A1": (LUO, "a bc def", {"muc": (1, 1), "b_cubed": (1, 1), "ceaf": (1, 1)}),
    "A2": (LUO, "a de", {"muc": (1 / 3, 1), "b_cubed": (7 / 18, 1), "ceaf": (0.6, 0.9)}),
    "A3": (LUO, "a bcx defy z", {"muc": (1, 3 / 5), "b_cubed": (1, 55 / 108), "ceaf": (0.88571, 0.66429)}),
    "A4": (LUO, "a bcx dy z", {"muc": (1 / 3, 1 / 3), "b_cubed": (5 / 9, 17 / 42), "ceaf": (0.73333, 0.55)}),
    "A5": (LUO, "a bcxB dy z", {"muc": (1 / 3, 1 / 4), "b_cubed": (5 / 9, 5 / 16), "ceaf": (0.68889, 0.51667)}),
    "A6": (LUO, "a bcx dy Bz", {"muc": (1 / 3, 1 / 4), "b_cubed": (5 / 9, 17 / 48), "ceaf": (0.73333, 0.55)}),
    "A7": (LUO, "a bbcx dy z", {"muc": (1 / 3, 1 / 3), "b_cubed": (5 / 9, 17 / 42), "ceaf": (0.73333, 0.55)}),
    "A8": (LUO, "a bcx dy bz", {"muc": (1 / 3, 1 / 3), "b_cubed": (5 / 9, 17 / 42), "ceaf": (0.73333, 0.55)}),
    "A9": (LUO, f"a bcx dy {'b' * 10}z", {"muc": (1 / 3, 1 / 3), "b_cubed": (5 / 9, 17 / 42), "ceaf": (0.73333, 0.55)}),
    "A10": (LUO, SINGLE, {"muc": (0, 0), "b_cubed": (1 / 2, 1)}),
    "A11": (LUO, ONE, {"muc": (1, 3 / 5), "b_cubed": (1, 7 / 18)}),
    "A12": (LUO, "a x y c d e z", {"muc": (0, 0), "b_cubed": (13 / 36, 4 / 7)}),
    "A13": (LUO, "axycdez", {"muc": (1 / 3, 1 / 6), "b_cubed": (17 / 36, 6 / 49)}),
    "D1": (TWELVE, "abcde fghijkl", {"muc": (1, 9 / 10), "b_cubed": (1, 16 / 21)}),
    "E1": (TWELVE, "abcdehijkl fg", {"muc": (1, 9 / 10), "b_cubed": (1, 7 / 12)}),
    "F1": ("abcd", "ab cd", {"muc": (2 / 3, 1)}),
    "G1": ("ab cd", "abcd", {"muc": (1, 2 / 3)}),
    "H1": ("abcd", "abcd", {"muc": (1, 1)}),
    "I1": ("abcd", "ab cd", {"muc": (2 / 3, 1)}),
    "J1": ("abc", "ac", {"muc": (1 / 2, 1)}),
    "K1": ("bcdeghj", "abc def ghi", {"muc": (1 / 2, 1 / 2)}),
    "L1": ("abc defg", "ab cd fgh", {"muc": (2 / 5, 1 / 2)}),
    "M1": (ONE, ONE, {"muc": (1, 1), "b_cubed": (1, 1), "ceaf": (1, 1)}),
    "M2": (ONE, SINGLE, {"muc": (0, 0)}),
    "M5": (ONE, "a b c x y z", {"muc": (0, 0)}),
    "N1": (SINGLE, SINGLE, {"muc": (0, 0)}),
    "N2": (SINGLE, ONE, {"muc": (0, 0)}),
    "N4": (SINGLE, "a b c x y z", {"muc": (0, 0)}),
}


def test_all_are_here() -> None:
    assert sum(len(figures) for _, _, figures in CASES.values()) == 54


def write(path: Path, clusters: str) -> Path:
    """A file of the scorer, four tokens per letter; `B` begins with `b` and is a token shorter.

    The letters at the end of the alphabet come before `c`, so that a sort by mentions would give another order. Where
    mentions have the same tokens, the one that opens first closes last.
    """
    letters = "abzyxcdefghijkl"
    opens: list[list[str]] = [[] for _ in range(4 * len(letters))]
    closes: list[list[str]] = [[] for _ in opens]
    for number, cluster in enumerate(clusters.split()):
        for mention in cluster:
            start = 4 * letters.index(mention.lower())
            opens[start].append(f"({number}")
            closes[start + (1 if mention == "B" else 2)].insert(0, f"{number})")
    cells = ["|".join(begin + end) or "-" for begin, end in zip(opens, closes, strict=True)]
    rows = [f"case 0 {place} word {cell}\n" for place, cell in enumerate(cells)]
    path.write_text("".join(["#begin document (case);\n", *rows, "#end document\n"]))
    return path


@pytest.mark.parametrize("case", CASES)
def test_as_the_scorer(case: str, tmp_path: Path) -> None:
    gold, predicted, expected = CASES[case]
    (wanted,) = read_conll2012(write(tmp_path / "gold", gold))
    (found,) = read_conll2012(write(tmp_path / "predicted", predicted))
    score = score_clusters([wanted.clusters], [found.clusters])
    for metric, figures in expected.items():
        fractions: Fractions = getattr(score, metric)
        assert (fractions.recall, fractions.precision) == pytest.approx(figures, abs=5e-6), metric
