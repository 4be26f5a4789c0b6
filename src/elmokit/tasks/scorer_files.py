"""Gold labels and predictions in the formats that the official scorers read.

ner, tag     conlleval.txt                  word, gold tag and predicted tag per line, for conlleval
srl          gold.props, predicted.props    for srl-eval
coref        key.conll, response.conll      for the scorer of CoNLL-2012; without singletons, as the main figure
qa           predictions.json               answers by the question's id, for the script of SQuAD
others       predictions.tsv                gold label and predicted label per line; there is no official scorer
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from elmokit.tasks.coref.document import CorefDocument
from elmokit.tasks.evaluation import Evaluation
from elmokit.tasks.spans import Span, read_spans, to_iob2, to_spans

FILE_NAMES = ("conlleval.txt", "gold.props", "predicted.props", "key.conll", "response.conll", "predictions.json",
              "predictions.tsv")  # fmt: skip


def scorer_files(evaluation: Evaluation) -> dict[str, str]:
    """The content of each file by its name."""
    write = _WRITERS.get(evaluation.task.name, _classes)
    return {name: "".join(parts) for name, parts in write(evaluation.examples, evaluation.predictions).items()}


def _entities(examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    found = [to_iob2(read_spans(own), len(one.tokens)) for one, own in zip(examples, predictions, strict=True)]
    return _tags(examples, found)


def _tags(examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    parts = (
        "".join(f"{' '.join(row)}\n" for row in zip(_words(one.tokens), one.tags, found, strict=True)) + "\n"
        for one, found in zip(examples, predictions, strict=True)
    )
    return {"conlleval.txt": parts}


def _words(tokens: Iterable[str]) -> list[str]:
    """Tokens without white space, which separates columns."""
    return ["_".join(token.split()) or "_" for token in tokens]


def _roles(examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    gold: list[str] = []
    predicted: list[str] = []
    for sentence in _sentences(examples, predictions):
        tokens, first = sentence[0][0].tokens, sentence[0][0]
        lemmas = [token.lower() if place in first.predicates else "-" for place, token in enumerate(tokens)]
        pairs = [(one, found) for one, found in sentence if one.pair is not None]
        pairs.sort(key=lambda pair: pair[0].predicate)
        for parts, columns in (
            (gold, [to_spans(one.pair.tags) for one, _ in pairs]),
            (predicted, [read_spans(found["frames"][0]["spans"]) for _, found in pairs]),
        ):
            cells = [_argument_cells(spans, len(tokens)) for spans in columns]
            parts += ["\t".join(row) + "\n" for row in zip(lemmas, *cells, strict=True)]
            parts.append("\n")
    return {"gold.props": gold, "predicted.props": predicted}


def _sentences(examples: Sequence[Any], predictions: Sequence[Any]) -> Iterator[list[tuple[Any, Any]]]:
    """The examples of each sentence, one per predicate, with their predictions."""
    own: list[tuple[Any, Any]] = []
    for pair in zip(examples, predictions, strict=True):
        if own and pair[0].is_first:
            yield own
            own = []
        own.append(pair)
    if own:
        yield own


def _argument_cells(spans: Iterable[Span], num_tokens: int) -> list[str]:
    cells = ["*"] * num_tokens
    for span in spans:
        cells[span.start] = f"({span.type}{cells[span.start]}"
        cells[span.end - 1] += ")"
    return cells


def _clusters(examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    pairs = list(zip(examples, predictions, strict=True))
    return {
        "key.conll": [_document(one, one.clusters) for one, _ in pairs],
        "response.conll": [_document(one, found) for one, found in pairs],
    }


def _document(document: CorefDocument, clusters: Iterable[Sequence[Sequence[int]]]) -> str:
    """A document with five columns, and its clusters of two mentions or more."""
    tokens = document.tokens
    opened: list[list[str]] = [[] for _ in tokens]
    closed: list[list[str]] = [[] for _ in tokens]
    mentions = [
        (start, end, number)
        for number, cluster in enumerate(cluster for cluster in clusters if len(cluster) > 1)
        for start, end in cluster
    ]
    for start, end, number in sorted(mentions, key=lambda mention: (mention[0], -mention[1])):
        if end - start == 1:
            opened[start].append(f"({number})")
        else:
            opened[start].append(f"({number}")
            closed[end - 1].insert(0, f"{number})")
    name = document.name or "document"
    lines = [f"#begin document ({name}); part {document.part:03d}\n"]
    place = 0
    for sentence in document.sentences:
        for number, token in enumerate(sentence):
            cell = "|".join(closed[place] + opened[place]) or "-"
            lines.append(f"{name}\t{document.part}\t{number}\t{token}\t{cell}\n")
            place += 1
        lines.append("\n")
    return "".join([*lines, "#end document\n"])


def _answers(examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    answers = {}
    for example, (start, end) in zip(examples, predictions, strict=True):
        offsets = example.paragraph.offsets
        answers[example.id] = example.paragraph.text[offsets[start][0] : offsets[end - 1][1]]
    return {"predictions.json": [json.dumps(answers, ensure_ascii=False, indent=1) + "\n"]}


def _classes(examples: Sequence[Any], predictions: Sequence[Any]) -> Mapping[str, Iterable[str]]:
    rows = (f"{one.label}\t{found}\n" for one, found in zip(examples, predictions, strict=True))
    return {"predictions.tsv": ["gold\tpredicted\n", *rows]}


_Writer = Callable[[Sequence[Any], Sequence[Any]], Mapping[str, Iterable[str]]]
_WRITERS: dict[str, _Writer] = {
    "ner": _entities,
    "tag": _tags,
    "srl": _roles,
    "coref": _clusters,
    "qa": _answers,
}
