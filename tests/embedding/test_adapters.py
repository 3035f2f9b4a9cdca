"""Adapters: what an application serves where a program says it, and endpoints that a program writes."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount
from starlette.types import Scope

from gateway.adapters import (
    A2AAdapter,
    A2AFastAPIDefaultAdapter,
    AdapterApp,
    AdapterRequest,
    AgentApiAdapter,
    AgentFunction,
    ProtocolAdapter,
    ResponseAPIDefaultAdapter,
    ResponsesAdapter,
)
from gateway.agent_api_builder.schemas import AgentRequest
from gateway.errors import ConfigurationError, ConflictError
from gateway.problems import Problem
from tests.embedded_gateway import HELPER, application_of, client_of, embedded
from tests.running_gateway import agent, parse_frames, run_body, scripted

ALICE = "alice-key-of-the-tests"
QUESTION = {"role": "user", "type": "message", "content": [{"type": "text", "text": "Hello?"}]}
HELLO: dict[str, Any] = {"input": [QUESTION]}


async def statuses(client: httpx.AsyncClient, *paths: str) -> list[int]:
    return [(await client.get(path)).status_code for path in paths]


# --- which protocols there are


async def test_an_application_serves_the_adapters_and_the_gateways_own_api(tmp_path: Path) -> None:
    assert ResponseAPIDefaultAdapter is ResponsesAdapter
    async with embedded(tmp_path, ResponsesAdapter()) as client:
        response = await client.post("/compatible-mode/v1/responses", json={"model": "helper", "input": "Hello?"})
        assert response.json()["output"][0]["content"][0]["text"] == "hello there"
        run = await client.post("/agents/helper/run", json=run_body())
        assert parse_frames(run.content)[-1].type == "RUN_FINISHED"
        assert await statuses(client, "/agents", "/threads", "/runs/run-1", "/v1/models") == [200] * 4
        assert (await client.post("/v1/chat/completions", json={})).status_code == 404
        assert await statuses(client, "/_plugins/_ml/tools") == [404]
        paths = {path.split("/")[1] for path in (await client.get("/openapi.json")).json()["paths"]}
        assert "v1" in paths
        assert "_plugins" not in paths


async def test_without_adapters_there_is_the_gateways_own_api_alone(tmp_path: Path) -> None:
    async with embedded(tmp_path) as client:
        assert await statuses(client, "/agents", "/v1/models", "/_plugins/_ml/tools") == [200, 404, 404]


async def test_an_adapter_wins_over_a_file_that_turns_its_protocol_off(tmp_path: Path) -> None:
    off = {"protocols": {"responses": False, "ml_commons": False}}
    async with embedded(tmp_path, ResponsesAdapter(), sections=off) as client:
        response = await client.post("/v1/responses", json={"model": "helper", "input": "Hello?"})
        assert response.status_code == 200


CHAT = {"protocols": {"chat_completions": {"backend_tools": "reasoning"}}}
OF_KEY = {"name": "a", "key": ALICE, "protocols": {"responses": {"approvals": "message"}}}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"sections": CHAT}, "protocols.chat_completions"),
        ({"server": {"api_keys": [OF_KEY]}}, "server.api_keys[0].protocols.responses"),
    ],
)
def test_settings_of_a_protocol_that_is_not_there_are_refused(tmp_path: Path, said: Any, place: str) -> None:
    application_of(tmp_path, **said)
    with pytest.raises(ConfigurationError) as refused:
        application_of(tmp_path, [], **said)
    assert place in refused.value.message
    assert "add the adapter" in refused.value.message


def test_two_adapters_with_one_protocol_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="two protocols 'responses'"):
        application_of(tmp_path, [ResponsesAdapter(), ResponsesAdapter()])


@pytest.mark.parametrize("given", [[A2AAdapter], ["a2a"], A2AAdapter()])
def test_what_is_no_list_of_adapters_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a list of ProtocolAdapter objects"):
        application_of(tmp_path, given)


async def test_settings_of_the_adapters_protocol_hold(tmp_path: Path) -> None:
    call = agent("helper", scripted([{"tool": "add", "arguments": {"a": 1, "b": 2}}], [{"text": "3"}]), tools=[
        {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:add"}}
    ])  # fmt: skip
    for said, kinds in (("hidden", []), ("function_call", ["function_call", "function_call_output"])):
        sections = {"protocols": {"responses": {"backend_tools": said}}}
        async with embedded(tmp_path, ResponsesAdapter(), agents=[call], sections=sections) as client:
            response = await client.post("/v1/responses", json={"model": "helper", "input": "1 + 2?"})
            assert [item["type"] for item in response.json()["output"]] == [*kinds, "message"]


async def test_a_key_for_which_a_protocol_is_off_does_not_use_its_adapter(tmp_path: Path) -> None:
    keys = [{"name": "alice", "key": ALICE, "protocols": {"responses": False}}, {"name": "bob", "key": ALICE[::-1]}]
    async with embedded(tmp_path, ResponsesAdapter(), server={"api_keys": keys}) as client:
        for key, status in ((ALICE, 403), (ALICE[::-1], 200)):
            headers = {"authorization": f"Bearer {key}"}
            body = {"model": "helper", "input": "Hello?"}
            assert (await client.post("/v1/responses", json=body, headers=headers)).status_code == status


# --- A2A and the Agent API


async def card_of(client: httpx.AsyncClient) -> Any:
    return (await client.get("/.well-known/agent-card.json")).json()


async def test_an_a2a_adapter_says_what_the_agents_card_says(tmp_path: Path) -> None:
    assert A2AFastAPIDefaultAdapter is A2AAdapter
    friday = A2AAdapter(agent_name="Friday", agent_description="A helpful assistant")
    keyed = {"server": {"api_keys": [{"name": "alice", "key": ALICE}]}}
    async with embedded(tmp_path, friday, **keyed) as client:
        card = await card_of(client)
        assert (card["name"], card["description"]) == ("Friday", "A helpful assistant")
        message = {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "Hello?"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        assert (await client.post("/a2a", json=call)).status_code == 401
        headers = {"authorization": f"Bearer {ALICE}", "a2a-version": "1.0"}
        task = (await client.post("/a2a", json=call, headers=headers)).json()["result"]["task"]
        assert task["artifacts"][0]["parts"][0]["text"] == "hello there"
        assert (await client.post("/v1/responses", json={}, headers=headers)).status_code == 404


async def test_what_the_file_says_of_a_card_comes_first(tmp_path: Path) -> None:
    friday = A2AAdapter(agent_name="Friday", agent_description="A helpful assistant")
    written = {"protocols": {"a2a": {"card": {"name": "Saturday", "version": "7"}}}}
    async with embedded(tmp_path, friday, sections=written) as client:
        card = await card_of(client)
        assert (card["name"], card["description"], card["version"]) == ("Saturday", "A helpful assistant", "7")
    keyed = {"server": {"api_keys": [{"name": "alice", "key": ALICE}]}}
    async with embedded(tmp_path, A2AAdapter(), **keyed) as client:
        assert (await client.get("/.well-known/agent-card.json")).status_code in (401, 404), "no card was written"


def test_an_agents_card_without_the_adapter_is_refused(tmp_path: Path) -> None:
    carded = agent("helper", scripted([{"text": "hi"}]), a2a={"card": {"name": "Helper"}})
    application_of(tmp_path, [A2AAdapter()], agents=[carded])
    with pytest.raises(ConfigurationError, match=r"agents\[0\]\.a2a"):
        application_of(tmp_path, [], agents=[carded])


async def test_the_agent_api_is_an_adapter_too(tmp_path: Path) -> None:
    async with embedded(tmp_path, AgentApiAdapter()) as client:
        response = await client.post("/process", json={**HELLO, "stream": False})
        assert response.json()["output"][0]["content"][0]["text"] == "hello there"
        assert (await client.post("/a2a", json={})).status_code == 404


# --- endpoints of a program's own


class Endpoints(ProtocolAdapter):
    """One endpoint for each kind of answer."""

    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
        @app.post("/mine/whole")
        async def whole(request: Request) -> Any:
            asked = await request.json()
            return await func(asked, agent=request.query_params.get("agent"))

        @app.post("/mine/model")
        async def model(request: Request) -> Any:
            return await func(AgentRequest.model_validate(await request.json()))

        @app.post("/mine/frames")
        async def frames(request: Request) -> Any:
            return func(await request.json())

        @app.post("/mine/body")
        async def body(request: Request) -> Any:
            chunks = [chunk async for chunk in request.stream()]
            return [await request.json(), (await request.body()).decode(), b"".join(chunks).decode()]

        @app.get("/mine/plain/{name}")
        def plain(request: Request) -> Any:
            return PlainTextResponse(f"hello {request.path_params['name']}")

        @app.get("/mine/dict")
        def a_dict(request: Request) -> Any:
            return {"a": 1, "model": AgentRequest(input=[])}

        @app.get("/mine/nothing")
        def nothing(request: Request) -> Any:
            return None

        @app.get("/mine/fails")
        async def fails(request: Request) -> Any:
            raise ConflictError("it is taken", code="taken")

        @app.get("/mine/breaks")
        async def breaks(request: Request) -> Any:
            return {"not": object()}

        @app.get("/mine/stream")
        async def stream(request: Request) -> Any:
            return self._items(request.query_params.get("fails", ""))

        return whole

    async def _items(self, fails: str) -> AsyncIterator[object]:
        if fails == "first":
            raise ConflictError("it is taken", code="taken")
        if fails == "empty":
            return
        yield b""
        yield {"n": 1}
        yield "two\nlines\rof\r\nwords\u2028more"
        yield b""
        yield b"data: 3\n\n"
        if fails == "later":
            raise ConflictError("it is taken", code="taken")
        if fails == "breaks":
            raise LookupError("a bug")


TWO = "two\nlines\nof\nwords\u2028more"


def data_in(body: bytes) -> list[str]:
    blocks = [block for block in body.decode().split("\n\n") if block.startswith("data: ")]
    return ["\n".join(line.removeprefix("data: ") for line in block.split("\n")) for block in blocks]


async def test_a_handler_answers_with_what_it_gives(tmp_path: Path) -> None:
    async with embedded(tmp_path, Endpoints()) as client:
        assert (await client.get("/mine/plain/you")).text == "hello you"
        answer = await client.get("/mine/dict")
        assert (answer.json()["a"], answer.headers["content-type"]) == (1, "application/json")
        assert answer.json()["model"]["input"] == []
        assert (await client.get("/mine/nothing")).status_code == 204
        refused = await client.get("/mine/fails")
        assert (refused.status_code, refused.json()["code"]) == (409, "taken")
        broken = await client.get("/mine/breaks")
        assert (broken.status_code, broken.json()["code"]) == (500, "internal_error")
        assert (await client.post("/mine/dict", json={})).status_code == 405


async def test_a_handler_reads_the_body_as_it_likes(tmp_path: Path) -> None:
    async with embedded(tmp_path, Endpoints()) as client:
        written = '{"a":  1}'
        answer = await client.post("/mine/body", content=written, headers={"content-type": "application/json"})
        assert answer.json() == [{"a": 1}, written, written]
        assert (await client.post("/mine/body")).json() == [None, "", ""]


@pytest.mark.parametrize(("body", "pointer"), [({}, "/input"), ({"input": [{"role": "robot"}]}, "/input/0/role")])
async def test_what_is_no_request_of_an_agent_is_refused_by_its_fields(tmp_path: Path, body: Any, pointer: str) -> None:
    async with embedded(tmp_path, Endpoints()) as client:
        for path in ("/mine/model", "/mine/whole"):
            refused = await client.post(path, json=body)
            assert refused.status_code == 422
            assert refused.json()["errors"][0]["pointer"] == pointer


async def test_a_handler_that_yields_is_a_stream(tmp_path: Path) -> None:
    async with embedded(tmp_path, Endpoints()) as client:
        answer = await client.get("/mine/stream")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert data_in(answer.content) == ['{"n":1}', TWO, "3"]
        assert data_in((await client.get("/mine/stream?fails=empty")).content) == []
        refused = await client.get("/mine/stream?fails=first")
        assert (refused.status_code, refused.json()["code"]) == (409, "taken")
        for fails, code in (("later", "taken"), ("breaks", "internal_error")):
            *whole, last = data_in((await client.get(f"/mine/stream?fails={fails}")).content)
            assert whole == ['{"n":1}', TWO, "3"]
            assert json.loads(last)["code"] == code
            assert "a bug" not in last


async def test_an_agent_is_asked_for_the_whole_response_or_its_frames(tmp_path: Path) -> None:
    other = agent("other", scripted([{"text": "another"}]))
    async with embedded(tmp_path, Endpoints(), agents=[HELPER, other]) as client:
        response = (await client.post("/mine/whole", json=HELLO)).json()
        assert (response["object"], response["status"]) == ("response", "completed")
        assert response["output"][0]["content"][0]["text"] == "hello there"
        named = (await client.post("/mine/whole?agent=other", json=HELLO)).json()
        assert named["output"][0]["content"][0]["text"] == "another"
        model = (await client.post("/mine/model", json={**HELLO, "session_id": response["session_id"]})).json()
        assert model["session_id"] == response["session_id"]

        body = (await client.post("/mine/frames", json=HELLO)).content
        frames = [json.loads(data) for data in data_in(body)]
        assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
        assert frames[-1]["output"][0]["content"][0]["text"] == "hello there"


async def test_what_is_wrong_with_a_question_is_the_answers_status(tmp_path: Path) -> None:
    async with embedded(tmp_path, Endpoints()) as client:
        for path in ("/mine/whole", "/mine/frames"):
            assert (await client.post(path, json={"input": 7})).status_code == 422, path
            broken = await client.post(path, content=b"{", headers={"content-type": "application/json"})
            assert (broken.status_code, broken.json()["code"]) == (400, "invalid_json")
        assert (await client.post("/mine/whole?agent=nobody", json=HELLO)).status_code == 404


async def test_an_agent_is_asked_for_the_caller_whose_request_it_is(tmp_path: Path) -> None:
    keys = [{"name": name, "key": f"{name}-key-of-the-tests"} for name in ("alice", "bob")]
    async with embedded(tmp_path, Endpoints(), server={"api_keys": keys}) as client:

        async def ask(name: str, path: str) -> httpx.Response:
            headers = {"authorization": f"Bearer {name}-key-of-the-tests"}
            return await client.post(path, json={**HELLO, "session_id": f"of-{name}"}, headers=headers)

        paths = ("/mine/whole", "/mine/frames")
        await asyncio.gather(*(ask(each["name"], path) for each in keys for path in paths[:1]))
        await asyncio.gather(*(ask(each["name"], path) for each in keys for path in paths[1:]))
        for name in ("alice", "bob"):
            headers = {"authorization": f"Bearer {name}-key-of-the-tests"}
            threads = (await client.get("/threads", headers=headers)).json()["threads"]
            assert [thread["id"] for thread in threads] == [f"of-{name}"]
        assert (await client.post("/mine/whole", json=HELLO)).status_code == 401


async def test_outside_a_request_there_is_nobody_to_ask_for(tmp_path: Path) -> None:
    kept: list[AgentFunction] = []

    class Keeps(ProtocolAdapter):
        def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
            kept.append(func)

    application_of(tmp_path, [Keeps()])
    with pytest.raises(RuntimeError, match="call it in a handler"):
        await kept[0](HELLO)


async def test_a_client_that_leaves_closes_what_the_handler_yields(tmp_path: Path) -> None:
    closed = asyncio.Event()

    class Waits(ProtocolAdapter):
        def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
            @app.get("/waits")
            async def waits(request: Request) -> Any:
                return self._items()

        async def _items(self) -> AsyncIterator[str]:
            async with asyncio.timeout(600), asyncio.TaskGroup():  # both have to end in the task in which they began
                try:
                    yield "first"
                    await asyncio.Event().wait()
                finally:
                    closed.set()

    async with embedded(tmp_path, Waits()) as client:
        async with client.stream("GET", "/waits") as answer:
            async for chunk in answer.aiter_raw():
                if b"first" in chunk:
                    break
        async with asyncio.timeout(10):
            await closed.wait()


async def test_a_handler_that_blocks_holds_nobody_up(tmp_path: Path) -> None:
    released, blocked = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Blocks(ProtocolAdapter):
        def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
            @app.get("/blocks")
            def blocks(request: Request) -> Any:
                loop.call_soon_threadsafe(blocked.set)
                return {"released": released.wait(10)}

            @app.post("/asks")
            def asks(request: AdapterRequest) -> Any:
                return func(request.data)

    async with embedded(tmp_path, Blocks()) as client:
        asking = asyncio.create_task(client.get("/blocks"))
        async with asyncio.timeout(10):
            await blocked.wait()
        assert (await client.get("/healthz")).status_code == 200
        frames = data_in((await client.post("/asks", json=HELLO)).content)
        assert json.loads(frames[-1])["status"] == "completed"
        released.set()
        assert (await asking).json() == {"released": True}


async def test_an_adapter_may_stand_in_another(tmp_path: Path) -> None:
    class Both(Endpoints):
        def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
            ResponsesAdapter().add_endpoint(app, func)
            return super().add_endpoint(app, func)

    async with embedded(tmp_path, Both()) as client:
        assert (await client.get("/mine/dict")).status_code == 200
        assert (await client.get("/v1/models")).status_code == 200


async def test_errors_may_have_the_adapters_own_form(tmp_path: Path) -> None:
    class Formed(Endpoints):
        def error_form(self, problem: Problem, scope: Scope) -> Response:
            return PlainTextResponse(f"no: {problem.code}", problem.status)

    async with embedded(tmp_path, Formed()) as client:
        assert (await client.get("/mine/fails")).text == "no: taken"
        assert (await client.post("/mine/whole", content=b"{}")).text == "no: unsupported_media_type"


async def test_an_adapter_may_be_mounted_with_its_gateway(tmp_path: Path) -> None:
    application = application_of(tmp_path, [Endpoints()])
    host = Starlette(routes=[Mount("/gateway", app=application.asgi)], lifespan=application.lifespan)
    async with application.lifespan(), client_of(host, "/gateway") as client:
        assert (await client.post("/mine/whole", json=HELLO)).json()["status"] == "completed"
