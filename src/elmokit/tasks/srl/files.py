"""Read sentences from a file of one of three layouts, recognized by its first line."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from elmokit.arguments import check_choice
from elmokit.errors import InputError
from elmokit.tasks.srl.reader import SrlSentence, read_conll2005, read_conll2012, read_ewt_propbank
from elmokit.text.files import first_line

Format = Literal["auto", "ewt", "conll2012", "conll2005"]


def read_sentences(path: Path, format: Format = "auto") -> Iterator[SrlSentence]:
    """Stream sentences with their predicates; unless given, the format is recognized by the file's first line.

    Args:
        path: a file of PropBank on EWT, of CoNLL-2012 or of CoNLL-2005; the last may have its words in another file.
        format: the layout, or "auto".
    """
    check_choice("format", format, get_args(Format))
    first = first_line(path)
    kind = _find_format(path, first) if format == "auto" else format
    if kind != "conll2005":
        return (read_ewt_propbank if kind == "ewt" else read_conll2012)(path)
    columns = first.split()
    has_words = len(columns) > 1 and "*" not in columns[1]
    return read_conll2005(path, None if has_words else _find_words(path))


def _find_format(path: Path, first: str) -> Format:
    """The layout, by the first line that is not blank."""
    tabbed, columns = first.split("\t"), first.split()
    if len(tabbed) >= 8 and tabbed[1].isdecimal() and tabbed[2] == "0":
        return "ewt"
    if first.startswith("#begin document") or (len(columns) >= 12 and columns[1].isdecimal() and columns[2] == "0"):
        return "conll2012"
    if (
        columns == ["-"]
        or columns[1:] == ["-"]
        or any(len(columns) > begin and all("*" in column for column in columns[begin:]) for begin in (1, 2))
    ):
        return "conll2005"
    raise InputError(
        f"{path} begins with {first.strip()[:60]!r}, which is neither EWT PropBank (gold_conll), CoNLL-2012 (*_conll) "
        "nor CoNLL-2005 (props): give such files, or name their format with model.format."
    )


def _find_words(props: Path) -> Path:
    """The file of words for a CoNLL-2005 file without words, next to it or in a folder `words`."""
    name = props.name.replace("props", "words") if "props" in props.name else f"words.{props.name}"
    beside = props.with_name(name)
    found = next((path for path in (beside, props.parent.parent / "words" / name) if path.exists()), None)
    if found is None:
        raise InputError(f"{props} has no words, and there is no {beside}: put the words there, one per line.")
    return found
