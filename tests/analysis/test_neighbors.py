"""Neighbors compared with a plain computation in float64, and the messages when there are none."""

import json
import random
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from rich.console import Console

from elmokit.analysis.neighbors.build import open_index
from elmokit.analysis.neighbors.chart import Panel, bar_chart
from elmokit.analysis.neighbors.contexts import (
    Neighbor,
    NeighborOptions,
    Neighbors,
    _panels,
    find_neighbors,
    locate_word,
    name_mixes,
    neighbors_report,
)
from elmokit.analysis.neighbors.index import BLOCK, NeighborIndex
from elmokit.analysis.neighbors.search import ApproximateIndex, Nearest
from elmokit.analysis.neighbors.types import corpus_types, find_type_neighbors, near_forms, types_report
from elmokit.analysis.occurrence import Occurrence
from elmokit.analysis.report import Chart, Concordance, Table, show
from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError, ElmokitError, FormatError, InputError
from elmokit.model.bilm import BiLM

WORDS = ["The", "play", "plays", "was", "naïve", "模型", ".", "grounder", "Alusik", "'s", "on"]
QUERY = ("The", "play", "was", "on", ".")


@pytest.fixture
def embedder(bilm: BiLM) -> Embedder:
    return Embedder(bilm, threads=1)


@pytest.fixture
def lines() -> list[list[str]]:
    """Every line twice, the query among them, and a word that stands only in one kind of sentence."""
    generator = random.Random(5)
    drawn = [generator.choices(WORDS, k=generator.choice([0, 2, 4, 7])) for _ in range(60)]
    lonely = ["Here", "is", "lonely", "."]
    half = [*drawn, list(QUERY), lonely]
    return [*half, *half]


@pytest.fixture
def index(embedder: Embedder, lines: list[list[str]], tmp_path: Path) -> NeighborIndex:
    path = tmp_path / "corpus.txt"
    path.write_text("".join(" ".join(tokens) + "\n" for tokens in lines), encoding="utf-8")
    return open_index(embedder, path, tmp_path / "index", input="tokens")


def cosine(left: NDArray[Any], right: NDArray[Any]) -> float:
    return float(left @ right / (np.sqrt(left @ left) * np.sqrt(right @ right)))


def nearest_by_hand(query: NDArray[Any], rows: NDArray[Any], weights: Any, k: int) -> list[tuple[int, float]]:
    """All cosines in float64, row by row, then sorted: higher first, the lower row first among equal ones."""
    vector = np.einsum("l,ld->d", weights, query.astype(np.float64))
    mixed = np.einsum("l,nld->nd", weights, rows.astype(np.float64))
    cosines = [cosine(row, vector) if row.any() else 0.0 for row in mixed]
    order = sorted(range(len(rows)), key=lambda row: (-round(cosines[row], 12), row))
    return [(row, cosines[row]) for row in order[:k]]


def search(query: NDArray[Any], rows: NDArray[Any], weights: Any, k: int, sizes: Any = (BLOCK,)) -> Any:
    nearest = Nearest(query, tuple(weights), k, lambda row: row)
    begin, turn = 0, 0
    while begin < len(rows):
        block = rows[begin : begin + sizes[turn % len(sizes)]]
        nearest.feed(np.arange(begin, begin + len(block)), block)
        begin, turn = begin + len(block), turn + 1
    return nearest.hits()


@pytest.mark.parametrize("weights", [(0, 0, 1), (1, 0, 0), (1 / 3, 1 / 3, 1 / 3), (0.2, 0.3, 0.5), (1, -1, 0.5)])
@pytest.mark.parametrize("k", [1, 7, 5000])
def test_search_is_exact(weights: tuple[float, ...], k: int) -> None:
    generator = np.random.default_rng(k)
    rows = generator.standard_normal((2600, 3, 24)).astype(np.float16)
    rows.flags.writeable = False  # as a map is
    query = generator.standard_normal((3, 24)).astype(np.float32)
    expected = nearest_by_hand(query, rows, weights, k)
    for sizes in ((BLOCK,), (1, 1000, 13)):
        found = search(query, rows, weights, k, sizes)
        assert [row for row, _ in found] == [row for row, _ in expected]
        np.testing.assert_allclose([c for _, c in found], [c for _, c in expected], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [3, 400])
