"""Tables that scripts wrote: their provenance folds into one line, and `results-table` shows a table of another page.

In the Markdown files a table is between `<!-- NAME -->` and `<!-- end of NAME -->`, and ends with lines
"Made by `COMMAND` …".
"""

import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

BLOCK = re.compile(r"<!-- ([\w-]+) -->\n(.*?)\n<!-- end of \1 -->", re.DOTALL)
UNBROKEN = re.compile(r"(?<=\d) (±|→|×) ")
"""Where a cell of figures must not be cut into lines."""
MADE_BY = re.compile(r"(?:^Made by .*(?:\n|\Z))+", re.MULTILINE)


def read_block(page: Path, name: str) -> str:
    """The lines of a table of a page, its provenance included."""
    for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if found[1] == name:
            return found[2]
    raise ValueError(f"{page.name} has no table {name!r}.")


def fold(block: str) -> str:
    """The same block with its provenance in a line that opens, and with its figures unbroken."""

    def folded(found: re.Match[str]) -> str:
        made = [line.removeprefix("Made by ") for line in found[0].splitlines()]
        items = "\n".join(f"- {line}" for line in made)
        return f":::{{dropdown}} How this was measured\n:class-container: provenance\n{items}\n:::\n"

    return MADE_BY.sub(folded, UNBROKEN.sub("\u00a0\\1\u00a0", block))


def fold_page(app: Sphinx, name: str, source: list[str]) -> None:
    """Fold the provenance of every table of a page."""
    source[0] = BLOCK.sub(lambda found: fold(found[0]), source[0])


class ResultsTable(SphinxDirective):
    """Show a table of another page: `{results-table} tasks.md with-and-without`."""

    required_arguments = 2
    option_spec: ClassVar[dict] = {"class": directives.class_option}

    def run(self) -> list[nodes.Node]:
        """Parse the table here; the build follows its page."""
        page, name = self.arguments
        path = Path(self.env.doc2path(self.env.docname)).parent / page
        self.env.note_dependency(str(path))
        try:
            block = fold(read_block(path, name))
        except (OSError, ValueError) as problem:
            raise self.error(str(problem)) from problem
        box = nodes.container()
        self.state.nested_parse(StringList(block.splitlines(), source=str(path)), self.content_offset, box)
        return box.children


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("source-read", fold_page)
    app.add_directive("results-table", ResultsTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
