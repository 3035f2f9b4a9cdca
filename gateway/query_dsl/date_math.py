"""Computes relative dates: `now-7d`, `now/M`, `2024-02-29||+1y/d`. Pure.

Source: https://docs.opensearch.org/latest/field-types/supported-field-types/date/#date-math (3.x). The units are y, M,
w, d, h or H, m and s. Below: field_mapping. Above: the evaluation of searches, which gives the time.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta

from gateway.query_dsl.field_mapping import Json, date_milliseconds

_STEP = re.compile(r"([+-])(\d{0,9})([yMwdhHms])|/([yMwdhHms])", re.ASCII)
_MOST_CHARACTERS = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LENGTHS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
}


def reckoned_date(value: Json, now: float, *, round_up: bool = False) -> int:
    """Milliseconds since 1970 of a date or of an expression; `now` is in Unix seconds. With `round_up`, missing or
    rounded parts mean their end: the last millisecond of the month in `now/M`.

    Raises:
        ValueError, OverflowError: there is no such date.
    """
    text = str(value)
    if text.startswith("now"):
        moment, steps = _EPOCH + timedelta(milliseconds=int(now * 1000)), text[3:]
    elif "||" in text:
        anchor, _, steps = text.partition("||")
        moment = _EPOCH + timedelta(milliseconds=date_milliseconds(anchor))
    else:
        return date_milliseconds(value, round_up=round_up)
    if len(steps) > _MOST_CHARACTERS:
        raise ValueError
    at = 0
    while at < len(steps):
        if (step := _STEP.match(steps, at)) is None:
            raise ValueError
        moment = _rounded(moment, step[4], round_up=round_up) if step[4] else _moved(moment, step)
        at = step.end()
    return (moment - _EPOCH) // _MILLISECOND


def _moved(moment: datetime, step: re.Match[str]) -> datetime:
    count = int(step[2] or 1) * (-1 if step[1] == "-" else 1)
    if step[3] in "yM":
        return _months_later(moment, count * (12 if step[3] == "y" else 1))
    return moment + count * _LENGTHS[step[3].lower()]


def _months_later(moment: datetime, months: int) -> datetime:
    """The same day of a later month, or that month's last day."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise ValueError
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _rounded(moment: datetime, unit: str, *, round_up: bool) -> datetime:
    first = moment.replace(microsecond=0)
    if unit != "s":
        first = first.replace(second=0)
    if unit not in "sm":
        first = first.replace(minute=0)
    if unit in "dwMy":
        first = first.replace(hour=0)
    if unit == "w":
        first -= timedelta(days=first.weekday())
    elif unit in "My":
        first = first.replace(day=1, month=1 if unit == "y" else first.month)
    if not round_up:
        return first
    if unit in "My":
        return _months_later(first, 12 if unit == "y" else 1) - _MILLISECOND
    return first + _LENGTHS[unit.lower()] - _MILLISECOND