def test_equal_cosines_go_by_place_whatever_the_blocks(seed: int, k: int) -> None:
    """Few distinct vectors, some of them twice as long: nothing but the place can decide among them."""
    generator = np.random.default_rng(seed)
    kinds = generator.integers(-2, 3, (9, 2, 130)).astype(np.float16)
    kinds[3] = 2 * kinds[2]
    kinds[8] = 0
    rows = kinds[generator.integers(0, 9, 1500)]
    query = kinds[2].astype(np.float32)
    expected = nearest_by_hand(query, rows, (0.5, 0.25), k)
    answers = [search(query, rows, (0.5, 0.25), k, sizes) for sizes in ((BLOCK,), (1,), (3, 500, 64))]
    assert [row for row, _ in answers[0]] == [row for row, _ in expected]
    assert answers[0] == answers[1] == answers[2]  # to the last bit
    assert answers[0][0].cosine == pytest.approx(1, abs=1e-12)


def test_differences_that_float32_does_not_see_decide() -> None:
    generator = np.random.default_rng(0)
    base = generator.standard_normal(512).astype(np.float16)
    base[:300] /= 100  # whose last bits count for little
    rows = np.repeat(base[None, None], 300, axis=0)  # (n, 1, D)
    for number in range(300):
        rows[number, 0, number] = np.nextafter(rows[number, 0, number], np.float16(9))
    query = (base + generator.standard_normal(512) / 2).astype(np.float32)[None]
    expected = nearest_by_hand(query, rows, (1.0,), 20)
    assert len({np.float32(c) for _, c in expected}) < 20, "float32 would tell them apart"
    for size in (BLOCK, 7):
        assert [row for row, _ in search(query, rows, (1.0,), 20, (size,))] == [row for row, _ in expected]


def test_rows_that_show_the_same_count_once() -> None:
    rows = np.random.default_rng(1).standard_normal((40, 1, 8)).astype(np.float16)
    rows[20:] = rows[:20]
    nearest = Nearest(rows[4].astype(np.float32), (1.0,), 30, lambda row: None if row % 20 == 4 else row % 20)
    for begin in (0, 10, 20, 30):
        nearest.feed(np.arange(begin, begin + 10), rows[begin : begin + 10])
    expected = [row for row, _ in nearest_by_hand(rows[4], rows[:20], (1.0,), 20) if row != 4]
    assert [row for row, _ in nearest.hits()] == expected


def test_what_cannot_be_searched() -> None:
    with pytest.raises(InputError, match="zero or not finite in this mix"):
        Nearest(np.ones((2, 4), np.float32), (1.0, -1.0), 3, lambda row: row)
    with pytest.raises(ConfigError, match="0 neighbors cannot be given: ask for at least 1"):
        Nearest(np.ones((2, 4), np.float32), (1.0, 1.0), 0, lambda row: row)


def contexts_by_hand(
    embedder: Embedder, lines: list[list[str]], word: str | None, weights: Any, k: int, tokens: Any, position: int
) -> list[tuple[str, int, int, float]]:
    """(sentence, position, line, cosine) of the first of identical sentences, without the one asked about."""
    query = embedder.embed([list(tokens)])[0][:, position]  # (L, D)
    found: dict[tuple[str, int], tuple[int, NDArray[Any]]] = {}
    for number, (sentence, layers) in enumerate(zip(lines, embedder.embed(lines, dtype="float16"), strict=True), 1):
        for place, token in enumerate(sentence):
            if word in (None, token) and (tuple(sentence), place) != (tuple(tokens), position):
                found.setdefault((" ".join(sentence), place), (number, layers[:, place]))
    keys = list(found)
    best = nearest_by_hand(query, np.stack([found[key][1] for key in keys]), weights, k)
    return [(*keys[row], found[keys[row]][0], value) for row, value in best]


@pytest.mark.parametrize("against", ["word", "tokens"])
def test_contexts_are_those_of_a_plain_computation(
    embedder: Embedder, index: NeighborIndex, lines: list[list[str]], against: Any
) -> None:
    options = NeighborOptions(layers=(1, "top", "average", (0.2, 0.3, 0.5)), k=12, against=against)
    found = find_neighbors(index, embedder, QUERY, 1, options)
    names = ["layer 1", "layer 2", "average", "mix 0.2, 0.3, 0.5"]
    assert list(found.contexts) == names
    word = "play" if against == "word" else None
    assert found.num_compared == sum(word in (None, token) for tokens in lines for token in tokens)
    mixes = [(0, 1, 0), (0, 0, 1), (1 / 3, 1 / 3, 1 / 3), (0.2, 0.3, 0.5)]
    for name, weights in zip(names, mixes, strict=True):
        expected = contexts_by_hand(embedder, lines, word, weights, 12, QUERY, 1)
        given = [(" ".join(o.tokens), o.position, o.line) for o in (one.occurrence for one in found.contexts[name])]
        assert given == [one[:3] for one in expected]
        cosines = [one.cosine for one in found.contexts[name]]
        np.testing.assert_allclose(cosines, [one[3] for one in expected], rtol=0, atol=1e-9)
        assert (" ".join(QUERY), 1) not in {one[:2] for one in given}
        assert len(set(given)) == 12


