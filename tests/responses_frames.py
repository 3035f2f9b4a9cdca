"""A Responses stream, read as its clients read it: frames, the SDK's strict helper, and the published schemas."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import openresponses_types.types as open_responses
from openai import omit
from openai._models import construct_type_unchecked
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import ParsedResponse, ResponseStreamEvent
from pydantic import BaseModel

from gateway.events import Event
from gateway.messages import JsonObject
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import ResponseForm

FORM = ResponseForm("resp_1", "conv_1", "agent", 7)
DONE = "[DONE]"


class Frame(NamedTuple):
    """`data` is None for the literal [DONE]."""

    event: str
    data: Any


def read_frame(frame: bytes) -> Frame:
    """One frame, which has nothing but its event and its data."""
    text = frame.decode()
    assert text.endswith("\n\n")
    if text == f"data: {DONE}\n\n":
        return Frame(DONE, None)
    name, data = text[:-2].split("\n")
    assert name.startswith("event: ")
    assert data.startswith("data: ")
    return Frame(name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))


def rendered(
    events: Sequence[Event], form: ResponseForm = FORM, *, cuts: Iterable[int] = (), **settings: Any
) -> tuple[list[Frame], ResponsesRenderer]:
    """The frames of a run whose events come in batches that begin at 0 and at `cuts`."""
    renderer = ResponsesRenderer(form, **settings)
    places = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    frames: list[bytes] = []
    for begin, end in pairwise(places):
        frames += renderer.render(events[begin:end], begin + 1)
    return [read_frame(frame) for frame in frames], renderer


def checked(frames: Sequence[Frame]) -> list[JsonObject]:
    """The events of a whole stream, all of them valid for OpenAI's own types, numbered, with one terminal event."""
    *said, last = frames
    assert last == Frame(DONE, None)
    events: list[JsonObject] = []
    for number, frame in enumerate(said):
        assert frame.data["type"] == frame.event
        assert frame.data["sequence_number"] == number
        _EVENTS[frame.event].model_validate(_in_their_words(frame.data))
        events.append(frame.data)
    terminal = [event for event in events if event["type"] in TERMINAL]
    assert terminal == events[-1:]
    return events


def read_by_the_sdk(events: Sequence[JsonObject]) -> ParsedResponse[None] | None:
    """What the SDK's `responses.stream()` makes of it, which raises where the grammar is broken. None: it is not
    completed.
    """
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        model: Any = _EVENTS[str(event["type"])]
        state.handle_event(construct_type_unchecked(value=event, type_=model))
    return state._completed_response


def fold(events: Sequence[JsonObject]) -> list[Any]:
    """The output as a client that only reads the items' own events has it."""
    added: dict[int, Any] = {}
    done: dict[int, Any] = {}
    for event in events:
        index: Any = event.get("output_index")
        item: Any = event.get("item")
        match event["type"]:
            case "response.output_item.added":
                assert index == len(added), "indexes are contiguous"
                added[index] = item
            case "response.output_item.done":
                assert index not in done
                assert (item["id"], item["type"]) == (added[index]["id"], added[index]["type"])
                done[index] = item
            case _:
                if index is not None:
                    assert event["item_id"] == added[index]["id"]
                    assert index not in done
    assert added.keys() == done.keys(), "every item is done"
    return [done[index] for index in sorted(done)]


def check_open_responses(events: Sequence[JsonObject]) -> None:
    """All of them are as the published schemas of Open Responses say."""
    for event in events:
        _PUBLISHED[str(event["type"])].model_validate(event)


def _in_their_words(event: JsonObject) -> JsonObject:
    """The event with a reason that OpenAI has a word for: where it has none, ours stands."""
    response: Any = event.get("response")
    if response is None or response["incomplete_details"] is None:
        return event
    return {**event, "response": {**response, "incomplete_details": {"reason": "content_filter"}}}


def _by_type(models: Iterable[type[BaseModel]]) -> Mapping[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    for model in models:
        kind: Any = model.model_fields["type"].annotation
        for word in get_args(kind) or (each.value for each in kind):
            found[word] = model
    return found


def _members(union: Any) -> tuple[Any, ...]:
    return _members(get_args(union)[0]) if get_origin(union) is Annotated else get_args(union)


_EVENTS = _by_type(_members(ResponseStreamEvent))
_PUBLISHED = _by_type(model for name, model in vars(open_responses).items() if name.endswith("StreamingEvent"))
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
