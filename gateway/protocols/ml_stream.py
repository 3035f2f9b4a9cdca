"""ml-commons' `_execute/stream`: an agent's answer as it comes, in ml-commons' chunks or as AG-UI's events.

Below: ml_commons, ag_ui, protocol. https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/execute-stream-agent/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from gateway.ag_ui.run_requests import RunRequests
from gateway.messages import JsonObject, JsonValue
from gateway.ml_agents.agent_input import is_ag_ui
from gateway.ml_agents.chunks import Chunks
from gateway.ml_agents.execution_start import check_parts, start_execution
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_commons.routes import PREFIX, SETTINGS, ml_routes, opensearch_error_form
from gateway.openapi.data import api_data
from gateway.problems import Problem, problem_json
from gateway.protocol import Endpoint, ProtocolEnvironment, WireProtocol, caller_of, path_id, request_id_of
from gateway.protocol.renderer import rendered_stream
from gateway.protocol.requests import json_of, read_body

_IS_AG_UI: Final = "is_ag_ui"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._ag_ui = RunRequests(environment)
        self._settings = environment.shared(ClusterSettings)

    async def stream(self, request: Request) -> Response:
        body = await read_body(request)
        value = await json_of(request, body)
        if is_ag_ui(value):
            assert isinstance(value, dict), "AG-UI's input is an object"
            self._settings.check("ag_ui_enabled")
            request.scope["state"][_IS_AG_UI] = True
            return await self._ag_ui_stream(request, body, value)
        return await self._chunks(request, value)

    async def _ag_ui_stream(self, request: Request, body: bytes, value: JsonObject) -> Response:
        caller, agent_id = caller_of(request), path_id(request, "agent_id")
        async with self._environment.agent(caller, agent_id) as agent:
            if value.get("messages") == [] and not value.get("resume"):
                return await self._ag_ui.connect(caller, agent_id, body)
            check_parts(self._settings, agent)
            return await self._ag_ui.run(caller, agent_id, body, request_id_of(request))

    async def _chunks(self, request: Request, value: JsonValue) -> Response:
        environment, caller, agent_id = self._environment, caller_of(request), path_id(request, "agent_id")
        started = await start_execution(
            environment, caller, agent_id, value, request_id=request_id_of(request), unattended=False
        )
        chunks = Chunks(started.form, to_operator=environment.is_operators(caller))
        return rendered_stream(
            started.viewer,
            chunks,
            environment.streams,
            heartbeat=chunks.heartbeat,
            comments=False,  # what reads ml-commons' streams may know none
            headers={"x-run-id": started.run_id},
        )


def _error_form(problem: Problem, scope: Scope) -> Response:
    """AG-UI's clients get the errors of `POST /agents/{id}/run`."""
    form = problem_json if scope.get("state", {}).get(_IS_AG_UI) else opensearch_error_form
    return form(problem, scope)


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [Route(f"{PREFIX}/agents/{{agent_id}}/_execute/stream", Endpoint(on.stream), methods=["POST"])]
    return ml_routes(environment, routes, "agent_framework_enabled", "stream_enabled")


_EXAMPLE = (
    'data: {"inference_results":[{"output":[{"name":"response","dataAsMap":{"content":"Hel","is_last":false}}]}]}\n\n'
)


PROTOCOL = WireProtocol(
    "ml_stream",
    _routes,
    error_form=_error_form,
    api=api_data("gateway.ml_agents", "ml_stream"),
    settings=SETTINGS,
)
