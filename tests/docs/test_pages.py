"""The README is short, every page is found from it, and what pages point to is there."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation import PAGES, README, ROOT

MOST_LINES = 150
INDEX = "docs/README.md"
LINKS = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
MADE = {"build", "dist", "node_modules", "page_files", "site"}  # folders that git ignores
NAMED_FILE = re.compile(r"(?<![\w./~-])(?:deploy|docs|examples|gateway|tests|web-demo)(?:/[\w-]+)*/[\w-]+(?:\.\w+)+\b")
# files that the pages tell readers to write
NEW_PARTS = {
    f"gateway/{part}.py" for part in ("models/echo", "tools/dice", "stores/audited", "protocols/say", "loops/one_round")
}


def files(*suffixes: str) -> Iterator[str]:
    """The repository's files with these suffixes, as paths below its root."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in MADE)
        for name in sorted(names):
            if name.endswith(suffixes):
                yield Path(folder, name).relative_to(ROOT).as_posix()


WRITTEN = [*files(".md")]


def prose(page: str) -> str:
    """A page without its code."""
    return re.sub(r"^```.*?^```$|`[^`\n]+`", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page: str) -> Iterator[tuple[Path, str]]:
    """(file, anchor) of each link that stays in the repository; the anchor is empty where there is none."""
    for found in LINKS.finditer(prose(page)):
        target = found[1] or found[2]
        if not re.match(r"[a-z]+:", target):
            name, _, anchor = target.partition("#")
            yield (ROOT / page).parent / name if name else ROOT / page, anchor


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short() -> None:
    assert len(PAGES[README].splitlines()) <= MOST_LINES


def test_the_readme_points_to_the_index_of_the_pages_and_that_to_every_page() -> None:
    assert ROOT / INDEX in {path.resolve() for path, _ in links(README)}
    named = {path.resolve() for path, _ in links(INDEX)}

    assert {page for page in PAGES if page != INDEX and (ROOT / page) not in named} == set()


@pytest.mark.parametrize("page", WRITTEN)
def test_every_link_leads_somewhere(page: str) -> None:
    dead = [
        f"{path.name}#{anchor}"
        for path, anchor in links(page)
        if not path.exists() or (anchor and anchor not in anchors(path))
    ]

    assert dead == []


def test_every_file_that_a_page_or_the_deployment_names_is_there() -> None:
    missing = [
        f"{name}: {named}"
        for name in (*WRITTEN, *files(".conf", ".service", ".yaml"), "deploy/Caddyfile", "Dockerfile", "Makefile")
        for named in NAMED_FILE.findall((ROOT / name).read_text("utf-8"))
        if named not in NEW_PARTS and not any((folder / named).is_file() for folder in (ROOT, (ROOT / name).parent))
    ]

    assert missing == []


@pytest.mark.parametrize("page", PAGES)
def test_every_module_that_is_named_is_there(page: str) -> None:
    examples = {"shop.py", "backup.py", "main.py", *NEW_PARTS}
    for name in re.findall(r"(?<![\w./-])[\w/]+\.py\b", PAGES[page]):
        if name not in examples:
            assert (ROOT / "gateway" / name).is_file(), name


def test_the_source_distribution_has_the_pages() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]

    assert "/docs" in build["targets"]["sdist"]["include"]
