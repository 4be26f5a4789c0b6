"""An evaluation in detail: figures per type, confusions, and errors in their context."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from elmokit.analysis.report import Block, Cell, Concordance, Line, Report, Table
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.ner.metric import score_spans
from elmokit.tasks.spans import Span, SpanCounts, read_spans, to_spans
from elmokit.tasks.srl.metric import score_arguments
from elmokit.tasks.srl.reader import VERB

MAX_ERRORS = 200
"""Errors on a page unless the caller wants another number."""
MAX_CONFUSIONS = 20
_AROUND = 160
"""Characters of context on each side of an error in a long text."""
_QUESTION_WORDS = ("what", "who", "whose", "whom", "when", "where", "which", "why", "how")


def report_evaluation(evaluation: Evaluation, title: str, max_errors: int = MAX_ERRORS) -> Report:
    """A report with all figures, figures per type or confusions, and the first errors in their context."""
    details = _DETAILS.get(evaluation.task.name, _classes)
    tables, found = details(evaluation.examples, evaluation.predictions)
    figures = Table("All examples", ("figure", "%"), tuple(evaluation.figures.items()), decimals=2)
    number = len(evaluation.examples)
    blocks: list[Block] = [f"{number:,} examples.", figures, *tables]
    errors = list(islice(_ERRORS.get(evaluation.task.name, _class_errors)(evaluation), max_errors + 1))
    caption = f"Errors in context{f', the first {max_errors}' if len(errors) > max_errors else ''}"
    shown = tuple(errors[:max_errors])
    if shown and evaluation.task.name == "tag":  # single tokens, which fit into a concordance
        blocks.append(Concordance(caption, shown, "gold → predicted"))
    elif shown:
        rows = tuple((line.note, _with_brackets(line)) for line in shown)
        blocks.append(Table(caption, ("gold → predicted", "text"), rows))
    return Report(
        title, tuple(blocks), {"task": evaluation.task.name, "examples": number, **evaluation.figures, **found}
    )


def _with_brackets(line: Line) -> str:
    """The text of an error, with the wrong part in brackets if it is only a part."""
    parts = (line.before, f"[{line.word}]" if line.before or line.after else line.word, line.after)
    return " ".join(part for part in parts if part)


_Details = tuple[list[Table], dict[str, Any]]


def _span_details(caption: str, by_type: Mapping[str, SpanCounts]) -> _Details:
    rows = tuple(
        (name, own.gold, own.predicted, own.correct, 100 * own.precision, 100 * own.recall, 100 * own.f1)
        for name, own in by_type.items()
    )
    header = ("type", "gold", "predicted", "correct", "precision", "recall", "F1")
    figures = {name: {**vars(own), **own.figures()} for name, own in by_type.items()}
    return [Table(caption, header, rows)], {"by_type": figures}


def _entities(examples: Sequence[Any], predictions: Sequence[Any]) -> _Details:
    score = score_spans([one.spans for one in examples], [read_spans(found) for found in predictions])
    return _span_details("Entities by type", score.by_type)


def _roles(examples: Sequence[Any], predictions: Sequence[Any]) -> _Details:
    pairs = [(one, found) for one, found in zip(examples, predictions, strict=True) if one.pair is not None]
    score = score_arguments(
        [to_spans(one.pair.tags) for one, _ in pairs], [read_spans(found["frames"][0]["spans"]) for _, found in pairs]
    )
    tables, figures = _span_details("Arguments by role", score.by_label)
    return tables, {**figures, "predicates": score.predicates, "perfect_predicates": score.perfect}


def _tags(examples: Sequence[Any], predictions: Sequence[Any]) -> _Details:
    pairs = Counter(
        pair for one, found in zip(examples, predictions, strict=True) for pair in zip(one.tags, found, strict=True)
    )
    tables, figures = _label_details("Tokens by label", pairs)
    if examples[0].chunks:
        score = score_spans([to_spans(one.tags) for one in examples], [to_spans(found) for found in predictions])
        more, chunks = _span_details("Chunks by type", score.by_type)
        return [*tables, *more], {**figures, "chunks": chunks["by_type"]}
    return tables, figures


def _classes(examples: Sequence[Any], predictions: Sequence[Any]) -> _Details:
    pairs = Counter((str(one.label), str(found)) for one, found in zip(examples, predictions, strict=True))
    tables, figures = _label_details("Examples by label", pairs)
    labels = sorted({label for pair in pairs for label in pair})
    rows: tuple[tuple[Cell, ...], ...] = tuple((gold, *(pairs[gold, found] for found in labels)) for gold in labels)
    confusion = Table("Confusion: gold labels in rows, predictions in columns", ("gold", *labels), rows)
    counts = {gold: {found: pairs[gold, found] for found in labels} for gold in labels}
    return [tables[0], confusion], {"by_type": figures["by_type"], "confusion": counts}


def _label_details(caption: str, pairs: Mapping[tuple[str, str], int]) -> _Details:
    """Counts per label, and the most frequent confusions, of (gold, predicted) pairs."""
    gold: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    for (wanted, found), number in pairs.items():
        gold[wanted] += number
        predicted[found] += number
    by_label = {
        label: SpanCounts(gold[label], predicted[label], pairs.get((label, label), 0))
        for label in sorted(gold | predicted)
    }
    tables, figures = _span_details(caption, by_label)
    wrong = Counter({pair: number for pair, number in pairs.items() if pair[0] != pair[1]}).most_common(MAX_CONFUSIONS)
    rows = tuple((wanted, found, number, 100 * number / gold[wanted]) for (wanted, found), number in wrong)
    frequent = Table("Most frequent confusions", ("gold", "predicted", "number", "% of gold"), rows)
    counts = [{"gold": wanted, "predicted": found, "number": number} for (wanted, found), number in wrong]
    return [*tables, *([frequent] if rows else [])], {**figures, "confusions": counts}


def _answers(examples: Sequence[Any], predictions: Sequence[Any]) -> _Details:
    from elmokit.tasks.qa.task import Qa

    task = Qa()
    kinds: dict[str, list[Sequence[float]]] = {}
    for one, found in zip(examples, predictions, strict=True):
        kind = question_kind(one.question) if one.answers else "without an answer"
        kinds.setdefault(kind, []).append(task.counts(one, found))
    figures = {
        kind: {"number": len(counts), **task.figures([sum(column) for column in zip(*counts, strict=True)])}
        for kind, counts in sorted(kinds.items(), key=lambda item: -len(item[1]))
    }
    rows = tuple((kind, own["number"], own["f1"], own["exact_match"]) for kind, own in figures.items())
    return [Table("Questions by kind", ("kind", "number", "F1", "exact match"), rows)], {"by_type": figures}


def question_kind(question: str) -> str:
    """The first question word of a question, with `how many` and `how much` apart; "other" without one."""
    words = question.lower().replace("?", " ").split()
    for place, word in enumerate(words):
        if word in _QUESTION_WORDS:
            following = words[place + 1] if place + 1 < len(words) else ""
            return f"how {following}" if word == "how" and following in ("many", "much") else word
    return "other"


def _clusters(examples: Sequence[Any], predictions: Sequence[Any]) -> _Details:
    from elmokit.tasks.coref.task import Coref

    task = Coref()
    rows = []
    for one, found in zip(examples, predictions, strict=True):
        own = task.figures(task.counts(one, found))
        name = f"{one.name} ({one.part})" if one.part else one.name
        rows.append((name, len(one.tokens), *(own[part] for part in ("f1", "muc", "b_cubed", "ceaf", "mentions"))))
    header = ("document", "tokens", "average F1", "MUC", "B³", "CEAF-φ4", "mentions")
    names = ("tokens", "f1", "muc", "b_cubed", "ceaf", "mentions")
    figures = {str(name): dict(zip(names, own, strict=True)) for name, *own in rows}
    return [Table("Documents", header, tuple(rows))], {"by_type": figures}


_DETAILS: dict[str, Callable[[Sequence[Any], Sequence[Any]], _Details]] = {
    "ner": _entities,
    "srl": _roles,
    "tag": _tags,
    "qa": _answers,
    "coref": _clusters,
}


def _span_lines(
    tokens: Sequence[str], gold: Iterable[Span], predicted: Iterable[Span], what: str = ""
) -> Iterator[Line]:
    """One line per wrong span: gold and predicted ones with the same tokens are one error."""
    wanted, found = set(gold), set(predicted)
    types = {(span.start, span.end): span.type for span in found - wanted}
    for span in sorted((wanted | found) - (wanted & found)):
        place = (span.start, span.end)
        if span in found and any(own[:2] == place for own in wanted - found):
            continue
        note = f"{span.type} → {types.get(place, 'none')}" if span in wanted else f"none → {span.type}"
        yield _line(tokens, *place, f"{what}{note}")


def _line(tokens: Sequence[str], start: int, end: int, note: str) -> Line:
    before, after = _ending(" ".join(tokens[:start])), _beginning(" ".join(tokens[end:]))
    return Line(before, " ".join(tokens[start:end]), after, note)


def _ending(text: str) -> str:
    return text if len(text) <= _AROUND else f"…{text[-_AROUND:]}"


def _beginning(text: str) -> str:
    return text if len(text) <= _AROUND else f"{text[:_AROUND]}…"


def _entity_errors(evaluation: Evaluation) -> Iterator[Line]:
    for one, found in zip(evaluation.examples, evaluation.predictions, strict=True):
        yield from _span_lines(one.tokens, one.spans, read_spans(found))


def _role_errors(evaluation: Evaluation) -> Iterator[Line]:
    for one, found in zip(evaluation.examples, evaluation.predictions, strict=True):
        if one.pair is not None:
            gold, predicted = (
                [span for span in spans if span.type.removeprefix("C-") != VERB]
                for spans in (to_spans(one.pair.tags), read_spans(found["frames"][0]["spans"]))
            )
            yield from _span_lines(one.tokens, gold, predicted, f"{one.tokens[one.predicate]}: ")


def _tag_errors(evaluation: Evaluation) -> Iterator[Line]:
    for one, found in zip(evaluation.examples, evaluation.predictions, strict=True):
        for place, (wanted, own) in enumerate(zip(one.tags, found, strict=True)):
            if wanted != own:
                yield _line(one.tokens, place, place + 1, f"{wanted} → {own}")


def _answer_errors(evaluation: Evaluation) -> Iterator[Line]:
    for one, (start, end) in zip(evaluation.examples, evaluation.predictions, strict=True):
        if evaluation.task.counts(one, (start, end))[0] == 0:
            offsets, text = one.paragraph.offsets, one.paragraph.text
            first, last = offsets[start][0], offsets[end - 1][1]
            gold = " / ".join(dict.fromkeys(answer.text for answer in one.answers)) or "no answer"
            before = f"{one.question} ‖ {_ending(text[:first].rstrip())}".rstrip()
            yield Line(before, text[first:last], _beginning(text[last:].lstrip()), f"{gold} → {text[first:last]}")


def _cluster_errors(evaluation: Evaluation) -> Iterator[Line]:
    """Mentions that only one side has, and mentions whose nearest earlier mention of the same entity differs."""
    for one, found in zip(evaluation.examples, evaluation.predictions, strict=True):
        tokens = one.tokens
        gold, predicted = _antecedents(one.clusters), _antecedents(found)
        for mention in sorted(gold.keys() | predicted.keys()):
            if mention not in gold or mention not in predicted:
                note = "mention → none" if mention in gold else "none → mention"
            elif gold[mention] != predicted[mention]:
                sides = (gold[mention], predicted[mention])
                note = " → ".join("first" if side is None else " ".join(tokens[slice(*side)]) for side in sides)
            else:
                continue
            yield _line(tokens, *mention, note)


def _antecedents(clusters: Iterable[Iterable[Sequence[int]]]) -> dict[tuple[int, int], tuple[int, int] | None]:
    """The nearest earlier mention of the same entity for each mention of larger clusters; None for the first."""
    found: dict[tuple[int, int], tuple[int, int] | None] = {}
    for cluster in clusters:
        mentions = sorted({(int(start), int(end)) for start, end in cluster})
        if len(mentions) > 1:
            found |= dict(zip(mentions, [None, *mentions], strict=False))
    return found


def _class_errors(evaluation: Evaluation) -> Iterator[Line]:
    for one, found in zip(evaluation.examples, evaluation.predictions, strict=True):
        if str(one.label) != str(found):
            texts = (" ".join(token for sentence in text for token in sentence) for text in evaluation.task.texts(one))
            yield Line("", " ‖ ".join(texts), "", f"{one.label} → {found}")


_ERRORS: dict[str, Callable[[Evaluation], Iterator[Line]]] = {
    "ner": _entity_errors,
    "srl": _role_errors,
    "tag": _tag_errors,
    "qa": _answer_errors,
    "coref": _cluster_errors,
}
