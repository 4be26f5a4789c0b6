"""Read evaluation sets in the format of Raganato et al. (2017): NAME.data.xml and NAME.gold.key.txt.

An instance of several words, separated by spaces or _, becomes several tokens, as in `semcor`.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.parsers import expat

from elmokit.analysis.wsd.wordnet import SenseSentence, Target, Word, word_of
from elmokit.errors import FormatError, InputError, UnsafeFileError
from elmokit.text.files import open_text

SETS = ("senseval2", "senseval3", "semeval2007", "semeval2013", "semeval2015")
"""The five sets of the framework; its ALL is their concatenation."""
_POS = {"NOUN": "noun", "VERB": "verb", "ADJ": "adj", "ADV": "adv"}
_BETWEEN = re.compile(r"[\s_]+")
_CHUNK = 2**16


def read_wsd_set(folder: Path) -> Iterator[SenseSentence]:
    """Sentences of the set in a folder of the same name, with gold keys; files may be .xz, .gz or .bz2."""
    gold = read_gold(_find(folder, "gold.key.txt"))
    path = _find(folder, "data.xml")
    parser = _SetParser(path, gold)
    with open_text(path) as file:
        while chunk := file.read(_CHUNK):
            yield from parser.feed(chunk)
    yield from parser.feed("", final=True)
    if gold:
        raise FormatError(f"{path} has no instance {next(iter(gold))!r}, which the gold keys name: fetch both again.")


def read_gold(path: Path) -> dict[str, tuple[str, ...]]:
    """The sense keys of each instance, any of which is correct: a line has its name and one or more keys."""
    gold: dict[str, tuple[str, ...]] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, 1):
            name, *keys = line.split() or [""]
            if not keys or name in gold or not all(map(word_of, keys)):
                raise FormatError(
                    f"{path} line {number} is {line.strip()[:60]!r}: a line has an instance that occurs only once "
                    "and its sense keys; correct it or fetch the set again."
                )
            gold[name] = tuple(keys)
    return gold


def _find(folder: Path, ending: str) -> Path:
    for suffix in ("", ".xz", ".gz", ".bz2"):
        if (path := folder / f"{folder.name}.{ending}{suffix}").is_file():
            return path
    raise InputError(
        f"{folder} has no {folder.name}.{ending}, plain or .xz: give the folder of a set such as senseval2."
    )


class _SetParser:
    """An incremental parser of sentences in XML; document types, which could define entities, are refused."""

    def __init__(self, path: Path, gold: dict[str, tuple[str, ...]]) -> None:
        self.path = path
        self.gold = gold
        """The instances that have not been read yet."""
        self.ready: list[SenseSentence] = []
        self.source = ""
        self.sentence: tuple[list[str], list[Target]] | None = None
        self.attributes: dict[str, str] | None = None
        self.text = ""
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype

    def feed(self, chunk: str, *, final: bool = False) -> list[SenseSentence]:
        """Parse more XML and return the completed sentences."""
        try:
            self.parser.Parse(chunk, final)
        except expat.ExpatError as error:
            raise FormatError(f"{self.path} line {error.lineno} is not XML ({error}): fetch it again.") from None
        ready, self.ready = self.ready, []
        return ready

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """A text, a sentence or a form begins."""
        if self.attributes is not None:
            raise self.bad(f"<{name}> inside a word")
        if name == "text":
            self.source = attributes.get("id", "")
        elif name == "sentence":
            if self.sentence is not None:
                raise self.bad("a sentence inside a sentence")
            self.sentence = [], []
        elif name in ("wf", "instance"):
            if self.sentence is None:
                raise self.bad("a word outside a sentence")
            self.attributes, self.text = attributes, ""

    def end(self, name: str) -> None:
        """A sentence or a form ends."""
        if self.sentence is None:
            return
        tokens, targets = self.sentence
        if name == "sentence":
            self.ready.append(SenseSentence(tuple(tokens), tuple(targets), self.source))
            self.sentence = None
        elif self.attributes is not None:
            start = len(tokens)
            tokens += [piece for piece in _BETWEEN.split(self.text) if piece]
            if len(tokens) == start:
                raise self.bad("a word without text")
            if name == "instance":
                targets.append(self.target(start, len(tokens), self.attributes))
            self.attributes = None

    def target(self, start: int, end: int, attributes: dict[str, str]) -> Target:
        """The instance over these tokens."""
        name, lemma, pos = (attributes.get(key, "") for key in ("id", "lemma", "pos"))
        if not lemma or pos not in _POS:
            raise self.bad(f"an instance with lemma {lemma!r} and pos {pos!r} instead of {', '.join(_POS)}")
        if name not in self.gold:
            raise self.bad(f"instance {name!r}, which has no gold keys or came before,")
        return Target(start, end, Word(lemma.lower(), _POS[pos]), self.gold.pop(name), name)

    def characters(self, text: str) -> None:
        """Text of a form; text between elements is only layout."""
        if self.attributes is not None:
            self.text += text

    def refuse_doctype(self, *_: object) -> None:
        """The format does not need a document type, and only there can exponentially expanding entities be defined."""
        raise UnsafeFileError(
            f"{self.path} line {self.parser.CurrentLineNumber} declares a document type: remove the declaration."
        )

    def bad(self, what: str) -> FormatError:
        """An error at the line that is being read."""
        return FormatError(
            f"{self.path} line {self.parser.CurrentLineNumber} has {what}: correct it or fetch the set again."
        )
