"""How `elmokit task predict` shows records: marked text for people, JSON, CSV and CoNLL columns for programs.

The marks can be read without colors: every span is in brackets, followed by its type.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich.text import Text

from elmokit.errors import ConfigError
from elmokit.tasks.coref.record import CorefRecord
from elmokit.tasks.ner.record import NerRecord
from elmokit.tasks.nli.record import NliRecord
from elmokit.tasks.qa.record import QaRecord
from elmokit.tasks.sentiment.record import SentimentRecord
from elmokit.tasks.spans import Span, to_iob2
from elmokit.tasks.srl.record import Frame, SrlRecord
from elmokit.tasks.tag.record import TagRecord

if TYPE_CHECKING:
    from elmokit.tasks.base import Task
    from elmokit.tasks.records import Record, TaskText, TextSpan

Format = Literal["text", "json", "csv", "conll", "transformers"]
COLORS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_ROLE_COLORS = ("green", "cyan", "magenta", "blue", "red")
"""Colors of numbered arguments; all others are yellow."""
_CLASS_STYLES = {
    "very negative": "bold red",
    "negative": "red",
    "neutral": "yellow",
    "positive": "green",
    "very positive": "bold green",
    "entailment": "green",
    "contradiction": "red",
}

# --- Text ------------------------------------------------------------------------------------------------------------


def to_text(record: "Record") -> Text:
    """A record as formatted text; a blank input is a blank line."""
    shown: Text = _find(_SHOWN, record)(record)
    return shown


def _show_entities(record: NerRecord) -> Text:
    return _mark(record.source, [(entity, entity.type, _color(entity.type)) for entity in record.entities])


def _show_sentiment(record: SentimentRecord) -> Text:
    if record.name is None:
        return Text()
    return Text.assemble((f"{record.name:>14}  ", _class_style(record.name)), " ".join(record.tokens))


def _show_tags(record: TagRecord) -> Text:
    """Each token with its label."""
    shown = Text()
    for place, (token, tag) in enumerate(zip(record.tokens, record.tags, strict=True)):
        shown.append(" " if place else "").append(token).append(f"/{tag}", _color(tag))
    return shown


def _show_inference(record: NliRecord) -> Text:
    if record.label is None:
        return Text()
    texts = f"{' '.join(record.premise.tokens)}  →  {' '.join(record.hypothesis.tokens)}"
    return Text.assemble((f"{record.label:>13}  ", _class_style(record.label)), texts)


def _show_answer(record: QaRecord) -> Text:
    if record.answer is None:
        return Text()
    best, context = record.answer, record.context.text
    shown = Text.assemble((f"{record.question.text}\n", "bold"), context[: best.start_char])
    shown.append(f"[{best.text}]", "bold green").append(context[best.end_char :])
    for number, answer in enumerate(record.answers[1:], 2):
        shown.append(f"\n{number:>3}. {answer.text} ({answer.score:.2f})", "dim")
    return shown


def _show_frames(record: SrlRecord) -> Text:
    """One line per predicate, which is marked as V; a text without predicates is dim."""
    if not record.predicates:
        return Text(" ".join(record.tokens), "dim")
    return Text("\n").join(_show_frame(record.source, frame) for frame in record.predicates)


def _show_frame(text: "TaskText", frame: Frame) -> Text:
    marks = [(argument, argument.type, _role_color(argument.type)) for argument in frame.arguments]
    taken = {place for argument in frame.arguments for place in range(argument.start, argument.end)}
    if frame.predicate.start not in taken:
        marks = sorted([*marks, (frame.predicate, "V", "")], key=lambda mark: mark[0].start)
    first, last = _sentence_around(text, frame.predicate.start)
    return _mark(text, marks, first, last)


def _sentence_around(text: "TaskText", place: int) -> tuple[int, int]:
    first = 0
    for sentence in text.sentences:
        if place < first + len(sentence):
            return first, first + len(sentence)
        first += len(sentence)
    return 0, len(text.tokens)


def _mark(
    text: "TaskText", marks: "Sequence[tuple[TextSpan, str, str]]", first: int = 0, last: int | None = None
) -> Text:
    """Tokens with marked spans, which are in order and do not overlap."""
    shown = Text()
    place = first
    for span, label, color in marks:
        shown.append("".join(f"{token} " for token in text.tokens[place : span.start]))
        shown.append(f"[{' '.join(span.tokens)}]", f"bold {color}".strip())
        shown.append(f"{label} ", f"dim {color}".strip())
        place = span.end
    shown.append(" ".join(text.tokens[place:last]))
    shown.rstrip()
    return shown


def _show_clusters(record: CorefRecord) -> Text:
    """One sentence per line; the mentions of a cluster have its number and color."""
    numbered = {
        (mention.span.start, mention.span.end): number
        for number, cluster in enumerate(record.clusters, 1)
        for mention in cluster
    }
    by_length = sorted(numbered, key=lambda span: span[0] - span[1])  # long ones first
    inner: dict[int, int] = {}  # the cluster of the shortest mention around each token
    for span in by_length:
        inner.update(dict.fromkeys(range(*span), numbered[span]))
    shown = Text()
    place = 0
    for sentence in record.source.sentences:
        for number, token in enumerate(sentence):
            shown.append(" " if number else "\n" if place else "")
            for span in by_length:
                if span[0] == place:
                    shown.append(f"[{numbered[span]} ", f"dim {_numbered_color(numbered[span])}")
            shown.append(token, f"bold {_numbered_color(inner[place])}" if place in inner else "")
            place += 1
            for span in reversed(by_length):
                if span[1] == place:
                    shown.append("]", f"dim {_numbered_color(numbered[span])}")
    return shown


def _color(type: str) -> str:
    return COLORS[sum(type.encode()) % len(COLORS)]


def _numbered_color(number: int) -> str:
    return COLORS[(number - 1) % len(COLORS)]


def _class_style(label: str) -> str:
    return _CLASS_STYLES.get(label) or _color(label)


def _role_color(role: str) -> str:
    return _ROLE_COLORS[int(role[-1]) % len(_ROLE_COLORS)] if role[-1:].isdecimal() else "yellow"


# --- CSV -------------------------------------------------------------------------------------------------------------

_SPAN = ("text", "start_char", "end_char", "score")
_COLUMNS: dict[str, tuple[str, ...]] = {
    "ner": ("type", *_SPAN),
    "sentiment": ("label", "score"),
    "nli": ("label", "score"),
    "qa": ("question", "rank", *_SPAN),
    "srl": ("predicate", "predicate_start_char", "type", *_SPAN),
    "coref": ("cluster", *_SPAN),
    "tag": ("tag", *_SPAN),
}


def _span_cells(span: "TextSpan") -> tuple[Any, ...]:
    return span.text, span.start_char, span.end_char, round(span.score, 6)


def _rows(record: "Record") -> Iterator[tuple[Any, ...]]:
    """The rows of a record: one per span, or one for a class."""
    if isinstance(record, NerRecord):
        yield from ((entity.type, *_span_cells(entity)) for entity in record.entities)
    elif isinstance(record, SentimentRecord):
        yield record.name, None if record.score is None else round(record.score, 6)
    elif isinstance(record, NliRecord):
        yield record.label, None if record.score is None else round(record.score, 6)
    elif isinstance(record, QaRecord):
        for rank, answer in enumerate(record.answers, 1):
            yield record.question.text, rank, *_span_cells(answer)
    elif isinstance(record, SrlRecord):
        for frame in record.predicates:
            own = (frame.predicate.text, frame.predicate.start_char)
            yield *own, "V", *_span_cells(frame.predicate)
            yield from ((*own, argument.type, *_span_cells(argument)) for argument in frame.arguments)
    elif isinstance(record, CorefRecord):
        for number, cluster in enumerate(record.clusters, 1):
            yield from ((number, *_span_cells(mention.span)) for mention in cluster)
    elif isinstance(record, TagRecord):
        for place, (tag, score) in enumerate(zip(record.tags, record.scores, strict=True)):
            yield tag, *_span_cells(record.source.span(place, place + 1, tag, score))


def _csv_lines(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


# --- CoNLL -----------------------------------------------------------------------------------------------------------


def _to_conll(record: "Record") -> str:
    lines: str = _find(_CONLL, record)(record)
    return lines


def _entity_columns(record: NerRecord) -> str:
    """A token and its IOB2 tag per line, as conlleval reads."""
    spans = [Span(entity.start, entity.end, entity.type) for entity in record.entities]
    return _columns(record.source, [to_iob2(spans, len(record.tokens))])


def _tag_columns(record: TagRecord) -> str:
    """A token and its label per line."""
    return _columns(record.source, [record.tags])


def _frame_columns(record: SrlRecord) -> str:
    """Tokens, predicates and one column per predicate of the sentence, as in CoNLL-2005."""
    parts = []
    first = 0
    for sentence in record.source.sentences:
        last = first + len(sentence)
        frames = [frame for frame in record.predicates if first <= frame.predicate.start < last]
        marked = {frame.predicate.start for frame in frames}
        columns = [[sentence[place - first] if place in marked else "-" for place in range(first, last)]]
        columns += [_brackets(frame, first, last) for frame in frames]
        rows = (" ".join(cells) for cells in zip(sentence, *columns, strict=True))
        parts.append("".join(f"{row}\n" for row in rows) + "\n")
        first = last
    return "".join(parts)


def _brackets(frame: Frame, first: int, last: int) -> list[str]:
    cells = ["*"] * (last - first)
    taken = {place for argument in frame.arguments for place in range(argument.start, argument.end)}
    spans = [(one.start, one.end, one.type) for one in frame.arguments]
    if frame.predicate.start not in taken:
        spans.append((frame.predicate.start, frame.predicate.end, "V"))
    for start, end, type in spans:
        cells[start - first] = f"({type}{cells[start - first]}"
        cells[end - 1 - first] += ")"
    return cells


def _cluster_columns(record: CorefRecord) -> str:
    """A document of CoNLL-2012 with the columns that the scorer reads: name, part, token number, word, coreference."""
    name = str(record.index if record.id is None else record.id).replace(" ", "_")
    cells: list[list[str]] = [[] for _ in record.tokens]
    for number, cluster in enumerate(record.clusters, 1):
        for mention in cluster:
            start, end = mention.span.start, mention.span.end - 1
            if start == end:
                cells[start].append(f"({number})")
            else:
                cells[start].append(f"({number}")
                cells[end].append(f"{number})")
    lines = [f"#begin document ({name}); part 000"]
    place = 0
    for sentence in record.source.sentences:
        for number, token in enumerate(sentence):
            lines.append(f"{name} 0 {number} {token} {'|'.join(cells[place]) or '-'}")
            place += 1
        lines.append("")
    return "\n".join([*lines, "#end document", ""])


def _columns(text: "TaskText", columns: Sequence[Sequence[str]]) -> str:
    lines = []
    place = 0
    for sentence in text.sentences:
        for token in sentence:
            lines.append(" ".join((token, *(column[place] for column in columns))) + "\n")
            place += 1
        lines.append("\n")
    return "".join(lines)


# --- All -------------------------------------------------------------------------------------------------------------

_SHOWN: dict[type, Callable[[Any], Text]] = {
    NerRecord: _show_entities,
    SentimentRecord: _show_sentiment,
    NliRecord: _show_inference,
    QaRecord: _show_answer,
    SrlRecord: _show_frames,
    CorefRecord: _show_clusters,
    TagRecord: _show_tags,
}
_CONLL: dict[type, Callable[[Any], str]] = {
    NerRecord: _entity_columns,
    SrlRecord: _frame_columns,
    CorefRecord: _cluster_columns,
    TagRecord: _tag_columns,
}


def _find(table: "dict[type, Callable[[Any], Any]]", record: "Record") -> "Callable[[Any], Any]":
    return next(function for kind, function in table.items() if isinstance(record, kind))


def check_format(task: "Task[Any]", format: Format) -> None:
    """Refuse a format that cannot hold what a task predicts."""
    if format == "conll" and task.name in ("sentiment", "nli", "qa"):
        raise ConfigError(
            f"{task.name} predicts no tags or clusters, which CoNLL files have: choose text, json or csv."
        )
    if format == "transformers" and task.name != "ner":
        raise ConfigError(f"the format transformers is that of its NER pipeline, and this is {task.name}: choose json.")


def write_header(task: "Task[Any]", format: Format) -> str:
    """What comes before all records."""
    return _csv_lines([("index", "id", *_COLUMNS[task.name])]) if format == "csv" else ""


def write_record(record: "Record", format: Format) -> str:
    """A record in a format for programs, with its line ends."""
    if format == "csv":
        return _csv_lines((record.index, record.id, *cells) for cells in _rows(record))
    if format == "conll":
        return _to_conll(record)
    if format == "transformers" and isinstance(record, NerRecord):
        return json.dumps(record.to_transformers(), ensure_ascii=False) + "\n"
    return json.dumps(record.to_dict(), ensure_ascii=False) + "\n"
