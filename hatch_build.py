"""Compile the native library while a wheel is built, or in place for an editable install.

Without a C compiler, or with `ELMOKIT_NATIVE=0`, the wheel is a pure one, and elmokit computes on its portable path.
"""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeBuildHook(BuildHookInterface[Any]):
    """Adds the library to a wheel, whose tag then names the platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, or say why not."""
        source = Path(self.root, "src", "elmokit", "native", "build.py")
        spec = importlib.util.spec_from_file_location("elmokit_native_build", source)
        assert spec is not None and spec.loader is not None
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        if os.environ.get("ELMOKIT_NATIVE") == "0":
            return
        self._folder = tempfile.TemporaryDirectory(prefix="elmokit-wheel-")
        library = build.LIBRARY if version == "editable" else Path(self._folder.name, build.LIBRARY.name)
        try:
            kinds = build.build_library(library)
        except (build.BuildError, OSError) as error:
            sys.stderr.write(f"elmokit: no native library: {error}. The portable path works everywhere.\n")
            return
        sys.stderr.write(f"elmokit: built the native library for {', '.join(kinds)}\n")
        if version != "editable":
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{build.platform_tag(library)}"
            build_data["force_include"][str(library)] = f"elmokit/native/{library.name}"
