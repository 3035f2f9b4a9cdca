"""The table of a run's options on docs/models.md, held against the tables of the request writers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.anthropic import messages_api
from gateway.anthropic.options import anthropic_options
from gateway.bedrock.families import FAMILIES
from gateway.bedrock.options import converse_options
from gateway.gemini import generate_content
from gateway.gemini.options import gemini_options
from gateway.openai.chat_completions import dialect_of
from gateway.openai.chat_options import chat_options
from gateway.openai.responses import profile_of
from gateway.openai.responses_options import responses_options
from gateway.options.generation import OPTION_NAMES
from gateway.providers.option_table import OptionTable
from tests.documentation import PAGES

# What differs between servers and models stands in one cell: the tables of all of them.
TABLES: dict[str, Sequence[OptionTable]] = {
    "Chat Completions": [
        chat_options(dialect_of(url), "m")
        for url in ("http://vllm/v1", "https://api.openai.com", "https://api.mistral.ai")
    ],
    "Responses": [responses_options(profile_of("api.openai.com", "gpt-5.2"))],
    "Anthropic": [
        anthropic_options(messages_api.profile_of(model)) for model in ("claude-sonnet-4-5", "claude-opus-4-7")
    ],
    "Gemini": [
        gemini_options(generate_content.profile_of(model))
        for model in ("gemini-2.0-flash", "gemini-2.5-flash", "gemini-3-pro")
    ],
    "Converse": [converse_options(family) for family in FAMILIES],
}


def cell(name: str, tables: Sequence[OptionTable]) -> str:
    """Where the wire has an option, each place once."""
    places = [place for table in tables for place in table.members.get(name, ())]
    written = dict.fromkeys(f"`{'.'.join(place.spellings[0])}`" for place in places)
    return ", ".join(written)


def table_of(page: str) -> list[list[str]]:
    rows = re.findall(r"^\| option \|.*?(?=\n\n)", page, re.MULTILINE | re.DOTALL)[0].splitlines()
    return [[part.strip() for part in row.strip("|").split("|")] for row in rows if not row.startswith("|---")]


def test_the_page_says_where_each_wire_has_each_option() -> None:
    head, *rows = table_of(PAGES["docs/models.md"])
    assert head == ["option", *TABLES]
    assert rows == [[f"`{name}`", *(cell(name, tables) for tables in TABLES.values())] for name in OPTION_NAMES]
