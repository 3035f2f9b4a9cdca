"""Any input that the package's RunAgentInput takes is taken, and means the same; what it refuses is refused there too.

Where the two differ on purpose, and what these inputs therefore leave out: ids and tool names have a length and no
control characters; another major version, a repeated member and two answers to one interrupt are refused; activity
messages are not looked at; null is the same as absent, also for ids.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from ag_ui.core import RunAgentInput
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gateway.ag_ui.input import parse_run_input
from gateway.ag_ui.messages import ag_ui_messages
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import ABSENT
from gateway.errors import InvalidRequestError

TEXT = st.text(max_size=12)
NAME = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)


def optional(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | value


SOURCE = st.one_of(
    st.fixed_dictionaries({"type": st.just("data"), "value": TEXT, "mimeType": TEXT}),
    st.fixed_dictionaries({"type": st.just("url"), "value": TEXT}, optional={"mimeType": optional(TEXT)}),
    st.fixed_dictionaries(
        {"type": st.just("file"), "value": TEXT}, optional={"mimeType": optional(TEXT), "provider": optional(TEXT)}
    ),
)
PART = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}, optional={"id": optional(TEXT), "metadata": JSON}),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["image", "audio", "video", "document"]), "source": SOURCE},
        optional={"id": optional(TEXT), "metadata": JSON},
    ),
)
CONTENT = TEXT | st.lists(PART, max_size=3)
CALL = st.fixed_dictionaries(
    {"id": TEXT, "function": st.fixed_dictionaries({"name": TEXT, "arguments": TEXT})},
    optional={"type": st.just("function"), "encryptedValue": optional(TEXT), "metadata": optional(OBJECT)},
)
SHARED = {"metadata": optional(OBJECT), "encryptedValue": optional(TEXT), "subagentRunId": optional(TEXT)}
NAMED = {**SHARED, "name": optional(TEXT)}


def message(role: str, required: dict[str, Any], more: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"role": st.just(role), **required}, optional=more)


MESSAGE = st.one_of(
    message("system", {"content": TEXT}, NAMED),
    message("developer", {"content": TEXT}, NAMED),
    message("user", {"content": CONTENT}, NAMED),
    message("assistant", {}, {**NAMED, "content": optional(TEXT), "toolCalls": optional(st.lists(CALL, max_size=3))}),
    message("tool", {"content": CONTENT, "toolCallId": TEXT}, {**SHARED, "error": optional(TEXT)}),
    message("reasoning", {"content": TEXT}, SHARED),
)
TOOL = st.fixed_dictionaries(
    {"name": NAME, "description": TEXT}, optional={"parameters": JSON, "metadata": optional(OBJECT)}
)
RESUME = st.fixed_dictionaries(
    {"interruptId": TEXT, "status": st.sampled_from(["resolved", "cancelled"])},
    optional={"payload": JSON, "metadata": optional(OBJECT)},
)


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, Any]:
    data: dict[str, Any] = draw(
        st.fixed_dictionaries(
            {"threadId": NAME, "runId": NAME, "messages": st.lists(MESSAGE, max_size=4)},
            optional={
                "protocolVersion": optional(st.sampled_from(["1.0", "1.7", "0.9", "nightly"])),
                "parentRunId": optional(TEXT),
                "state": JSON,
                "tools": optional(st.lists(TOOL, max_size=2, unique_by=lambda tool: tool["name"])),
                "context": optional(st.lists(st.fixed_dictionaries({"description": TEXT, "value": TEXT}), max_size=2)),
                "forwardedProps": JSON,
                "resume": optional(st.lists(RESUME, max_size=2, unique_by=lambda entry: entry["interruptId"])),
            },
        )
    )
    for number, item in enumerate(data["messages"]):
        item["id"] = f"m{number}"
    return data


FREE = {"metadata", "state", "forwardedProps", "parameters", "payload"}


def snake_case(value: Any, chosen: Callable[[], bool]) -> Any:
    """The same with members spelled as Python does, where that is chosen: free JSON keeps its own."""
    if isinstance(value, list):
        return [snake_case(item, chosen) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name) if chosen() else name: (
            item if name in FREE else snake_case(item, chosen)
        )
        for name, item in value.items()
    }


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where a string is a known field: free JSON is left out."""
    if isinstance(value, dict):
        return [place for name, item in value.items() if name not in FREE for place in places(item, (*at, name))]
    if isinstance(value, list):
        return [place for number, item in enumerate(value) for place in places(item, (*at, number))]
    return [at] if isinstance(value, str) else []


