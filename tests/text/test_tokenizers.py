"""Which tokenizer a text went through, what is said of another one, and that rules do not change without a version."""

import hashlib
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from elmokit.config import TokenizerConfig
from elmokit.errors import ConfigError, ElmokitWarning
from elmokit.text import tokenizers
from elmokit.text.input_kind import CORPUS_FILE, CORPUS_FORMAT, InputKind
from elmokit.text.tokenize import TOKENIZER_VERSION, tokenize
from elmokit.text.tokenizers import (
    EXTERNAL,
    OWN,
    check_raw_text,
    check_training_text,
    describe_tokenizer,
    text_tokenizer,
)

FIRST = TokenizerConfig(name="elmokit", version=1)
NEWER = TokenizerConfig(name="elmokit", version=TOKENIZER_VERSION + 1)
UNKNOWN = TokenizerConfig(name="later", version=3)
NOT_STATED = TokenizerConfig(name="elmokit")

# --- The version -----------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PROSE = Path(__file__).parents[1] / "fixtures" / "prose.txt"
HARD = """
Dr. No can't stay; couldn't've! I don’t, we'll, John's, dogs' bones, AT&T's, O'Neil at ten o'clock. Cannot? Gimme 'em!
'Tis true: the '90s, class of '68, rock 'n' roll, 5'11", goin' home. The end.The next. node.js v1.2.3 e.g. this, etc.
At 5 p.m. He left the U.S. In Jan. 1990 he met J. R. Smith Jr. No. 5 is alive. See Fig. 3 and p. 7. So did I. "Stop!" he
said. "Stop!" Holmes cried (why?) and went on ... and on… Well -- no?! ==== 1990–1995, 1990-95, pre- and post-war, a—b.
It cost US$5, £7,000.50, .5 or -5; 10:30, 1/2, 12-03-2020, 5pm, 10% at 25°C. and/or R&D snake_case C++ C# `` quoted ''
See https://example.org/a_(b)?c=d. or www.example.com, a.b+c@example.co.uk, /usr/bin, C:\\x, @handle #topic :-) <3 ^_^
<unk> -LRB- @-@ &amp; 漢字とカタカナ。次の文！ Привет, мир. مرحبا؟ हिन्दी। 한국어 👩\u200d👩\u200d👧 🇩🇪 1️⃣
na\u00efve nai\u0308ve soft\u00adhyphen

a heading without an end mark

1. First item. 2) Second item? web text. lower case begins here! ok
"""
SUMS = {1: "ef60b417322103c408b7516497d67c392799be70524a88bc4a458e35e7172163"}
"""SHA-256 of what each version of the rules makes of the texts above."""


def test_other_rules_have_another_version() -> None:
    text = PROSE.read_text(encoding="utf-8") + HARD
    digest = hashlib.sha256(json.dumps(tokenize(text)).encode()).hexdigest()
    assert SUMS.get(TOKENIZER_VERSION) == digest, (
        "the tokenizer gives other tokens or sentences than its version did: count TOKENIZER_VERSION up, and add the "
        "new sum here, as models record the version that they were trained with"
    )
    assert max(SUMS) == TOKENIZER_VERSION


# --- Of a text -------------------------------------------------------------------------------------------------------


def write_shard(folder: Path, **content: Any) -> Path:
    """A file that passes for a shard, beside a summary that says so."""
    folder.mkdir()
    text = json.dumps({"format": CORPUS_FORMAT, "version": 1, **content})
    (folder / CORPUS_FILE).write_text(text, encoding="utf-8")
    return folder / "shard-00000.txt"


@pytest.mark.parametrize(("input", "expected"), [("text", OWN), ("tokens", EXTERNAL)])
def test_files(input: InputKind, expected: TokenizerConfig, tmp_path: Path) -> None:
    assert text_tokenizer([tmp_path / "a.txt", tmp_path / "b.txt"], input) == expected


@pytest.mark.parametrize("read_as", ["text", "tokens"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"input": "text"}, FIRST),
        ({"input": "tokens"}, EXTERNAL),
        ({"input": "text", "tokenizer": NEWER.model_dump()}, NEWER),
        ({"input": "tokens", "tokenizer": EXTERNAL.model_dump()}, EXTERNAL),
        ({"input": "text", "tokenizer": None}, None),
        ({"input": "text", "tokenizer": {"name": "", "version": -1}}, None),
        ({"input": "text", "tokenizer": "x"}, None),
    ],
    ids=str,
)
def test_shards_say_their_own(
    content: dict[str, Any], expected: TokenizerConfig | None, read_as: InputKind, tmp_path: Path
) -> None:
    assert text_tokenizer([write_shard(tmp_path / "shards", **content)], read_as) == expected


