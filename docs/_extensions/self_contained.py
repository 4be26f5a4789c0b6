"""The site needs no other server: a page that loads a script, style, font or image from one fails the build."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

LOADED = re.compile(
    r"<(?:script|img|iframe|source|embed)\b[^>]*\bsrc=[\"'](?:https?:)?//[^\"']+"
    r"|<link\b(?=[^>]*\brel=[\"'](?:stylesheet|preload|preconnect|icon))[^>]*\bhref=[\"'](?:https?:)?//[^\"']+"
    r"|(?:@import|url\()\s*[\"']?(?:https?:)?//[^\"')]+"
)


def loaded_from_elsewhere(folder: Path) -> list[str]:
    """What the pages and styles of a folder load from other servers."""
    paths = sorted(path for suffix in ("html", "css", "svg") for path in folder.rglob(f"*.{suffix}"))
    return [
        f"{path.relative_to(folder)}: {found[0]}"
        for path in paths
        for found in LOADED.finditer(path.read_text(encoding="utf-8"))
    ]


def check(app: Sphinx, problem: Exception | None) -> None:
    """Fail the build if a page needs a network."""
    if problem is None and (found := loaded_from_elsewhere(Path(app.outdir))):
        raise ExtensionError("the site loads from other servers: " + "; ".join(found))


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
