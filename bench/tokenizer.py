"""Measure the tokenizer and the sentence splitter: agreement with NLTK and with hand-made gold, and speed.

    python bench/tokenizer.py --compare nltk --json results/text/agreement.json
    python bench/tokenizer.py --speed --json results/text/speed.json
    python bench/tokenizer.py --sentences --json results/text/sentences.json

The script is not called `tokenize.py`, because that name would hide the standard library's module.
`--compare` and `--sentences` need the data directory ($ELMOKIT_DATA); `--speed` falls back to the text in
tests/fixtures. pysbd is measured too if it can be imported (`pip install --target DIR pysbd==0.3.4` and
`PYTHONPATH=DIR`).
"""

import argparse
import collections
import importlib.util
import itertools
import lzma
import random
import re
import statistics
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nltk.tokenize import NLTKWordTokenizer

from elmokit.text.files import file_sha256
from elmokit.text.sentences import split_sentences
from elmokit.text.tokenize import tokenize

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.places import DATA, ROOT
from bench.provenance import provenance
from bench.results import write

NLTK = NLTKWordTokenizer()
Spans = list[tuple[int, int]]
Figures = dict[str, Any]
SPLITS = ("dev", "test")
WSD = DATA / "wsd" / "eval" / "ALL" / "ALL.data.xml.xz"


def ewt_path(split: str) -> Path:
    """A file of the English Web Treebank."""
    return DATA / "pos" / "ud_ewt" / f"{split}.conllu.xz"


def read_lines(path: Path) -> list[str]:
    """The lines of a plain or xz-compressed text file."""
    if path.suffix == ".xz":
        with lzma.open(path, "rt", encoding="utf-8") as file:
            return file.read().splitlines()
    return path.read_text(encoding="utf-8").splitlines()