def test_several_are_none(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "shards", input="text", tokenizer=NEWER.model_dump())
    assert text_tokenizer([shard, tmp_path / "a.txt"], "text") is None
    same = write_shard(tmp_path / "more", input="text")
    assert text_tokenizer([same, tmp_path / "a.txt"], "text") == FIRST


# --- What is said ----------------------------------------------------------------------------------------------------


def said(trained: TokenizerConfig | None, **more: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_raw_text(trained, **more)
    assert all(issubclass(one.category, ElmokitWarning) for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("trained", [None, OWN, NOT_STATED])
def test_nothing_is_said_where_nothing_is_known_to_differ(trained: TokenizerConfig | None) -> None:
    assert said(trained) == []


def test_a_newer_version() -> None:
    (sentence,) = said(NEWER)
    assert f"trained with version {NEWER.version} of elmokit's tokenizer" in sentence
    assert f"tokenized with version {OWN.version} of elmokit's tokenizer" in sentence
    assert sentence.endswith(
        ": install a newer elmokit, or give tokens that were made as in its training (--input tokens)."
    )
    assert said(NEWER, accepts_tokens=False)[0].endswith("differently: install a newer elmokit.")


def test_an_older_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "OWN", NEWER)
    (sentence,) = said(OWN)
    assert f"with version {OWN.version} of" in sentence and f"with version {NEWER.version} of" in sentence
    assert "newer" not in sentence
    assert sentence.endswith("(--input tokens), or train a model on raw text with this elmokit.")


def test_tokens_of_others() -> None:
    (sentence,) = said(EXTERNAL)
    assert "was trained with tokens of another tokenizer" in sentence and "--input tokens" in sentence
    assert "--input tokens" not in said(EXTERNAL, accepts_tokens=False)[0]


def test_an_unknown_tokenizer_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"version 3 of the tokenizer 'later', which elmokit .* does not have"
    ) as error:
        check_raw_text(UNKNOWN)
    assert str(error.value).endswith("or give tokens that were made as in its training (--input tokens).")
    with pytest.raises(ConfigError, match=r": install a newer elmokit\.$"):
        check_raw_text(UNKNOWN, accepts_tokens=False)


@pytest.mark.filterwarnings("error")
def test_text_to_train_on(tmp_path: Path) -> None:
    shard = write_shard(tmp_path / "shards", input="text", tokenizer=FIRST.model_dump())
    for trained in (None, FIRST, NOT_STATED):
        check_training_text(trained, [shard], "text")
    for trained in (NEWER, EXTERNAL, UNKNOWN):
        with pytest.warns(ElmokitWarning, match="the shards were tokenized with version 1 of elmokit's tokenizer"):
            check_training_text(trained, [shard], "text")
        check_training_text(trained, [tmp_path / "a.txt"], "tokens")  # nobody knows by what
    with pytest.warns(ElmokitWarning, match="raw text is tokenized with"):
        check_training_text(NEWER, [shard, tmp_path / "a.txt"], "text")
    with pytest.raises(ConfigError, match="'later'"):
        check_training_text(UNKNOWN, [tmp_path / "a.txt"], "text")


@pytest.mark.parametrize(
    ("trained", "expected"),
    [
        (None, "not stated"),
        (OWN, f"elmokit, version {OWN.version}"),
        (NEWER, f"elmokit, version {NEWER.version} (here: version {OWN.version})"),
        (NOT_STATED, "elmokit"),
        (EXTERNAL, "none of elmokit's: the training text came as tokens"),
        (UNKNOWN, "later, version 3 (not in this elmokit)"),
    ],
)
def test_in_a_table(trained: TokenizerConfig | None, expected: str) -> None:
    assert describe_tokenizer(trained) == expected


# --- Early versions of Python 3.11 -----------------------------------------------------------------------------------


def test_greedy_groups_find_the_same_tokens() -> None:
    """CPython before 3.11.5 cannot match possessive groups, so patterns there are greedy."""
    script = (
        "import sys; info = sys.version_info; sys.version_info = (3, 11, 2)\n"
        "from elmokit.text import sentences; assert sentences.KEEP == ''\n"
        "sys.version_info = info\n"
        "from tests.text.test_tokenizers import HARD, PROSE\n"
        "from elmokit.text.tokenize import tokenize\n"
        "text = PROSE.read_text(encoding='utf-8') + HARD\n"
        "print(ascii([tuple(token) for sentence in tokenize(text) for token in sentence]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    text = PROSE.read_text(encoding="utf-8") + HARD
    assert done.stdout.strip() == ascii([tuple(token) for sentence in tokenize(text) for token in sentence])
