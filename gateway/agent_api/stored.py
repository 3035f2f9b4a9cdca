"""Responses that have begun: followed, looked at and stopped. Every run of the caller's is one, of whichever protocol.

Below: renderer, output, protocol. Above: the protocol `agent_api`.
"""

from __future__ import annotations

from typing import Final

from gateway.access.callers import Caller
from gateway.agent_api.output import ORIGIN, form_of
from gateway.agent_api.renderer import ResponseRenderer
from gateway.agent_api.settings import AgentApiSettings
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.frozen import replace
from gateway.messages import JsonObject, Message, answered_calls, unanswered_calls
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.begun_runs import BegunRuns, MakeRenderer, RunWords
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.run_events import events_of
from gateway.sse import EventStreamResponse
from gateway.store import RunRecord

_FIRST: Final = 1  # the number of a run's first event


class StoredResponses:
    """The responses of all callers; each sees its own."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._runs = BegunRuns(environment, RunWords(no_response, _frames_expired, _no_frame_of))

    async def response(self, caller: Caller, response_id: str) -> JsonObject:
        """The response as it is now; one that is under way, with the output so far. Raises NotFoundError."""
        record = await self._runs.record(caller, response_id)
        make = await self._renderer(caller, record)
        if (shown := await self._runs.so_far(caller, record, make)) is not None:
            return shown
        return await self._from_thread(caller, record, make)

    async def stream(
        self, caller: Caller, response_id: str, *, after: int | None = None, heartbeat: bytes = b""
    ) -> EventStreamResponse:
        """The frames of a response after the frame with the number `after`; if the response is under way, as they come.

        Raises:
            NotFoundError: there is no such response; code `log_expired`: its frames are not kept any more.
            InvalidRequestError: the response has no frame of that number.
        """
        record = await self._runs.record(caller, response_id)
        make = await self._renderer(caller, record)
        return await self._runs.stream(caller, record, make, after=after, heartbeat=heartbeat)

    async def cancel(self, caller: Caller, response_id: str) -> JsonObject:
        """Stop a response. Gives it as it ended. One that has ended stays as it is. Raises NotFoundError."""
        await self._runs.stop(caller, await self._runs.record(caller, response_id))
        return await self.response(caller, response_id)

    # ---

    async def _renderer(self, caller: Caller, record: RunRecord) -> MakeRenderer:
        form, to_operator = form_of(record), self._environment.is_operators(caller)
        if record.origin != ORIGIN:
            settings = self._environment.protocol_settings(caller, AgentApiSettings)
            earlier = _open_calls((await self._environment.kept_messages(caller, record.client_id)).before)
            form = replace(form, backend_tools=settings.backend_tools, earlier=earlier)
        return lambda ended_at: ResponseRenderer(form, ended_at=ended_at, to_operator=to_operator)

    async def _from_thread(self, caller: Caller, record: RunRecord, make: MakeRenderer) -> JsonObject:
        """The response of a run whose events are not kept any more."""
        renderer = make(lambda: record.finished_at or record.created_at)
        said = await self._environment.kept_messages(caller, record.client_id)
        renderer.render(events_of(record, said.produced, await self._answered(caller, record)), _FIRST)
        return renderer.final()

    async def _answered(self, caller: Caller, record: RunRecord) -> set[str]:
        """The calls of the session that a client answered."""
        head = await self._environment.thread_head(caller, record.thread_id)
        messages = () if head is None else head.messages
        return answered_calls(message for message in messages if message.turn_id is None)


def no_response(response_id: str) -> NotFoundError:
    """The error for a response that is not there, or is another owner's."""
    return NotFoundError(f"there is no response {response_id[:200]!r}", code="response_not_found")


def _frames_expired(response_id: str) -> NotFoundError:
    return NotFoundError(
        f"the frames of response '{response_id}' are not kept any more; get it with 'stream=false'", code="log_expired"
    )


def _no_frame_of(response_id: str, number: int, frames: int) -> InvalidRequestError:
    there = f"its last is {frames - 1}" if frames else "it has none yet"
    return no_such_frame(f"response {response_id[:64]!r} has no frame {number}; {there}")


def no_such_frame(message: str) -> InvalidRequestError:
    """The error (422) for a number that no frame has."""
    return InvalidRequestError(message, code="invalid_cursor")


def _open_calls(messages: tuple[Message, ...]) -> tuple[EarlierCall, ...]:
    return tuple(EarlierCall(call.call_id, call.name, call.arguments) for call in unanswered_calls(messages))