def sample_paragraphs(paths: Iterable[Path], count: int, seed: int = 13) -> list[str]:
    """The same number of random paragraphs from each file, `count` in total."""
    files = list(paths)
    chosen: list[str] = []
    for path in files:
        paragraphs = [line for line in read_lines(path) if line.strip()]
        chosen += random.Random(seed).sample(paragraphs, count // len(files))
    return chosen


def _gold_sentence(lines: list[str], keep_hyphens: bool) -> tuple[Spans, bool]:
    """The token spans of one CoNLL-U sentence, and whether a space follows it."""
    spans: Spans = []
    at, glued, hyphen, covered = 0, False, False, 0
    for line in lines:
        number, form, xpos, misc = (line.split("\t")[i] for i in (0, 1, 4, 9))
        if "." in number:
            continue
        if "-" in number:
            first, last = map(int, number.split("-"))
            parts = [row.split("\t")[1] for row in lines if row.split("\t")[0] in map(str, range(first, last + 1))]
            covered = last
            forms = parts if "".join(parts) == form else [form]
        elif int(number) <= covered:
            continue
        else:
            forms = [form]
        joins = keep_hyphens and glued and (hyphen or (xpos == "HYPH" and "SpaceAfter=No" in misc))
        for index, part in enumerate(forms):
            if joins and index == 0:
                spans[-1] = (spans[-1][0], at + len(part))
            else:
                spans.append((at, at + len(part)))
            at += len(part)
        glued = "SpaceAfter=No" in misc
        hyphen = xpos == "HYPH" and (joins or not keep_hyphens)
        at += not glued
    return spans, not glued


def read_ewt(path: Path, keep_hyphens: bool = False) -> list[list[tuple[str, Spans]]]:
    """UD-EWT: paragraphs of (sentence with its trailing space, token spans).

    With `keep_hyphens`, tokens that the treebank splits at a hyphen are joined again, as in the Penn Treebank.
    """
    paragraphs: list[list[tuple[str, Spans]]] = []
    text, lines, fresh = "", [], True
    for line in [*read_lines(path), ""]:
        if line.startswith(("# newdoc", "# newpar")):
            fresh = True
        elif line.startswith("# text = "):
            text = line.removeprefix("# text = ")
        elif line and not line.startswith("#"):
            lines.append(line)
        elif not line and lines:
            spans, spaced = _gold_sentence(lines, keep_hyphens)
            if fresh:
                paragraphs.append([])
            paragraphs[-1].append((text + " " * spaced, spans))
            lines, fresh = [], False
    return paragraphs


def read_newswire(path: Path) -> list[list[str]]:
    """The sentences of each text of the all-words WSD sets, with the spaces of running text restored by rule."""
    texts = []
    with lzma.open(path) as file:
        corpus = ElementTree.parse(file).getroot()
    for text in corpus:
        sentences, quoted = [], False
        for sentence in text:
            words = []
            for word in (word.text or "" for word in sentence):
                if word in ("``", "''", '"'):  # the sets write many closing quotes as opening ones
                    word, quoted = ('\x00"' if quoted or word == "''" else '"\x00'), not (quoted or word == "''")
                words.append({"-LRB-": "(", "-RRB-": ")", "&amp;": "&"}.get(word, word))
            joined = " ".join(words).replace(" \x00", "").replace("\x00 ", "").replace("\x00", "")
            joined = re.sub(r" ([.,;:?!%)]|n't\b|'(?:s|m|d|ll|re|ve)\b|'(?= ))", r"\1", joined)
            sentences.append(re.sub(r"([($]) ", r"\1", joined).strip() + " ")
        texts.append(sentences)
    return texts


def score(pairs: Iterable[tuple[set[Any], set[Any]]]) -> Figures:
    """Precision, recall and F1 in percent over (gold, predicted) pairs, with the counts."""
    counts = [(len(gold), len(predicted), len(gold & predicted)) for gold, predicted in pairs]
    gold, predicted, common = (sum(column) for column in zip(*counts, strict=True))
    figures = {"precision": common / predicted, "recall": common / gold, "f1": 2 * common / (gold + predicted)}
    return {name: round(100 * value, 2) for name, value in figures.items()} | {"gold": gold, "predicted": predicted}


def inner_boundaries(text: str, ends: Iterable[int]) -> set[int]:
    """Sentence ends as numbers of characters before them, white space not counted, without the end of the text."""
    marks = {len("".join(text[:end].split())) for end in ends}
    return marks - {len("".join(text.split()))}


def pysbd_ends(text: str) -> list[int]:
    """Sentence ends by pysbd."""
    import pysbd

    return [span.end for span in pysbd.Segmenter(language="en", clean=False, char_span=True).segment(text)]


def own_ends(text: str) -> list[int]:
    """Sentence ends by elmokit."""
    return [end for _, end in split_sentences(text)]


def score_sentences(paragraphs: list[list[str]], ends: Callable[[str], list[int]]) -> Figures:
    """Boundaries inside paragraphs, where no line break helps; recall also for those after an end mark."""
    pairs, marked = [], []
    for sentences in paragraphs:
        text = "".join(sentences)
        stops = list(itertools.accumulate(map(len, sentences)))
        shown = [stop for stop in stops if text[:stop].rstrip().rstrip("\"'”’»)]")[-1:] in set(".!?…")]
        predicted = inner_boundaries(text, ends(text))
        pairs.append((inner_boundaries(text, stops), predicted))
        marked.append((inner_boundaries(text, shown), predicted))
    return score(pairs) | {"recall_after_end_mark": score(marked)["recall"]}


def own_spans(text: str) -> Spans:
    """Token spans by elmokit, with the text as one sentence."""
    return [(token.start, token.end) for sentence in tokenize(text, split_sentences=False) for token in sentence]


def nltk_spans(text: str) -> Spans:
    """Token spans by NLTK."""
    return list(NLTK.span_tokenize(text))


KINDS = (
    ("link or address", r"://|www\.|@\w|\w\.(?:com|org|net)\b"),
    ("typographic apostrophe or quote", r"[’‘“”«»„]"),
    ("en dash, em dash, minus", r"[–—―−]"),
    ("ellipsis", r"…|\.\."),
    ("run of ? or !", r"[?!]{2,}"),
    ("period inside the sentence", r"\w[\"')\]]*\.|\.\w|\.$"),
    ("apostrophe", r"'"),
    ("currency, ampersand, slash", r"[$£€&/¥]"),
    ("comma or colon beside a digit", r"[,:;]"),
    ("hyphen at the edge of a word", r"-"),
    ("script without spaces", r"[\u3040-\u30ff\u3400-\u9fff]"),
    ("other symbol", r"[^\w\s]"),
    ("word", r""),
)


def differences(text: str, ours: Spans, theirs: Spans) -> Iterable[tuple[str, str, str]]:
    """(kind, our tokens, their tokens) of each span of text on which the two disagree."""
    shared = sorted(set(ours) & set(theirs))
    bounds = [(-1, 0), *shared, (len(text), len(text))]
    for (_, begin), (end, _) in itertools.pairwise(bounds):
        mine = [text[a:b] for a, b in ours if begin <= a and b <= end]
        other = [text[a:b] for a, b in theirs if begin <= a and b <= end]
        if mine or other:
            kind = next(name for name, pattern in KINDS if re.search(pattern, "".join(mine)))
            yield kind, " ".join(mine), " ".join(other)


def compare_with_nltk(paths: list[Path], paragraphs: int) -> Figures:
    """Spans of both tokenizers on running text, on the sentences of our splitter."""
    kinds: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    pairs: list[tuple[set[Any], set[Any]]] = []
    equal = 0
    for paragraph in sample_paragraphs(paths, paragraphs):
        for begin, end in split_sentences(paragraph):
            text = paragraph[begin:end]
            ours, theirs = own_spans(text), nltk_spans(text)
            pairs.append((set(theirs), set(ours)))
            equal += ours == theirs
            for kind, mine, other in differences(text, ours, theirs):
                kinds[kind][f"{mine} ⟂ {other}"] += 1
    ordered = sorted(kinds.items(), key=lambda item: -item[1].total())
    print(f"{len(pairs)} sentences, {equal} equal; {score(pairs)}")
    for kind, examples in ordered:
        print(f"{examples.total():6} {kind}: {[example for example, _ in examples.most_common(12)]}")
    return {"sentences": len(pairs), "equal_sentences": equal, "spans": score(pairs),
            "differences": {kind: examples.total() for kind, examples in ordered},
            "examples": {kind: [e for e, _ in examples.most_common(4)] for kind, examples in ordered}}  # fmt: skip


def compare_with_ewt(split: str) -> Figures:
    """Our spans and NLTK's compared with the treebank's tokens, for each gold sentence."""
    figures: Figures = {}
    for name, keep in (("as_annotated", False), ("hyphens_joined", True)):
        gold = [pair for paragraph in read_ewt(ewt_path(split), keep) for pair in paragraph]
        for system, spans in (("elmokit", own_spans), ("nltk", nltk_spans)):
            figures[f"{system}_{name}"] = score((set(wanted), set(spans(text))) for text, wanted in gold)
            print(f"UD-EWT {split}, {system}, {name}: {figures[f'{system}_{name}']}")
    return figures


def measure_sentences() -> Figures:
    """Boundary scores on the treebank and on the WSD texts, ours and pysbd's."""
    systems = {"elmokit": own_ends} | ({"pysbd": pysbd_ends} if importlib.util.find_spec("pysbd") else {})
    sets = {f"ud_ewt_{split}": [[text for text, _ in part] for part in read_ewt(ewt_path(split))] for split in SPLITS}
    sets["wsd_eval"] = read_newswire(WSD)
    figures: Figures = {}
    for name, paragraphs in sets.items():
        figures[name] = {system: score_sentences(paragraphs, ends) for system, ends in systems.items()}
        for system, scores in figures[name].items():
            print(name, system, scores)
    return figures


def measure_speed(rounds: int = 7) -> tuple[Figures, list[Path]]:
    """Tokens per second of ours (with and without sentence splitting) and NLTK's, in turn, on new text each round."""
    paths = [path for path in (DATA / "lm" / "wikipedia-heldout.txt.xz", DATA / "lm" / "books-heldout.txt.xz")
             if path.exists()] or [ROOT / "tests" / "fixtures" / "prose.txt"]  # fmt: skip
    lines = [line for path in paths for line in read_lines(path) if line.strip()]
    random.Random(13).shuffle(lines)
    systems: dict[str, Callable[[str], object]] = {
        "elmokit, paragraphs": tokenize,
        "elmokit, sentences": lambda text: tokenize(text, split_sentences=False),
        "nltk, sentences": NLTK.tokenize,
        "nltk spans, sentences": nltk_spans,
    }
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    total = 0
    tokenize("The patterns are built on first use.")
    for part in (lines[start::rounds] for start in range(rounds)):
        sentences = [line[a:b] for line in part for a, b in split_sentences(line)]
        tokens = sum(len(nltk_spans(sentence)) for sentence in sentences)
        total += tokens
        for name, system in systems.items():
            texts = part if name.endswith("paragraphs") else sentences
            begin = time.perf_counter()
            for text in texts:
                system(text)
            speeds[name].append(tokens / (time.perf_counter() - begin))
    medians = {name: round(statistics.median(values)) for name, values in speeds.items()}
    ratios = {name: round(value / medians["nltk, sentences"], 2) for name, value in medians.items()}
    for name, value in medians.items():
        print(f"{name:24} {value:>9,} tokens/s (lowest {min(speeds[name]):,.0f}), {ratios[name]:.2f} x NLTK")
    lowest = {name: round(min(values)) for name, values in speeds.items()}
    figures = {
        "tokens": total,
        "rounds": rounds,
        "tokens_per_second": medians,
        "lowest": lowest,
        "ratio_to_nltk": ratios,
    }
    return figures, paths


def describe(files: list[Path]) -> dict[str, str]:
    """The sums of the files that were read."""
    names = {file.relative_to(DATA if file.is_relative_to(DATA) else ROOT).as_posix(): file for file in files}
    return {name: file_sha256(file) for name, file in sorted(names.items())}


def main() -> None:
    """Run the chosen measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", choices=["nltk"], help="span agreement with NLTK, and of both with UD-EWT")
    parser.add_argument("--sentences", action="store_true", help="sentence boundaries against gold, ours and pysbd's")
    parser.add_argument("--speed", action="store_true", help="tokens per second, interleaved with NLTK")
    parser.add_argument("--paragraphs", type=int, default=2000, help="running text for --compare")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    figures: Figures = {}
    files: list[Path] = []
    if (args.compare or args.sentences) and not DATA.is_dir():
        parser.error(f"no data directory {DATA}: set ELMOKIT_DATA to it")
    origin = provenance("tokenizer.py") if args.json else {}
    if args.speed:
        figures["speed"], used = measure_speed()
        files += used
    if args.compare:
        running = [DATA / "lm" / "wikipedia-00.txt.xz", DATA / "lm" / "books-00.txt.xz"]
        figures["nltk"] = compare_with_nltk(running, args.paragraphs)
        figures["ud_ewt"] = {split: compare_with_ewt(split) for split in SPLITS}
        files += [*running, *map(ewt_path, SPLITS)]
    if args.sentences:
        figures["sentences"] = measure_sentences()
        files += [*map(ewt_path, SPLITS), WSD]
    if not figures:
        parser.error("choose at least one of --compare, --sentences, --speed")
    if args.json:
        what = "tokenizer and sentence splitter: " + ", ".join(figures)
        write(args.json, {"what": what, "data": describe(files), "figures": figures} | origin)


if __name__ == "__main__":
    main()
