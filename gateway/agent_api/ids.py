"""The ids of this surface: each leads back to its run or thread, so that no index is needed.

    response_<hex>     a response: its run's id
    session_<hex>      a session: its thread's id
    msg_<run id>_<n>   a message of a response, by its number among those that the response shows

Above: everything of this room.
"""

from __future__ import annotations

from gateway.messages import new_id


def new_run_id() -> str:
    """A new response's id."""
    return new_id("response")


def new_thread_id() -> str:
    """The id of a session that a request begins."""
    return new_id("session")


def message_id(run_id: str, number: int) -> str:
    """The id of a message of a response."""
    return f"msg_{run_id}_{number}"
