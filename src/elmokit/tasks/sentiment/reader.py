r"""Read sentences and phrases with their sentiment: trees of the Stanford Sentiment Treebank, or labeled lines.

A tree is a line of nested brackets, `(3 (2 good) (2 .))`: each node has a label from 0 (very negative) to 4 (very
positive) and contains either one word or nodes. The Penn Treebank's escapes (`-LRB-`, `\/`, `\*`) are converted back
to the characters that a biLM has seen in text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import ConfigError, InputError
from elmokit.tasks.sentiment.labeled import read_labeled
from elmokit.text.files import open_text
from elmokit.text.input_kind import InputKind

TREE_LABELS = 5
_NEUTRAL = 2
_BLANKS = " \t\r\n"
_PIECE = re.compile(r"[()]|[^() \t]+")
_ESCAPE = re.compile(r"-(?:LRB|RRB|LSB|RSB|LCB|RCB)-|\\[/*]")
_BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


class SentimentExample(NamedTuple):
    """A sentence or phrase and its class: a number from 0, the most negative, or any word."""

    tokens: tuple[str, ...]
    label: int | str


class TreeNode(NamedTuple):
    """A phrase of a tree: tokens `start` to `end` (exclusive)."""

    label: int
    start: int
    end: int


@dataclass(frozen=True)
class SentimentTree:
    """A sentence with the labels of all its phrases."""

    tokens: tuple[str, ...]
    nodes: tuple[TreeNode, ...]
    """In postorder, so that the last is the root."""

    @property
    def root(self) -> SentimentExample:
        """The whole sentence."""
        return SentimentExample(self.tokens, self.nodes[-1].label)

    def phrases(self) -> Iterator[SentimentExample]:
        """Every subtree, including single words and the whole sentence."""
        return (SentimentExample(self.tokens[node.start : node.end], node.label) for node in self.nodes)


def read_sst(path: Path, *, phrases: bool = False, num_classes: int = TREE_LABELS) -> Iterator[SentimentExample]:
    """Stream the examples of a file of trees, plain or compressed.

    Args:
        path: the file, one tree per line.
        phrases: False returns sentences, with duplicates. True returns every subtree as an example, without
            duplicates; a phrase with two labels is returned once with each, since either may be right.
        num_classes: 5 keeps the labels. 2 maps 0 and 1 to class 0, negative, and 3 and 4 to class 1, positive;
            neutral sentences and phrases are left out.
    """
    if num_classes not in (2, TREE_LABELS):
        raise ConfigError(f"num_classes is {num_classes}: choose 5, or 2 to leave out what is neutral.")
    return _examples(path, phrases, num_classes == 2)


def _examples(path: Path, phrases: bool, binary: bool) -> Iterator[SentimentExample]:
    seen: set[SentimentExample] = set()
    for tree in read_trees(path):
        for example in tree.phrases() if phrases else (tree.root,):
            if binary and example.label == _NEUTRAL:
                continue
            found = example._replace(label=int(int(example.label) > _NEUTRAL)) if binary else example
            if phrases:
                if found in seen:
                    continue
                seen.add(found)
            yield found


def read_trees(path: Path) -> Iterator[SentimentTree]:
    """Stream the trees of a file, plain or compressed; blank lines are skipped."""
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            if text := line.strip(_BLANKS):
                yield _TreeParser(f"{path} line {number}").parse(text)


@dataclass
class _OpenNode:
    start: int
    label: int | None = None
    is_leaf: bool = False


class _TreeParser:
    """Parses one tree from left to right with a list of open nodes, so that depth is limited only by memory."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.open: list[_OpenNode] = []
        self.tokens: list[str] = []
        self.nodes: list[TreeNode] = []

    def parse(self, text: str) -> SentimentTree:
        for match in _PIECE.finditer(text):
            piece = match[0]
            if not self.open and (self.nodes or piece != "("):
                raise self.bad(f"{piece[:20]!r} outside of the tree")
            if piece == "(":
                self.begin()
            elif piece == ")":
                self.end()
            else:
                self.word(piece)
        if self.open:
            raise self.bad(f"{len(self.open)} '(' that nothing closes")
        return SentimentTree(tuple(self.tokens), tuple(self.nodes))

    def begin(self) -> None:
        if self.open and self.open[-1].label is None:
            raise self.bad("a node without a label")
        if self.open and self.open[-1].is_leaf:
            raise self.bad("a node inside a node that holds a word")
        self.open.append(_OpenNode(len(self.tokens)))

    def end(self) -> None:
        node = self.open.pop()
        if node.label is None:
            raise self.bad("a node without a label")
        if node.start == len(self.tokens):
            raise self.bad("a node without a word")
        self.nodes.append(TreeNode(node.label, node.start, len(self.tokens)))

    def word(self, piece: str) -> None:
        """The first word after a bracket is the label."""
        node = self.open[-1]
        if node.label is None:
            node.label = _label(self.where, piece, TREE_LABELS)
        elif node.start < len(self.tokens):
            raise self.bad(f"{piece[:20]!r} in a node that is not empty")
        else:
            node.is_leaf = True
            self.tokens.append(_unescape(piece))

    def bad(self, fault: str) -> InputError:
        return InputError(
            f"{self.where} has {fault}: a line is one tree such as '(3 (2 good) (2 .))'; correct it, or name a "
            "file of labels and texts NAME.tsv."
        )


def _unescape(word: str) -> str:
    return _ESCAPE.sub(lambda match: _BRACKETS.get(match[0], match[0][-1]), word)


def read_sentiment_labels(
    path: Path, *, input: InputKind, num_classes: int = TREE_LABELS
) -> Iterator[SentimentExample]:
    """Stream texts with labels from tab-separated columns or JSON lines: see `elmokit.tasks.sentiment.labeled`.

    Args:
        path: the file to read.
        input: "tokens" for space-separated tokens, "text" for raw text.
        num_classes: a label that is a whole number from 0 to `num_classes` - 1 becomes a number, like those of trees;
            any other label stays a word.
    """
    numbers = {str(number): number for number in range(num_classes)}
    return (SentimentExample(tokens, numbers.get(label, label)) for _, tokens, label in read_labeled(path, input=input))


def _label(where: str, piece: str, num_classes: int) -> int:
    for label in range(num_classes):
        if piece == str(label):
            return label
    raise InputError(
        f"{where} has the label {piece[:20]!r}, expected a number from 0 to {num_classes - 1}: correct it."
    )