def test_only_rows_of_the_word_are_read(
    embedder: Embedder, index: NeighborIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    feed = Nearest.feed

    def listen(self: Nearest, rows: Any, layers: Any) -> None:
        if layers.shape[1] > 1:
            read.extend(rows.tolist())
        feed(self, rows, layers)

    monkeypatch.setattr(Nearest, "feed", listen)
    find_neighbors(index, embedder, QUERY, 1)
    assert read == index.rows_of("play").tolist()
    assert 10 < len(read) < index.num_tokens / 4


def test_the_same_sentence_elsewhere_in_it_is_a_neighbour(embedder: Embedder, tmp_path: Path) -> None:
    tokens = ("play", "the", "play", "!")
    (tmp_path / "c.txt").write_text(" ".join(tokens) + "\n", encoding="utf-8")
    index = open_index(embedder, tmp_path / "c.txt", tmp_path / "index")
    found = find_neighbors(index, embedder, tokens, 2)
    assert [one.occurrence for one in found.contexts["layer 2"]] == [Occurrence(tokens, 0, line=1)]


def test_types_by_characters(embedder: Embedder, index: NeighborIndex, lines: list[list[str]], tmp_path: Path) -> None:
    words = list(dict.fromkeys(token for tokens in lines for token in tokens))
    vectors = {word: embedder.embed([[word]], layers=0)[0][0] for word in [*words, "playfull"]}
    alone = corpus_types(embedder, tmp_path / "corpus.txt", input="tokens")
    assert alone.words == index.types.words == words
    np.testing.assert_array_equal(alone.counts, index.types.counts)
    np.testing.assert_array_equal(alone.vectors, index.types.vectors)
    for asked in ("playfull", "play"):
        expected = sorted(
            ((-cosine(vectors[asked], vectors[word].astype(np.float16).astype(np.float64)), word) for word in words),
            key=lambda pair: pair[0],
        )
        expected = [pair for pair in expected if pair[1] != asked][:5]
        found = find_type_neighbors(embedder, index.types, asked, 5)
        assert [one.type for one in found] == [word for _, word in expected]
        np.testing.assert_allclose([one.cosine for one in found], [-value for value, _ in expected], atol=1e-5)
        assert [one.count for one in found] == [sum(t.count(one.type) for t in lines) for one in found]
    assert find_neighbors(index, embedder, QUERY, 1, NeighborOptions(k=5)).static == found
    report = types_report("playfull", index.types, found)
    assert report.blocks[0] == f"It does not occur in the corpus, which has {len(words)} types."
    assert report.figures["count"] == 0
    times = sum(tokens.count("play") for tokens in lines)
    assert types_report("play", index.types, found).blocks[0].startswith(f"It occurs {times} times in the corpus")


def test_types_that_cannot_be_looked_up(tiny: Callable[[str], BiLM], embedder: Embedder, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("the play was naïve .\n", encoding="utf-8")
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    types = corpus_types(embedder, tmp_path / "c.txt")
    for word in ("", " ", "two words"):
        with pytest.raises(InputError, match="is empty or has white space in it: give one token"):
            find_type_neighbors(embedder, types, word)
    with pytest.raises(InputError, match=r"empty\.txt has no token"):
        corpus_types(embedder, tmp_path / "empty.txt")
    reader = Embedder(tiny("tokens"), threads=1)
    known = corpus_types(reader, tmp_path / "c.txt")
    assert len(find_type_neighbors(reader, known, "play")) == 4
    with pytest.raises(InputError, match="this model reads words and does not know 'plya'"):
        find_type_neighbors(reader, known, "plya")


def test_a_word_that_the_corpus_lacks_or_has_nowhere_else(embedder: Embedder, index: NeighborIndex) -> None:
    with pytest.raises(InputError, match="the corpus has no token 'plaxy': it has 'play', 'plays', and --against"):
        find_neighbors(index, embedder, ["A", "plaxy", "."], 1)
    with pytest.raises(InputError, match="no token 'zyzzyva': give a larger one, and --against tokens compares"):
        find_neighbors(index, embedder, ["zyzzyva"], 0)
    with pytest.raises(InputError, match=r"'lonely' occurs in the corpus only in the query sentence: .* larger"):
        find_neighbors(index, embedder, ["Here", "is", "lonely", "."], 2)
    assert find_neighbors(index, embedder, ["Here", "is", "so", "lonely"], 3).contexts["layer 2"]
    assert find_neighbors(index, embedder, ["zyzzyva"], 0, NeighborOptions(against="tokens")).num_compared > 100


def test_where_a_word_stands_in_its_sentence() -> None:
    tokens = "They play a play in the playhouse .".split()
    assert locate_word(tokens, "They") == 0
    assert locate_word(tokens, "play", 3) == 3
    for word, position, message in [
        ("Play", None, "has no token 'Play': did you mean 'play'"),
        ("xyz", None, "has no token 'xyz': give one of its tokens"),
        ("play", None, "'play' occurs 2 times in .*: choose a --position of 1, 3"),
        ("play", 8, "position 8 is outside .* whose 8 tokens are counted from 0: 'play' is at 1, 3"),
        ("play", -1, "position -1 is outside"),
        ("They", 3, "the token at position 3 of .* is 'play'; 'They' is at 0"),
    ]:
        with pytest.raises(InputError, match=message):
            locate_word(tokens, word, position)


def test_layers_and_their_names(embedder: Embedder) -> None:
    assert name_mixes(embedder, ["all"]) == {
        "layer 0": (1.0, 0.0, 0.0), "layer 1": (0.0, 1.0, 0.0), "layer 2": (0.0, 0.0, 1.0),
    }  # fmt: skip
    assert list(name_mixes(embedder, ["top", 2, "average", (0.5, 0, 0.25)])) == [
        "layer 2", "average", "mix 0.5, 0.0, 0.25",
    ]  # fmt: skip
    mixes: list[tuple[Any, str]] = [
        ("best", "unknown"),
        (3, "no layer 3"),
        ((1, 2), "one finite number for each of the 3"),
    ]
    for wrong, message in mixes:
        with pytest.raises(ConfigError, match=message):
            name_mixes(embedder, [wrong])
    with pytest.raises(ConfigError, match="against 'all' is unknown: choose word or tokens"):
        NeighborOptions(against="all")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is for all tokens"):
        NeighborOptions(ann=True)
    with pytest.raises(ConfigError, match="no layers are named"):
        NeighborOptions(layers=())


def test_near_forms() -> None:
    words = ["play", "Play", "player", "playground", "pay", "clay", "PLAY"]
    assert near_forms("play", words)[:2] == ["Play", "PLAY"]
    assert "playground" not in near_forms("play", words)
    assert near_forms("xyz", words) == []


def test_the_report_says_what_was_found(embedder: Embedder, index: NeighborIndex) -> None:
    found = find_neighbors(index, embedder, QUERY, 1, NeighborOptions(layers=(0, 2), k=3))
    report = neighbors_report(found)
    asked, types, static, top, chart = report.blocks
    assert isinstance(chart, Chart) and chart.name == "neighbours"
    assert isinstance(asked, Concordance) and isinstance(static, Concordance) and isinstance(top, Concordance)
    assert isinstance(types, Table) and len(types.rows) == 3
    assert (asked.lines[0].before, asked.lines[0].word, asked.lines[0].after) == ("The", "play", "was on .")
    assert (
        static.caption
        == f"Contexts nearest by layer 0 (which sees none), of {found.num_compared} occurrences of “play”"
    )
    first = found.contexts["layer 2"][0]
    assert top.lines[0].note == f"{first.cosine:.3f}, line {first.occurrence.line}"
    figures = json.loads(json.dumps(report.figures))
    assert (figures["sentence"], figures["word"], figures["position"]) == ("The play was on .", "play", 1)
    assert figures["model_sha256"] == embedder.fingerprint
    assert [one["layer"] for one in figures["contexts"]] == ["layer 0", "layer 2"]
    assert figures["contexts"][1]["neighbours"][0] == {
        "sentence": " ".join(first.occurrence.tokens),
        "position": first.occurrence.position,
        "word": "play",
        "cosine": round(first.cosine, 6),
        "line": first.occurrence.line,
    }
    console = Console(file=StringIO(), width=72)
    show(report, console)
    printed = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, printed)) <= 72
    assert any(line.endswith(top.lines[0].note) for line in printed)


