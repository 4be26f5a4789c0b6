import gzip
import io
import tarfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from elmokit.errors import ElmokitError, ElmokitWarning, FormatError, InputError
from elmokit.tasks.coref.document import CorefDocument, Mention
from elmokit.tasks.coref.reader import read_conll2012, read_litbank, read_ontogum
from elmokit.text import archive as text_archive
from tests.data import DATA, needs_data

CONLL2012 = """\
#begin document (bc/cctv/00/cctv_0001); part 000
bc/cctv/00/cctv_0001   0   0    The   DT   (TOP(S(NP*   -    -   -   Ann#1   *    (ARG0*   (1|(2
bc/cctv/00/cctv_0001   0   1    old   JJ   *            -    -   -   Ann#1   *    *        1)|(3
bc/cctv/00/cctv_0001   0   2    man   NN   *)           -    -   -   Ann#1   *    *)       2)|3)|(4)
bc/cctv/00/cctv_0001   0   3    ran   VBD  (VP*)))     run   01   -   Ann#1   *    (V*)     -

bc/cctv/00/cctv_0001   0   0    He    PRP  (TOP*)       -    -   -   -       *          (2)

#end document
#begin document (bc/cctv/00/cctv_0001); part 001
bc/cctv/00/cctv_0001   1   0    #     SYM  (TOP*)       -    -   -   Bob     *          -
#end document
"""


def litbank_row(number: int, word: str, cell: str) -> str:
    return "\t".join(["a_brat", "0", str(number), word, *"_" * 8, cell])


LITBANK = "\n".join(
    [
        "#begin document (a_brat); part 0",
        litbank_row(0, "Mr.", "(0"),
        litbank_row(1, "Fox", "0)"),
        litbank_row(2, "sat", ""),
        "",
        litbank_row(0, "His", "(1|(0)"),
        litbank_row(1, "den", "1)"),
        "#end document",
        "",
    ]
)
ONTOGUM = "# begin document \n0\tShe\t(1)\n1\tsaw\t_\n2\the\t(3(4)\n3\tr\t3)(1)\n# end document\n"
LENGTHS = "GUM_news_a\t1 3\nGUM_news_b\t4\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "data"
    path.write_text(text)
    return path


def pack(folder: Path, files: dict[str, str], name: str = "data.tar.gz") -> Path:
    path = folder / name
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w:gz") as packed:
        for member, text in files.items():
            info = tarfile.TarInfo(f"top/{member}")
            info.size = len(text.encode())
            packed.addfile(info, io.BytesIO(text.encode()))
    return path


def pack_litbank(folder: Path, text: str) -> Path:
    return pack(folder, {"a_brat.conll": text, "LICENSE": "no document"})


def pack_ontogum(folder: Path, text: str, lengths: str = LENGTHS) -> Path:
    return pack(folder, {"conll/GUM_news_a.conll": text, "sentence_lengths.tsv": lengths})


def test_conll2012(tmp_path: Path) -> None:
    first, second = read_conll2012(write(tmp_path, CONLL2012))
    assert first == CorefDocument(
        "bc/cctv/00/cctv_0001",
        (("The", "old", "man", "ran"), ("He",)),
        (
            (Mention(0, 2),),
            (Mention(0, 3), Mention(4, 5)),
            (Mention(1, 3),),
            (Mention(2, 3),),
        ),
        0,
        (("Ann#1",) * 4, ("-",)),
        "bc",
    )
    assert second == CorefDocument("bc/cctv/00/cctv_0001", (("#",),), (), 1, (("Bob",),), "bc")


def test_conll2012_compressed_and_without_folders(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(CONLL2012.replace("bc/cctv/00/", "").encode()))
    first, _ = read_conll2012(path)
    assert (first.name, first.genre) == ("cctv_0001", None)


def test_litbank(tmp_path: Path) -> None:
    (document,) = read_litbank(pack_litbank(tmp_path, LITBANK))
    assert document == CorefDocument(
        "a_brat",
        (("Mr.", "Fox", "sat"), ("His", "den")),
        ((Mention(0, 2), Mention(3, 4)), (Mention(3, 5),)),
    )


def test_ontogum(tmp_path: Path) -> None:
    (document,) = read_ontogum(pack_ontogum(tmp_path, ONTOGUM))
    assert document == CorefDocument(
        "GUM_news_a",
        (("She",), ("saw", "he", "r")),
        ((Mention(0, 1), Mention(3, 4)), (Mention(2, 3),), (Mention(2, 4),)),
        genre="news",
    )


