"""Find phrases that read as translated, and British spellings, in source, documentation and help texts.

    python tools/check_words.py            all files of the project; exit code 1 if something is found
    python tools/check_words.py PATH…      some files or folders

A word that stands alone between quotes is a stored or typed name and is left alone: `"neighbours"` is a folder of the
cache, for example.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PLACES = ("README.md", "CONTRIBUTING.md", "docs", "src", "bench", "tools", "examples", "tests")
SUFFIXES = {".py", ".md", ".toml", ".html", ".c", ".h", ".ipynb"}

WORDS = {
    r"an? (?:sentence|text|token|word|line|record|document) an? (?:line|row|file|sentence|epoch)": "one … per …",
    r"(?:one|each) an? line": "one per line",
    r"(?:tokens|words|texts|steps|sentences|words) a second": "… per second",
    r"goes on (?:where|with|from|training)|go on (?:where|with|from|training)": "resume, continue",
    r"(?:is|are) told(?! apart)": "receives",
    r"of the error gone": "relative error reduction",
    r"works? (?:its|the|their) gradients? out|works? out its gradients?": "computes",
    r"alone or in any company": "regardless of the batch",
    r"between commas": "comma-separated",
    r"at bytes that are not utf-8": "invalid UTF-8: …",
    r"files to (?:choose|report) on": "development files, test files",
    r"numbers of the vectors": "data type of the vectors",
    r"again for more": "repeatable",
    r"anyhow": "without …",
    r"(?<!there )is no (?:whole|list|number|file|folder|model|text|word|vocabulary)": "is not a …",
    r"(?:stands|stand) (?:in|at|there|behind|before|beside|once|on|between|together|near)": "is in, is at, …",
    r"so many (?:words|tokens|sentences|files|lines|predictions|steps|numbers)": "that many, the given number of",
    r"analys(?:e|ed|ing)": "analyze",
    r"behaviours?|colou?r(?<=our)(?:s|ed|ing)?|favou?r(?<=our)\w*|neighbou?r(?<=our)\w*": "-or",
    r"(?:token|normal|optim|standard|organ|recogn|initial|serial|minim|maxim|summar)is(?:e[drs]?|ing|ation)": "-ize",
    r"labell(?:ed|ing)|modell(?:ed|ing)|travell\w+": "-l-",
    r"licences?|centres?|centred|grey": "license, center, gray",
}
"""What is looked for, and what to write instead."""

_PATTERNS = [
    (re.compile(rf"(?<![\w-])(?:{pattern})(?!\w)", re.IGNORECASE), advice) for pattern, advice in WORDS.items()
]
_QUOTED = re.compile(r"""["'`][\w-]+["'`]""")
_OWN = {Path(__file__).resolve(), ROOT / "tests/tools/test_check_words.py"}


class Finding(NamedTuple):
    """A phrase, where it is, and what to write instead."""

    place: str
    phrase: str
    advice: str


def find_words(text: str, name: str) -> Iterator[Finding]:
    """The phrases of a text, by line."""
    for number, line in enumerate(text.splitlines(), start=1):
        plain = _QUOTED.sub(" ", line)
        for pattern, advice in _PATTERNS:
            for match in pattern.finditer(plain):
                yield Finding(f"{name}:{number}", match[0], advice)


def project_files(paths: Sequence[Path]) -> Iterator[Path]:
    """The files of the project that are read by people."""
    for path in paths:
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.suffix in SUFFIXES and file.resolve() not in _OWN and not {"_build", "__pycache__"} & {*file.parts}:
                yield file


def help_texts() -> Iterator[tuple[str, str]]:
    """What every command says of itself, in one line each, so that no phrase is divided."""
    import typer
    from typer.testing import CliRunner

    from elmokit.cli.main import app

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        yield path
        for name, found in getattr(command, "commands", {}).items():
            if not found.hidden:
                yield from walk(found, (*path, name))

    for path in walk(typer.main.get_command(app), ()):
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}).output
        yield " ".join(("elmokit", *path, "--help")), " ".join(re.sub("[│╭╮╰╯─]", " ", shown).split())


def main(arguments: Sequence[str]) -> int:
    """Print what was found; 1 if there is anything."""
    paths = [Path(argument) for argument in arguments] or [ROOT / place for place in PLACES]
    texts = [(str(file), file.read_text(encoding="utf-8")) for file in project_files(paths)]
    if not arguments:
        texts += help_texts()
    findings = [finding for name, text in texts for finding in find_words(text, name)]
    for place, phrase, advice in findings:
        print(f"{place}: {phrase!r}: write {advice}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
