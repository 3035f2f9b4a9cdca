"""Writes the source of the site: the pages where they stand in the repository, its configuration, and both llms files.

https://llmstxt.org: llms.txt lists the pages for language models, llms-full.txt has their whole text.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from tests.site.contents import INDEX, ROOT, files, pages, sections, summary

NAME: Final = "agui-gateway"
PURPOSE: Final = "An AG-UI streaming gateway: one agent and its threads over AG-UI, OpenAI's API, A2A and others."
SOURCE: Final = "source"
SITE: Final = "site"


def write(folder: Path) -> None:
    """Write the source into an empty folder; `zensical build` there makes `site/`."""
    source = folder / SOURCE
    for path in [*(page.path for page in pages()), *files()]:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, source / path)
    (source / "index.md").write_text(f"# {NAME}\n\n{PURPOSE}\n\n[Begin here]({INDEX})\n", "utf-8")
    (source / "llms.txt").write_text("\n".join(llms()), "utf-8")
    (source / "llms-full.txt").write_text(llms_full(), "utf-8")
    (folder / "zensical.toml").write_text("\n".join(configuration()), "utf-8")


def llms() -> Iterator[str]:
    """The lines of llms.txt."""
    yield from (f"# {NAME}", "", f"> {PURPOSE}", "", f"- [Documentation]({INDEX}): for whom which page is")
    for section in sections():
        yield from ("", f"## {section.title}", "")
        yield from (f"- [{page.title}]({page.path}): {summary(page)}" for page in section.pages)
    yield ""


def llms_full() -> str:
    """The text of llms-full.txt."""
    return "\n\n".join(f"<!-- {page.path} -->\n\n{page.text.strip()}" for page in pages()) + "\n"


def configuration() -> Iterator[str]:
    """The lines of the site's configuration. JSON's strings are TOML's, too."""
    yield from ("[project]", f"site_name = {_text(NAME)}", f"site_description = {_text(PURPOSE)}")
    yield from (f"docs_dir = {_text(SOURCE)}", f"site_dir = {_text(SITE)}", "nav = [")
    yield f'  {{ "Begin here" = {_text(INDEX)} }},'
    for section in sections():
        named = ", ".join(f"{{ {_text(page.title)} = {_text(page.path)} }}" for page in section.pages)
        yield f"  {{ {_text(section.title)} = [{named}] }},"
    yield from ("]", "[project.theme]", "font = false", 'features = ["navigation.footer", "content.code.copy"]')
    yield from ("[project.markdown_extensions.pymdownx.superfences]", "custom_fences = [")
    yield '  { name = "mermaid", class = "mermaid", format = "pymdownx.superfences.fence_code_format" },'
    yield from ("]", "[project.markdown_extensions.toc]", "permalink = true", "")


def _text(value: str) -> str:
    return orjson.dumps(value).decode()
