"""What a tool may let viewers see while it works: steps, activities, an application's own events, made fit to be kept.

Above: tool. Below: events, records, tool_output. What a tool gives comes from anybody's code: its values become JSON
here, where their author is told what is wrong, and not in the store or in a browser, where they would end the run.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias, cast, get_args

from gateway.errors import ToolError
from gateway.events import ActivityChanged, ActivityReplaced, Custom, StepEnded, StepStarted
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.records import load_json
from gateway.tool_output import encodable, json_text

Announcement: TypeAlias = StepStarted | StepEnded | ActivityReplaced | ActivityChanged | Custom

_KINDS: Final = ", ".join(kind.__name__ for kind in get_args(Announcement))
_POINTER: Final = re.compile(r"(?:/(?:[^/~]|~[01])*)*")
_VALUED: Final = frozenset({"add", "replace", "test"})
_FROM_ELSEWHERE: Final = frozenset({"move", "copy"})
_OPERATIONS: Final = _VALUED | _FROM_ELSEWHERE | {"remove"}


def announced(event: object) -> Announcement:
    """The announcement as it is at this moment, whatever the tool does to its values later; all of them are JSON.

    Raises:
        ToolError: it is of another kind, has values without a JSON form, or is one that clients refuse.
    """
    if not isinstance(event, Announcement):
        raise ToolError(f"a tool announces one of {_KINDS}, not {type(event).__name__}")
    match event:
        case StepStarted(name):
            return StepStarted(encodable(name))
        case StepEnded(name):
            return StepEnded(encodable(name))
        case Custom(name, value):
            return Custom(encodable(name), _as_json(value))
        case ActivityReplaced(message_id, activity_type, content, replace):
            shape = _as_json(content)
            if not isinstance(shape, dict):
                raise ToolError(f"the content of an activity is an object, not {json_kind(shape)}")
            return ActivityReplaced(encodable(message_id), encodable(activity_type), shape, replace)
        case ActivityChanged(message_id, activity_type, patch):
            operations = tuple(_operation(_as_json(each)) for each in patch)
            return ActivityChanged(encodable(message_id), encodable(activity_type), operations)


def _as_json(value: JsonValue) -> JsonValue:
    return cast(JsonValue, load_json(json_text(value).encode()))


def _operation(given: JsonValue) -> JsonObject:
    """An operation of a patch (https://www.rfc-editor.org/rfc/rfc6902#section-4)."""
    if not isinstance(given, dict) or given.get("op") not in _OPERATIONS:
        raise ToolError(f"a patch's operation has an 'op' of {', '.join(sorted(_OPERATIONS))}; {given!r} has none")
    pointers = ("path", "from") if given["op"] in _FROM_ELSEWHERE else ("path",)
    for name in pointers:
        pointer = given.get(name)
        if not isinstance(pointer, str) or _POINTER.fullmatch(pointer) is None:
            raise ToolError(f"{name!r} of a patch's operation is a JSON Pointer such as '/items/0', not {pointer!r}")
    if given["op"] in _VALUED and "value" not in given:
        raise ToolError(f"a patch's operation {given['op']!r} has a 'value'; {given!r} has none")
    return given
