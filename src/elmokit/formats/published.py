"""The published models by name: the addresses of their files, and what is known about them.

Names: `small`, `medium`, `original`, `original-5.5b` (English, AllenNLP); `aligned/<code>`; `many-langs/<code>` with
ISO 639 codes or English language names; `nlpl/<number>` for any entry of the NLPL repository, version 2.0.
No publisher gives checksums, so `sha256` is None for all files; a sum entered here is enforced.
"""

import difflib
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import urlsplit

_ALLENNLP = "https://allennlp.s3.amazonaws.com/models/elmo"
_ALIGNED = "https://s3-us-west-2.amazonaws.com/allennlp/models/multilingual_elmo"
_NLPL = "http://vectors.nlpl.eu/repository"

_NO_LICENSE = "no license is stated beside the files: ask the publisher before you pass them on"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a published model."""

    url: str
    """Address of the file; http or https."""
    sha256: str | None = None
    """SHA-256 in hexadecimal, if the publisher gives it; enforced after every download."""

    @property
    def name(self) -> str:
        """The file's own name: the last part of the URL's path."""
        return urlsplit(self.url).path.rpartition("/")[2]


@dataclass(frozen=True)
class PublishedModel:
    """A model that can be fetched by name."""

    name: str
    """The name to load it by; lower case, parts separated by `/`."""
    files: tuple[RemoteFile, ...]
    """An options file and a weights file, or a single zip."""
    languages: tuple[str, ...] = ()
    """ISO 639 codes; empty if only the publisher's catalog has them."""
    publisher: str = ""
    """Who published it."""
    note: str = ""
    """Size, training data and peculiarities, in a few words."""
    license: str = _NO_LICENSE
    """What is known about the license."""

    @property
    def is_zip(self) -> bool:
        """Whether the model is one zip rather than a folder of files."""
        return len(self.files) == 1 and self.files[0].name.endswith(".zip")


# name → (name of the files, note)
_ENGLISH = {
    "small": ("2x1024_128_2048cnn_1xhighway", "13.6M parameters, vectors of 256, 1 Billion Word Benchmark"),
    "medium": ("2x2048_256_2048cnn_1xhighway", "28.0M parameters, vectors of 512, 1 Billion Word Benchmark"),
    "original": ("2x4096_512_2048cnn_2xhighway", "93.6M parameters, vectors of 1024, 1 Billion Word Benchmark"),
    "original-5.5b": (
        "2x4096_512_2048cnn_2xhighway_5.5B",
        "93.6M parameters, vectors of 1024, Wikipedia and news crawls of 5.5 billion tokens",
    ),
}

_ALIGNED_CODES = ("de", "en", "es", "fr", "it", "pt", "sv")

# ISO 639 code → (English name, number in version 1.1 of the NLPL repository)
_MANY_LANGS = {
    "ar": ("Arabic", 136),
    "bg": ("Bulgarian", 137),
    "ca": ("Catalan", 138),
    "cs": ("Czech", 139),
    "cu": ("Old Church Slavonic", 140),
    "da": ("Danish", 141),
    "de": ("German", 142),
    "el": ("Greek", 143),
    "en": ("English", 144),
    "es": ("Spanish", 145),
    "et": ("Estonian", 146),
    "eu": ("Basque", 147),
    "fa": ("Persian", 148),
    "fi": ("Finnish", 149),
    "fr": ("French", 150),
    "ga": ("Irish", 151),
    "gl": ("Galician", 152),
    "grc": ("Ancient Greek", 153),
    "he": ("Hebrew", 154),
    "hi": ("Hindi", 155),
    "hr": ("Croatian", 156),
    "hu": ("Hungarian", 157),
    "id": ("Indonesian", 158),
    "it": ("Italian", 159),
    "ja": ("Japanese", 160),
    "ko": ("Korean", 161),
    "la": ("Latin", 162),
    "lv": ("Latvian", 163),
    "nl": ("Dutch", 164),
    "nb": ("Norwegian Bokmål", 165),
    "nn": ("Norwegian Nynorsk", 166),
    "pl": ("Polish", 167),
    "pt": ("Portuguese", 168),
    "ro": ("Romanian", 169),
    "ru": ("Russian", 170),
    "sk": ("Slovak", 171),
    "sl": ("Slovene", 172),
    "sv": ("Swedish", 173),
    "tr": ("Turkish", 174),
    "ug": ("Uyghur", 175),
    "uk": ("Ukrainian", 176),
    "ur": ("Urdu", 177),
    "vi": ("Vietnamese", 178),
    "zh": ("Chinese", 179),
}

