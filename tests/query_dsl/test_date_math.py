"""Dates that are reckoned from now or from another date."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gateway.query_dsl.date_math import reckoned_date
from gateway.query_dsl.field_mapping import date_milliseconds

NOW = datetime(2024, 2, 29, 13, 45, 30, 250_000, tzinfo=UTC)  # a Thursday


def reckoned(text: object, *, round_up: bool = False) -> str:
    milliseconds = reckoned_date(text, NOW.timestamp(), round_up=round_up)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("now", "2024-02-29T13:45:30.250"),
        ("now-7d", "2024-02-22T13:45:30.250"),
        ("now+1h", "2024-02-29T14:45:30.250"),
        ("now-1H-30m+10s", "2024-02-29T12:15:40.250"),
        ("now-d", "2024-02-28T13:45:30.250"),
        ("now+1M", "2024-03-29T13:45:30.250"),
        ("now-1y", "2023-02-28T13:45:30.250"),
        ("now+2w", "2024-03-14T13:45:30.250"),
        ("2024-01-31||+1M", "2024-02-29T00:00:00.000"),
        ("2024-01-31T10:00:00Z||-1d/d", "2024-01-30T00:00:00.000"),
        ("2024-05||+1y", "2025-05-01T00:00:00.000"),
        ("2024-05-06||", "2024-05-06T00:00:00.000"),
    ],
)
def test_a_date_is_reckoned_step_by_step(text: str, means: str) -> None:
    assert reckoned(text) == means


@pytest.mark.parametrize(
    ("unit", "begin", "end"),
    [
        ("y", "2024-01-01T00:00:00.000", "2024-12-31T23:59:59.999"),
        ("M", "2024-02-01T00:00:00.000", "2024-02-29T23:59:59.999"),
        ("w", "2024-02-26T00:00:00.000", "2024-03-03T23:59:59.999"),
        ("d", "2024-02-29T00:00:00.000", "2024-02-29T23:59:59.999"),
        ("h", "2024-02-29T13:00:00.000", "2024-02-29T13:59:59.999"),
        ("H", "2024-02-29T13:00:00.000", "2024-02-29T13:59:59.999"),
        ("m", "2024-02-29T13:45:00.000", "2024-02-29T13:45:59.999"),
        ("s", "2024-02-29T13:45:30.000", "2024-02-29T13:45:30.999"),
    ],
)
def test_a_date_is_rounded_to_the_begin_or_the_end_of_a_unit(unit: str, begin: str, end: str) -> None:
    assert reckoned(f"now/{unit}") == begin
    assert reckoned(f"now/{unit}", round_up=True) == end


@pytest.mark.parametrize("plain", ["2024-02-29", "2024", 1_700_000_000_000, "2024-02-29T12:30:00+01:00"])
def test_another_date_means_what_it_says(plain: object) -> None:
    for round_up in (False, True):
        assert reckoned_date(plain, 0.0, round_up=round_up) == date_milliseconds(plain, round_up=round_up)


@pytest.mark.parametrize(
    "wrong",
    [
        "now-",
        "now-1x",
        "now/2d",
        "nowhere",
        "now - 1d",
        "now-1",
        "||+1d",
        "x||+1d",
        "now+999999999y",
        "now" + "+1d" * 99,
    ],
)
def test_what_is_no_date_is_refused(wrong: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        reckoned_date(wrong, NOW.timestamp())
