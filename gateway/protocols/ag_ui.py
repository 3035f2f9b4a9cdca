"""AG-UI over HTTP: run an agent, join a thread, see which agents there are and what each can do.

Below: AG-UI's words, the protocols' environment. https://docs.ag-ui.com/spec/1.0/transports/http-sse; the answer is
server-sent events whatever the request accepts: protobuf is not offered, and HttpAgent never asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.ag_ui.capabilities import capabilities
from gateway.ag_ui.known_inputs import KnownInputs
from gateway.ag_ui.messages import ag_ui_messages
from gateway.ag_ui.stream import event_stream
from gateway.errors import ConflictError
from gateway.frozen import replace
from gateway.history import StaleHistoryError
from gateway.messages import JsonValue
from gateway.protocol import (
    Endpoint,
    ProtocolEnvironment,
    VisitorRoute,
    WireProtocol,
    caller_of,
    json_response,
    path_id,
    read_body,
)

# What one answer tells of a thread that went on without the client: who takes these in and asks again is told the rest.
_MOST_MISSING = 500


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._inputs = KnownInputs()

    async def run(self, request: Request) -> Response:
        environment, agent_id, caller = self._environment, path_id(request, "agent_id"), caller_of(request)
        environment.agent(caller, agent_id)  # or no body is read
        given, profile = self._inputs.parse(caller.owner, await read_body(request))
        try:
            viewer = await environment.start(caller, agent_id, replace(given, request_id=request.state.request_id))
        except StaleHistoryError as error:
            after, unseen = error.unseen
            missing = ag_ui_messages(unseen[:_MOST_MISSING], profile)
            members = {"after": after, "missing": missing}
            raise ConflictError(error.message, code=error.code, members=members) from None
        return event_stream(environment, caller, viewer, profile, given.thread_id, given.run_id)

    async def connect(self, request: Request) -> Response:
        environment, agent_id, caller = self._environment, path_id(request, "agent_id"), caller_of(request)
        environment.agent(caller, agent_id)  # or no body is read
        given, profile = self._inputs.parse(caller.owner, await read_body(request))
        viewer = await environment.connect(caller, agent_id, given)
        run_id = given.run_id if viewer.prelude is None else viewer.prelude.run_id
        return event_stream(environment, caller, viewer, profile, given.thread_id, run_id)

    async def agents(self, request: Request) -> Response:
        rows: list[JsonValue] = []
        for agent in self._environment.agents(caller_of(request)):
            known = agent.definition
            rows.append(
                {
                    "id": known.id,
                    "name": known.name,
                    "description": known.description,
                    "type": known.type,
                    "url": self._environment.public_url(request) + f"/agents/{known.id}/run",
                }
            )
        return json_response({"agents": rows})

    async def capabilities(self, request: Request) -> Response:
        agent = self._environment.agent(caller_of(request), path_id(request, "agent_id"))
        tools, approvals = await agent.tools()
        specs = [tool.spec for tool in tools.values()]
        return json_response(capabilities(agent.definition, agent.model.capabilities, specs, approvals))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        VisitorRoute("/agents/{agent_id}/run", Endpoint(on.run), methods=["POST"]),
        VisitorRoute("/agents", on.agents),
        VisitorRoute("/agents/{agent_id}/connect", Endpoint(on.connect), methods=["POST"]),
        VisitorRoute("/agents/{agent_id}/capabilities", on.capabilities),
    ]


PROTOCOL = WireProtocol("ag_ui", _routes)
