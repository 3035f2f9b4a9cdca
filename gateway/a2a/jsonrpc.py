"""JSON-RPC 2.0: reads calls, and writes their responses.

Below: errors. Above: routes, methods. Pure. https://www.jsonrpc.org/specification
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.a2a.dialects import dump
from gateway.a2a.errors import invalid_params, invalid_request, jsonrpc_error
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.problems import Problem

_VERSION: Final = "2.0"
_ENVELOPE: Final = b'{"jsonrpc":"2.0","id":'
_LONGEST_ID: Final = 1024  # each frame of a stream has it


@dataclass(frozen=True, slots=True)
class Call:
    """A method call. A `notification` has no id, and gets no response."""

    method: str
    params: JsonObject
    id: JsonValue
    notification: bool


def read_call(body: JsonValue) -> Call:
    """The call in a body. Raises InvalidRequestError (-32600, -32602)."""
    if isinstance(body, list):
        raise invalid_request("batches of calls are not served; send one call, a JSON object, in each request")
    if not isinstance(body, dict):
        raise invalid_request(f"the body is {json_kind(body)}; it must be a JSON-RPC call, an object")
    if body.get("jsonrpc") != _VERSION:
        raise invalid_request("jsonrpc must be '2.0'", "/jsonrpc")
    method, given_id = body.get("method"), body.get("id")
    if isinstance(given_id, bool) or not isinstance(given_id, str | int | float | None):
        raise invalid_request(f"id is {json_kind(given_id)}; it must be a string, a number or null", "/id")
    if isinstance(given_id, str) and len(given_id) > _LONGEST_ID:
        raise invalid_request(f"id must have at most {_LONGEST_ID:,} characters", "/id")
    if not isinstance(method, str) or not method:
        raise invalid_request("method must be a method's name: SendMessage, GetTask, ...", "/method")
    params = body.get("params")
    if not isinstance(params, dict | None):
        raise invalid_params(f"params is {json_kind(params)}; it must be an object", "")
    return Call(method, params or {}, given_id, "id" not in body)


def id_in(body: JsonValue) -> JsonValue:
    """The id of the response to this body, also if the rest of the body is wrong; None: it has no id."""
    given_id = body.get("id") if isinstance(body, dict) else None
    if isinstance(given_id, bool) or (isinstance(given_id, str) and len(given_id) > _LONGEST_ID):
        return None
    return given_id if isinstance(given_id, str | int | float) else None


def result_bytes(call_id: JsonValue, result: JsonValue) -> bytes:
    """The response to a call that succeeded."""
    return b"".join((_ENVELOPE, dump(call_id), b',"result":', dump(result), b"}"))


def error_bytes(call_id: JsonValue, problem: Problem) -> bytes:
    """The response to a call that failed."""
    return b"".join((_ENVELOPE, dump(call_id), b',"error":', dump(jsonrpc_error(problem)), b"}"))
