"""Sentence boundaries in raw text, by rules over the words around each end mark.

An end mark (`.`, `?`, `!`, `…` and their sisters in other scripts) is only a candidate. Whether a sentence ends
there is decided by the word before it (abbreviation, initial, list number), by the closing quotes and brackets that
follow it, and by the first word after the white space. Every step looks at a bounded window, so the time is linear
in the length of the text.
"""

import re
import sys
import unicodedata

from elmokit.arguments import shown
from elmokit.errors import InputError

_OPENERS = "\"'“‘„‚«‹([{`¿¡「『（【《〈"
_CLOSERS = "\"'”’»›)\\]}*_"
_CJK_CLOSERS = "」』）】》〉”»"

# Never the last word of a sentence: a name, a number or a paraphrase follows.
_TITLES = frozenset(
    """adm amb asst atty brig bro capt cdr cf cmdr col comdr cpl cpt dep dr drs e.g eg esp fr ft gen gov govs hon i.e
    insp lt maj messrs mlle mlles mme mmes monsig mr mrs ms msgr mt mts p.s pfc ppl pres prof profs ps pvt rep reps
    rev revd rt sen sens sgt st sta ste supt viz vs""".split()
)
# Kept whole before a number or a numeral; otherwise the word is an ordinary word and its period an ordinary period.
_NUMBERED = frozenset(
    """app art arts b bk c ca cap ch chap cl cls d div eq ex fig figs fl fol illus l ll n no nos nr op p par para
    paras pl pls pp pt r s sec sect sections ser v ver vol vols""".split()
)
# Months and days, as written with a capital.
_DATES = frozenset(
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun".split()
)
# Can end a sentence; the next word decides.
_GENERAL = frozenset(
    """al approx apt arr arrv assn assoc attn ave avg bhd bldg blvd bros btw cert cir co conf cont corp cres ct dec'd
    dep't dept depts dist e.t.c ed edn eds esq est etc ext fem ff fwd gov't govt hist hosp hq hr hrs ibid inc incl
    inst int'l intl jr kg km lb lbs ltd ltda masc max mfg mfr mgr mi min mins misc mo mph mus nat nat'l natl neg obs
    orig oz pkwy plc pop pos pref prev pseud pts pty pub publ qtr qty rd recd reg repr resp ret retd rm rpm sci sdn
    soc sp spec spp sq sr ssp stat subsp syn tel temp trans treas univ var wk wks yd yds yr yrs""".split()
)
# American states and the like, as written with a capital.
_PLACES = frozenset(
    """Ala Alta Ariz Ark Aust Beds Berks Bucks Cal Calif Cambs Can Colo Conn Dak Del Fla Ga Hants Herts Hunts Ia Ill Ind
    Kan Kans Ky La Lancs Leics Lincs Mass Md Me Mex Mich Minn Miss Mo Mont Neb Nebr Nev Northants Notts Okla Ont Ore
    Oreg Oxon Pa Penn Penna Que Sask Staffs Tenn Tex Va Vt Wash Wilts Wis Wisc Worcs Wyo Yorks""".split()
)
# Those above that are also ordinary words: at the end of a sentence the period is not part of them.
_ORDINARY = _NUMBERED | frozenset(
    """al apt ark bro cal can col conf cont dak del ed hist hunts ill ind kg km la mar mass max me mi min mins miss mo
    mon nat neg nev ore pa pop pos pub reg sat soc sp spec stat sun syn temp tex trans va var wash wed wk yd""".split()
)

_ABBREVIATIONS = _TITLES | _NUMBERED | _GENERAL
_CAPITALISED = _DATES | _PLACES

# Capitalized words that begin a sentence far more often than they continue a name.
STARTERS = frozenset(
    """A According After All Also Although Among An And Another Any Are As At Because Before Besides Between Both But By
    Can Could Despite Did Do Does During Each Even Every Finally First For From Furthermore Had Has Have He Hence Her
    Here His How However I If In Indeed Instead Is It Its Just Later Let Many Meanwhile More Moreover Most Much My
    Nevertheless No Nor Not Nothing Now Of On Once One Only Or Others Our Perhaps Please Several She Should Since So
    Some Soon Such That The Their Then There Therefore These They This Those Though Three Through Throughout Thus To
    Today Two Unlike Until Upon Was We Were What When Whenever Where Whether Which While Who Whose Why With Within
    Without Would Yes Yet You Your""".split()
)
_SPEECH = (
    "said|says|asked|asks|cried|cries|answered|replied|exclaimed|shouted|whispered|muttered|murmured|called|demanded|"
    "inquired|enquired|repeated|continued|added|began|screamed|yelled|gasped|roared|thought|went on|"
    "returned|interrupted|burst out|broke in|put in|observed|remarked|groaned|growled|snapped|stammered"
)

KEEP = "+" if sys.version_info >= (3, 11, 5) else ""
"""Makes a repeated group possessive. CPython before 3.11.5 hangs or fails on such groups (gh-106052), so there they are
greedy. The matches are the same, because only optional parts follow these groups."""

