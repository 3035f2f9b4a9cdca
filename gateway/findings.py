"""What an examination of a store or a search engine finds: `agui-gateway doctor` shows it.

Below: the standard library. Above: store and search_engine, whose parts say how they are examined.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is. A problem keeps a gateway from serving, or from keeping its promises."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `text` says what is, `remedy` how to mend it; it is empty where nothing has to be
    done. Neither shows a secret.
    """

    subject: str
    level: Level
    text: str
    remedy: str = ""


async def unexamined(url: str, environment: object) -> AsyncGenerator[Finding]:
    """The examination of a type of store that has none of its own."""
    yield Finding("store", Level.WARNING, f"stores of the type {url.partition(':')[0]!r} cannot be examined")
