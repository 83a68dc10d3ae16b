"""Checks that the links of a built site lead somewhere, and that nothing is loaded from other sites."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src"}  # what a browser fetches by itself


class _Page(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an element leads to."""
        known = {name: value or "" for name, value in attrs}
        self.anchors |= {known[name] for name in ("id", "name") if name in known}
        if tag == "a" and "href" in known:
            self.links.append(known["href"])
        elif tag == "link" and known.get("rel", "") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(known["href"])
        elif known.get(_LOADED.get(tag, "")):
            self.loaded.append(known[_LOADED[tag]])


@cache
def _page(path: Path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))


def broken_links(site: Path) -> list[str]:
    """Return one line per link that leads nowhere, and per file that would be loaded from another site."""
    broken: list[str] = []
    for path in sorted(set(site.rglob("*.html")) - set(site.glob("_static/**/*"))):
        page = _page(path)
        faults = {link: _fault(path, link, link in page.loaded) for link in sorted({*page.links, *page.loaded})}
        broken += [f"{path.relative_to(site)}: {link} {fault}" for link, fault in faults.items() if fault]
    return broken


def _fault(path: Path, link: str, is_loaded: bool) -> str | None:
    """Return what is wrong with a link, or None."""
    parts = urlsplit(link)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "is loaded from another site" if is_loaded else None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "does not exist"
    if parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _page(target).anchors:
        return "has no such anchor"
    return None
