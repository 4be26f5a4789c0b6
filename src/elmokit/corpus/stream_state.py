"""Check a saved state of a sentence stream, and explain what is wrong with it."""

from collections.abc import Mapping
from typing import Any

from elmokit.corpus.passages import Place
from elmokit.errors import InputError
from elmokit.text.input_kind import CORPUS_FILE

NO_STATE = "this is not a state of a sentence stream: use a complete checkpoint."
_COUNTERS = ("epoch", "num_sentences", "buffer", "num_emitted", "within")
_BEFORE_MIXING = {"mixed": 0, "weights": 0, "max_open_files": 0}
"""Values of keys that older states lack."""


def check_state(state: Mapping[str, Any], identity: Mapping[str, int]) -> dict[str, Any]:
    """Check that a state belongs to a stream of this identity, and return it with all keys."""
    whole = {**_BEFORE_MIXING, **state}
    if not all(_is_count(whole.get(key)) for key in (*_COUNTERS, *identity)):
        raise InputError(NO_STATE)
    for key, value in identity.items():
        if whole[key] != value:
            raise InputError(_difference(key, whole[key], value))
    return whole


def read_places(state: Mapping[str, Any], *, is_mixed: bool) -> tuple[Place, ...]:
    """The places in a state: one per lane in mixed text, otherwise a single one."""
    places = state.get("places") if is_mixed else [[state.get(key) for key in Place._fields]]
    if not isinstance(places, list) or not all(
        isinstance(place, list) and len(place) == len(Place._fields) and all(map(_is_count, place)) for place in places
    ):
        raise InputError(NO_STATE)
    if not is_mixed and places[0][0] >= state["num_files"]:
        raise InputError(NO_STATE)
    return tuple(Place(*place) for place in places)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _difference(key: str, saved: int, given: int) -> str:
    if key in ("names", "sizes"):
        return f"the {key} of the files are not those of the run to resume: give its files, unchanged."
    if key == "raw_text":
        kinds = ("tokens", "raw text")
        return (
            f"the files are read as {kinds[given > 0]}, but were read as {kinds[saved > 0]} in the run to resume: give "
            f"the same --input (corpus.input), and leave {CORPUS_FILE} beside shards as it was."
        )
    if key == "mixed":
        orders = ("files", "mixed")
        return (
            f"the text is read in the order {orders[given > 0]!r}, but {orders[saved > 0]!r} in the run to resume: "
            "give the same corpus.order."
        )
    if key == "weights":
        return "the weights of the files are not those of the run to resume: give the same corpus.weights."
    return f"{key} is {given}, but {saved} in the run to resume: give its files and its settings."
