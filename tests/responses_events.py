"""The Responses API's items and events, as a server writes them.

    stream_events([reasoning_item("Hm"), message_item("Hi")])    every event of an answer of these items, in order

Source: https://platform.openai.com/docs/api-reference/responses-streaming. Above: responses_server, and the tests.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

Item = dict[str, Any]
Event = dict[str, Any]

_numbers = itertools.count()


def _new_id(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):024x}"


# --- items -----------------------------------------------------------------------------------------------------------


def message_item(*texts: str, refusal: str = "", annotations: Sequence[Item] = (), phase: str | None = None) -> Item:
    """A message of the assistant; each text is a part of its own."""
    content: list[Item] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    if annotations:
        content[0]["annotations"] = list(annotations)
    if refusal:
        content.append({"type": "refusal", "refusal": refusal})
    item = {"type": "message", "id": _new_id("msg"), "role": "assistant", "status": "completed", "content": content}
    return item if phase is None else {**item, "phase": phase}


def reasoning_item(*summary: str, raw: Sequence[str] = (), encrypted: str | None = None) -> Item:
    item: Item = {"type": "reasoning", "id": _new_id("rs"), "summary": []}
    item["summary"] = [{"type": "summary_text", "text": text} for text in summary]
    if raw:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in raw]
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


def call_item(name: str, arguments: str = "{}", call_id: str | None = None) -> Item:
    return {
        "type": "function_call",
        "id": _new_id("fc"),
        "call_id": _new_id("call") if call_id is None else call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def web_search_item(query: str) -> Item:
    action = {"type": "search", "query": query}
    return {"type": "web_search_call", "id": _new_id("ws"), "status": "completed", "action": action}


# --- events ----------------------------------------------------------------------------------------------------------


class Stream:
    """Writes events as records. `data_first`: the fields' order on Bedrock."""

    def __init__(self, data_first: bool = False) -> None:
        self._data_first = data_first

    def record(self, event: Event) -> bytes:
        fields = [f"event: {event.get('type')}", f"data: {json.dumps(event, ensure_ascii=False)}"]
        return ("\n".join(fields[::-1] if self._data_first else fields) + "\n\n").encode("utf-8", "surrogatepass")


def response_object(response_id: str, output: Sequence[Item], status: str, **fields: Any) -> dict[str, Any]:
    """A response. `fields` as they are; usage is there once it is over."""
    over = status not in ("queued", "in_progress")
    usage = {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 12,
    }
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_800_000_000,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": list(output),
        "usage": usage if over else None,
        **fields,
    }


def stream_events(
    items: Sequence[Item],
    *,
    response_id: str = "resp_1",
    status: str = "completed",
    background: bool = False,
    **fields: Any,
) -> list[Event]:
    """All events of an answer that consists of `items` and ends with `status`. `fields`: of the response."""
    fields = {"background": background, **fields}
    error, details = fields.pop("error", None), fields.pop("incomplete_details", None)
    begun = response_object(response_id, [], "queued" if background else "in_progress", **fields)
    events: list[Event] = [{"type": "response.created", "response": begun}]
    if background:
        events.append({"type": "response.queued", "response": begun})
    events.append({"type": "response.in_progress", "response": {**begun, "status": "in_progress"}})
    for index, item in enumerate(items):
        events += _item_events(index, item)
    ending: dict[str, Any] = {
        name: value for name, value in (("error", error), ("incomplete_details", details)) if value
    }
    response = response_object(response_id, items, status, **fields, **ending)
    events.append({"type": f"response.{status}", "response": response})
    for number, event in enumerate(events):
        event["sequence_number"] = number
    copied: list[Event] = json.loads(json.dumps(events))  # whoever changes one changes nothing else
    return copied


def error_event(**error: Any) -> Event:
    return {"type": "error", "code": None, "message": "", "param": None, "sequence_number": 3, **error}


def _item_events(index: int, item: Item) -> Iterator[Event]:
    place = {"output_index": index}
    inside = {"item_id": item["id"], "output_index": index}
    empty: dict[str, Item] = {
        "message": {"content": []},
        "reasoning": {"summary": []},
        "function_call": {"arguments": ""},
    }
    begun = {**item, **empty.get(item["type"], {})}
    if "status" in item:
        begun["status"] = "in_progress"
    yield {"type": "response.output_item.added", **place, "item": begun}
    match item["type"]:
        case "message":
            for number, part in enumerate(item["content"]):
                yield from _part_events({**inside, "content_index": number}, part)
        case "reasoning":
            for number, part in enumerate(item["summary"]):
                where = {**inside, "summary_index": number}
                yield {"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}}
                yield from _texts("response.reasoning_summary_text", where, "text", part["text"])
                yield {"type": "response.reasoning_summary_part.done", **where, "part": part}
            for number, part in enumerate(item.get("content", ())):
                yield from _part_events({**inside, "content_index": number}, part)
        case "function_call":
            yield from _texts("response.function_call_arguments", inside, "arguments", item["arguments"])
        case kind if kind.endswith("search_call"):
            for step in ("in_progress", "searching", "completed"):
                yield {"type": f"response.{kind}.{step}", **inside}
        case _:  # other items come whole
            pass
    yield {"type": "response.output_item.done", **place, "item": item}


def _part_events(where: Item, part: Item) -> Iterator[Event]:
    kind = part["type"]
    field = "refusal" if kind == "refusal" else "text"
    yield {"type": "response.content_part.added", **where, "part": {**part, field: ""}}
    yield from _texts(f"response.{kind}", where, field, part[field])
    for number, annotation in enumerate(part.get("annotations", ())):
        named = {"annotation_index": number, "annotation": annotation}
        yield {"type": "response.output_text.annotation.added", **where, **named}
    yield {"type": "response.content_part.done", **where, "part": part}


def _texts(kind: str, where: Item, field: str, text: object) -> Iterator[Event]:
    """Two deltas, or as many as there are characters, and the whole."""
    if isinstance(text, str):
        half = (len(text) + 1) // 2
        for piece in filter(None, (text[:half], text[half:])):
            yield {"type": f"{kind}.delta", **where, "delta": piece, "obfuscation": "abc"}
    yield {"type": f"{kind}.done", **where, field: text}
