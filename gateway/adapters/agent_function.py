"""What an adapter's handler calls to ask an agent: `func(request)`, by a request of the Agent API.

Below: the Agent API's room, the protocols' environment. Above: adapter_app, protocol_adapter. The agent is asked for
the caller of the request that is being handled. A handler hands `func` nothing but content, so a context variable knows
which request that is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any, Final

import orjson
from pydantic import BaseModel
from starlette.requests import Request

from gateway.agent_api.renderer import ResponseRenderer
from gateway.agent_api.start import StartedResponse, start_response
from gateway.endpoints.requests import end_with_client
from gateway.messages import JsonObject
from gateway.protocol import ProtocolEnvironment, caller_of, request_id_of
from gateway.renderer import rendered_body

_handled: Final[ContextVar[Request | None]] = ContextVar("the request that is being handled", default=None)
_DATA: Final = len(b"data: ")


@contextmanager
def handling(request: Request) -> Generator[None]:
    """Ask for the caller of this request during the block."""
    token = _handled.set(request)
    try:
        yield
    finally:
        _handled.reset(token)


class AgentFunction:
    """Asks agents: `await func({"input": [...]})`, or `async for frame in func(...)`."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    def __call__(self, request: BaseModel | JsonObject, *, agent: str | None = None) -> AgentCall:
        """`request` is an AgentRequest, or what one is as JSON. `agent` is an agent's id; None: the default agent."""
        return AgentCall(self._environment, request, agent)


class AgentCall:
    """A question to an agent, which is asked once this is awaited or iterated over. Await it for the whole response, or
    take the frames of its stream one by one: JSON objects, as the Agent API has them.

    Raises:
        GatewayError: the question cannot be asked. A handler that lets it pass answers with it.
    """

    def __init__(self, environment: ProtocolEnvironment, request: BaseModel | JsonObject, agent: str | None) -> None:
        self._environment = environment
        self._request = request
        self._agent = agent

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        return self._response().__await__()

    async def __aiter__(self) -> AsyncGenerator[dict[str, Any]]:
        handled = _handled_now()
        started = await self._start(handled)
        renderer = self._renderer(handled, started)
        with closing(started.viewer):
            async for batch in started.viewer:
                for frame in renderer.render(batch.events, batch.first):
                    yield orjson.loads(frame[_DATA:])

    async def _response(self) -> dict[str, Any]:
        handled = _handled_now()
        started = await self._start(handled)
        end_with_client(handled)
        return await rendered_body(handled, started.viewer, self._renderer(handled, started))

    async def _start(self, handled: Request) -> StartedResponse:
        asked = self._request
        body = asked.model_dump(mode="json", exclude_none=True) if isinstance(asked, BaseModel) else asked
        caller, request_id = caller_of(handled), request_id_of(handled)
        return await start_response(self._environment, caller, self._agent, body, request_id=request_id)

    def _renderer(self, handled: Request, started: StartedResponse) -> ResponseRenderer:
        to_operator = self._environment.is_operators(caller_of(handled))
        return ResponseRenderer(started.form, ended_at=started.viewer.ended_at, to_operator=to_operator)


def _handled_now() -> Request:
    if (handled := _handled.get()) is None:
        raise RuntimeError("func asks an agent for the caller of a request: call it in a handler of the adapter's app")
    return handled
