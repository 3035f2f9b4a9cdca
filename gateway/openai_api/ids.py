"""The ids of this surface: each leads back to its run or thread, so that no index is needed.

    resp_<hex>           a response: its run's id
    chatcmpl-<hex>       a completion: its run's id
    conv_<hex>           a conversation: its thread's id
    <kind>_<run id>_<n>  an item of a run's output, or a call that its model made

Above: everything of this room.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Final, Literal, NamedTuple, TypeAlias

ItemKind: TypeAlias = Literal["msg", "rs", "fc", "fco", "mcp", "mcpr", "ig", "call"]
"""`msg`: a message; `rs`: reasoning; `fc`: a call of a function; `fco`: its output; `mcp`: a call of a backend tool;
`mcpr`: a question whether a call may run, with the call's number; `ig`: a picture. `call`: what `call_id` names.
"""

_ITEM: Final = re.compile(r"(msg|rs|fc|fco|mcp|mcpr|ig|call)_(.+)_([0-9]{1,6})", re.DOTALL)


class ItemPlace(NamedTuple):
    """The meaning of an item's id: the run, and the item's number in it, from 0."""

    kind: str
    run_id: str
    number: int


def new_run_id(prefix: Literal["resp_", "chatcmpl-"], idempotency_key: str = "") -> str:
    """A new run's id; a key gives the same one every time."""
    return prefix + new_digits(idempotency_key)


def new_thread_id(key: str = "") -> str:
    """The id of a thread that a request begins; a key gives the same one every time."""
    return "conv_" + new_digits(key and f"conversation {key}")


def item_id(kind: ItemKind, run_id: str, number: int) -> str:
    """The id of an item of a run's output."""
    return f"{kind}_{run_id}_{number}"


def place_of(item: str) -> ItemPlace | None:
    """The place that an id names; None: it is not an id of the gateway's."""
    found = _ITEM.fullmatch(item)
    return None if found is None else ItemPlace(found[1], found[2], int(found[3]))


def new_digits(key: str = "") -> str:
    """32 hexadecimal digits; a key gives the same every time."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest() if key else os.urandom(16).hex()
