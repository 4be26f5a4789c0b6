"""Raw text to sentences of tokens with character offsets, in the style of the Penn Treebank.

White space splits the text into chunks, and each chunk is split into tokens independently: only the chunk itself and
whether it ends a sentence matter. So the pieces of a chunk can be cached. In running text a few thousand chunks make up
most of the words, so most words cost little more than a dictionary lookup.

No character is changed, added or dropped: the tokens are slices of the text, and only white space lies between them.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

from elmokit.arguments import check_flag
from elmokit.errors import InputError
from elmokit.text import sentences

TOKENIZER_VERSION = 1
"""Version of the rules here and in `sentences`. Models record it, so increase it with every change of the output."""
_REMEMBERED_CHUNKS = 1 << 16
_LONGEST_REMEMBERED = 48
_ZERO_WIDTH_SPACE = "\u200b"

_HAN = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_HIRAGANA = "\u3041-\u3096\u309d-\u309f"
_KATAKANA = "\u30a1-\u30fa\u30fd-\u30ff\u31f0-\u31ff\uff66-\uff9d"
_PROLONGED = "\u30fc\uff70"
_EMOJI = "\u231a-\u23ff\u25a0-\u27bf\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_DOMAINS = (
    "ac|ai|app|at|au|be|biz|br|ca|cc|ch|cn|co|com|cz|de|dev|dk|edu|es|eu|fi|fm|fr|gov|gr|hk|ie|il|in|info|int|io|ir|"
    "it|jp|kr|me|mil|mx|net|nl|no|nz|org|ph|pl|pt|ro|ru|se|sg|to|tr|tv|tw|ua|uk|us|za|Com|COM|Net|NET|Org|ORG"
)

_ENDINGS = (
    "com|csv|doc|docx|edu|exe|gif|gz|htm|html|jpeg|jpg|js|json|mp3|mp4|net|NET|org|pdf|png|ppt|py|tar|txt|xls|xml|zip"
)

_SUFFIXES = {2: ("'s", "'m", "'d"), 3: ("n't", "'ll", "'re", "'ve")}
_FUSED = {"cannot": 3, "gonna": 3, "gotta": 3, "wanna": 3, "gimme": 3, "lemme": 3, "d'ye": 2, "more'n": 4}
_FUSED |= {"'tis": 2, "'twas": 2, "'twere": 2, "'twill": 2, "'twould": 2}
_WORD_JOINT = re.compile(r"[-‐‑/]")
_AFTER_PERIOD = "\"'”’»›)]}*_!?"
_URL_TAIL = ".,;:!?'\"*_~…’”‘“`"


class Token(NamedTuple):
    """A slice of the text: `text` is `original[start:end]`."""

    text: str
    start: int
    end: int


@cache
def _extenders() -> str:
    """The ranges, for a character class, of characters that attach to the one before them.

    These are the combining marks and the invisible format characters (joiners, direction marks, soft hyphen, byte
    order mark), without the zero width space. No assigned mark lies outside the planes looked at.
    """
    ranges: list[list[int]] = []
    for code in (*range(0x300, 0x20000), *range(0xE0000, 0xE0200), 0xAD):
        if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf") and chr(code) != _ZERO_WIDTH_SPACE:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern of the next token of a chunk, and the pattern of what attaches to its end.

    Built on first use. Repetitions are bounded or possessive, so no text makes the matching slower than linear.
    """
    keep = sentences.KEEP
    mark = f"[{_extenders()}]"
    letter = rf"[^\W_{_HAN}{_HIRAGANA}{_KATAKANA}{_PROLONGED}]"
    letters = f"(?:{letter}++|{mark}++)+{keep}"
    emoji_unit = rf"[{_EMOJI}](?:\ufe0f|[\U0001f3fb-\U0001f3ff])*{keep}\u20e3?[\U000e0020-\U000e007f]*+"
    link = r"[^\s<>\"“”«»|`「」『』（）【】《》〈〉。、，！？｡．؟۔।॥]"
    joint = (
        rf"(?:(?<!\d)['’]|['’](?!\d)|[\-‐‑/&·׳״־])(?={letter})|_++(?={letter})|(?<=\d)[,:](?=\d)"
        rf"|\.[-/](?={letter})|(?:(?<![a-z][a-z])\.|\.(?![A-Z][a-z]|[AI](?!\w)))(?={letter})"
    )
    alternatives = {
        "special": r"-(?:LRB|RRB|LSB|RSB|LCB|RCB)-|@[-.,]@|</?[A-Za-z][A-Za-z0-9]{0,15}/?>|&(?:[a-z]{2,6}|\#\d{1,6});",
        "link": (
            rf"(?:https?|ftps?|file|ssh|git|svn|irc)://{link}++|mailto:{link}++|(?i:www)\.{link}++"
            rf"|(?:[A-Za-z0-9][A-Za-z0-9\-]{{0,62}}\.){{1,8}}(?:{_DOMAINS})(?![\w&@]|[.\-]\w)(?::\d{{1,5}})?(?:/{link}*+)?"
            rf"|(?<![^\W_])(?:(?:~|\.\.?)?(?:/[\w.\-]++)+{keep}/?|[A-Za-z]:\\{link}++)"
        ),
        "email": r"[\w.+%\-]{1,64}@(?:[^\W_][\w\-]{0,62}\.){1,8}[^\W\d_]{2,24}(?!\w)",
        "handle": r"@(?=[^\W\d])\w++|\#(?=\d*+[^\W\d])\w++",
        "emoji": (
            rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9\#*]\ufe0f?\u20e3"
            rf"|{emoji_unit}(?:\u200d{emoji_unit})*{keep}|[©®™‼⁉ℹ↔-↪〰]\ufe0f"
        ),
        "emoticon": (
            r"(?<![^\W_])(?:(?:[:;]['’]?[\-^]?|=)(?:\)+|\(+|\]+|\[+|[DPp])(?!\w)|:-?[/\\|*](?![\w/])|<3+(?!\d)|\^_{0,3}\^|-_{1,3}-)"
        ),
        "elision": (
            r"(?i:(?<!\d)['’](?:\d\ds?|em|til|till|tis|twas|twere|twill|twould|n['’]?|cause|cos|cuz|bout|neath|s|m|d|ll|re|ve))"
            r"(?![\w'’])"
        ),
        "repeat": rf"\.{{2,}}|…+|[!?‽]++|[！？]++|''|``|’’|(?P<again>[\-–—―=_~*+^|\\/<>•#])(?P=again)+{keep}",
        "money": r"(?:US|HK|NZ|AU|CA|[ACS])\$(?=\d)",
        "word": (
            rf"(?:(?:(?<![\w)\]%])[-+−])?\.?(?=\d)|(?<![^(\[\"'“‘`])(?:-(?=[a-z])|\.(?=(?:{_ENDINGS})(?!\w))))?"
            rf"{letters}(?:(?:{joint}){letters})*{keep}(?:-(?=$|[,;)])|(?:\+\+?|\#)(?=$|[,;.)]))?"
        ),
        "east": f"[{_HAN}]|[{_HIRAGANA}{_PROLONGED}]++|[{_KATAKANA}{_PROLONGED}]++",
        "other": r"[\s\S]",
    }
    master = "|".join(f"(?P<{name}>{pattern})" for name, pattern in alternatives.items())
    return re.compile(master), re.compile(f"[{_extenders()}{_ZERO_WIDTH_SPACE}]*")


