"""Read questions that are answered by a span of a paragraph: JSON of SQuAD v1.1 or v2.0.

Answers are given as characters and converted to spans of tokens. Of the 34,726 answers of SQuAD's dev set, 346 (1.0%)
begin or end inside a token: at a hyphen (`33` of `33-yard`), before the period of an abbreviation, within a word. The
best of the smallest spans that cover the answers of a question is an exact match for 99.7% of the questions, so tokens
are not split further than the biLM's tokenizer does.
"""

import json
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from elmokit.errors import ElmokitWarning, InputError
from elmokit.text.files import open_text
from elmokit.text.tokenize import tokenize

Kind = TypeVar("Kind", str, int, list[Any])
_KIND_NAMES: dict[type, str] = {str: "text", int: "a whole number", list: "a list"}


class TokenSpan(NamedTuple):
    """Tokens `start` to `end` (exclusive) of a paragraph."""

    start: int
    end: int


class Answer(NamedTuple):
    """A gold answer: its text and its character offset in the paragraph."""

    text: str
    start: int


@dataclass(frozen=True)
class Paragraph:
    """A paragraph with questions; all its examples share the object."""

    title: str
    """Title of the article."""
    text: str
    sentences: tuple[tuple[str, ...], ...]
    """The tokens, split into the sentences that a biLM reads one by one."""
    offsets: tuple[tuple[int, int], ...]
    """Start and end (exclusive) of each token in characters, over all sentences."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """All tokens; spans are offsets into them."""
        return tuple(token for sentence in self.sentences for token in sentence)

    def text_of(self, span: TokenSpan) -> str:
        """The text of a span, as written in the paragraph."""
        if not 0 <= span.start < span.end <= len(self.offsets):
            raise InputError(
                f"the span {tuple(span)} is not inside a paragraph of {len(self.offsets)} tokens: give start < end."
            )
        return self.text[self.offsets[span.start][0] : self.offsets[span.end - 1][1]]

    def span_of(self, answer: Answer) -> TokenSpan | None:
        """The smallest span that covers an answer; None if it is blank or differs from the text at its offset."""
        text = answer.text.strip()
        if not text or answer.start < 0 or not self.text.startswith(answer.text, answer.start):
            return None
        first = answer.start + answer.text.index(text)
        start = bisect_right(self.offsets, first, key=lambda offset: offset[1])
        end = bisect_left(self.offsets, first + len(text), key=lambda offset: offset[0])
        return TokenSpan(start, end)


@dataclass(frozen=True)
class QaExample:
    """A question with its gold answers."""

    id: str
    question: str
    question_tokens: tuple[str, ...]
    paragraph: Paragraph
    answers: tuple[Answer, ...]
    """As in the file; several annotators may have given the same answer."""
    spans: tuple[TokenSpan | None, ...]
    """The span of each answer; None if no tokens of the paragraph cover it."""


def read_squad(path: Path) -> Iterator[QaExample]:
    """Stream the questions of a file, plain or compressed, in file order.

    An answer that differs from the text at its offset has no span; its example is still returned, for evaluation. So is
    a question that its paragraph does not answer (SQuAD v2.0). A warning at the end gives the numbers of both.
    """
    num_answers = num_uncovered = num_unanswerable = 0
    ids: set[str] = set()
    for where, item, paragraph in _questions(path):
        example = _example(where, item, paragraph)
        if example.id in ids:
            raise InputError(f"{where} has the id {example.id!r} of an earlier question: give each its own.")
        ids.add(example.id)
        num_answers += len(example.spans)
        num_unanswerable += not example.answers
        num_uncovered += example.spans.count(None)
        yield example
    if num_unanswerable:
        warnings.warn(
            f"{path} has {num_unanswerable} of {len(ids)} questions without an answer (SQuAD v2.0): training leaves "
            "them out, and in evaluation they count as wrong, because the model always answers.",
            ElmokitWarning,
            stacklevel=2,
        )
    if num_uncovered:
        warnings.warn(
            f"{path} has {num_uncovered} of {num_answers} answers that differ from the text at their offset in "
            "the paragraph: they count in evaluation, but cannot be used for training.",
            ElmokitWarning,
            stacklevel=2,
        )


def _questions(path: Path) -> Iterator[tuple[str, object, Paragraph]]:
    """Every question in the file: its location, the question, its paragraph."""
    with open_text(path) as file:
        try:
            data = json.load(file)
        except (ValueError, RecursionError) as error:
            reason = str(error) if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
            raise InputError(f"{path} is not JSON ({reason}): give a JSON file of SQuAD v1.1.") from None
    for number, article in enumerate(_get(data, "data", list, f"{path}")):
        where = f"{path} data[{number}]"
        title = _get(article, "title", str, where)
        for place, item in enumerate(_get(article, "paragraphs", list, where)):
            inner = f"{where}.paragraphs[{place}]"
            paragraph = read_paragraph(inner, title, _get(item, "context", str, inner))
            for index, question in enumerate(_get(item, "qas", list, inner)):
                yield f"{inner}.qas[{index}]", question, paragraph


def _get(holder: object, key: str, kind: type[Kind], where: str) -> Kind:
    value = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(value, kind):
        raise InputError(f"{where} has no {key!r} that is {_KIND_NAMES[kind]}: give a JSON file of SQuAD v1.1.")
    return value


def read_paragraph(where: str, title: str, text: str) -> Paragraph:
    """Tokenize a text; `where` says in messages what it is."""
    sentences = tokenize(text)
    if not sentences:
        raise InputError(f"{where} has an empty 'context': remove the paragraph.")
    return Paragraph(
        title,
        text,
        tuple(tuple(token.text for token in sentence) for sentence in sentences),
        tuple((token.start, token.end) for sentence in sentences for token in sentence),
    )


def _example(where: str, item: object, paragraph: Paragraph) -> QaExample:
    question = _get(item, "question", str, where)
    tokens = tuple(token.text for sentence in tokenize(question) for token in sentence)
    if not tokens:
        raise InputError(f"{where} has an empty 'question': remove it.")
    answers = tuple(
        Answer(
            _get(answer, "text", str, f"{where}.answers[{number}]"),
            _get(answer, "answer_start", int, f"{where}.answers[{number}]"),
        )
        for number, answer in enumerate(_get(item, "answers", list, where))
    )
    return QaExample(
        _get(item, "id", str, where), question, tokens, paragraph, answers, tuple(map(paragraph.span_of, answers))
    )