_PARAGRAPH = re.compile(r"\n\s*\n\s*|\r[^\S\n]*\r\s*|\u2029\s*")
_END_MARK = re.compile(
    # Marks with closing quotes, brackets and note numbers, then the white space; spaced dots count as one mark.
    rf"([.!?…‽]++(?:\s[.!?]++(?!\w))*{KEEP})((?:[{_CLOSERS}]|\[\d{{1,3}}\])*{KEEP})(\s*+)"
    # Marks of scripts that need no space after them.
    rf"|[。！？｡．؟۔।॥]++[{_CJK_CLOSERS}]*+"
)
_WORD_BEFORE = re.compile(r"[^\W_]+(?:[.'’][^\W_]+)*$")
_LEAD = re.compile(rf"[{re.escape(_OPENERS)}—–\-.…*_#$£€\s]*")
_NUMERAL = re.compile(r"[\d#]|(?:[IVXLCDM]{2,}|[VXL])\b")
_DOTTED = re.compile(
    r"[^\W\d_](?:\.[^\W\d_])+|(?:Ph|Ed|Litt|Th|Sc|Mus|Psy)\.D|(?:M|B|D)\.(?:Sc|Phil|Ed|Mus|Eng)|LL\.[BMD]"
)
_ATTRIBUTION = re.compile(rf"([A-Z](?:['’][A-Z])?[\w.-]*)\s+(?:[A-Z][\w.-]*\s+){{0,2}}(?:{_SPEECH})\b")
_LIST_MARK = re.compile(r"[(\[*]?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{2,4})")
_RUN_ON = re.compile(
    # Not links, paths or addresses: those keep their marks.
    r"[\"'“‘(\[]*+(?!.*(?i:www))[A-Za-z'’,\-]*[a-z]{2}(?:\.|[.!?…]{2,}|[!?])([A-Z][a-z]*)(?:['’][a-z]{1,2})?[,;:]?"
)
_BEFORE_ITEM = re.compile(r"([\w.]*)[:;.]\s$")
_LONE_QUOTE = re.compile(r"(?:\"|''|”)(?=\s)")
_LOWER_TITLES = frozenset("adm amb bro col dep fr ft gen gov hon maj pres prof rep reps sens ste".split())
_QUOTES = "\"'”’»"
_APOSTROPHE = re.compile("['’]")
_SURELY_FIRST = frozenset(("i", "i'm", "i've", "i'll", "i'd", "i’m", "i’ve", "i’ll", "i’d"))
_EXCLAIMING = frozenset(("Yahoo", "Jeopardy", "SmackDown", "Kerrang"))  # names with a mark of their own
_TIMES = frozenset(("a.m", "p.m"))
_AFTER_TIMES = frozenset(
    """Apr April Atlantic Aug August BST CDT Central CEST CET CST CT Dec December Eastern EDT EST ET Feb February Fri
    Friday GMT Greenwich IST Jan January July June Mar March May MDT Mon Monday Mountain MST MT Nov November Oct
    October Pacific PDT PST PT Sat Saturday Sep Sept September Sun Sunday Thu Thurs Thursday Tue Tues Tuesday UTC Wed
    Wednesday""".split()
)
_WINDOW = 48


def keeps_period(word: str, *, final: bool) -> bool:
    """Whether the period right after `word` belongs to it, as in `Mr.` and `U.S.`, and is not a separate token.

    Args:
        word: The word without the period.
        final: Whether the period is the last one of its sentence. Words that are ordinary words too (`no`, `Sun`)
            and single letters do not keep it there.
    """
    if len(word) == 1:
        return not final and (word.isupper() or word in _NUMBERED)
    lower = word.lower()
    if lower in _ABBREVIATIONS or word in _CAPITALISED:
        return not (final and lower in _ORDINARY)
    return "." in word and _DOTTED.fullmatch(word) is not None


def _is_extender(char: str) -> bool:
    """Whether the character attaches to the one before it: combining marks and invisible format characters."""
    return unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf")


def _abbreviation_ends(word: str, following: str) -> bool:
    """Whether a sentence ends at the abbreviation `word.` when `following`, which is not lower case, comes next."""
    lower = word.lower()
    head = _APOSTROPHE.split(following.rstrip(",;:"), maxsplit=1)[0]
    if lower in _TITLES:
        return word in _LOWER_TITLES and head in STARTERS
    if lower in _NUMBERED and len(word) > 1:
        return _NUMERAL.match(following) is None
    if lower in _TIMES:
        return following[:1].isalpha() and following.rstrip(",;:.!?)") not in _AFTER_TIMES
    return lower == "etc" or head in STARTERS


