"""Settings of the site; ``python docs/build.py`` builds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import api_reference

import tensormargin

os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "tensormargin"
author = "the tensormargin developers"
copyright = f"2026, {author}"
version = release = tensormargin.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "examples", "gallery/**/*.py", "gallery/**/*.ipynb"]
default_role = "py:obj"  # `name` in a docstring: a link if there is a page of that name, otherwise code
nitpicky = False

autodoc_typehints = "none"  # the numpydoc sections name the types
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

smartquotes = False  # quotes in docstrings are those of Python
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 4  # the same addresses as those of a Markdown viewer
myst_links_external_new_tab = False

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"tensormargin {release}"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # a browser does not let a page that was opened from a file read others
html_sidebars = {"index": [], "changelog": [], "contributing": []}
html_theme_options = {
    "logo": {"text": "tensormargin"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

sphinx_gallery_conf = {
    "examples_dirs": ["examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("tensormargin",),
    "inspect_global_variables": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # times differ between machines
    "write_computation_times": False,
    "abort_on_example_error": True,
    "plot_gallery": "True",
    "capture_repr": (),  # scripts print what they show
    "matplotlib_animations": False,
    "reset_modules": ("matplotlib",),
}

# Pages outside docs/, which chapters link to by their paths in the repository, get a page each that includes them.
OUTSIDE = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    **{
        f"../benchmarks/results/{name}.md": f"measured/{name}.md"
        for name in ("gpu", "prior", "rules", "search", "speed")
    },
}


def write_outside_pages() -> None:
    for source, page in OUTSIDE.items():
        up = "../" * page.count("/")
        text = f"```{{include}} {up}{source}\n:relative-docs: docs/\n:relative-images:\n```\n"
        path = DOCS / page
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def lead_inside(app, docname: str, source: list[str]) -> None:
    """Let links to these files lead to their pages."""
    up = "../" * docname.count("/")
    pages = {**OUTSIDE, "examples": "gallery/index.rst", "api_reference.py": "api/index.rst"}
    for target, page in pages.items():
        source[0] = source[0].replace(f"]({up}{target})", f"]({up}{page})")


def setup(app) -> None:
    """Write the pages that are made of something else before anything is read."""
    api_reference.write(DOCS / "api")
    write_outside_pages()
    app.connect("source-read", lead_inside)
    app.connect("autodoc-skip-member", api_reference.skip_foreign)
    app.connect("doctree-resolved", api_reference.link_names)
