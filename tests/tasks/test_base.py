"""What every task can do with its examples."""

from elmokit.tasks.coref.document import CorefDocument
from elmokit.tasks.coref.task import Coref
from elmokit.tasks.nli.reader import NliExample
from elmokit.tasks.nli.task import Nli


def test_sentences_are_those_of_all_texts_without_empty_ones() -> None:
    pairs = [NliExample(("a", "b"), ("c",), "neutral"), NliExample((), ("d", "e"), "neutral")]
    assert list(Nli().sentences(pairs)) == [("a", "b"), ("c",), ("d", "e")]
    assert [Nli().size(pair) for pair in pairs] == [3, 2]
    document = CorefDocument("", (("a",), ("b", "c"), ("a",)))
    assert list(Coref().sentences([document, document])) == [("a",), ("b", "c"), ("a",)] * 2
    assert Coref().size(document) == 4
    assert list(Nli().sentences([])) == []
