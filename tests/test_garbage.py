"""What is over is gone, a run, an answer or a connection: nothing of it waits for the garbage collector, which looks
through all else too and hardly ever comes.
"""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.asgi_server import RawClient
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted
from tests.waiting import until

_OURS: Final = ("gateway", "starlette", "sse_starlette", "uvicorn")


@contextmanager
def garbage_of_ours() -> Generator[Counter[str]]:
    """The objects, by class, that came to know each other in circles within the block and that nobody else knows: the
    gateway's own, and those of the server and the framework that it runs in.
    """
    found: Counter[str] = Counter()
    gc.disable()
    gc.freeze()  # objects from before the block are not looked through, which takes a second in a process of many tests
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        kinds = [type(item) for item in gc.garbage]
        found.update(kind.__name__ for kind in kinds if kind.__module__.partition(".")[0] in _OURS)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


@pytest.mark.parametrize("unwatched_seconds", [0, 3600])
async def test_runs_that_are_over_leave_nothing_for_the_garbage_collector(
    unwatched_seconds: float, tmp_path: Path
) -> None:
    words = scripted([{"tool": "ListIndexTool"}], [{"text": "word ", "repeat": 50}], switch_every_delta=True)
    async with local_gateway(tmp_path, [agent("a", words, tools=[{"type": "ListIndexTool"}])]) as gateway:
        gateway.application.streams.unwatched_seconds = unwatched_seconds
        await gateway.client.run("a", run_body(thread_id="first", run_id="first"))  # what is made once
        with garbage_of_ours() as found:
            for number in range(5):
                frames = await gateway.client.run("a", run_body(thread_id=f"thread-{number}", run_id=f"run-{number}"))
                assert frames[-1].type == "RUN_FINISHED"
    assert found == {}


