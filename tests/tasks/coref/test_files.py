"""What a user may name, and the pieces that long documents are cut into."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from elmokit.errors import InputError
from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.tasks.coref.files import split_document
from elmokit.tasks.coref.model import CorefSettings
from tests.tasks.coref.test_reader import CONLL2012, LENGTHS, LITBANK, ONTOGUM, pack
from tests.tasks.coref.tiny import DOCUMENT, TASK


def names(path: Path, **settings: Any) -> list[str]:
    return [document.name for document in TASK.read([path], CorefSettings(**settings), training=False)]


def test_a_list_names_documents_of_the_archive_beside_it(tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("a_brat\n")
    pack(tmp_path, {"a_brat.conll": LITBANK, "b_brat.conll": LITBANK}, "litbank-conll.tar.xz")
    assert names(tmp_path / "dev.txt") == names(tmp_path / "dev.txt", format="litbank") == ["a_brat"]
    assert names(tmp_path / "litbank-conll.tar.xz") == ["a_brat", "a_brat"]
    (tmp_path / "own.tar.gz").write_bytes(b"")
    with pytest.raises(
        InputError, match=r"own\.tar\.gz does not show its corpus: set model\.format to litbank or ontogum"
    ):
        names(tmp_path / "own.tar.gz")
    with pytest.raises(InputError, match=r"there is no ontogum-conll\.tar\.xz next to it"):
        names(tmp_path / "dev.txt", format="ontogum")


def test_a_list_names_documents_of_a_folder_beside_it(tmp_path: Path) -> None:
    (tmp_path / "dev.txt").write_text("\nGUM_news_a\n")
    folder = tmp_path / "ontogum-conll"
    folder.mkdir()
    (folder / "GUM_news_a.conll").write_text(ONTOGUM)
    (folder / "sentence_lengths.tsv").write_text(LENGTHS)
    assert names(tmp_path / "dev.txt") == ["GUM_news_a"]


def test_conll2012_files_are_given_themselves(tmp_path: Path) -> None:
    path = tmp_path / "x.v4_gold_conll"
    path.write_text(CONLL2012)
    assert names(path) == names(path, format="conll2012") == ["bc/cctv/00/cctv_0001"] * 2


def test_any_other_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a_brat\n")
    expected = (
        r"x\.txt does not begin with a document of CoNLL-2012, and there is no litbank-conll\.tar\.xz or ontogum-.* "
        r"next to it: give"
    )
    with pytest.raises(InputError, match=expected):
        names(tmp_path / "x.txt")


@pytest.mark.parametrize(("max_tokens", "sizes"), [(12, [12]), (11, [11, 1]), (8, [4, 8]), (7, [4, 7, 1])])
def test_pieces_of_a_document(max_tokens: int, sizes: list[int]) -> None:
    pieces = list(split_document(DOCUMENT, max_tokens, singletons=True))
    assert [len(piece.tokens) for piece in pieces] == sizes
    assert [sentence for piece in pieces for sentence in piece.sentences] == list(DOCUMENT.sentences)
    offsets = [0, *itertools.accumulate(sizes)]
    moved = {
        Mention(mention.start + offset, mention.end + offset)
        for piece, offset in zip(pieces, offsets[:-1], strict=True)
        for cluster in piece.clusters
        for mention in cluster
    }
    assert moved == {mention for cluster in DOCUMENT.clusters for mention in cluster}


def test_pieces_are_few_and_about_equal() -> None:
    document = CorefDocument("long", tuple(("a",) * (5 + number % 4) for number in range(300)))
    sizes = [len(piece.tokens) for piece in split_document(document, 1000, singletons=False)]
    assert sum(sizes) == len(document.tokens) == 1950
    assert len(sizes) == 2 and max(sizes) - min(sizes) <= 10
    with pytest.raises(InputError, match=r"^sentence 0 of long has 5 tokens, more than max_tokens 4"):
        list(split_document(document, 4, singletons=False))


def test_only_training_documents_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "x_conll"
    path.write_text(CONLL2012)
    settings = CorefSettings(max_tokens=4)
    whole, pieces = (list(TASK.read([path], settings, training=training)) for training in (False, True))
    assert [len(document.tokens) for document in whole] == [5, 1]
    assert [len(document.tokens) for document in pieces] == [4, 1, 1]
    assert [len(document.clusters) for document in whole] == [4, 0]
    assert [len(document.clusters) for document in pieces] == [0, 0, 0]
    kept = list(TASK.read([path], CorefSettings(max_tokens=4, singletons=True), training=True))
    assert [len(document.clusters) for document in kept] == [4, 1, 0]
