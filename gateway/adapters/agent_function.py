"""The function by which an adapter's handler asks an agent: `func(request)`, with a request of the Agent API.

Below: the Agent API's room, the protocols' environment. Above: adapter_app, protocol_adapter. The function asks for the
caller of the request that is being handled. A handler passes only content to `func`, so a context variable has that
request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

import orjson
from pydantic import BaseModel
from starlette.requests import Request

from gateway.adapters.adapter_request import AdapterRequest
from gateway.adapters.streamed_items import plain_json
from gateway.agent_api.output import ResponseForm
from gateway.agent_api.renderer import ResponseRenderer
from gateway.agent_api.start import StartedResponse, start_parsed
from gateway.errors import UnavailableError
from gateway.protocol import ProtocolEnvironment, caller_of, request_id_of
from gateway.protocol.renderer import rendered_body
from gateway.protocol.requests import end_with_client, parsed_json
from gateway.runs.viewer import Viewer

AgentQuestion: TypeAlias = BaseModel | Mapping[str, Any] | AdapterRequest
"""A request of the Agent API: an AgentRequest, or its JSON; or an HTTP request with such a body."""

_handled: Final[ContextVar[tuple[Request, asyncio.AbstractEventLoop] | None]] = ContextVar(
    "the request that is being handled, and where", default=None
)
_DATA: Final = len(b"data: ")


@contextmanager
def handling(request: Request) -> Generator[None]:
    """During the block, AgentFunction asks for the caller of this request."""
    token = _handled.set((request, asyncio.get_running_loop()))
    try:
        yield
    finally:
        _handled.reset(token)


class AgentFunction:
    """Asks agents: `await func({"input": [...]})`, or `async for frame in func(...)`."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    def __call__(self, request: AgentQuestion, *, agent: str | None = None) -> AgentCall:
        """`agent` is an agent's id; None: the default agent."""
        return AgentCall(self._environment, request, agent)


class AgentCall:
    """A question to an agent, which is asked at the first `await` or iteration. Await it for the whole response, or
    iterate over the frames of its stream: JSON objects, as the Agent API has them. The question is asked once: a second
    `await` or iteration gets the same response.

    Raises:
        GatewayError: the question cannot be asked. If the handler does not catch it, it becomes the error response.
    """

    def __init__(self, environment: ProtocolEnvironment, question: AgentQuestion, agent: str | None) -> None:
        self._environment = environment
        self._question = question
        self._agent = agent
        self._begins = asyncio.Lock()
        self._form: ResponseForm | None = None  # set once the question is asked

    def __await__(self) -> Generator[Any, None, dict[str, Any]]:
        return self._response().__await__()

    async def __aiter__(self) -> AsyncGenerator[dict[str, Any]]:
        viewer, renderer = await self._watched(_handled_now())
        with closing(viewer):
            async for batch in viewer:
                for frame in renderer.render(batch.events, batch.first):
                    yield orjson.loads(frame[_DATA:])

    async def _response(self) -> dict[str, Any]:
        handled = _handled_now()
        viewer, renderer = await self._watched(handled)
        end_with_client(handled)
        return await rendered_body(handled, viewer, renderer)

    async def _watched(self, handled: Request) -> tuple[Viewer, ResponseRenderer]:
        """A viewer of all events of the run, which the first call begins; and the renderer of its response."""
        caller = caller_of(handled)
        async with self._begins:
            if self._form is None:
                started = await self._start(handled)
                form, viewer = started.form, started.viewer
                self._form = form
            else:
                form = self._form
                viewer = await self._watched_again(handled, form.run_id)
        to_operator = self._environment.is_operators(caller)
        return viewer, ResponseRenderer(form, ended_at=viewer.ended_at, to_operator=to_operator)

    async def _watched_again(self, handled: Request, run_id: str) -> Viewer:
        viewer = await self._environment.attach(caller_of(handled), run_id)
        if viewer is None:
            raise UnavailableError("the response's frames are not kept any more; ask again")
        return viewer

    async def _start(self, handled: Request) -> StartedResponse:
        asked = self._question
        caller, request_id = caller_of(handled), request_id_of(handled)
        written = plain_json(asked.data if isinstance(asked, AdapterRequest) else asked)
        body = await parsed_json(written, caller.owner, self._environment.time)
        return await start_parsed(self._environment, caller, self._agent, body, request_id=request_id)


def _handled_now() -> Request:
    if (handled := _handled.get()) is None:
        raise RuntimeError("func asks an agent for the caller of a request: call it in a handler of the adapter's app")
    request, loop = handled
    if asyncio.get_running_loop() is not loop:
        raise RuntimeError("func works in the gateway's event loop alone: use it in an async handler, or return it")
    return request