def test_a_folder_is_read_like_its_archive(tmp_path: Path) -> None:
    path = pack_ontogum(tmp_path, ONTOGUM)
    with tarfile.open(path) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    assert list(read_ontogum(tmp_path / "unpacked")) == list(read_ontogum(path))


def test_splits(tmp_path: Path) -> None:
    texts = {f"{name}.conll": LITBANK.replace("(a_brat)", f"({name})") for name in ("c", "a", "b")}
    path, split = pack(tmp_path, texts), tmp_path / "dev.txt"
    assert [document.name for document in read_litbank(path)] == ["c", "a", "b"]
    split.write_text("b\n\nc\n")
    assert [document.name for document in read_litbank(path, split)] == ["c", "b"]
    split.write_text("b\nd\n")
    with pytest.raises(InputError, match=r"dev\.txt names d, which .*data\.tar\.gz does not have: give the lists of"):
        list(read_litbank(path, split))
    split.write_text("")
    with pytest.raises(FormatError, match=r"data\.tar\.gz has no \.conll files that .*dev\.txt names\.$"):
        list(read_litbank(path, split))


def test_mentions_of_one_cluster_inside_each_other(tmp_path: Path) -> None:
    text = ONTOGUM.replace("(1)\n1\tsaw\t_", "(1(1\n1\tsaw\t1)").replace("3)(1)", "3)1)")
    (document,) = read_ontogum(pack_ontogum(tmp_path, text))
    assert document.clusters[0] == (Mention(0, 2), Mention(0, 4))


def test_a_mention_that_ends_where_one_of_its_cluster_begins(tmp_path: Path) -> None:
    text = ONTOGUM.replace("(1)\n1\tsaw\t_", "(1\n1\tsaw\t1)(1").replace("3)(1)", "1)3)")
    (document,) = read_ontogum(pack_ontogum(tmp_path, text))
    assert document.clusters[0] == (Mention(0, 2), Mention(1, 4))


def test_a_mention_given_twice_is_one(tmp_path: Path) -> None:
    (document,) = read_ontogum(pack_ontogum(tmp_path, ONTOGUM.replace("She\t(1)", "She\t(1)(1)")))
    assert document.clusters[0] == (Mention(0, 1), Mention(3, 4))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("2)|3)|(4)", "2)|(4)", r"data line 3 opens a mention of 3 that the document never closes: balance"),
        ("(1|(2", "(2", r"data line 3 closes a mention of 1, none of which is open: balance the brackets\.$"),
        ("(4)", "4", r"data line 4 has the coreference '2\)\|3\)\|4', expected '-' or mentions such as"),
        ("(1|(2", "(1||(2", "data line 2 has the coreference"),
        ("       (2)", "       ?", r"data line 7 has the coreference '\?', expected '-'"),
        ("0   3    ran", "0   x    ran", "data line 5 has the token number 'x', expected 3: give a file of CoNLL-2012"),
        ("   run   01   -", "   run", "data line 5 has 11 columns, expected at least 12 of CoNLL-2012"),
        ("#end document\n#", "#", "data line 9 begins a document inside that of line 1: write #end document"),
        ("-\n#end document\n", "-\n", "data ends inside the document that line 10 begins: fetch it again"),
        ("#begin document (bc/cctv/00/cctv_0001); part 001\n", "", "data line 10 is outside a document"),
        ("part 001\n", "part 001\n#end document\n", "data line 10 begins a document without tokens: remove it"),
    ],
)
def test_bad_lines(before: str, after: str, message: str, tmp_path: Path) -> None:
    assert before in CONLL2012
    with pytest.raises(InputError, match=message):
        list(read_conll2012(write(tmp_path, CONLL2012.replace(before, after, 1))))


def test_bad_lines_of_an_archive(tmp_path: Path) -> None:
    for before, after, message in [
        ("\t0)", "\t", r"data\.tar\.gz: top/a_brat\.conll line 2 opens a mention of 0 that the document never closes"),
        ("\t2\tsat", "\t3\tsat", r"top/a_brat\.conll line 4 has the token number '3', expected 2"),
        ("sat\t_", "sat", r"top/a_brat\.conll line 4 has 12 columns, expected 13 of LitBank: correct the line"),
    ]:
        assert before in LITBANK
        with pytest.raises(InputError, match=message):
            list(read_litbank(pack_litbank(tmp_path, LITBANK.replace(before, after, 1))))