_NLPL_NAME = re.compile(r"nlpl/0*([0-9]{1,6})")


def find_published(name: str) -> PublishedModel | None:
    """Look up a model by name; case, spaces, underscores and accents do not matter.

    Returns:
        The entry of the table, a new entry for `nlpl/<number>`, or None if no published model has this name.
    """
    key = _normalize(name)
    if key in PUBLISHED:
        return PUBLISHED[key]
    if key in _ALIASES:
        return PUBLISHED[_ALIASES[key]]
    if match := _NLPL_NAME.fullmatch(key):
        return _nlpl_model(match[1])
    return None


def published_names() -> list[str]:
    """Every name in the table, in order; `nlpl/<number>` is not listed, because any number is accepted."""
    return list(PUBLISHED)


def is_published_form(name: str) -> bool:
    """Whether `name` can only mean an entry here, even if misspelled: its first part is one of our families."""
    key = _normalize(name)
    return key.startswith(("aligned/", "many-langs/")) or _NLPL_NAME.fullmatch(key) is not None


def suggest(name: str) -> list[str]:
    """Up to three names of published models that `name` may have meant, the nearest first."""
    candidates = {candidate: candidate for candidate in PUBLISHED} | _ALIASES
    near = difflib.get_close_matches(_normalize(name), candidates, n=6, cutoff=0.7)
    return list(dict.fromkeys(candidates[match] for match in near))[:3]


def _normalize(name: str) -> str:
    """`Norwegian Bokmål` → `norwegian-bokmal`."""
    letters = unicodedata.normalize("NFD", name.strip().lower())
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return re.sub(r"[\s_]+", "-", plain)


def _build_table() -> dict[str, PublishedModel]:
    models = []
    for name, (stem, note) in _ENGLISH.items():
        base = f"{_ALLENNLP}/{stem}/elmo_{stem}"
        files = (RemoteFile(f"{base}_options.json"), RemoteFile(f"{base}_weights.hdf5"))
        models.append(PublishedModel(name, files, ("en",), "AllenNLP", note))
    for code in _ALIGNED_CODES:
        files = (RemoteFile(f"{_ALIGNED}/options262.json"), RemoteFile(f"{_ALIGNED}/{code}_weights.hdf5"))
        note = "the biLM alone; the matrices that align the languages are published apart and not applied"
        models.append(PublishedModel(f"aligned/{code}", files, (code,), "AllenNLP", note))
    for code, (language, number) in _MANY_LANGS.items():
        zip_file = RemoteFile(f"{_NLPL}/11/{number}.zip")
        models.append(PublishedModel(f"many-langs/{code}", (zip_file,), (code,), "ELMoForManyLangs, on NLPL", language))
    return {model.name: model for model in models}


def _nlpl_model(number: str) -> PublishedModel:
    note = "as catalogued by NLPL; only its ELMo entries can be loaded, most others are static word vectors"
    return PublishedModel(f"nlpl/{number}", (RemoteFile(f"{_NLPL}/20/{number}.zip"),), (), "NLPL", note)


PUBLISHED: dict[str, PublishedModel] = _build_table()

_ALIASES: dict[str, str] = {
    f"many-langs/{_normalize(language)}": f"many-langs/{code}" for code, (language, _) in _MANY_LANGS.items()
} | {"many-langs/slovenian": "many-langs/sl"}
