"""What the site of the documentation consists of: the pages in the order of docs/README.md, which is the only list.

A page is known by its path in the repository, so that links between pages, and to files beside them, stay as they are.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
INDEX: Final = "docs/README.md"
LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)\s#]+)[^)]*\)")
"""A Markdown link: its words and its path, without the anchor."""


@dataclass(frozen=True, slots=True)
class Page:
    """`path` is relative to the repository. `title` is its first heading."""

    path: str
    title: str

    @property
    def text(self) -> str:
        return (ROOT / self.path).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Section:
    """The pages that one heading of the index names first."""

    title: str
    pages: Sequence[Page]


def sections() -> list[Section]:
    """The sections of the index, in order. Each page is in the first section that links to it."""
    found: list[Section] = []
    seen = {INDEX}
    for part in (ROOT / INDEX).read_text("utf-8").split("\n## "):
        title, _, text = part.partition("\n")
        paths = [path for path in _linked(INDEX, text) if path not in seen]
        seen.update(paths)
        if paths:
            found.append(Section(title.removeprefix("# "), [_page(path) for path in dict.fromkeys(paths)]))
    return found


def pages() -> list[Page]:
    """All pages, the index first."""
    return [_page(INDEX), *(page for section in sections() for page in section.pages)]


def files() -> list[str]:
    """The paths of the files that pages, and the Markdown files among these, link to and that are no pages."""
    found = {page.path for page in pages()}
    unread = sorted(found)
    while unread:
        path = unread.pop()
        linked = (
            set(_linked(path, (ROOT / path).read_text("utf-8"), of_any_kind=True)) if path.endswith(".md") else set()
        )
        new = {each for each in linked - found if (ROOT / each).is_file()}
        found |= new
        unread += new
    return sorted(found - {page.path for page in pages()})


def summary(page: Page) -> str:
    """The first sentence of a page, without its markup."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", page.text, flags=re.MULTILINE | re.DOTALL)
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    first = next((each for each in paragraphs if each and each[0].isalnum()), "")
    plain = LINK.sub(r"\1", first).replace("`", "").replace("**", "")
    return re.split(r"(?<=[.:])\s", plain, maxsplit=1)[0].rstrip(":")


def _page(path: str) -> Page:
    heading = re.search(r"^# (.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    assert heading is not None, f"{path} has no heading"
    return Page(path, heading[1].replace("`", ""))


def _linked(page: str, text: str, *, of_any_kind: bool = False) -> Iterator[str]:
    """The paths of the repository's files that a page's text links to."""
    for _, target in LINK.findall(text):
        if not re.match(r"[a-z]+:", target) and (of_any_kind or target.endswith(".md")):
            yield posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