def _trim_link(link: str) -> int:
    """The length of a link without the punctuation of the sentence around it.

    A closing bracket stays if it was opened inside the link.
    """
    end = len(link)
    surplus = {close: link.count(close) - link.count(opening) for opening, close in ("()", "[]", "{}")}
    while end > 0:
        char = link[end - 1]
        if surplus.get(char, 0) > 0:
            surplus[char] -= 1
        elif char not in _URL_TAIL:
            break
        end -= 1
    return end


def _split_word(word: str) -> list[int]:
    """Where to split a word: before clitics (do|n't, John|'s) and in fused words (can|not)."""
    plain = word.lower().replace("’", "'")
    if len(plain) != len(word):  # a rare letter whose lower case is two characters
        return []
    if plain in _FUSED:
        return [_FUSED[plain]]
    cuts: list[int] = []
    end = len(plain)
    while "'" in plain[max(end - 3, 1) : end]:
        size = next((size for size, forms in _SUFFIXES.items() if plain.endswith(forms, 0, end)), 0)
        if not 0 < size < end:
            break
        end -= size
        cuts.append(end)
    return cuts[::-1]


def _pieces(chunk: str, final: bool) -> tuple[tuple[str, int, int], ...]:
    """Split a chunk, which has no white space, into (text, start, end) with offsets inside the chunk."""
    pattern, tail = _patterns()
    last_period = len(chunk.rstrip(_AFTER_PERIOD)) - 1 if final else -1
    pieces: list[tuple[str, int, int]] = []
    start = 0
    while start < len(chunk):
        match = pattern.match(chunk, start)
        assert match is not None  # the last alternative takes any character
        kind, end = match.lastgroup, match.end()
        if kind == "link":
            end = start + _trim_link(match[0])
        elif kind == "word" or kind == "elision":
            for cut in _split_word(match[0]):
                pieces.append((chunk[start : match.start() + cut], start, match.start() + cut))
                start = match.start() + cut
            if chunk[end : end + 1] == "." and _has_period(chunk, match.start(), end, end == last_period):
                end += 1
        attached = tail.match(chunk, end)
        end = attached.end() if attached else end
        pieces.append((chunk[start:end], start, end))
        start = end
    return tuple(pieces)


