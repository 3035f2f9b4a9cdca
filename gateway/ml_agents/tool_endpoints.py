"""ml-commons' REST API: its tools, and whatever of its paths no other protocol serves.

Below: the protocols' environment; ml_commons.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.errors import FieldProblem, GatewayError, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue, TextBlock
from gateway.ml_commons.routes import (
    PREFIX,
    SETTINGS,
    execution_error_response,
    ml_response,
    ml_routes,
    opensearch_error_form,
    read_object,
)
from gateway.openapi.data import api_data
from gateway.problems import problem_of
from gateway.protocol import ProtocolEnvironment, ToolDescription, WireProtocol, caller_of, path_id, request_id_of


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def tools(self, request: Request) -> Response:
        tools: list[JsonValue] = [_shown(each) for each in await self._environment.tools(caller_of(request))]
        return ml_response(request, tools)

    async def tool(self, request: Request) -> Response:
        name = path_id(request, "tool_name")
        tools = {each.type: each for each in await self._environment.tools(caller_of(request))}
        if name not in tools:
            message = f"Failed to find tool information with the provided tool name: {name}"
            raise NotFoundError(f"{message}; there are: {', '.join(tools)}")
        return ml_response(request, _shown(tools[name]))

    async def execute(self, request: Request) -> Response:
        caller, name = caller_of(request), path_id(request, "tool_name")
        body = await read_object(request)
        try:
            content = await self._environment.call_tool(caller, name, _parameters(body), request_id_of(request))
        except GatewayError as error:
            return execution_error_response(request, problem_of(error))
        said = "\n".join(block.text for block in content if isinstance(block, TextBlock))
        output: JsonObject = {"name": "response", "result": said}
        return ml_response(request, {"inference_results": [{"output": [output]}]})


def _parameters(body: JsonObject) -> JsonObject:
    parameters = body.get("parameters")
    if isinstance(parameters, dict):
        return parameters
    message = "Tool input data can not be empty. 'parameters' must be an object with the tool's arguments"
    raise InvalidRequestError(message, status=400, problems=[FieldProblem("/parameters", message)])


def _shown(tool: ToolDescription) -> JsonObject:
    shown: JsonObject = {
        "name": tool.type,
        "description": tool.description,
        "type": tool.type,
        "version": "undefined",
    }
    if tool.input_schema is not None:
        schema = orjson.dumps(tool.input_schema).decode()  # ml-commons' attributes are texts
        shown["attributes"] = {"input_schema": schema, "strict": False}
    return shown


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    lists = [
        Route(f"{PREFIX}/tools", on.tools, methods=["GET"]),
        Route(f"{PREFIX}/tools/{{tool_name}}", on.tool, methods=["GET"]),
    ]
    execute = Route(f"{PREFIX}/tools/_execute/{{tool_name}}", on.execute, methods=["POST"])
    return [*ml_routes(environment, lists), *ml_routes(environment, [execute], "execute_tools_enabled")]


_LISTED: JsonObject = {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}


PROTOCOL = WireProtocol(
    "ml_tools",
    _routes,
    paths=[PREFIX, PREFIX + "/{rest:path}"],
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_agents", "ml_tools"),
    basic_paths=[PREFIX, PREFIX + "/"],
    settings=SETTINGS,
)
