"""The errors of the Agent API's routes.

Above: the protocol `agent_api`. Below: errors, problems.
"""

from __future__ import annotations

from dataclasses import replace

import orjson
from starlette.responses import Response
from starlette.types import Scope

from gateway.agent_api.errors import error_object
from gateway.problems import Problem
from gateway.protocol.routes import allowed_methods


def agent_api_error_form(problem: Problem, scope: Scope) -> Response:
    """The error form of this protocol, see protocol.WireProtocol."""
    headers: dict[str, str] = {}
    if problem.status == 405:
        headers["allow"] = allowed = ", ".join(allowed_methods(scope))
        problem = replace(problem, detail=f"{problem.detail}; use {allowed}")
    return Response(orjson.dumps(error_object(problem)), problem.status, headers, "application/json")
