"""The contents of elmokit's cache, and how to remove them without touching anything else.

A file counts as elmokit's only if its location, its name and the files next to it match what elmokit writes: the cache
folder may be any folder of the user. Links that lead out of it are not followed.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmokit.cache import cache_directory
from elmokit.embedding import layer_cache
from elmokit.embedding.layer_cache import count_cached, is_layer_cache
from elmokit.embedding.store import LOCK as STORE_LOCK
from elmokit.embedding.store import META, VectorStore, is_store, own_files
from elmokit.errors import ElmokitError, FormatError
from elmokit.filesystem import LOCK, remove_leftovers
from elmokit.formats.published import find_published
from elmokit.formats.remote import SUMS_NAME
from elmokit.locks import FolderLock

KINDS = {
    "downloads": "published models",
    "layers": "vectors of the sentences that task training and analyses have read",
    "neighbors": "indexes of corpora for `elmokit analyze neighbors`, with the corpora",
    "engine": "an engine of an earlier version of elmokit",
}
_FOLDERS = {"layers": "layers", "neighbors": "neighbours", "engine": "engine"}
_HEX = "[0-9a-f]{16}"
_WORDS = ("types", "type_vectors", "starts", "rows", "lines", "numbers")


@dataclass(frozen=True)
class Item:
    """Something in the cache that can be computed or downloaded again."""

    kind: str
    name: str
    path: Path
    files: tuple[Path, ...]
    """In removal order: an interrupted removal leaves a smaller or an unfinished item."""
    note: str = ""
    lock: tuple[Path, str] | None = None
    """Folder and name of the lock that its writer holds."""

    @property
    def num_bytes(self) -> int:
        """Its size on disk."""
        return sum(path.stat().st_size for path in self.files if path.exists())

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"kind": self.kind, "name": self.name, "path": str(self.path), "bytes": self.num_bytes} | (
            {"note": self.note} if self.note else {}
        )


def find_items() -> list[Item]:
    """Everything in the cache that belongs to elmokit, by kind."""
    root = cache_directory()
    if not root.is_dir():
        return []
    return [*_downloads(root), *_layers(root), *_indexes(root), *_engines(root)]


def other_names(items: list[Item]) -> list[str]:
    """The sorted top-level names in the cache folder that contain nothing of elmokit's."""
    root = cache_directory()
    ours = {item.path.relative_to(root).parts[0] for item in items}
    return sorted(set(os.listdir(root)) - ours) if root.is_dir() else []


def remove(item: Item) -> int:
    """Remove an item's files and the folders that are empty afterwards.

    Returns:
        The number of bytes freed.

    Raises:
        FormatError: if another process is writing it; then nothing is removed.
    """
    freed = item.num_bytes
    with ExitStack() as stack:
        if item.lock is not None and item.lock[0].is_dir():
            stack.enter_context(FolderLock(item.lock[0], name=item.lock[1]))
        for path in item.files:
            path.unlink(missing_ok=True)
        if item.kind == "neighbors":
            remove_leftovers(item.path)
    root = cache_directory()
    for folder in sorted({path.parent for path in item.files} | {item.path}, key=lambda one: -len(one.parts)):
        while folder != root and folder.is_relative_to(root):
            with suppress(OSError):  # it holds something else
                folder.rmdir()
            folder = folder.parent
    return freed


def _inside(path: Path, root: Path) -> bool:
    """Whether a folder is really at this path, and not a link to elsewhere."""
    return path.is_dir() and path.resolve() == root.resolve() / path.relative_to(root)


def _downloads(root: Path) -> Iterator[Item]:
    folders = [path for path in sorted(root.iterdir()) if _inside(path, root)]
    folders += [inner for path in folders for inner in sorted(path.iterdir()) if _inside(inner, root)]
    for folder in folders:
        name = folder.relative_to(root).as_posix()
        files = [folder / file for file in _download_names(folder, name) if (folder / file).is_file()]
        if files:
            yield Item("downloads", name, folder, tuple(files), lock=(folder, LOCK))


def _download_names(folder: Path, name: str) -> list[str]:
    """The files that a download writes into a folder, for a published model or a URL, with recorded checksums."""
    model = find_published(name)
    known = [file.name for file in model.files] if model is not None and model.name == name else None
    if known is None and not re.fullmatch(f"url/{_HEX}", name):
        return []
    try:
        sums = json.loads((folder / SUMS_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        sums = {}
    recorded = [one for one in sums if Path(one).name == one] if isinstance(sums, dict) else []
    whole = [one for one in recorded if known is None or one in known]
    notes = [path.name for path in folder.glob("*.partial.origin")]
    parts = [part for one in notes for part in (one, one.removesuffix(".origin"))]
    return [*parts, *whole, *([SUMS_NAME] if whole == recorded and whole else [])]


def _layers(root: Path) -> Iterator[Item]:
    for folder in _named(root, "layers", f"{_HEX}-[a-z0-9-]+"):
        if is_layer_cache(folder):
            files = tuple(folder / name for name in layer_cache.FILES)
            note = f"{count_cached(folder):,} sentences"
            yield Item("layers", folder.name, folder, files, note, (folder, layer_cache.LOCK))
    yield from _older_layers(root)


def _older_layers(root: Path) -> Iterator[Item]:
    """Layers that earlier versions cached, with the sentences."""
    for folder in _named(root, "layers", _HEX):
        if is_store(folder):
            yield Item("layers", folder.name, folder, _store_files(folder), _count(folder), (folder, STORE_LOCK))


def _indexes(root: Path) -> Iterator[Item]:
    for folder in _named(root, "neighbors", f"{_HEX}-{_HEX}-(tokens|text)"):
        vectors, words, lists = folder / "vectors", folder / "words", folder / "approximate"
        if not (_inside(vectors, root) and is_store(vectors)):
            continue
        files = [path for path in lists.glob("*.faiss") if re.fullmatch(rf"{_HEX}\.faiss", path.name)]
        files += [words / name for name in _WORDS if (words / name).is_file()]
        if not all(_inside(path, root) for path in (words, lists) if path.exists()):
            continue
        own = (*sorted(files), *_store_files(vectors))
        yield Item("neighbors", folder.name, folder, own, _count(vectors), (vectors, STORE_LOCK))


def _engines(root: Path) -> Iterator[Item]:
    folder = root / _FOLDERS["engine"]
    for path in sorted(folder.iterdir()) if _inside(folder, root) else ():
        if re.fullmatch(rf"cell-{_HEX}\.so|\.cell-{_HEX}\.so\.\d+\.tmp", path.name) and path.is_file():
            yield Item("engine", path.name, path, (path,))


def _named(root: Path, kind: str, pattern: str) -> list[Path]:
    folder = root / _FOLDERS[kind]
    inner = sorted(folder.iterdir()) if _inside(folder, root) else []
    return [path for path in inner if re.fullmatch(pattern, path.name) and _inside(path, root)]


def _store_files(store: Path) -> tuple[Path, ...]:
    return (*own_files(store), store / META)


def _count(store: Path) -> str:
    try:
        return f"{len(VectorStore(store)):,} sentences"
    except (ElmokitError, OSError):
        return "damaged"


def in_use(error: FormatError) -> str:
    """The message of a lock, without the advice that does not apply here."""
    return str(error).partition(":")[0]
