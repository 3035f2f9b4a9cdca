"""AG-UI over HTTP: run an agent, join a thread, read an agent's capabilities.

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
from gateway.openapi.data import api_data
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


PROTOCOL = WireProtocol(ORIGIN, _routes, api=api_data("gateway.ag_ui", "ag_ui"))