def meaning(item: dict[str, Any]) -> dict[str, Any]:
    """The package's message without what the gateway does not keep, in the one form that the gateway writes."""
    kept = {name: value for name, value in item.items() if name not in ("encryptedValue", "subagentRunId")}
    content = kept.get("content")
    if isinstance(content, list):
        parts = [_part(part) for part in content if not (kept.get("error") and part.get("text") == "")]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        if not parts:
            content = ""
        elif kept["role"] == "tool" and len(texts) == len(parts):
            content = "\n".join(texts)
        elif len(texts) == len(parts) == 1:
            content = texts[0]
        else:
            content = parts
        kept["content"] = content
    if kept["role"] == "assistant":
        _settle_answer(kept)
    if not kept.get("error"):
        kept.pop("error", None)
    elif kept["content"] == "":
        kept["content"] = kept["error"]
    return kept


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in part.items() if name not in ("id", "metadata")}
    metadata = part.get("metadata")
    if part["type"] != "text" and isinstance(metadata, dict) and isinstance(metadata.get("filename"), str):
        kept["metadata"] = {"filename": metadata["filename"]}
    source = part.get("source")
    if isinstance(source, dict) and isinstance(source.get("mimeType"), str):  # one type in any case
        name, semicolon, parameters = source["mimeType"].partition(";")
        kept["source"] = {**source, "mimeType": name.strip().lower() + semicolon + parameters}
    return kept


def _settle_answer(kept: dict[str, Any]) -> None:
    calls = kept.pop("toolCalls", None) or []
    if calls:
        kept["toolCalls"] = [{"id": call["id"], "type": "function", "function": call["function"]} for call in calls]
    if not kept.get("content"):
        kept.pop("content", None)
        if not calls:
            kept["content"] = ""


@settings(deadline=None)  # the machine may be busy
@given(inputs(), st.sampled_from([0.0, 0.5, 1.0]), st.randoms(use_true_random=False))
def test_what_the_package_takes_means_the_same_here(data: dict[str, Any], share: float, random: Random) -> None:
    """In either spelling, which may change from member to member."""
    body = json.dumps(snake_case(data, lambda: random.random() < share)).encode()
    theirs = RunAgentInput.model_validate_json(body)
    ours, profile = parse_run_input(body)

    assert (ours.thread.id, ours.run_id, ours.parent_run_id) == (theirs.thread_id, theirs.run_id, theirs.parent_run_id)
    assert (None if ours.application.state is ABSENT else ours.application.state) == theirs.state
    assert ours.application.forwarded == theirs.forwarded_props
    assert [(tool.name, tool.description, tool.metadata) for tool in ours.application.tools] == [
        (tool.name, tool.description, tool.metadata) for tool in theirs.tools or ()
    ]
    assert [tool.input_schema for tool in ours.application.tools] == [
        tool.parameters if isinstance(tool.parameters, dict) else {} for tool in theirs.tools or ()
    ]
    assert [(entry.description, entry.value) for entry in ours.application.context] == [
        (entry.description, entry.value) for entry in theirs.context or ()
    ]
    assert [(answer.interrupt_id, answer.status, answer.payload) for answer in ours.answers] == [
        (entry.interrupt_id, entry.status, entry.payload if entry.status == "resolved" else None)
        for entry in theirs.resume or ()
    ]
    assert ag_ui_messages(ours.sent.messages) == [
        meaning(item.model_dump(mode="json", by_alias=True)) for item in theirs.messages
    ]
    assert profile.is_full is (data.get("protocolVersion") not in (None, "0.9"))


@settings(deadline=None)  # the machine may be busy
@given(inputs(), st.data(), st.sampled_from([5, True, {}, 1.5]))
def test_a_field_of_the_wrong_type_is_refused_by_both_and_here_by_its_name(
    data: dict[str, Any], choose: st.DataObject, wrong: object
) -> None:
    broken = copy.deepcopy(data)
    place = choose.draw(st.sampled_from(places(broken)))
    inner = broken
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = wrong
    body = json.dumps(broken).encode()
    with pytest.raises(ValidationError):
        RunAgentInput.model_validate_json(body)
    with pytest.raises(InvalidRequestError) as refused:
        parse_run_input(body)
    assert [problem.pointer for problem in refused.value.problems] == ["/" + "/".join(str(step) for step in place)]
    assert refused.value.status == 422


@settings(deadline=None)  # the machine may be busy
@given(inputs())
def test_what_is_sent_back_as_it_was_shown_means_the_same(data: dict[str, Any]) -> None:
    ours, _ = parse_run_input(json.dumps(data).encode())
    for profile in PeerProfile:
        shown = ag_ui_messages(ours.sent.messages, profile)
        again, _ = parse_run_input(json.dumps({**data, "messages": shown}).encode())
        assert ag_ui_messages(again.sent.messages, profile) == shown
