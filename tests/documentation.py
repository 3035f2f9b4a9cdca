"""The README, its neighbours and the pages under docs/, as text to look things up in."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
README: Final = "README.md"
EXAMPLES: Final = ROOT / "examples"
# what starting an example leaves in its folder
LEFT_BY_EXAMPLES: Final = shutil.ignore_patterns("build", "node_modules", "gateway.db*", "__pycache__")
# path below the root -> text
PAGES: Final = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (
        *(ROOT / name for name in (README, "CONTRIBUTING.md", "SECURITY.md", "web-demo/README.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
}
_BLOCK: Final = re.compile(r"^```([a-z]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Snippet(NamedTuple):
    """A block of code. `language` is empty for blocks that name none: drawings, not code."""

    page: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.splitlines()[0]}"


SNIPPETS: Final = [
    Snippet(page, language, textwrap.dedent(code))
    for page, text in PAGES.items()
    for language, code in _BLOCK.findall(text)
]


def snippets(*languages: str) -> list[Snippet]:
    return [each for each in SNIPPETS if each.language in languages]


def snippet(page: str, language: str, containing: str = "") -> str:
    """The one block of this language on this page that has this text in it."""
    [found] = [each.text for each in snippets(language) if each.page == page and containing in each.text]
    return found


def example(name: str) -> str:
    """The text of a file of examples/, such as `shell/main.sh`."""
    return (EXAMPLES / name).read_text("utf-8")


def section(page: str, title: str) -> str:
    """The text under a heading, up to the next heading."""
    return re.split(r"^#+ ", PAGES[page].split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def code_words(text: str) -> list[str]:
    """What stands in backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def first_column(text: str) -> str:
    """The first cells of a table's rows."""
    return "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
