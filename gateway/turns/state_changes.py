"""Sends viewers the changes that tools make to the thread's shared state: first a snapshot, then RFC 6902 patches.

Below: tool (the state), events. Above: the loop. https://www.rfc-editor.org/rfc/rfc6902
"""

from __future__ import annotations

import logging
import re
from typing import cast

import jsonpatch
import orjson

from gateway.errors import ToolError
from gateway.events import Event, Events, StateChanged, StateReplaced
from gateway.messages import JsonObject, JsonValue
from gateway.records import dump_json, load_json
from gateway.tool import SharedState
from gateway.tool_output import json_text

logger = logging.getLogger(__name__)

# Names that clients' JSON Patch libraries refuse, because patching them in JavaScript could change every object:
# https://github.com/Starcounter-Jack/JSON-Patch (banPrototypeModifications)
_PROTOTYPE = re.compile(r"/(?:__proto__|constructor/prototype)(?:/|$)")

# Beyond this size, computing the difference costs more than sending the state.
_LARGEST_COMPARED_BYTES = 256 * 1024


class StateChanges:
    """Watches one run's state. Each patch applies to the state after the event before it."""

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._before = state.value
        self._shown: bytes | None = None  # the state as viewers have it; set at the first change, most runs have none
        self._has_snapshot = False

    def take(self) -> Events:
        """The event for the changes since the last call; none if the state is unchanged."""
        if not self._state.changes:
            return []
        self._state.changes.clear()
        known = _canonical(self._before) if self._shown is None else self._shown
        try:
            value = _json_value(self._state.value)
        except ToolError:
            logger.warning("a tool set a state that has no JSON form: the state stays as it was")
            self._state.value = load_json(known)
            return []
        self._state.value = value
        self._shown = _canonical(value)
        if self._shown == known:
            return []
        # The first event is a snapshot: only then is it certain that viewer and run have the same state.
        event = _change(known, self._shown, value) if self._has_snapshot else StateReplaced(value)
        self._has_snapshot = True
        return [event]


def _change(before: bytes, after: bytes, value: JsonValue) -> Event:
    if len(before) + len(after) <= _LARGEST_COMPARED_BYTES:
        patch = _patch(before, after)
        if patch is not None and len(dump_json(cast(JsonValue, patch))) < len(after):
            return StateChanged(tuple(patch), value)
    return StateReplaced(value)


def _patch(before: bytes, after: bytes) -> list[JsonObject] | None:
    """A patch that turns `before` into `after` in every client; None if none was found."""
    try:
        patch = jsonpatch.make_patch(load_json(before), load_json(after))
        # The library treats 1 and true as equal inside arrays, so its patch is tried before it is sent.
        if _canonical(patch.apply(load_json(before))) == after and not _touches_prototypes(patch.patch):
            return cast("list[JsonObject]", patch.patch)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, RecursionError):
        logger.warning("no patch was found between two states", exc_info=True)
    return None


def _touches_prototypes(patch: list[dict[str, str]]) -> bool:
    return any(_PROTOTYPE.search(operation.get(name, "")) for operation in patch for name in ("path", "from"))


def _canonical(value: JsonValue) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # lone surrogates, integers beyond 64 bits
        return dump_json(value)


def _json_value(value: object) -> JsonValue:
    """`value` as JSON: tools may put dates, NaN or lone surrogates into a state.

    Raises:
        ToolError: it has no JSON form.
    """
    return cast(JsonValue, load_json(json_text(value).encode()))
