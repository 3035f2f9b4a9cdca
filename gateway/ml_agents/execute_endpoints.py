"""ml-commons' `_execute`: run an agent and answer once, or give the task that has the answer later.

Below: ml_commons, protocol. https://docs.opensearch.org/latest/ml-commons-plugin/api/agent-apis/execute-agent/
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.authentication import has_body
from gateway.access.callers import Caller
from gateway.errors import GatewayError, InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_agents.agent_input import is_ag_ui
from gateway.ml_agents.execution import ExecutionAnswer, ExecutionFailedError
from gateway.ml_agents.execution_start import StartedExecution, start_execution
from gateway.ml_agents.parameters import is_true
from gateway.ml_agents.tasks import begin_task
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_commons.content import INVALID_FORM, wrong
from gateway.ml_commons.feature_settings import FEATURE_OFF
from gateway.ml_commons.routes import (
    PREFIX,
    SETTINGS,
    execution_error_response,
    ml_response,
    ml_routes,
    opensearch_error_form,
)
from gateway.openapi.data import api_data
from gateway.problems import Problem, problem_of
from gateway.protocol import Endpoint, ProtocolEnvironment, WireProtocol, caller_of, path_id, read_json, request_id_of
from gateway.protocol.renderer import rendered_body

# What is wrong before anything of the execution is looked at has ml-commons' usual form of errors.
_USUAL_FORM: Final = (INVALID_FORM, FEATURE_OFF)


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._settings = environment.shared(ClusterSettings)

    async def execute(self, request: Request) -> Response:
        if not has_body(request.headers):
            raise InvalidRequestError("request body is required: give 'input', or 'parameters.question'", status=400)
        body = await read_json(request)
        try:
            return ml_response(request, await self._answer(request, body))
        except GatewayError as error:
            if error.code in _USUAL_FORM:
                raise
            return execution_error_response(request, _problem(error))

    async def _answer(self, request: Request, body: JsonValue) -> JsonObject:
        environment = self._environment
        caller, agent_id = caller_of(request), path_id(request, "agent_id")
        if is_ag_ui(body):
            self._settings.check("ag_ui_enabled")
            path = f"{PREFIX}/agents/{agent_id}/_execute/stream"
            message = f"AG-UI agents require streaming execution. Please use the streaming endpoint: POST {path}"
            raise wrong(message, "", "send it there; or send 'input' here", code=INVALID_FORM)
        started = await start_execution(environment, caller, agent_id, body, request_id=request_id_of(request))
        try:
            return await self._answer_of(request, caller, started)
        except ExecutionFailedError:
            raise
        except GatewayError as error:  # of the store, or as the gateway stops
            raise ExecutionFailedError(error.message, error.code, error.status) from error

    async def _answer_of(self, request: Request, caller: Caller, started: StartedExecution) -> JsonObject:
        environment, form = self._environment, started.form
        if not (started.is_async or is_true(request.query_params.get("async"))):
            answer = ExecutionAnswer(form, to_operator=environment.is_operators(caller))
            return await rendered_body(request, started.viewer, answer)
        started.viewer.close()
        response: JsonObject = {"memory_id": form.memory_id, "parent_interaction_id": form.interaction_id}
        return await begin_task(environment, caller, started.run_id, response)


def _problem(error: GatewayError) -> Problem:
    problem = problem_of(error)
    if isinstance(error, ExecutionFailedError):  # a provider's 401 asks for no key of the gateway's
        return replace(problem, headers={"cache-control": "no-store"})
    return problem


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [Route(f"{PREFIX}/agents/{{agent_id}}/_execute", Endpoint(on.execute), methods=["POST"])]
    return ml_routes(environment, routes, "agent_framework_enabled")


PROTOCOL = WireProtocol(
    "ml_execute",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_agents", "ml_execute"),
    settings=SETTINGS,
)
