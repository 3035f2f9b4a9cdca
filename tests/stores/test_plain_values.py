"""What sqlite3 is told to bind as it is arrives as it is."""

from __future__ import annotations

import sqlite3

import pytest

from gateway.sqlite.plain_values import bind_plainly


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (None, (None, "null")),
        (b"", (b"", "blob")),
        (b"\x00\xff", (b"\x00\xff", "blob")),
        (True, (1, "integer")),
        (False, (0, "integer")),
    ],
)
def test_a_value_is_bound_as_it_is(value: object, stored: tuple[object, str]) -> None:
    bind_plainly()
    bind_plainly()  # each store that is opened does so
    connection = sqlite3.connect(":memory:")
    assert connection.execute("SELECT value, typeof(value) FROM (SELECT ? AS value)", (value,)).fetchone() == stored
    connection.close()


def test_no_protocol_is_looked_for_where_a_plain_value_is_bound() -> None:
    bind_plainly()
    for kind in (type(None), bytes, bool):
        assert (kind, sqlite3.PrepareProtocol) in sqlite3.adapters
