"""Read SemCor 3.0 from its archive: Brown corpus texts whose words are tagged with WordNet 3.0 senses.

`brown1` and `brown2` have all content words tagged, `brownv` verbs only. With all three, 226,036 words carry a sense
that WordNet 3.0 still has: as many as in the SemCor of the evaluation framework of Raganato et al. (2017), on whose
sets the paper reports. So all three are the default.

Tags are converted as follows:

- A form of several words (`took_place`) becomes its words, `took` and `place`, as a language model reads them; its
  target spans them.
- A sense key is lemma % lexsn. Names are tagged as the lemmas person, group, location and other; they stay.
- A sense numbered 0 was lost on the way from WordNet 1.6 and is left out; if a form has several, the others stay.
- Markers such as (a) and (p), after 621 head words of satellite adjectives, are not part of a key and are removed.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from elmokit.analysis.wsd.wordnet import SenseSentence, Target, word_of
from elmokit.errors import ConfigError, FormatError
from elmokit.text.archive import read_tar

PARTS = ("brown1", "brown2", "brownv")
_REMEDY = "give SemCor 3.0's .tar.xz or .tar.gz"
_MEMBER = re.compile(r"(?:.*/)?(brown[12v])/tagfiles/[^/]+")
_FORM = r"<(wf|punc)((?: [a-z]+=[^\s>]*)*)>(.+)</\1>"
_FRAME = r"<(/?s)(?: [^<>]*)?>|</?(?:p|context|contextfile)(?: [^<>]*)?>"
_LINE = re.compile(f"{_FORM}|{_FRAME}")
_MARKER = re.compile(r"\((?:a|p|ip)\)")


class Form(NamedTuple):
    """A tagged form: a word, words joined by _, or a punctuation mark (no tag). Attributes are as written."""

    text: str
    tag: str = ""
    lemma: str = ""
    wnsn: str = ""
    lexsn: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The sense keys that WordNet 3.0 still has."""
        numbered = zip(self.wnsn.split(";"), self.lexsn.split(";"), strict=False)
        found = (f"{self.lemma}%{_MARKER.sub('', lexsn)}" for number, lexsn in numbered if number not in ("", "0"))
        return tuple(dict.fromkeys(found))


def read_semcor(path: Path, parts: Collection[str] = PARTS) -> Iterator[SenseSentence]:
    """Sentences of SemCor in archive order; the module docstring describes how forms and tags are converted."""
    return (to_sentence(forms, source) for source, forms in read_forms(path, parts))


def to_sentence(forms: list[Form], source: str = "") -> SenseSentence:
    """Tokens and targets of tagged forms."""
    tokens: list[str] = []
    targets: list[Target] = []
    for form in forms:
        start = len(tokens)
        tokens += [piece for piece in form.text.split("_") if piece] or [form.text]
        keys = form.keys if form.lexsn else ()
        if keys and (word := word_of(keys[0])):
            targets.append(Target(start, len(tokens), word, keys))
    return SenseSentence(tuple(tokens), tuple(targets), source)


def read_forms(path: Path, parts: Collection[str] = PARTS) -> Iterator[tuple[str, list[Form]]]:
    """The forms of each sentence with the name of its text, such as `brown1/br-a01`; nothing is unpacked to disk."""
    if unknown := sorted(set(parts) - set(PARTS)):
        raise ConfigError(f"SemCor has no part {unknown[0]!r}: choose from {', '.join(PARTS)}.")
    missing = set(parts)
    for name, content in read_tar(path, lambda name: _part(name) in parts, remedy=_REMEDY):
        part = _part(name)
        missing.discard(part)
        source = f"{part}/{PurePosixPath(name).name}"
        for forms in _read_text(content, f"{path}: {source}"):
            yield source, forms
    if missing:
        raise FormatError(f"{path} has no texts of {', '.join(sorted(missing))}: {_REMEDY}.")


def _part(name: str) -> str:
    """The part of SemCor that a file of the archive belongs to; "" if it is not one of its texts."""
    match = _MEMBER.fullmatch(name)
    return match[1] if match else ""


def _read_text(content: str, where: str) -> Iterator[list[Form]]:
    """The sentences of one text; `where` names it in errors."""
    forms: list[Form] | None = None
    number = 0
    for number, line in enumerate(content.split("\n"), 1):
        if not (line := line.strip()):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise _bad_line(where, number, line, "not an element of SemCor's tag files")
        if match[4] == "s":
            if forms is not None:
                raise _bad_line(where, number, line, "a sentence inside a sentence")
            forms = []
        elif match[4] == "/s":
            if forms is None:
                raise _bad_line(where, number, line, "the end of a sentence that did not begin")
            yield forms
            forms = None
        elif match[1]:
            if forms is None:
                raise _bad_line(where, number, line, "a form outside a sentence")
            form = _form(match[2], match[3])
            if form is None:
                raise _bad_line(where, number, line, "a tag whose lemma, wnsn and lexsn give no sense keys")
            forms.append(form)
    if forms is not None:
        raise _bad_line(where, number, "", "the end inside a sentence")


def _form(attributes: str, text: str) -> Form | None:
    """A form; None if its tag cannot be parsed."""
    if not attributes:
        return Form(text)
    given = dict(attribute.split("=", 1) for attribute in attributes.split())
    form = Form(text, given.get("pos", ""), given.get("lemma", ""), given.get("wnsn", ""), given.get("lexsn", ""))
    if form.lexsn:
        if form.wnsn and form.wnsn.count(";") != form.lexsn.count(";"):
            return None
        if any((word := word_of(key)) is None or word.lemma != form.lemma for key in form.keys):
            return None
    return form


def _bad_line(where: str, number: int, line: str, what: str) -> FormatError:
    return FormatError(f"{where} line {number} is {what} ({line[:60]!r}): correct it or fetch SemCor 3.0 again.")
