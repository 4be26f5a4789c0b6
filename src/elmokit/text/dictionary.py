"""ELMoForManyLangs' `.dic` files: one `token<TAB>id` per line."""

from collections.abc import Mapping
from pathlib import Path

from elmokit.errors import VocabularyError
from elmokit.text.files import open_text

_BLANK = "\u3000"
_MAX_DIGITS = 9


def read_dictionary(path: Path, *, num_rows: int) -> dict[str, int]:
    """Read the ids of a table's rows; an entry of white space alone means U+3000, as in ELMoForManyLangs."""
    table: dict[str, int] = {}
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            token, tab, index = line.removesuffix("\n").removesuffix("\r").rpartition("\t")
            if not tab or not index.strip().isdecimal() or len(index.strip()) > _MAX_DIGITS:
                raise VocabularyError(
                    f"{path}, line {number}: {line.strip()[:40]!r} is not a token, a tab and an id; "
                    "use the file that came with the model."
                )
            table[token if token.strip() else _BLANK] = int(index)
    if table and max(table.values()) >= num_rows:
        raise VocabularyError(
            f"{path} has ids up to {max(table.values())}, but its table has {num_rows} rows: "
            "the files belong to different models."
        )
    return table


def dictionary_text(table: Mapping[str, int]) -> str:
    """The content of a `.dic` file."""
    return "".join(f"{token}\t{index}\n" for token, index in table.items())
