"""The pages of docs/reference/ say what the code says."""

from __future__ import annotations

import pytest

from tests.reference.configuration_page import silent_keys
from tests.reference.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_would_write_it(name: str) -> None:
    written = (FOLDER / name).read_text("utf-8")

    assert written == PAGES[name](), f"docs/reference/{name} is old: run `make reference` and commit the page"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_key_has_a_meaning() -> None:
    assert silent_keys() == [], "write a docstring below each of these fields in gateway/"
