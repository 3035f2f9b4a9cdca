"""OpenAI's stored responses: look at them, follow them, stop them, forget them.

Below: the protocols' environment; openai_api. `responses` begins them. Every run of the caller's is a response,
whichever protocol it came by. https://platform.openai.com/docs/api-reference/responses
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.errors import NotFoundError
from gateway.openai_api.includes import ENCRYPTED, includes_asked
from gateway.openai_api.item_lists import part_asked
from gateway.openai_api.responses_stored import StoredResponses, after_asked, is_stream_asked
from gateway.openai_api.routes import openai_error_form, openai_routes
from gateway.openai_api.settings import RESPONSES_SECTION
from gateway.openapi.data import api_data
from gateway.protocol import Endpoint, ProtocolEnvironment, WireProtocol, caller_of, path_id
from gateway.protocol.answers import json_response


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._stored = StoredResponses(environment)

    async def response(self, request: Request) -> Response:
        caller, response_id = caller_of(request), path_id(request, "response_id")
        query = request.query_params.multi_items()
        encrypted, after = ENCRYPTED in includes_asked(query), after_asked(query)
        if is_stream_asked(query):
            return await self._stored.stream(caller, response_id, after=after, encrypted=encrypted)
        return json_response(await self._stored.response(caller, response_id, encrypted=encrypted))

    async def delete(self, request: Request) -> Response:
        return json_response(await self._stored.delete(caller_of(request), path_id(request, "response_id")))

    async def cancel(self, request: Request) -> Response:
        return json_response(await self._stored.cancel(caller_of(request), path_id(request, "response_id")))

    async def input_items(self, request: Request) -> Response:
        query = request.query_params.multi_items()
        part, _ = part_asked(query), includes_asked(query)
        items = await self._stored.input_items(caller_of(request), path_id(request, "response_id"))
        return json_response(part.of(items))


async def _no_completion(request: Request) -> Response:
    completion_id = path_id(request, "completion_id")
    raise NotFoundError(
        f"Stored chat completions are not offered; GET /v1/responses/{completion_id[:200]} shows what the run said",
        code="not_offered",
    )


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    one = "/responses/{response_id}"
    return openai_routes(
        [
            Route(one, Endpoint(on.response), methods=["GET"]),
            Route(one, Endpoint(on.delete), methods=["DELETE"]),
            Route(one + "/cancel", Endpoint(on.cancel), methods=["POST"]),
            Route(one + "/input_items", Endpoint(on.input_items), methods=["GET"]),
            Route("/chat/completions/{completion_id}", Endpoint(_no_completion), methods=["GET"]),
        ]
    )


PROTOCOL = WireProtocol(
    "stored_responses",
    _routes,
    error_form=openai_error_form,
    api=api_data("gateway.openai_api", "stored_responses"),
    settings=RESPONSES_SECTION,
)