def _begins_lower(word: str, following: str) -> bool:
    """Whether a sentence written without its capital begins at `following`, after the period of `word`.

    Abbreviations that are in no list are short, so a long word counts as the end of a sentence. After a short word,
    only a word that often begins sentences counts as a beginning.
    """
    head = following.rstrip(",;:")
    if not word.isalnum() or keeps_period(word, final=False):
        return False
    if len(word) > 4:
        return True
    return len(word) > 2 and _APOSTROPHE.split(head, maxsplit=1)[0].capitalize() in STARTERS


def _is_attribution(following: str) -> bool:
    """Whether the words after a quotation say who spoke (`Holmes cried`, `I said`)."""
    found = _ATTRIBUTION.match(following)
    return found is not None and (found[1] == "I" or found[1] not in STARTERS)


def _is_aside(text: str, start: int, end: int) -> bool:
    """Whether the bracket that closes right after the mark at `end` was opened in the middle of a sentence."""
    opened = text.rfind("(", max(start, end - 4 * _WINDOW), end)
    return opened > start and text[max(start, opened - 2) : opened].rstrip()[-1:].isalnum()


def _after_lone_quote(text: str, begin: int, cut: int) -> int:
    """Where the sentence really ends if a space precedes its closing quote, as in tokenized text."""
    found = _LONE_QUOTE.match(text, cut)
    if found is None or (found[0] == '"' and text.count('"', max(begin, cut - 80 * _WINDOW), cut) % 2 == 0):
        return cut
    return found.end()


def _ends_here(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the sentence that began at `start` ends at this end mark, which white space follows."""
    mark, closers, after = match[1], match[2], match.end()
    char = text[after]
    bare = char.isalnum()
    first = text[after : after + _WINDOW]
    if not bare:
        lead = _LEAD.match(first)
        first = first[lead.end() :] if lead else first
        char = first[:1]
        if not char or char in ",;:%)]}&/=+|":
            return not char
    begin = match.start()
    before = text[max(start, begin - _WINDOW) : begin]
    word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
    if not word.isalnum():
        found = _WORD_BEFORE.search(word)
        word = found[0] if found else ""
    following = first.split(None, 1)[0]
    if char.islower() and not following[1:2].isupper():
        if following in _SURELY_FIRST or following.startswith(("http:", "https:", "www.")):
            return True
        return mark == "." and not closers and _begins_lower(word, following)
    if closers[:1] == ")" and _is_aside(text, start, begin):
        return False
    if mark != ".":
        if closers and bare and closers[0] in _QUOTES and _is_attribution(first):
            return False
        return not (mark == "!" and word in _EXCLAIMING)
    if len(before) <= 5 and _LIST_MARK.fullmatch(before):
        return False
    if len(word) > 2 and word.isalpha() and not keeps_period(word, final=False):
        return True
    if word.isdigit() and len(word) < 3:
        ahead = _BEFORE_ITEM.search(before[: -len(word)])
        return ahead is None or keeps_period(ahead[1], final=False)
    return not keeps_period(word, final=False) or _abbreviation_ends(word, following)


def _runs_on(text: str, match: re.Match[str]) -> bool:
    """Whether a new sentence begins right after the mark because its space was forgotten (`the end.The next`)."""
    begin, end = match.start(), match.end()
    if not text[end].isupper() or match[2]:
        return False
    left = text[max(0, begin - _WINDOW) : begin].rsplit(None, 1)
    right = text[end : end + _WINDOW].split(None, 1)
    if not left or not right or len(left[-1]) == _WINDOW:
        return False
    found = _RUN_ON.fullmatch(left[-1] + match[1] + right[0])
    return found is not None and found[1] in STARTERS


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Find the sentences of a text.

    Args:
        text: Any string. A blank line always ends a sentence; a single newline is white space.

    Returns:
        The (start, end) character spans in order. They do not overlap, begin and end with a character that is not
        white space, and together cover every such character.
    """
    if not isinstance(text, str):
        raise InputError(f"text is {shown(text)}: split_sentences() takes one str; decode bytes first.")
    spans: list[tuple[int, int]] = []
    begin = 0
    for paragraph in _PARAGRAPH.finditer(text):
        _split_paragraph(text, begin, paragraph.start(), spans)
        begin = paragraph.end()
    _split_paragraph(text, begin, len(text), spans)
    return spans


def _split_paragraph(text: str, begin: int, end: int, spans: list[tuple[int, int]]) -> None:
    """Append the sentence spans of text[begin:end], which holds no paragraph break."""
    start = begin
    for match in _END_MARK.finditer(text, begin, end):
        cut = match.end()
        if cut >= end:
            break
        if match[1] is None:
            if _is_extender(text[cut]):
                continue
        elif match[3]:
            if not _ends_here(text, start, match):
                continue
            cut = _after_lone_quote(text, begin, cut)
        elif not _runs_on(text, match):
            continue
        _append(text, start, cut, spans)
        start = cut
    _append(text, start, end, spans)


def _append(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> None:
    """Append the span, stripped of white space, unless it is then empty."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start < end:
        spans.append((start, end))
