"""ml-commons' REST API: the tasks of executions that nobody waits for.

Below: the protocols' environment; ml_commons. `_execute?async=true` begins them: ml_execute.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.ml_agents.execution import answer_of
from gateway.ml_agents.tasks import TASK_INDEX, Tasks
from gateway.ml_commons.answers import search_answer, write_answer
from gateway.ml_commons.routes import PREFIX, SETTINGS, ml_response, ml_routes, opensearch_error_form, read_search
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id

_TASKS = PREFIX + "/tasks"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._tasks = Tasks(environment, answer_of)

    async def task(self, request: Request) -> Response:
        return ml_response(request, await self._tasks.task(caller_of(request), path_id(request, "task_id")))

    async def search(self, request: Request) -> Response:
        found = await self._tasks.search(caller_of(request), await read_search(request))
        return ml_response(request, search_answer(found, TASK_INDEX, lambda task: task))

    async def delete(self, request: Request) -> Response:
        task_id = path_id(request, "task_id")
        version = await self._tasks.delete(caller_of(request), task_id)
        return ml_response(request, write_answer(TASK_INDEX, task_id, "deleted", version))

    async def cancel(self, request: Request) -> Response:
        await self._tasks.cancel(caller_of(request), path_id(request, "task_id"))
        return ml_response(request, {"status": "OK"})


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [
        Route(f"{_TASKS}/_search", on.search, methods=["GET", "POST"]),
        Route(_TASKS + "/{task_id}", on.task, methods=["GET"]),
        Route(_TASKS + "/{task_id}", on.delete, methods=["DELETE"]),
        Route(_TASKS + "/{task_id}/_cancel", on.cancel, methods=["POST"]),
    ]
    return ml_routes(environment, routes)


PROTOCOL = WireProtocol(
    "ml_tasks",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_agents", "ml_tasks"),
    settings=SETTINGS,
)
