"""The pages of docs/reference/ say what the code says."""

from __future__ import annotations

import pytest

from tests.reference.configuration_page import silent_keys
from tests.reference.error_codes import codes_in_source
from tests.reference.errors_page import errors
from tests.reference.metrics_page import unexplained_labels
from tests.reference.pages import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_the_code_would_write_it(name: str) -> None:
    written = (FOLDER / name).read_text("utf-8")

    assert written == PAGES[name](), f"docs/reference/{name} is old: run `make reference` and commit the page"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)


def test_every_key_has_a_meaning() -> None:
    assert silent_keys() == [], "write a docstring below each of these fields in gateway/"


def test_every_code_in_the_source_has_an_entry() -> None:
    assert codes_in_source().keys() - errors().keys() == set(), "explain these codes in tests/reference/errors.toml"


def test_every_entry_is_a_code_in_the_source() -> None:
    assert errors().keys() - codes_in_source().keys() == set(), "the source names no such code"


@pytest.mark.parametrize("code", [code for code, entry in errors().items() if "status" in entry])
def test_a_code_has_the_statuses_that_the_source_raises_it_with(code: str) -> None:
    of_any_error = {500}  # what an error has whose status is said elsewhere

    assert codes_in_source()[code] - of_any_error <= set(errors()[code]["status"])


def test_every_label_of_a_metric_is_explained() -> None:
    assert unexplained_labels() == set()
