"""Responses that are looked at, stopped and forgotten once they have begun: runs of a caller's, of whichever protocol.

Below: the protocols' environment, response_view, thread_items. Above: the protocol of stored responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from gateway.access.callers import Caller
from gateway.endpoints.answers import run_headers
from gateway.endpoints.requests import whole_number
from gateway.errors import NotFoundError
from gateway.events import Event, RunFailed, RunFinished
from gateway.messages import JsonObject, unanswered_calls
from gateway.openai_api.errors import wrong
from gateway.openai_api.questions import EarlierCall
from gateway.openai_api.response_view import ResponseView, view_of
from gateway.openai_api.responses_renderer import ResponsesRenderer
from gateway.openai_api.responses_resource import ORIGIN
from gateway.openai_api.thread_items import ThreadItem, ThreadItems, earlier_call, message_items
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.run_access import run_named
from gateway.renderer import rendered_so_far, rendered_stream
from gateway.runs.viewer import Viewer
from gateway.sse import EventStreamResponse
from gateway.store import RunRecord, RunStatus


class StoredResponses:
    """The responses of all callers; each sees its own. One that was not to be stored is gone once it has ended."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def response(self, caller: Caller, response_id: str, *, encrypted: bool = False) -> JsonObject:
        """The response as it is now: one that is under way with what there is. Raises NotFoundError."""
        return await self._shown(caller, await self._record(caller, response_id), encrypted=encrypted)

    async def _shown(self, caller: Caller, record: RunRecord, *, encrypted: bool = False) -> JsonObject:
        view = await view_of(self._environment, caller, [record], encrypted=encrypted)
        earlier = await self._earlier(caller, record)
        if (viewer := await self._watch(caller, record.client_id)) is None:
            return await self._from_thread(caller, record, view)
        renderer = view.renderer(record, earlier, viewer.ended_at)
        with closing(viewer):
            last = await rendered_so_far(viewer, renderer)
        if not _is_end(last):
            return renderer.so_far("queued" if record.status is RunStatus.QUEUED else "in_progress")
        return renderer.final()

    async def stream(
        self, caller: Caller, response_id: str, *, after: int | None = None, encrypted: bool = False
    ) -> EventStreamResponse:
        """The events of a response, behind the one with the number `after`; those of one under way as they come.

        Raises:
            NotFoundError: there is no such response; code `log_expired`: its events are not kept any more.
            InvalidRequestError: 400, it has no event of that number.
        """
        record = await self._record(caller, response_id)
        view = await view_of(self._environment, caller, [record], encrypted=encrypted)
        earlier = await self._earlier(caller, record)
        if after is not None:
            await self._check_reaches(caller, record, view.renderer(record, earlier), after)
        viewer = await self._events(caller, record)
        renderer = view.renderer(record, earlier, viewer.ended_at)
        return rendered_stream(
            viewer,
            renderer,
            self._environment.streams,
            after=0 if after is None else after + 1,
            headers=run_headers(record.thread_id, record.client_id),
        )

    async def _check_reaches(self, caller: Caller, record: RunRecord, renderer: ResponsesRenderer, after: int) -> None:
        counted = _Counted(renderer)
        with closing(await self._events(caller, record)) as viewer:
            last = await rendered_so_far(viewer, counted)
        events = counted.frames - (1 if _is_end(last) else 0)  # [DONE] has no number
        if after >= events:
            there = f"its last is {events - 1}" if events else "it has none yet"
            raise wrong(f"the response {record.client_id!r} has no event {after}; {there}", "/starting_after")

    async def _events(self, caller: Caller, record: RunRecord) -> Viewer:
        if (viewer := await self._watch(caller, record.client_id)) is None:
            raise NotFoundError(
                f"the events of response '{record.client_id}' are not kept any more; get it without 'stream'",
                code="log_expired",
            )
        return viewer

    async def cancel(self, caller: Caller, response_id: str) -> JsonObject:
        """Stop a response; what became of it. One that has ended stays as it is, and is found as long as it is not
        erased. Raises NotFoundError.
        """
        with run_named(no_response(response_id)):
            await self._stop(caller, await self._environment.run(caller, response_id))
            return await self._shown(caller, await self._environment.run(caller, response_id))

    async def delete(self, caller: Caller, response_id: str) -> JsonObject:
        """Forget a response, which is stopped first. Its thread goes too, if the response began it, and no other is on
        it. Raises NotFoundError.
        """
        record = await self._record(caller, response_id)
        await self._stop(caller, record)
        with run_named(no_response(response_id)):
            others = (await self._environment.thread_runs(caller, record.thread_id, limit=2)).items[1:]
            if _began_thread(record) and not others:
                await self._environment.delete(caller, record.thread_id)
            else:
                await self._environment.delete_run(caller, response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    async def input_items(self, caller: Caller, response_id: str) -> list[ThreadItem]:
        """What came with the response's request, the oldest first. Raises NotFoundError."""
        record = await self._record(caller, response_id)
        given = (await self._environment.kept_messages(caller, record.client_id)).given
        return [item for message in given for item in message_items(message)]

    # ---

    async def _record(self, caller: Caller, response_id: str) -> RunRecord:
        with run_named(no_response(response_id)):
            record = await self._environment.run(caller, response_id)
        if record.status.ended and (record.request or {}).get("store") is False:
            raise no_response(response_id)
        return record

    async def _from_thread(self, caller: Caller, record: RunRecord, view: ResponseView) -> JsonObject:
        """The response of a run whose events are not kept any more."""
        said = await self._environment.kept_messages(caller, record.client_id)
        thread = ThreadItems((*said.before, *said.given, *said.produced), (), (), view)
        return thread.response(record, said.produced)

    async def _earlier(self, caller: Caller, record: RunRecord) -> list[EarlierCall]:
        """The calls that waited before the run; a response's own record has them."""
        if record.origin == ORIGIN:
            return []
        before = (await self._environment.kept_messages(caller, record.client_id)).before
        return [earlier_call(call) for call in unanswered_calls(before)]

    async def _watch(self, caller: Caller, response_id: str) -> Viewer | None:
        """All events of a response; None: they are not kept any more."""
        with run_named(no_response(response_id)):
            return await self._environment.attach(caller, response_id)

    async def _stop(self, caller: Caller, record: RunRecord) -> None:
        """Cancel a run and wait for its end."""
        if record.status.ended:
            return
        with run_named(no_response(record.client_id)):
            await self._environment.stop(caller, record.client_id)


def no_response(response_id: str) -> NotFoundError:
    """The error for a response that is not there, or is another owner's."""
    return NotFoundError(f"Response with id '{response_id[:200]}' not found.", code="response_not_found")


def _began_thread(record: RunRecord) -> bool:
    """Whether the run made its thread itself."""
    return (record.request or {}).get("begins_thread") is True


def _is_end(event: Event | None) -> bool:
    return isinstance(event, RunFinished | RunFailed)


class _Counted:
    """Counts the frames of a renderer."""

    def __init__(self, renderer: ResponsesRenderer) -> None:
        self._renderer = renderer
        self.frames = 0

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        frames = self._renderer.render(events, first)
        self.frames += len(frames)
        return frames

    def final(self) -> object:
        return self._renderer.final()


def is_stream_asked(query: Sequence[tuple[str, str]]) -> bool:
    """Whether a query asks for a stream. Raises InvalidRequestError (400)."""
    asked = dict(query).get("stream", "false")
    if asked not in ("true", "false"):
        raise wrong(f"stream is {asked[:64]!r}; it must be true or false", "/stream")
    return asked == "true"


def after_asked(query: Sequence[tuple[str, str]]) -> int | None:
    """The number of the last event that the client has; None: it has none. Raises InvalidRequestError (400)."""
    text = dict(query).get("starting_after", "")
    if not text:
        return None
    if (number := whole_number(text)) is None:
        raise wrong(f"starting_after is {text[:64]!r}; it must be an event's sequence_number", "/starting_after")
    return number
