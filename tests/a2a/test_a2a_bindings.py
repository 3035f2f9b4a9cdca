"""A2A over real sockets: what the bindings add. REST, versions, errors, notifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.a2a_scene import a2a_gateway, of_agent, said, sent, state_of, words_of
from tests.running_gateway import parse_frames

REST = "/a2a"


# --- REST


@pytest.mark.parametrize("prefix", [REST, of_agent("words")])
async def test_rest_does_what_json_rpc_does(tmp_path: Path, prefix: str) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        answer = await a2a.post(said("hello"), to=f"{prefix}/message:send")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        task = answer.json()["task"]
        assert (state_of(task), words_of(task)) == ("COMPLETED", "I heard: hello")
        assert (await a2a.http.get(f"{prefix}/tasks/{task['id']}")).json() == task
        assert await a2a.task(task["id"]) == task
        short = (await a2a.http.get(f"{prefix}/tasks/{task['id']}?historyLength=0")).json()
        assert "history" not in short
        listed = (await a2a.http.get(f"{prefix}/tasks?pageSize=1&includeArtifacts=true")).json()
        assert (listed["tasks"], listed["nextPageToken"]) == ([task], "")
        streamed = await a2a.post(said("hello"), to=f"{prefix}/message:stream")
        frames = [frame.data for frame in parse_frames(streamed.content)]
    assert [list(frame) for frame in frames[:2]] == [["task"], ["statusUpdate"]]
    assert state_of(frames[-1]["statusUpdate"]) == "COMPLETED"


async def test_rest_cancels_and_watches(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        asked = (await a2a.post(said("refund"), to=of_agent("refunder") + "/message:send")).json()["task"]
        canceled = await a2a.http.post(f"{REST}/tasks/{asked['id']}:cancel")
        assert state_of(canceled.json()) == "CANCELED"
        for method in ("GET", "POST"):
            watched = await a2a.http.request(method, f"{REST}/tasks/{asked['id']}:subscribe")
            assert (watched.status_code, watched.json()["error"]["details"][0]["reason"]) == (
                400,
                "UNSUPPORTED_OPERATION",
            )
        again = await a2a.http.post(f"{REST}/tasks/{asked['id']}:cancel", json={"metadata": {}})
    assert (again.status_code, again.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")


async def test_an_answer_has_a2a_s_media_type_for_those_who_ask_for_it(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        answer = await a2a.http.get(f"{REST}/tasks", headers={"accept": "application/a2a+json"})
        error = await a2a.http.get(f"{REST}/tasks/none", headers={"accept": "application/a2a+json"})
        body = await a2a.http.post(
            f"{REST}/message:send", json=said("hello"), headers={"content-type": "application/a2a+json"}
        )
    assert answer.headers["content-type"] == error.headers["content-type"] == "application/a2a+json"
    assert body.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "word"),
    [
        ("GET", "/tasks/task_x", None, 404, "NOT_FOUND"),
        ("GET", "/nothing", None, 404, "NOT_FOUND"),
        ("PUT", "/tasks", None, 405, "UNIMPLEMENTED"),
        ("GET", "/tasks?pageSize=many", None, 400, "INVALID_ARGUMENT"),
        ("GET", "/tasks?pageToken=other", None, 400, "INVALID_ARGUMENT"),
        ("POST", "/message:send", b"{", 400, "INVALID_ARGUMENT"),
        ("POST", "/message:send", b"[]", 400, "INVALID_ARGUMENT"),
        ("POST", "/message:stream", b'{"message": {}}', 400, "INVALID_ARGUMENT"),
        ("GET", "/extendedAgentCard", None, 400, "FAILED_PRECONDITION"),
    ],
)
async def test_an_error_of_rest_has_its_status_and_google_s_form(
    tmp_path: Path, method: str, path: str, content: bytes | None, status: int, word: str
) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        headers = {} if content is None else {"content-type": "application/json"}
        answer = await a2a.http.request(method, REST + path, content=content, headers=headers)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["status"]) == (status, status, word)
    assert error["message"]


# --- JSON-RPC


@pytest.mark.parametrize(
    ("content", "code", "call_id"),
    [
        (b"{", -32700, None),
        (b'"x"', -32600, None),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]', -32600, None),
        (b'{"jsonrpc":"1.0","id":1,"method":"ListTasks"}', -32600, 1),
        (b'{"jsonrpc":"2.0","id":true,"method":"ListTasks"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":"a"}', -32600, "a"),
        (b'{"jsonrpc":"2.0","id":"%b","method":"ListTasks"}' % (b"a" * 1025), -32600, None),
        (b'{"jsonrpc":"2.0","id":"%b","method":"listTasks"}' % (b"a" * 1024), -32601, "a" * 1024),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ListTasks","params":[]}', -32602, 1.5),
        (b'{"jsonrpc":"2.0","id":2,"method":"listTasks"}', -32601, 2),
        (b'{"jsonrpc":"2.0","id":3,"method":"SendMessage"}', -32602, 3),
    ],
)
async def test_an_error_of_json_rpc_is_a_200_with_its_code(
    tmp_path: Path, content: bytes, code: int, call_id: Any
) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        answer = await a2a.http.post("/a2a/", content=content, headers={"content-type": "application/json"})
    body = answer.json()
    assert (answer.status_code, body["jsonrpc"], body["id"], body["error"]["code"]) == (200, "2.0", call_id, code)


async def test_an_error_before_a_call_is_read_has_its_status_and_json_rpc_s_form(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, server={"max_body_bytes": 4096}) as a2a:
        text = await a2a.http.post("/a2a", content=b"{}", headers={"content-type": "text/plain"})
        get = await a2a.http.get("/a2a")
        large = await a2a.post(said("x" * 5000))
    assert (text.status_code, text.json()["error"]["code"]) == (415, -32005)
    assert (get.status_code, get.headers["allow"]) == (405, "POST")
    assert (large.status_code, large.json()["jsonrpc"]) == (413, "2.0")


async def test_a_notification_is_carried_out_and_gets_no_answer(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        refused: list[tuple[str, Any]] = [("SendMessage", {}), ("GetTask", {"id": "x"}), ("NoMethod", {})]
        for method, params in (("SendMessage", said("hello")), *refused):
            answer = await a2a.post({"jsonrpc": "2.0", "method": method, "params": params})
            assert (answer.status_code, answer.content) == (204, b"")
        (task,) = (await a2a.call("ListTasks", {}))["tasks"]
        assert words_of(await a2a.until(task["id"], "COMPLETED")) == "I heard: hello"


async def test_parameters_may_be_written_in_snake_case(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        params = said("hello", configuration={"history_length": 0})
        task = (await a2a.call("SendMessage", params))["task"]
        assert "history" not in task
        listed = await a2a.call("ListTasks", {"page_size": 1, "context_id": task["contextId"]})
    assert [each["id"] for each in listed["tasks"]] == [task["id"]]


async def test_line_breaks_of_unicode_stay_escaped_in_every_answer(tmp_path: Path) -> None:
    words = "a\u2028b\u2029c\x85d"
    async with a2a_gateway(tmp_path) as a2a:
        one = await a2a.post({"jsonrpc": "2.0", "id": words, "method": "SendMessage", "params": said(words)})
        many = await a2a.post({"jsonrpc": "2.0", "id": words, "method": "SendStreamingMessage", "params": said(words)})
        rest = await a2a.post(sent([{"data": {words: words}}]), to="/a2a/message:stream")
    for answer in (one, many, rest):
        assert not any(each in answer.text for each in "\u2028\u2029\x85")
    assert words_of(one.json()["result"]["task"]) == f"I heard: {words}"
    assert parse_frames(many.content)[0].data["id"] == words


# --- versions


@pytest.mark.parametrize("version", ["2.0", "1.1", "one", "99.0", "1"])
async def test_an_unknown_version_is_refused_by_its_name(tmp_path: Path, version: str) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        error = await a2a.error("SendMessage", said("hello"), **{"A2A-Version": version})
        rest = await a2a.http.get(f"/a2a/tasks?A2A-Version={version}")
    assert (error["code"], error["data"][0]["reason"]) == (-32009, "VERSION_NOT_SUPPORTED")
    assert (rest.status_code, rest.json()["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")


async def test_a_method_s_name_tells_the_version_where_nothing_else_does(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        for headers in ({}, {"A2A-Version": ""}, {"A2A-Version": "1.0"}, {"A2A-Version": "1.0.1"}):
            assert "task" in await a2a.call("SendMessage", said("hello"), **headers)
        for headers in ({}, {"A2A-Version": "0.3"}, {"A2A-Version": "0.3.0"}):
            assert (await a2a.call("message/send", said("hello"), **headers))["kind"] == "task"
        error = await a2a.error("SendMessage", said("x"), **{"A2A-Version": "0.3"})
        assert (error["code"], error["data"][0]["metadata"]) == (-32009, {"supportedVersions": "1.0"})
        assert (await a2a.http.get("/a2a/tasks", headers={"A2A-Version": "0.3"})).status_code == 400


async def test_a_strict_gateway_serves_1_0_to_those_who_name_it(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, sections={"protocols": {"a2a": {"strict": True}}}) as a2a:
        named = {"A2A-Version": "1.0"}
        assert "task" in await a2a.call("SendMessage", said("hello"), **named)
        assert (await a2a.error("SendMessage", said("hello")))["code"] == -32009
        assert (await a2a.error("message/send", said("hello"), **named))["code"] == -32601
        assert (await a2a.error("message/send", said("hello")))["code"] == -32009
        assert (await a2a.http.get("/a2a/tasks")).status_code == 400
        assert (await a2a.http.get("/a2a/tasks", headers=named)).status_code == 200
        card = (await a2a.http.get("/.well-known/agent-card.json")).json()
    assert {each["protocolVersion"] for each in card["supportedInterfaces"]} == {"1.0"}
    assert "url" not in card


async def test_a_gateway_may_be_without_a2a(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, sections={"protocols": {"a2a": False}}) as a2a:
        assert (await a2a.post(said("hello"))).status_code == 404
        assert (await a2a.http.get("/.well-known/agent-card.json")).status_code == 404


# --- who is asked


async def test_the_extension_that_a_client_activates_is_named_in_the_answer(tmp_path: Path) -> None:
    uri = "urn:agui-gateway:a2a:activity:1"
    asked = {"A2A-Extensions": f"https://example.org/other, {uri}"}
    async with a2a_gateway(tmp_path) as a2a:
        async with a2a.stream("SendStreamingMessage", said("add"), to=of_agent("adder"), **asked) as stream:
            assert stream.response.headers["a2a-extensions"] == uri
            frames = await stream.rest()
        plain = await a2a.frames("SendStreamingMessage", said("add"), to=of_agent("adder"))
    shown = [frame.data["result"]["statusUpdate"] for frame in frames if "statusUpdate" in frame.data["result"]]
    kinds = [each["status"]["message"]["parts"][0]["data"]["type"] for each in shown if "message" in each["status"]]
    assert kinds == ["tool_call", "tool_result"]
    assert not any("message" in frame.get("statusUpdate", {}).get("status", {}) for frame in plain)


async def test_an_unknown_agent_is_an_error_that_says_so(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        rest = await a2a.post(said("hello"), to=of_agent("nobody") + "/message:send")
        listed = await a2a.http.get(of_agent("nobody") + "/tasks")
        task = (await a2a.call("SendMessage", said("hello")))["task"]
        for method, params in (("SendMessage", said("hello")), ("ListTasks", {}), ("GetTask", {"id": task["id"]})):
            error = await a2a.error(method, params, to=of_agent("nobody"))
            assert (error["code"], error["data"][0]["reason"]) == (-32000, "AGENT_NOT_FOUND")
    assert (rest.status_code, listed.status_code) == (404, 404)
