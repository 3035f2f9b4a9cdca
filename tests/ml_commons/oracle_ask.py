"""A request of the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

P: Final = "/_plugins/_ml"


@dataclass(frozen=True, slots=True)
class Ask:
    """A request. `keep`: what is kept of the answer, by name, and where that stands in it.

    `until`: it is asked again until that member of the answer has that value. `raw`: the body as it is sent, where
    it is not `body` as JSON. `headers` replace the usual ones; an empty text leaves one out.
    """

    name: str
    method: str
    path: str
    body: Any = None
    keep: Mapping[str, str] = field(default_factory=dict)
    until: tuple[str, str] | None = None
    raw: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