def test_bars_have_the_cosines_and_a_few_words_around() -> None:
    """Nothing in a label is markup, and many neighbors do not make a picture without end."""
    tokens = ("$1", "of", "all", "that", "play", "costs", "$2", "is", "w" * 40)
    found = [Neighbor(Occurrence(tokens, 4, line=line), 1 / (line + 1)) for line in range(50)]
    panels = _panels(Neighbors(tokens, 8, NeighborOptions(), "", "", 50, [], {"layer 2": found}))
    assert panels[0].labels[0] == "… of all that play costs $2 is …"
    figure = Figure()
    chart = bar_chart("", "", panels)
    chart.draw(figure)
    (axes,) = figure.axes
    assert [cast(Rectangle, patch).get_width() for patch in axes.patches] == [1 / (line + 1) for line in range(20)]
    assert chart.size[1] < 10
    bar_chart("", "", [Panel("nothing", "type", [], [])]).draw(Figure())
    last = [Neighbor(Occurrence(tokens, 8, line=1), 1.0)]
    (alone,) = _panels(Neighbors(tokens, 8, NeighborOptions(), "", "", 1, [], {"top": last}))
    assert alone.labels == [f"… costs $2 is {'w' * 14}…"]


def test_faiss_finds_what_exact_search_finds(embedder: Embedder, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    generator = random.Random(2)
    words = [f"{a}{b}" for a in "bdfgklmnp" for b in ("a", "e", "in", "or", "ust")]
    lines = [" ".join(generator.choices(words, k=12)) for _ in range(400)]
    (tmp_path / "c.txt").write_text("\n".join(lines), encoding="utf-8")
    index = open_index(embedder, tmp_path / "c.txt", tmp_path / "index")
    shared = total = 0
    for line in lines[:20]:
        exact, approximate = (
            find_neighbors(index, embedder, line.split(), 5, NeighborOptions(("top",), 10, "tokens", ann))
            for ann in (False, True)
        )
        wanted = {one.occurrence: one.cosine for one in exact.contexts["layer 2"]}
        given = {one.occurrence: one.cosine for one in approximate.contexts["layer 2"]}
        assert len(given) == len(wanted) == 10
        assert list(given.values()) == sorted(given.values(), reverse=True)
        assert all(wanted[place] == given[place] for place in wanted.keys() & given.keys())
        shared, total = shared + len(wanted.keys() & given.keys()), total + 10
    assert shared / total > 0.9
    (kept,) = (index.path / "approximate").iterdir()
    before = kept.read_bytes()
    ApproximateIndex(index, (0.0, 0.0, 1.0))
    assert kept.read_bytes() == before
    kept.write_bytes(before[:500])
    with pytest.raises(FormatError, match=r"\.faiss is damaged: delete it to rebuild it"):
        ApproximateIndex(index, (0.0, 0.0, 1.0))


def test_faiss_with_little_to_look_in(embedder: Embedder, index: NeighborIndex, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    (tmp_path / "few.txt").write_text("a play .\na play .\nb .\n", encoding="utf-8")
    few = open_index(embedder, tmp_path / "few.txt", tmp_path / "few")
    options: dict[str, Any] = {"layers": ("average", (1.0, 0.0, 0.5)), "k": 10, "against": "tokens"}
    for tokens in (("a", "play", "."), ("unseen", ".")):
        exact, approximate = (
            find_neighbors(few, embedder, tokens, 1, NeighborOptions(**options, ann=ann)) for ann in (False, True)
        )
        assert approximate.contexts == exact.contexts
        assert len(exact.contexts["average"]) == 5 - (tokens[0] == "a")
    ApproximateIndex(few, (0.0, 0.0, 1.0))
    for path in (few.path / "approximate").iterdir():
        (index.path / "approximate").mkdir(exist_ok=True)
        (index.path / "approximate" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(FormatError, match="is of another index: delete it"):
        ApproximateIndex(index, (0.0, 0.0, 1.0))


def test_faiss_that_is_not_installed(embedder: Embedder, index: NeighborIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ElmokitError, match=r'not installed: run pip install "elmokit\[ann\]", or leave --ann out'):
        find_neighbors(index, embedder, QUERY, 1, NeighborOptions(against="tokens", ann=True))
