"""Responses that have begun: followed, looked at and stopped. Every run of the caller's is one, of whichever protocol.

Below: renderer, output, protocol. Above: the protocol `agent_api`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

from gateway.access.callers import Caller
from gateway.agent_api.output import ORIGIN, EarlierCall, form_of
from gateway.agent_api.renderer import ResponseRenderer
from gateway.agent_api.settings import AgentApiSettings
from gateway.endpoints.answers import run_headers
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.events import RunFailed, RunFinished
from gateway.frozen import replace
from gateway.messages import JsonObject, Message, answered_calls, unanswered_calls
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.run_access import run_named
from gateway.renderer import rendered_so_far, rendered_stream
from gateway.runs.run_events import events_of
from gateway.runs.viewer import Viewer
from gateway.sse import EventStreamResponse
from gateway.store import RunRecord, RunStatus

_FIRST: Final = 1  # the number of a run's first event


class StoredResponses:
    """The responses of all callers; each sees its own."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def response(self, caller: Caller, response_id: str) -> JsonObject:
        """The response as it is now: one that is under way with what there is. Raises NotFoundError."""
        record = await self._record(caller, response_id)
        if (viewer := await self._watch(caller, record.client_id)) is None:
            return await self._from_thread(caller, record)
        with closing(viewer):
            renderer = await self._renderer(caller, record, viewer.ended_at)
            last = await rendered_so_far(viewer, renderer)
        if not isinstance(last, RunFinished | RunFailed):
            return renderer.so_far("queued" if record.status is RunStatus.QUEUED else "in_progress")
        return renderer.final()

    async def stream(
        self, caller: Caller, response_id: str, *, after: int | None = None, heartbeat: bytes = b""
    ) -> EventStreamResponse:
        """The frames of a response, behind the one with the number `after`; those of one under way as they come.

        Raises:
            NotFoundError: there is no such response; code `log_expired`: its frames are not kept any more.
            InvalidRequestError: it has no frame of that number.
        """
        record = await self._record(caller, response_id)
        if after is not None:
            await self._check_reaches(caller, record, after)
        viewer = await self._events(caller, record)
        try:
            renderer = await self._renderer(caller, record, viewer.ended_at)
        except BaseException:
            viewer.close()
            raise
        return rendered_stream(
            viewer,
            renderer,
            self._environment.streams,
            after=0 if after is None else after + 1,
            heartbeat=heartbeat,
            headers=run_headers(record.thread_id, record.client_id),
        )

    async def cancel(self, caller: Caller, response_id: str) -> JsonObject:
        """Stop a response; what became of it. One that has ended stays as it is. Raises NotFoundError."""
        record = await self._record(caller, response_id)
        if not record.status.ended:
            with run_named(no_response(response_id)):
                await self._environment.stop(caller, response_id)
        return await self.response(caller, response_id)

    # ---

    async def _record(self, caller: Caller, response_id: str) -> RunRecord:
        with run_named(no_response(response_id)):
            return await self._environment.run(caller, response_id)

    async def _watch(self, caller: Caller, response_id: str) -> Viewer | None:
        """All events of a response; None: they are not kept any more."""
        with run_named(no_response(response_id)):
            return await self._environment.attach(caller, response_id)

    async def _events(self, caller: Caller, record: RunRecord) -> Viewer:
        if (viewer := await self._watch(caller, record.client_id)) is None:
            raise NotFoundError(
                f"the frames of response '{record.client_id}' are not kept any more; get it with 'stream=false'",
                code="log_expired",
            )
        return viewer

    async def _check_reaches(self, caller: Caller, record: RunRecord, after: int) -> None:
        with closing(await self._events(caller, record)) as viewer:
            renderer = await self._renderer(caller, record, viewer.ended_at)
            await rendered_so_far(viewer, renderer)
        if after >= renderer.frames:
            there = f"its last is {renderer.frames - 1}" if renderer.frames else "it has none yet"
            raise no_such_frame(f"response {record.client_id[:64]!r} has no frame {after}; {there}")

    async def _renderer(self, caller: Caller, record: RunRecord, ended_at: Callable[[], float]) -> ResponseRenderer:
        form = form_of(record)
        if record.origin != ORIGIN:
            settings = self._environment.protocol_settings(caller, AgentApiSettings)
            earlier = _open_calls((await self._environment.kept_messages(caller, record.client_id)).before)
            form = replace(form, backend_tools=settings.backend_tools, earlier=earlier)
        return ResponseRenderer(
            form,
            ended_at=ended_at,
            to_operator=self._environment.is_operators(caller),
        )

    async def _from_thread(self, caller: Caller, record: RunRecord) -> JsonObject:
        """The response of a run whose events are not kept any more."""
        renderer = await self._renderer(caller, record, lambda: record.finished_at or record.created_at)
        said = await self._environment.kept_messages(caller, record.client_id)
        renderer.render(events_of(record, said.produced, await self._answered(caller, record)), _FIRST)
        return renderer.final()

    async def _answered(self, caller: Caller, record: RunRecord) -> set[str]:
        """The calls of the session that a client answered."""
        try:
            messages = (await self._environment.thread_head(caller, record.thread_id)).messages
        except NotFoundError:
            return set()
        return answered_calls(message for message in messages if message.turn_id is None)


def no_response(response_id: str) -> NotFoundError:
    """The error for a response that is not there, or is another owner's."""
    return NotFoundError(f"there is no response {response_id[:200]!r}", code="response_not_found")


def no_such_frame(message: str) -> InvalidRequestError:
    """The error (422) for a number that no frame has."""
    return InvalidRequestError(message, code="invalid_cursor")


def _open_calls(messages: tuple[Message, ...]) -> tuple[EarlierCall, ...]:
    return tuple(EarlierCall(call.call_id, call.name, call.arguments) for call in unanswered_calls(messages))
