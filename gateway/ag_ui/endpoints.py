"""AG-UI over HTTP: run an agent, join a thread, see what an agent can do.

Below: ag_ui, protocol. Source: https://docs.ag-ui.com/spec/1.0/transports/http-sse; the answer is
server-sent events whatever the request accepts: protobuf is not offered, and HttpAgent never asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.ag_ui.capabilities import capabilities
from gateway.ag_ui.run_requests import ORIGIN, RunRequests
from gateway.ag_ui.shapes import AG_UI_SHAPES, events_response
from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, Operation, described_json, json_body, operation
from gateway.openapi.shapes import list_of, nullable
from gateway.protocol import (
    Endpoint,
    ProtocolEnvironment,
    VisitorRoute,
    WireProtocol,
    caller_of,
    json_response,
    path_id,
    read_body,
    request_id_of,
)
from gateway.protocol.requests import only_reads


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._requests = RunRequests(environment)

    async def run(self, request: Request) -> Response:
        agent_id, caller = path_id(request, "agent_id"), caller_of(request)
        await self._environment.check_agent(caller, agent_id)  # an unknown agent is refused before the body is read
        return await self._requests.run(caller, agent_id, await read_body(request), request_id_of(request))

    async def connect(self, request: Request) -> Response:
        only_reads(request)
        agent_id, caller = path_id(request, "agent_id"), caller_of(request)
        await self._environment.check_agent(caller, agent_id)  # an unknown agent is refused before the body is read
        return await self._requests.connect(caller, agent_id, await read_body(request))

    async def capabilities(self, request: Request) -> Response:
        async with self._environment.agent(caller_of(request), path_id(request, "agent_id")) as agent:
            tools, approvals = await agent.tools()
        specs = [tool.spec for tool in tools.values()]
        return json_response(capabilities(agent.definition, agent.model.capabilities, specs, approvals))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        VisitorRoute("/agents/{agent_id}/run", Endpoint(on.run), methods=["POST"]),
        VisitorRoute("/agents/{agent_id}/connect", Endpoint(on.connect), methods=["POST"]),
        VisitorRoute("/agents/{agent_id}/capabilities", on.capabilities),
    ]


# --- in the API document


def _operations() -> Sequence[Operation]:
    return [
        ("/agents/{agentId}/run", "post", _run_operation()),
        ("/agents/{agentId}/connect", "post", _connect_operation()),
        (
            "/agents/{agentId}/capabilities",
            "get",
            operation(
                "agents",
                "getCapabilities",
                "What an agent can do",
                {"200": described_json("AgentCapabilities", "AG-UI AgentCapabilities, true for this agent.")},
                parameters=["agentId"],
                problems=["404"],
            ),
        ),
    ]


def _run_operation() -> JsonObject:
    return operation(
        "agents",
        "runAgent",
        "Run an agent",
        {"200": events_response("The run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR.")},
        description=(
            "Repeating a request with its `runId` and the same messages attaches to the run, or replays it once it has "
            "ended. `resume` for interrupts that a run left open may come under that run's own `runId`: it means the "
            "newest run of that id from then on. Anything else under a used `runId` is a 409. A second run on a busy "
            "thread is a 409, waits its turn (429 where too many wait), or ends the first one, as the agent is "
            "configured; a run that nobody watches any more gives way. Calls of the request's own tools end the run: "
            "send their results as tool messages."
        ),
        parameters=["agentId"],
        body=json_body("RunAgentInput", "An AG-UI RunAgentInput; `messages` is the whole history."),
        problems=["400", "404", "409", "413", "415", "422", "429", "503"],
    )


def _connect_operation() -> JsonObject:
    return operation(
        "agents",
        "connectAgent",
        "Pick a thread up again",
        {"200": events_response("RUN_STARTED, the thread's state and messages, then what is left of the live run.")},
        description=(
            "For a page that was reloaded. RUN_STARTED and the terminal event carry the live or last run's id, so that "
            "pending calls and interrupts come back. An unknown thread is RUN_STARTED and RUN_FINISHED. The body's "
            "messages are not read."
        ),
        parameters=["agentId"],
        body=json_body("RunAgentInput", "An AG-UI RunAgentInput; its `threadId` is what counts."),
        problems=["400", "404", "413", "415", "422", "503"],
    )


_API = ApiDescription(
    {},
    _operations(),
    AG_UI_SHAPES,
    problem_members={
        "missing": {**list_of("Message"), "description": "With `stale_history`: messages that were not seen."},
        "after": nullable("string", "With `stale_history`: the id of the message that they follow; null for none."),
    },
)

PROTOCOL = WireProtocol(ORIGIN, _routes, api=_API)
