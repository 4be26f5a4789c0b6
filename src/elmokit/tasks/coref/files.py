"""Read documents from a CoNLL-2012 file, an archive, or a list of documents next to their archive."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Literal, get_args

from elmokit.arguments import check_choice
from elmokit.errors import InputError
from elmokit.tasks.coref.document import CorefDocument
from elmokit.tasks.coref.reader import read_conll2012, read_litbank, read_ontogum
from elmokit.text.files import first_line

Format = Literal["auto", "conll2012", "litbank", "ontogum"]
_ARCHIVES: dict[str, Callable[[Path, Path | None], Iterator[CorefDocument]]] = {
    "litbank": read_litbank,
    "ontogum": read_ontogum,
}
_SUFFIXES = (".tar.xz", ".tar.gz", "")
"""File name of an archive, and name of the folder that it unpacks to."""


def read_documents(path: Path, format: Format = "auto") -> Iterator[CorefDocument]:
    """Stream documents; unless given, the format is recognized by the file's name and first line.

    Args:
        path: a `*_conll` file of CoNLL-2012; LitBank's or OntoGUM's archive, for all of its documents; or a list of
            some of them, next to the archive or to the folder that it unpacks to.
        format: the corpus, or "auto".
    """
    check_choice("format", format, get_args(Format))
    if format == "conll2012":
        return read_conll2012(path)
    corpora = [format] if format in _ARCHIVES else list(_ARCHIVES)
    if path.name.endswith((".tar.xz", ".tar.gz")):
        named = [corpus for corpus in corpora if format == corpus or path.name.startswith(corpus)]
        if not named:
            raise InputError(f"the name {path} does not show its corpus: set model.format to {' or '.join(corpora)}.")
        return _ARCHIVES[named[0]](path, None)
    first = first_line(path)
    if format == "auto" and first.lstrip().startswith("#"):
        return read_conll2012(path)
    for corpus in corpora:
        for suffix in _SUFFIXES:
            archive = path.parent / f"{corpus}-conll{suffix}"
            if archive.exists():
                return _ARCHIVES[corpus](archive, path)
    wanted = " or ".join(f"{corpus}-conll.tar.xz" for corpus in corpora)
    raise InputError(
        f"{path} does not begin with a document of CoNLL-2012, and there is no {wanted} next to it: give a *_conll "
        "file, or a list of an archive's documents in the archive's folder."
    )


def split_document(document: CorefDocument, max_tokens: int, *, singletons: bool) -> Iterator[CorefDocument]:
    """Split a document into the fewest, most equal pieces of whole sentences with at most `max_tokens` tokens.

    Mentions of an entity in different pieces are no longer linked.

    Args:
        document: the document to split.
        max_tokens: maximum number of tokens per piece.
        singletons: whether to keep clusters with only one mention in a piece.
    """
    begin = 0
    while begin < len(document.sentences):
        ends = list(accumulate(len(sentence) for sentence in document.sentences[begin:]))
        share = ends[-1] / -(-ends[-1] // max_tokens)  # target size of the remaining pieces
        size = next(end for end in ends if end >= share)
        if size > max_tokens:
            size = max((end for end in ends if end <= max_tokens), default=max_tokens)
        piece = document.cut(size, first_sentence=begin, singletons=singletons)
        yield piece
        begin += len(piece.sentences)
