"""The gateway answers the table of requests as ml-commons 3.6 did, but for what `docs/coming-from-ml-commons.md` lists.

`record_oracle.py` says how the answers were recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.documentation import PAGES, code_words
from tests.ml_commons.oracle import RECORDED, Oracle, differences
from tests.ml_commons.oracle_models import oracle_models
from tests.ml_commons.oracle_requests import REQUESTS
from tests.ml_commons_scene import ml_gateway

PAGE = "docs/coming-from-ml-commons.md"
THEIRS: Mapping[str, Any] = json.loads(RECORDED.read_text("utf-8"))["answers"]


class Row(NamedTuple):
    """A difference that the page explains: patterns of the requests' names and of the places in their answers."""

    requests: list[str]
    places: list[str]
    reason: str

    def names(self, request: str, place: str) -> bool:
        return any(fnmatchcase(request, each) for each in self.requests) and any(
            fnmatchcase(place, each) for each in self.places
        )

    def unused(self, found: list[tuple[str, str]]) -> Iterator[str]:
        """Its patterns that explain nothing."""
        named = [(request, place) for request, place in found if self.names(request, place)]
        yield from (each for each in self.requests if not any(fnmatchcase(request, each) for request, _ in named))
        yield from (each for each in self.places if not any(fnmatchcase(place, each) for _, place in named))


def rows() -> list[Row]:
    cells = [line.strip("| ").split(" | ") for line in PAGES[PAGE].splitlines() if re.match(r"\| `", line)]
    return [Row(code_words(requests), code_words(places), reason) for requests, places, reason in cells]


@pytest.mark.thorough
async def test_every_difference_from_ml_commons_is_explained_and_every_explanation_needed(tmp_path: Path) -> None:
    async with oracle_models() as models, ml_gateway(tmp_path) as ml:
        ours = await Oracle(ml.http, models).answers()
    found = [(name, place) for name, theirs in THEIRS.items() for place in differences(theirs, ours[name])]
    listed = rows()
    unlisted = [each for each in found if not any(row.names(*each) for row in listed)]
    assert unlisted == [], "mend them, or explain them in " + PAGE
    assert [each for row in listed for each in row.unused(found)] == [], "there are no such differences any more"


def test_every_request_of_the_table_was_recorded() -> None:
    assert list(THEIRS) == [ask.name for ask in REQUESTS], "record the answers again, see record_oracle.py"


def test_every_row_of_the_page_says_why() -> None:
    assert all(row.requests and row.places and row.reason for row in rows())