class Asked(NamedTuple):
    """A request; `#` in its path and body is a number. `earlier`: the one that the path's `{id}` comes from, a member
    of that answer. `refused`: the answer is an error. `leaves`: its client leaves at once.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    earlier: tuple[str, str, Mapping[str, Any]] | None = None
    refused: bool = False
    leaves: bool = False


_RUN: Final = run_body(thread_id="t#", run_id="r#")
_FAILING_RUN: Final = run_body(thread_id="f#", run_id="f#")
_LEFT_RUN: Final = run_body(thread_id="l#", run_id="l#")
_CHAT: Final = {"messages": [{"role": "user", "content": "hello"}]}
_RESPONSE: Final = {"model": "a", "input": "hello #"}
_PROCESS: Final = {
    "input": [{"type": "message", "role": "user", "content": [{"type": "text", "text": "hello #"}]}],
    "stream": False,
}
_MESSAGE: Final = {"message": {"messageId": "m#", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
_QUESTION: Final = {"parameters": {"question": "hello"}}
_ALL: Final[Mapping[str, Any]] = {"query": {"match_all": {}}}
_ONE_RESPONSE: Final = ("/v1/responses", "id", _RESPONSE)
_ONE_PROCESS: Final = ("/agents/a/process", "id", _PROCESS)
_ONE_TASK: Final = ("/agents/a/a2a/message:send", "task/id", _MESSAGE)
_ML: Final = "/_plugins/_ml"

WAYS: Final[Mapping[str, Sequence[Asked]]] = {
    "ag_ui": (
        Asked("POST", "/agents/a/run", _RUN),
        Asked("POST", "/agents/a/connect", _RUN),
        Asked("POST", "/agents/f/run", _FAILING_RUN),
        Asked("POST", "/agents/a/run", {"threadId": "t#"}, refused=True),
        Asked("POST", "/agents/nobody/run", _RUN, refused=True),
        Asked("POST", "/agents/a/run", _LEFT_RUN, leaves=True),
    ),
    "gateway": (
        Asked("GET", "/agents"),
        Asked("GET", "/threads"),
        Asked("GET", "/threads/none/messages", refused=True),
        Asked("GET", "/runs/none/events", refused=True),
        Asked("GET", "/approvals", refused=True),
        Asked("GET", "/nothing", refused=True),
        Asked("DELETE", "/threads", refused=True),
        Asked("GET", "/healthz"),
    ),
    "agent_api": (
        Asked("POST", "/agents/a/process", _PROCESS),
        Asked("POST", "/agents/a/process", {**_PROCESS, "stream": True}),
        Asked("POST", "/agents/f/process", _PROCESS),
        Asked("POST", "/agents/f/process", {**_PROCESS, "stream": True}),
        Asked("POST", "/agents/a/process", {"input": 5}, refused=True),
        Asked("GET", "/process/{id}", earlier=_ONE_PROCESS),
        Asked("GET", "/process/{id}?stream=true", earlier=_ONE_PROCESS),
        Asked("GET", "/process/none", refused=True),
        Asked("POST", "/agents/a/process", {**_PROCESS, "stream": True}, leaves=True),
        Asked("POST", "/agents/a/process", _PROCESS, leaves=True),
    ),
    "chat": (
        Asked("POST", "/v1/chat/completions", {"model": "a", **_CHAT}),
        Asked("POST", "/v1/chat/completions", {"model": "a", "stream": True, **_CHAT}),
        Asked("POST", "/v1/chat/completions", {"model": "f", **_CHAT}, refused=True),
        Asked("POST", "/v1/chat/completions", {"model": "a"}, refused=True),
        Asked("POST", "/v1/chat/completions", {"model": "a", **_CHAT}, leaves=True),
    ),
    "responses": (
        Asked("POST", "/v1/responses", _RESPONSE),
        Asked("POST", "/v1/responses", {**_RESPONSE, "stream": True}),
        Asked("POST", "/v1/responses", {**_RESPONSE, "model": "f"}, refused=True),
        Asked("GET", "/v1/responses/{id}", earlier=_ONE_RESPONSE),
        Asked("GET", "/v1/responses/{id}?stream=true", earlier=_ONE_RESPONSE),
        Asked("GET", "/v1/responses/{id}/input_items", earlier=_ONE_RESPONSE),
        Asked("GET", "/v1/responses/resp_none", refused=True),
        Asked("POST", "/v1/responses", _RESPONSE, leaves=True),
    ),
    "a2a": (
        Asked("POST", "/agents/a/a2a/message:send", _MESSAGE),
        Asked("POST", "/agents/a/a2a/message:stream", {"message": {**_MESSAGE["message"], "messageId": "s#"}}),
        Asked("POST", "/agents/f/a2a/message:send", {"message": {**_MESSAGE["message"], "messageId": "f#"}}),
        Asked("GET", "/agents/a/a2a/tasks/{id}", earlier=_ONE_TASK),
        Asked("GET", "/agents/a/a2a/tasks"),
        Asked("GET", "/agents/a/a2a/tasks/none", refused=True),
    ),
    "ml_commons": (
        Asked("POST", f"{_ML}/agents/a/_execute", _QUESTION),
        Asked("POST", f"{_ML}/agents/a/_execute/stream", _QUESTION),
        Asked("POST", f"{_ML}/agents/f/_execute", _QUESTION, refused=True),
        Asked("POST", f"{_ML}/memory/_search", _ALL),
        Asked("POST", f"{_ML}/tasks/_search", _ALL),
        Asked("POST", f"{_ML}/memory/_search", {"query": {"nothing": {}}}, refused=True),
        Asked("GET", f"{_ML}/agents/a"),
        Asked("GET", f"{_ML}/agents/none", refused=True),
        Asked("POST", f"{_ML}/agents/a/_execute", _QUESTION, leaves=True),
    ),
}


@pytest.mark.parametrize("protocol", WAYS)
async def test_no_way_of_an_answer_leaves_anything_for_the_garbage_collector(protocol: str, tmp_path: Path) -> None:
    words = scripted([{"reasoning": "hm"}, {"tool": "ListIndexTool"}], [{"text": "word ", "repeat": 50}])
    fails = scripted([{"text": "so far"}, {"error": "invalid"}])
    agents = [agent("a", words, tools=[{"type": "ListIndexTool"}]), agent("f", fails)]
    async with local_gateway(tmp_path, agents) as gateway:
        for number, asked in enumerate(WAYS[protocol]):  # what is made once
            await answered(gateway, asked, f"{number}-first")
        left: dict[str, Counter[str]] = {}
        for number, asked in enumerate(WAYS[protocol]):
            with garbage_of_ours() as found:
                for repetition in range(3):
                    await answered(gateway, asked, f"{number}-{repetition}")
            if found:
                left[f"{number} {asked.method} {asked.path}"] = found
    assert left == {}


async def answered(gateway: LocalGateway, asked: Asked, number: str) -> None:
    """The request is over, and so is its connection."""
    path = asked.path
    if asked.earlier is not None:
        to, member, body = asked.earlier
        value = json.loads(await _sent(gateway, Asked("POST", to, body), number))
        for name in member.split("/"):
            value = value[name]
        path = path.format(id=value)
    await _sent(gateway, asked._replace(path=path), number)


async def _sent(gateway: LocalGateway, asked: Asked, number: str) -> bytes:
    """The body of the answer."""
    client = await RawClient.connect(urlsplit(gateway.client.base_url).port or 0)
    said = b"" if asked.body is None else json.dumps(asked.body).replace("#", number).encode()
    headers = "Connection: close\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
    client.send(asked.method, asked.path.replace("#", number), said, headers)
    answer = b""
    if not asked.leaves:
        head, _, answer = (await client.read_rest()).partition(b"\r\n\r\n")
        assert (head.split()[1] >= b"400") is asked.refused, (asked, head, answer)
    await client.close()
    state = gateway.server.server_state
    await until(lambda: not state.connections and not state.tasks)
    return answer
