"""Random settings, words and sentences for hypothesis."""

from typing import Any

from hypothesis import strategies as st

from elmokit.config import CharacterInput, ElmoConfig, LstmStack, TokenInput, TokenizerConfig
from elmokit.text.vocabulary import SPECIALS, Vocabulary

small = st.integers(1, 5)
clips = st.none() | st.floats(1 / 128, 100)

tokens = st.text(max_size=60) | st.sampled_from(
    ["", "<S>", "</S>", "<UNK>", "<bos>", "\0", "é" * 70, "\ud800", "👩‍👩‍👧"]
)
"""Any str that Python can hold, lone surrogates included."""

sentences = st.lists(tokens, max_size=6)


def _is_line(word: str) -> bool:
    return word == word.strip() and "\n" not in word and word not in (*SPECIALS, "!!!MAXTERMID")


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(_is_line)
"""What a line of a vocabulary file can hold."""

vocabularies = st.lists(words, max_size=8).map(lambda rest: Vocabulary([*SPECIALS, *rest]))

stacks = st.builds(
    LstmStack,
    num_layers=st.integers(1, 3),
    cell_dim=small,
    projection_dim=st.none() | small,
    cell_clip=clips,
    projection_clip=clips,
    skip_connections=st.booleans(),
)

tokenizers = st.none() | st.builds(
    TokenizerConfig, name=st.sampled_from(["elmokit", "external", "später"]), version=st.none() | st.integers(1, 99)
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
foreign: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.dictionaries(
    st.sampled_from(["dropout", "n_epochs", "learning_rate", "batch_size"]), json_values, min_size=1
).map(lambda options: {"options": options})


@st.composite
def character_inputs(draw: st.DrawFn, output_dim: int) -> CharacterInput:
    """A convolution over bytes that fits an LSTM of this width."""
    max_characters = draw(st.integers(3, 12))
    projected = draw(st.booleans())
    numbers = draw(st.lists(small, min_size=1, max_size=3)) if projected else [output_dim]
    return CharacterInput(
        char_dim=draw(small),
        filters=tuple((draw(st.integers(1, max_characters)), number) for number in numbers),
        activation=draw(st.sampled_from(["relu", "tanh"])),
        num_highway=draw(st.integers(0, 2)),
        max_characters=max_characters,
        projected=projected,
    )


@st.composite
def models(draw: st.DrawFn) -> tuple[ElmoConfig, Vocabulary | None]:
    """A config that every writable format can hold, and the vocabulary that goes with it."""
    lstm = draw(stacks)
    vocabulary = draw(st.none() | vocabularies)
    values: dict[str, Any] = {"lstm": lstm, "languages": draw(st.sampled_from([(), ("en",)])), "foreign": draw(foreign)}
    values["tokenizer"] = draw(tokenizers)
    if vocabulary is None:
        return ElmoConfig(input=draw(character_inputs(lstm.output_dim)), **values), None
    if draw(st.booleans()):
        softmax = draw(st.booleans())
        tied = softmax and draw(st.booleans())
        values |= {"input": TokenInput(), "softmax": softmax, "tied_softmax": tied, "vocab_size": len(vocabulary)}
    else:
        softmax = draw(st.booleans())
        size = len(vocabulary) if softmax else None
        values |= {"input": draw(character_inputs(lstm.output_dim)), "softmax": softmax, "vocab_size": size}
    return ElmoConfig(**values), vocabulary


configs = models().map(lambda model: model[0])
