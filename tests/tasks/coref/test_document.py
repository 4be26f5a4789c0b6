import pytest

from elmokit.errors import InputError
from elmokit.tasks.coref.document import CorefDocument, Mention

DOCUMENT = CorefDocument(
    "doc",
    (("a", "b", "c"), ("d", "e"), ("f", "g", "h", "i")),
    (
        (Mention(0, 1), Mention(3, 4), Mention(5, 7)),
        (Mention(1, 2),),
        (Mention(2, 4), Mention(8, 9)),
        (Mention(4, 5), Mention(6, 8)),
    ),
    part=2,
    speakers=(("x",) * 3, ("y",) * 2, ("z",) * 4),
    genre="nw",
)


def test_tokens() -> None:
    assert DOCUMENT.tokens == tuple("abcdefghi")


def test_cut_at_the_beginning() -> None:
    for max_tokens in (5, 8):
        cut = DOCUMENT.cut(max_tokens)
        assert cut.sentences == (("a", "b", "c"), ("d", "e"))
        assert cut.speakers == (("x",) * 3, ("y",) * 2)
        assert (cut.name, cut.part, cut.genre) == ("doc", 2, "nw")
        assert cut.clusters == (
            (Mention(0, 1), Mention(3, 4)),
            (Mention(1, 2),),
            (Mention(2, 4),),
            (Mention(4, 5),),
        )
    assert DOCUMENT.cut(5, singletons=False).clusters == ((Mention(0, 1), Mention(3, 4)),)
    assert DOCUMENT.cut(9) == DOCUMENT
    assert DOCUMENT.cut(4).clusters == ((Mention(0, 1),), (Mention(1, 2),))


def test_cut_in_the_middle_counts_from_there() -> None:
    cut = DOCUMENT.cut(6, first_sentence=1)
    assert cut.tokens == tuple("defghi")
    assert cut.clusters == (
        (Mention(0, 1), Mention(2, 4)),
        (Mention(1, 2), Mention(3, 5)),
        (Mention(5, 6),),
    )
    assert DOCUMENT.cut(5, first_sentence=1).tokens == ("d", "e")
    assert DOCUMENT.cut(4, first_sentence=2, singletons=False).clusters == ()


def test_without_speakers() -> None:
    assert CorefDocument("d", (("a",), ("b",))).cut(1) == CorefDocument("d", (("a",),))


def test_cuts_that_leave_nothing() -> None:
    with pytest.raises(InputError, match="sentence 0 of doc has 3 tokens, more than max_tokens 2: allow for at least"):
        DOCUMENT.cut(2)
    with pytest.raises(InputError, match="sentence 2 of doc has 4 tokens, more than max_tokens 3"):
        DOCUMENT.cut(3, first_sentence=2)
    for number in (-1, 3):
        with pytest.raises(InputError, match=f"doc has 3 sentences, so none can be the first with number {number}"):
            DOCUMENT.cut(9, first_sentence=number)
