"""The fused cell, built once for all tests of this folder."""

import os

import pytest

from elmokit.model.engines.native import NativeCell, build_native_cell, find_native_cell


@pytest.fixture(scope="session")
def built_cell(tmp_path_factory: pytest.TempPathFactory) -> NativeCell:
    """The fused cell, built into a folder of its own."""
    before = os.environ.get("ELMOKIT_CACHE")
    os.environ["ELMOKIT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    try:
        path = build_native_cell()
        cell = find_native_cell()
        assert cell is not None and cell.path == path
        return cell
    finally:
        os.environ.pop("ELMOKIT_CACHE")
        if before is not None:
            os.environ["ELMOKIT_CACHE"] = before
        find_native_cell.cache_clear()
