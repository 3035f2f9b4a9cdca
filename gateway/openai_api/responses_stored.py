"""Responses that are looked at, stopped and forgotten once they have begun: runs of a caller's, of whichever protocol.

Below: the protocols' environment, response_view, thread_items. Above: the protocol of stored responses.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gateway.access.callers import Caller
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, unanswered_calls
from gateway.openai_api.errors import wrong
from gateway.openai_api.response_view import ResponseView, view_of
from gateway.openai_api.responses_resource import ORIGIN
from gateway.openai_api.thread_items import ThreadItem, ThreadItems, earlier_call, message_items
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.begun_runs import BegunRuns, RunWords
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.requests import whole_number
from gateway.protocol.run_access import run_named
from gateway.sse import EventStreamResponse
from gateway.store import RunRecord


class StoredResponses:
    """The responses of all callers; each sees its own. A response with `store: false` is gone once it has ended."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._runs = BegunRuns(environment, RunWords(no_response, _events_expired, _no_event_of))

    async def response(self, caller: Caller, response_id: str, *, encrypted: bool = False) -> JsonObject:
        """The response as it is now; one that is under way, with the output so far. Raises NotFoundError."""
        return await self._shown(caller, await self._record(caller, response_id), encrypted=encrypted)

    async def _shown(self, caller: Caller, record: RunRecord, *, encrypted: bool = False) -> JsonObject:
        view = await view_of(self._environment, caller, [record], encrypted=encrypted)
        make = partial(view.renderer, record, await self._earlier(caller, record))
        if (shown := await self._runs.so_far(caller, record, make)) is not None:
            return shown
        return await self._from_thread(caller, record, view)

    async def stream(
        self, caller: Caller, response_id: str, *, after: int | None = None, encrypted: bool = False
    ) -> EventStreamResponse:
        """The events of a response after the one with the number `after`; those of one under way as they come.

        Raises:
            NotFoundError: there is no such response; code `log_expired`: its events are not kept any more.
            InvalidRequestError: 400, it has no event of that number.
        """
        record = await self._record(caller, response_id)
        view = await view_of(self._environment, caller, [record], encrypted=encrypted)
        make = partial(view.renderer, record, await self._earlier(caller, record))
        return await self._runs.stream(caller, record, make, after=after)

    async def cancel(self, caller: Caller, response_id: str) -> JsonObject:
        """Stop a response. Gives it as it ended. One that has ended stays as it is, and is found as long as it is not
        erased. Raises NotFoundError.
        """
        await self._runs.stop(caller, await self._runs.record(caller, response_id))
        return await self._shown(caller, await self._runs.record(caller, response_id))

    async def delete(self, caller: Caller, response_id: str) -> JsonObject:
        """Forget a response, which is stopped first. Its thread goes too, if the response began it, and no other is on
        it. Raises NotFoundError.
        """
        record = await self._record(caller, response_id)
        await self._runs.stop(caller, record)
        with run_named(no_response(response_id)):
            others = (await self._environment.thread_runs(caller, record.thread_id, limit=2)).items[1:]
            if _began_thread(record) and not others:
                await self._environment.delete(caller, record.thread_id)
            else:
                await self._environment.delete_run(caller, response_id)
        return {"id": response_id, "object": "response", "deleted": True}

    async def input_items(self, caller: Caller, response_id: str) -> list[ThreadItem]:
        """The items of the response's request, the oldest first. Raises NotFoundError."""
        record = await self._record(caller, response_id)
        given = (await self._environment.kept_messages(caller, record.client_id)).given
        return [item for message in given for item in message_items(message)]

    # ---

    async def _record(self, caller: Caller, response_id: str) -> RunRecord:
        record = await self._runs.record(caller, response_id)
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


def no_response(response_id: str) -> NotFoundError:
    """The error for a response that is not there, or is another owner's."""
    return NotFoundError(f"Response with id '{response_id[:200]}' not found.", code="response_not_found")


def _events_expired(response_id: str) -> NotFoundError:
    return NotFoundError(
        f"the events of response '{response_id}' are not kept any more; get it without 'stream'", code="log_expired"
    )


def _no_event_of(response_id: str, number: int, events: int) -> InvalidRequestError:
    there = f"its last is {events - 1}" if events else "it has none yet"
    return wrong(f"the response {response_id!r} has no event {number}; {there}", "/starting_after")


def _began_thread(record: RunRecord) -> bool:
    """Whether the run made its thread itself."""
    return (record.request or {}).get("begins_thread") is True


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
