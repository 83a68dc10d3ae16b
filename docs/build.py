"""Build the site into docs/_build/html, with warnings as errors, and check its links.

``pip install ".[docs]" && python docs/build.py`` needs no network; open docs/_build/html/index.html afterwards.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from links import broken_links
from sphinx.cmd.build import build_main

DOCS = Path(__file__).parent
SITE = DOCS / "_build" / "html"


def remove_old_pages() -> None:
    """Remove the pages of scripts that are gone."""
    for path in (DOCS / "gallery").glob("plot_*"):
        if not (DOCS / "examples" / f"{path.name.partition('.')[0]}.py").exists():
            path.unlink()


def main() -> int:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    remove_old_pages()
    doctrees = SITE.with_name("doctrees")
    if code := build_main(
        ["-W", "--keep-going", "-q", "-j", "auto", "-b", "html", "-d", str(doctrees), str(DOCS), str(SITE)]
    ):
        return code
    broken = broken_links(SITE)
    print("\n".join(broken) or f"wrote {SITE / 'index.html'}; all links lead somewhere")
    return len(broken) > 0


if __name__ == "__main__":
    sys.exit(main())