def _has_period(chunk: str, start: int, end: int, final: bool) -> bool:
    """Whether the period at `end` belongs to the word chunk[start:end]."""
    after = chunk[end + 1 : end + 2]
    if after == "." or not chunk[end - 1].isalpha():
        return False
    if after and after in ",;:":
        return True
    word = chunk[max(start, end - _LONGEST_REMEMBERED) : end]
    return sentences.keeps_period(_WORD_JOINT.split(word)[-1], final=final)


@lru_cache(maxsize=_REMEMBERED_CHUNKS)
def _inner_pieces(chunk: str) -> tuple[tuple[str, int, int], ...]:
    return _pieces(chunk, False)


@lru_cache(maxsize=_REMEMBERED_CHUNKS // 4)
def _final_pieces(chunk: str) -> tuple[tuple[str, int, int], ...]:
    return _pieces(chunk, True)


def _tokens(text: str, begin: int, end: int) -> list[Token]:
    """The tokens of the sentence text[begin:end], which has no white space at its ends."""
    tokens: list[Token] = []
    append, find, build = tokens.append, text.find, tuple.__new__
    chunks = text[begin:end].split()
    last = chunks.pop()
    at = begin
    for chunk in chunks:
        at = find(chunk, at)
        pieces = _inner_pieces(chunk) if len(chunk) <= _LONGEST_REMEMBERED else _pieces(chunk, False)
        for piece, start, stop in pieces:
            append(build(Token, (piece, at + start, at + stop)))
        at += len(chunk)
    at = find(last, at)
    pieces = _final_pieces(last) if len(last) <= _LONGEST_REMEMBERED else _pieces(last, True)
    for piece, start, stop in pieces:
        append(build(Token, (piece, at + start, at + stop)))
    return tokens


def tokenize(text: str, *, split_sentences: bool = True) -> list[list[Token]]:
    """Split raw text into sentences of tokens.

    Args:
        text: Any string. White space (`str.isspace`) separates tokens and is part of none.
        split_sentences: False treats the whole text as one sentence.

    Returns:
        One list of tokens per sentence, in order. No list is empty; text that is only white space gives no sentence.
        For every token, `text[token.start:token.end] == token.text`.

    Raises:
        InputError: If `text` is not a string.

    Example:
        >>> [[token.text for token in sentence] for sentence in tokenize("Dr. No can't stay. Why?")]
        [['Dr.', 'No', 'ca', "n't", 'stay', '.'], ['Why', '?']]
    """
    if not isinstance(text, str):
        raise InputError(
            f"tokenize() was given {type(text).__name__} but takes one str: call it once per text; decode bytes first."
        )
    if check_flag("split_sentences", split_sentences):
        spans = sentences.split_sentences(text)
    else:
        end = len(text.rstrip())
        spans = [(len(text) - len(text.lstrip()), end)] if end else []
    return [_tokens(text, begin, end) for begin, end in spans]
