"""Settings of the documentation site: `make docs` builds it into `build/docs`, without a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from elmokit import __version__

project = "elmokit"
author = "The elmokit authors"
copyright = "The elmokit authors, Apache-2.0"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinxcontrib.typer",
    "attribute_docstrings",
    "provenance",
    "self_contained",
]
exclude_patterns = ["_extensions"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]

# Docstrings quote names in single backticks, as Markdown does.
default_role = "literal"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "exclude-members": "model_config"}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True
python_display_short_literal_types = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "elmokit"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
