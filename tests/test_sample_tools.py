"""The demonstration's tools."""

from __future__ import annotations

import pytest

from gateway.errors import ToolError
from gateway.messages import JsonValue
from gateway.sample_tools import add, add_to_list, refund
from gateway.tool import SharedState, ToolContext


def context(state: JsonValue) -> ToolContext:
    return ToolContext("call", "local", "thread", "run", "assistant", SharedState(state))


def test_a_refund_is_of_a_sensible_amount() -> None:
    assert refund("o-1", 12.5) == {"orderId": "o-1", "amount": 12.5, "status": "refunded"}
    for amount in (0, -1, 1000.01, float("nan")):
        with pytest.raises(ToolError, match="must be more than 0"):
            refund("o-1", amount)


def test_an_item_is_added_to_the_shared_list_and_nothing_else_changes() -> None:
    before: JsonValue = {"list": ["milk"], "theme": "dark"}
    where = context(before)
    assert add_to_list("eggs", where) == "The list has 2 items now."
    assert where.state.changes == [{"list": ["milk", "eggs"], "theme": "dark"}]
    assert before == {"list": ["milk"], "theme": "dark"}


@pytest.mark.parametrize("state", [None, [], "x", {}, {"list": "milk"}])
def test_a_list_begins_where_there_is_none(state: JsonValue) -> None:
    where = context(state)
    assert add_to_list("eggs", where) == "The list has 1 item now."
    assert where.state.value == {"list": ["eggs"]}


def test_numbers_are_added() -> None:
    assert add(2, 3.5) == 5.5