def test_ontogum_warns_of_unbalanced_brackets(tmp_path: Path) -> None:
    path = pack_ontogum(tmp_path, ONTOGUM.replace("3)(1)", "5)(1)"))
    with pytest.warns(ElmokitWarning) as caught:
        (document,) = read_ontogum(path)
    assert [str(warning.message).partition("GUM_news_a.conll ")[2] for warning in caught] == [
        "line 5 closes a mention of 5, none of which is open: it is left out.",
        "line 4 opens a mention of 3 that the document never closes: it is left out.",
    ]
    assert document.clusters == ((Mention(0, 1), Mention(3, 4)), (Mention(2, 3),))


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ("GUM_news_a\t1 2\n", r"GUM_news_a\.conll has 4 tokens, but sentence_lengths\.tsv sentences of 3 for it"),
        ("GUM_news_b\t4\n", "has 4 tokens, but sentence_lengths.tsv sentences of 0 for it"),
        ("GUM_news_a\t1 x\n", r"sentence_lengths\.tsv line 1 is not a name, a tab and lengths"),
        ("GUM_news_a\t1 3\nb 4\n", r"sentence_lengths\.tsv line 2 is not a name"),
        ("GUM_news_a\t4 0\n", "line 1 is not a name"),
        ("GUM_news_a\t\n", "line 1 is not a name"),
    ],
)
def test_bad_sentence_lengths(lengths: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        list(read_ontogum(pack_ontogum(tmp_path, ONTOGUM, lengths)))


NER = "EU NNP I-NP I-ORG\n"
EWT = "doc\t0\t0\tYes\tUH\t*\t-\t-\n"
CONLLU = "# newdoc id = a\n1\tHe\the\tPRON\tPRP\t_\t0\troot\t0:root\t_\n"


@pytest.mark.parametrize("text", [NER, EWT, CONLLU, "a word\n"])
def test_files_of_another_task(text: str, tmp_path: Path) -> None:
    for corpus, documents in [
        ("CoNLL-2012", read_conll2012(write(tmp_path, text))),
        ("LitBank", read_litbank(pack(tmp_path, {"a.conll": text}, "litbank.tar.gz"))),
        ("OntoGUM", read_ontogum(pack_ontogum(tmp_path, text))),
    ]:
        with pytest.raises(InputError, match=rf"line 1 is outside a document, expected '# ?begin .* of {corpus}\.$"):
            list(documents)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (lambda folder: read_conll2012(write(folder, ONTOGUM)), "line 1 is outside a document"),
        (lambda folder: read_litbank(pack_litbank(folder, CONLL2012)), "line 2 has 1 columns, expected 13 of LitBank"),
        (lambda folder: read_litbank(pack_litbank(folder, ONTOGUM)), "line 1 is outside a document"),
        (lambda folder: read_ontogum(pack_ontogum(folder, LITBANK)), "line 1 is outside a document"),
        (lambda folder: read_ontogum(pack_litbank(folder, LITBANK)), r"has no sentence_lengths\.tsv: give OntoGUM's"),
        (lambda folder: read_litbank(pack(folder, {"a.txt": "x"})), r"data\.tar\.gz has no \.conll files\.$"),
        (
            lambda folder: read_litbank(write(folder, LITBANK)),
            r"data is damaged or not an archive \(.*\): give a \.tar\.xz",
        ),
        (lambda folder: read_litbank(folder / "none"), r"none cannot be read: No such file or directory\.$"),
        (lambda folder: read_conll2012(folder / "none"), r"none cannot be read: No such file or directory\.$"),
    ],
)
def test_files_of_another_corpus(
    documents: Callable[[Path], Iterator[CorefDocument]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ElmokitError, match=message):
        list(documents(tmp_path))


def test_archives_that_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack_litbank(tmp_path, LITBANK * 50)
    path.write_bytes(path.read_bytes()[:150])
    with pytest.raises(FormatError, match="is damaged or not an archive"):
        list(read_litbank(path))
    path = tmp_path / "latin.tar"
    with tarfile.open(path, "w") as packed:
        info = tarfile.TarInfo("a.conll")
        info.size = 1
        packed.addfile(info, io.BytesIO(b"\xe4"))
    with pytest.raises(FormatError, match=r"latin\.tar: a\.conll is not UTF-8 text: give a \.tar\.xz"):
        list(read_litbank(path))
    monkeypatch.setattr(text_archive, "MAX_FILE_BYTES", 10)
    with pytest.raises(FormatError, match=r"top/a_brat\.conll has [0-9]+ bytes, more than any text: give a \.tar\.xz"):
        list(read_litbank(pack_litbank(tmp_path, LITBANK)))


def totals(documents: list[CorefDocument]) -> tuple[int, ...]:
    mentions = [mention for document in documents for cluster in document.clusters for mention in cluster]
    return (
        len(documents),
        sum(len(document.sentences) for document in documents),
        sum(len(document.tokens) for document in documents),
        len(mentions),
        sum(len(document.clusters) for document in documents),
        sum(len(cluster) > 1 for document in documents for cluster in document.clusters),
    )


@pytest.mark.slow
@needs_data("coref")
@pytest.mark.parametrize(
    ("split", "expected"),
    [
        ("train", (80, 6_909, 168_626, 23_245, 6_271, 1_726)),
        ("dev", (10, 840, 21_438, 2_973, 900, 222)),
        ("test", (10, 813, 20_468, 2_885, 756, 216)),
    ],
)
def test_counts_of_litbank(split: str, expected: tuple[int, ...]) -> None:
    folder = DATA / "coref" / "litbank"
    assert totals(list(read_litbank(folder / "litbank-conll.tar.xz", folder / f"{split}.txt"))) == expected


# One of the 1,910 mentions of test2 is opened but not closed.
@pytest.mark.slow
@needs_data("coref")
@pytest.mark.parametrize(
    ("split", "expected", "faults"),
    [
        ("train", (177, 10_224, 177_410, 23_320, 5_311, 5_304), 0),
        ("dev", (30, 1_575, 28_119, 3_818, 857, 855), 0),
        ("test", (30, 1_464, 28_397, 3_581, 858, 857), 0),
        ("test2", (26, 1_334, 17_799, 1_909, 457, 455), 2),
    ],
)
def test_counts_of_ontogum(split: str, expected: tuple[int, ...], faults: int) -> None:
    folder = DATA / "coref" / "ontogum"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        documents = list(read_ontogum(folder / "ontogum-conll.tar.xz", folder / f"{split}.txt"))
    assert totals(documents) == expected
    assert sum("GENTLE_poetry_road.conll line" in str(warning.message) for warning in caught) == len(caught) == faults
    assert {"dictionary", "poetry"} <= {str(document.genre) for document in documents} or split != "test2"


SCORER_FILES = {
    "five columns, no part": "#begin document (nw/a);\nd 0 0 Ann (1)\nd 0 1 ran -\n\nd 0 0 She (1)\n#end document\n",
    "four columns": "#begin document (nw/a); part 000\nd 0 Ann (1)\nd 1 ran _\n\nd 0 She (1)\n#end document\n",
    "as SemEval": "#begin document nw/a\n1\tAnn\tN\t(1)\n2\tran\tV\t_\n\n1\tShe\tP\t(1)\n#end document nw/a\n",
    "words": "#begin document nw/a; part 0\nAnn (1)\nran -\n\nShe (1)\n#end document\n",
    "part without a number": "# begin document (nw/a)\r\nAnn\t(1)\r\nran\t-\r\n\r\nShe\t(1)\r\n# end document\r\n",
}


@pytest.mark.parametrize("name", SCORER_FILES)
def test_files_of_the_scorer_have_fewer_columns(name: str, tmp_path: Path) -> None:
    expected = CorefDocument("nw/a", (("Ann", "ran"), ("She",)), ((Mention(0, 1), Mention(2, 3)),), genre="nw")
    assert list(read_conll2012(write(tmp_path, SCORER_FILES[name]))) == [expected]


def test_columns_that_say_nothing_about_the_word(tmp_path: Path) -> None:
    path = write(tmp_path, "#begin document (a);\nAnn N (1)\n#end document\n")
    with pytest.raises(InputError, match="data line 2 has 3 columns, expected at least 12 of CoNLL-2012"):
        list(read_conll2012(path))
    path = write(tmp_path, "#begin document (a);\nAnn (1)\nran V -\n#end document\n")
    with pytest.raises(InputError, match="data line 3 has 3 columns, expected 2 of CoNLL-2012: correct the line"):
        list(read_conll2012(path))


def test_clusters_are_in_the_order_of_their_first_brackets(tmp_path: Path) -> None:
    text = "#begin document (a);\na (7|(3|(5)\nb 3)\nc 7)|(3)\nd (5)\n#end document\n"
    (document,) = read_conll2012(write(tmp_path, text))
    assert document.clusters == (
        (Mention(0, 1), Mention(3, 4)),
        (Mention(0, 3),),
        (Mention(0, 2), Mention(2, 3)),
    )


@needs_data("coref")
def test_a_file_of_litbank_by_itself(tmp_path: Path) -> None:
    archive = DATA / "coref/litbank/litbank-conll.tar.xz"
    with tarfile.open(archive) as packed:
        member = next(member for member in packed if member.name.endswith(".conll"))
        content = packed.extractfile(member)
        assert content is not None
        (tmp_path / "one.conll").write_bytes(content.read())
    (alone,) = read_conll2012(tmp_path / "one.conll")
    assert alone == next(document for document in read_litbank(archive) if document.name == alone.name)
    assert alone.clusters
