"""A thread's messages as items, without a gateway."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    UrlSource,
)
from gateway.openai_api.conversations import read_added, without_item
from gateway.openai_api.item_lists import ListPart, part_asked
from gateway.openai_api.response_view import ResponseView
from gateway.openai_api.settings import ResponsesSettings
from gateway.openai_api.thread_items import ThreadItems, message_items
from gateway.protocol.pages import PAGE_BYTES
from gateway.store import RunRecord, RunStatus

ASKED = Message("u1", "user", (TextBlock("add"),))
THOUGHT = Message("m1", "reasoning", (ReasoningBlock("hm", 0),), turn_id="t1")
CALLED = Message("m2", "assistant", (TextBlock("wait", 1), ToolCall("c1", "add", "{}", 2)), turn_id="t1")
RESULT = Message("m3", "tool", (ToolResult("c1", (TextBlock("5"),)),), turn_id="t1")
SAID = Message("m4", "assistant", (TextBlock("done", 0),), turn_id="t2")
THREAD = (ASKED, THOUGHT, CALLED, RESULT, SAID)
IDS = ["u1", "rs_r_0", "msg_r_1", "mcp_r_2", "msg_r_4"]


def run(run_id: str = "r", status: RunStatus = RunStatus.COMPLETED) -> RunRecord:
    return RunRecord("me", run_id, "t", "a", status, 1.0, started_at=1.0, finished_at=2.0)


def items(
    messages: Sequence[Message] = THREAD,
    brought: Sequence[str | None] = ("r",) * 5,
    runs: Sequence[RunRecord] = (run(),),
    **settings: Any,
) -> ThreadItems:
    view = ResponseView(ResponsesSettings(**settings), lambda text, opaque: "sealed", to_operator=True)
    return ThreadItems(messages, brought, runs, view)


def ids(found: ThreadItems) -> list[str]:
    return [item.id for item in found]


def test_the_items_of_a_run_are_numbered_by_what_it_said_and_not_by_what_is_shown() -> None:
    assert ids(items()) == IDS
    assert ids(items(backend_tools="hidden")) == ["u1", "rs_r_0", "msg_r_1", "msg_r_4"]
    assert ids(items(backend_tools="function_call")) == ["u1", "rs_r_0", "msg_r_1", "fc_r_2", "fco_r_3", "msg_r_4"]


def test_what_no_known_run_said_has_the_ids_of_its_messages() -> None:
    expected = ["u1", "m1", "m2", "fc_c1", "m3", "m4"]
    assert ids(items(brought=(None,) * 5)) == expected
    assert ids(items(runs=())) == expected
    assert ids(items(brought=())) == expected, "messages that came while the runs were read"


def test_runs_that_follow_each_other_without_a_question_are_two() -> None:
    records = (run("r2"), run("r1", RunStatus.INTERRUPTED))
    found = items(brought=("r1", "r1", "r1", "r2", "r2"), runs=records)
    assert ids(found) == ["u1", "rs_r1_0", "msg_r1_1", "mcpr_r1_2", "mcp_r2_0", "msg_r2_1"]
    assert [item.value.get("name") for item in found if "mcp" in item.id] == ["add", "add"]


def test_a_call_of_the_clients_is_its_own_until_and_after_it_is_answered() -> None:
    answer = Message("u2", "tool", (ToolResult("c1", (TextBlock("5"),)),))
    for thread in (THREAD[:3], (*THREAD[:3], answer)):
        found = ids(items(thread, ("r", "r", "r", "r2"), (run("r2"), run())))
        assert found[:4] == ["u1", "rs_r_0", "msg_r_1", "fc_r_2"]
        assert found[4:] == ["u2"][: len(thread) - 3]


@pytest.mark.parametrize("settings", [{}, {"backend_tools": "function_call"}])
@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_the_other_items_of_a_run_keep_their_ids_when_one_goes(place: int, settings: Any) -> None:
    before = items(**settings)
    item = [*before][place]
    left = without_item(before, item)(THREAD)
    kept = {call.call_id for message in left for call in message.tool_calls}
    left = tuple(each for each in left if (result := each.tool_result) is None or result.call_id in kept)
    gone = {item.id, "fc_r_2", "fco_r_3"} if item.call_id else {item.id}  # a call and its result go together
    assert ids(items(left, ("r",) * len(left), **settings)) == [each for each in ids(before) if each not in gone]


def test_of_very_many_wrong_items_the_first_hundred_are_named() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read_added({"items": [{"type": "item_reference", "id": "x"}] * 5_000})
    assert len(refused.value.problems) == 100


def test_a_part_is_found_from_either_end_and_cut_at_an_item() -> None:
    found = items()
    assert [item.id for item in reversed(found)] == IDS[::-1]
    assert ids(found.cut_at("u1", oldest_first=False)) == ["u1"]
    assert ids(found.cut_at("mcp_r_2", oldest_first=True)) == IDS[1:]
    assert ids(found.cut_at("mcp_r_9", oldest_first=True)) == []
    assert found.find("nothing") is None


def test_a_page_ends_where_there_is_no_more() -> None:
    found = items()
    page = ListPart(2, after="rs_r_0", oldest_first=True).of(found)
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("msg_r_1", "mcp_r_2", True)
    page = ListPart(2, after="msg_r_1").of(found)
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("rs_r_0", "u1", False)
    with pytest.raises(InvalidRequestError):
        ListPart(after="nothing").of(found)
    assert part_asked([("limit", "3"), ("order", "asc"), ("after", "")]) == ListPart(3, None, oldest_first=True)


def test_a_page_ends_early_where_its_items_are_large() -> None:
    long = "x" * (PAGE_BYTES // 2)
    found = items([Message(f"u{number}", "user", (TextBlock(long),)) for number in range(5)], (None,) * 5, ())
    page: Any = ListPart(4).of(found)
    assert ([item["id"] for item in page["data"]], page["has_more"]) == (["u4", "u3"], True)
    page = ListPart(4, after="u1").of(found)
    assert (page["first_id"], page["last_id"], page["has_more"]) == ("u0", "u0", False)


FILE: Any = {"type": "input_file", "filename": "a.wav"}
PICTURE: Any = {"type": "input_image", "detail": "auto"}


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (TextBlock("hi"), {"type": "input_text", "text": "hi"}),
        (ImageBlock(UrlSource("https://a.test/b")), {**PICTURE, "image_url": "https://a.test/b"}),
        (ImageBlock(FileSource("file-1")), {**PICTURE, "file_id": "file-1"}),
        (AudioBlock(Base64Source("QQ==", "audio/wav"), "a.wav"), {**FILE, "file_data": "data:audio/wav;base64,QQ=="}),
        (DocumentBlock(UrlSource("https://a.test/c"), "a.wav"), {**FILE, "file_url": "https://a.test/c"}),
        (DocumentBlock(FileSource("file-2"), "a.wav"), {**FILE, "file_id": "file-2"}),
    ],
)
def test_what_a_client_sent_is_shown_as_it_sends_it(block: Any, part: Any) -> None:
    [item] = message_items(Message("u", "user", (block,)))
    assert item.value == {"id": "u", "type": "message", "status": "completed", "role": "user", "content": [part]}


def test_a_result_with_media_has_parts() -> None:
    blocks = (TextBlock("see"), ImageBlock(UrlSource("https://a.test/b")))
    [item] = message_items(Message("x", "tool", (ToolResult("c1", blocks),)))
    output: Any = item.value["output"]
    assert [each["type"] for each in output] == ["input_text", "input_image"]
