"""The site of the documentation: each page is in its navigation and in both llms files, and a broken link fails it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.documentation import PAGES
from tests.site.built import build
from tests.site.contents import pages, sections
from tests.site.written import configuration, llms, llms_full


def navigated(entries: list[dict[str, Any]]) -> list[str]:
    """The paths of a navigation's pages, in order."""
    found: list[str] = []
    for entry in entries:
        for target in entry.values():
            found += navigated(target) if isinstance(target, list) else [target]
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    paths = navigated(tomllib.loads("\n".join(configuration()))["project"]["nav"])

    assert len(paths) == len(set(paths))
    assert set(PAGES) <= set(paths)
    assert paths == [page.path for page in pages()]


def test_llms_txt_lists_every_page_with_a_sentence() -> None:
    lines = [*llms()]

    for page in [page for section in sections() for page in section.pages]:
        [line] = [each for each in lines if f"]({page.path}): " in each]
        assert len(line.partition("): ")[2]) > 15, line


def test_llms_full_has_the_text_of_every_page() -> None:
    text = llms_full()

    assert all(page.text.strip() in text for page in pages())


@pytest.mark.thorough
def test_the_site_is_built_with_a_search_and_what_language_models_read(tmp_path: Path) -> None:
    site = tmp_path / "site"
    build(site)

    assert (site / "docs" / "concepts" / "index.html").read_text("utf-8").count('class="mermaid"') == 3
    assert "approval" in (site / "search.json").read_text("utf-8")
    assert (site / "llms.txt").is_file()
    assert (site / "llms-full.txt").is_file()
    assert (site / "docs" / "concepts.md").read_text("utf-8") == PAGES["docs/concepts.md"]


@pytest.mark.thorough
@pytest.mark.parametrize("link", ["nowhere.md", "concepts.md#nowhere"])
def test_a_link_to_nowhere_fails_the_site(tmp_path: Path, link: str) -> None:
    with pytest.raises(SystemExit, match=r"docs/tools\.md:3"):
        build(tmp_path / "site", {"docs/tools.md": f"# Tools\n\n[a link]({link})\n"})
