"""A local Responses API that keeps responses as the real one does, and fails on demand; over real sockets.

    async with responses_server() as server:
        server.will_answer(call_item("add", call_id="c1"))
        server.will_answer(message_item("Three"))
        ... talk to server.endpoint ...
        assert [item["type"] for item in server.seen(1)] == ["message", "function_call", "function_call_output"]

What it refuses, and in which words, is what OpenAI's and Bedrock's APIs refuse: an unknown or expired
`previous_response_id`, a call without its output and an output without its call, reasoning without the item that it
belongs to, ids of items that are not stored, and so on. `seen` is what the model would have been shown.
Background responses go on by themselves, also where nobody looks on: `Answer.hold` stops them until a test lets go.
Scripts of openai_chat_server (`server.answers(...)`) take a request away from it, with whatever fault they have.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from tests.local_listener import listening, port_of
from tests.openai_chat_server import ChatServer, Received, Script, _head, _read_request, _write
from tests.responses_events import Event, Item, Stream, response_object, stream_events

Status = Literal["completed", "incomplete", "failed"]

_ITEM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_OVER = frozenset({"completed", "incomplete", "failed", "cancelled"})
_FOLLOWING = frozenset(
    {"function_call", "web_search_call", "code_interpreter_call", "mcp_call", "image_generation_call"}
)


@dataclass
class Answer:
    """What the next response is. `fields` of the response, `error` and `incomplete_details` among them.

    `named`: awaited before its first event, which says its name. `hold`: awaited before the event number `hold_before`.
    `cut_before`: the connection breaks before that event, while the response goes on if it is a background one.
    """

    items: Sequence[Item] = ()
    status: Status = "completed"
    fields: dict[str, Any] = field(default_factory=dict)
    named: asyncio.Event | None = None
    hold: asyncio.Event | None = None
    hold_before: int = 3
    cut_before: int | None = None


@dataclass
class Stored:
    """A response that the server knows. `context`: what the model was shown, and what it said."""

    id: str
    context: list[Item]
    kept: bool
    background: bool
    events: list[Event] = field(default_factory=list)
    response: dict[str, Any] = field(default_factory=dict)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None

    @property
    def status(self) -> str:
        return str(self.response.get("status"))

    @property
    def over(self) -> bool:
        return self.status in _OVER


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
        self.status = status
        self.body = {"error": error}


class ResponsesServer(ChatServer):
    """See the module.

    `not_found_status`: 400 as OpenAI, 404 as Bedrock. `paths`: where it answers; `served_under`: a model's one right
    path, as on Mantle. `seal`: what sealed reasoning that it can open begins with. `background_allowed` and
    `sealed_reasoning` are False for servers and models without; so are `streams`, for one that streams no background
    responses, and `streams_again`, for one that streams each but once.
    """

    def __init__(self) -> None:
        super().__init__()
        self.not_found_status = 400
        self.paths: tuple[str, ...] = ("/v1", "/openai/v1")
        self.served_under: dict[str, str] = {}
        self.background_allowed = True
        self.streams = True
        self.streams_again = True
        self.sealed_reasoning = True
        self.seal: str | None = None
        self.data_first = False
        self.piece_bytes: int | None = None
        self.responses: dict[str, Stored] = {}
        self.asked: list[Stored] = []
        self._answers: deque[Answer] = deque()
        self._numbers = itertools.count(1)

    # --- what tests say ---------------------------------------------------------------------------------------------

    def will_answer(self, *items: Item, **answer: Any) -> Answer:
        """The next response. Keywords as in `Answer`."""
        coming = Answer(items, **answer)
        self._answers.append(coming)
        return coming

    def expire(self, response_id: str | None = None) -> None:
        """Forget a response, or all of them."""
        if response_id is None:
            self.responses.clear()
        else:
            del self.responses[response_id]

    def seen(self, number: int = -1) -> list[Item]:
        """What the model was shown for the response `number` (in order of arrival): the chain's items and the new."""
        stored = self.asked[number]
        return stored.context[: len(stored.context) - len(stored.response.get("output", ()))]

    async def close(self) -> None:
        """End what still goes on in the background."""
        tasks = [stored.task for stored in (*self.responses.values(), *self.asked) if stored.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> bool:
        request = await _read_request(reader, number)
        scripted = self._taken < len(self._scripts) or (self.repeat and bool(self._scripts))
        script = self._next_script() if scripted else None
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        if script is not None:
            return await self._play(script, reader, writer, request)
        try:
            return await self._respond(request, reader, writer)
        except RefusedError as refused:
            return await self._send_json(refused.status, refused.body, writer)

    async def _respond(self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        parts = urlsplit(request.target)
        base, found, rest = parts.path.partition("/responses")
        if not found or base not in self.paths:
            raise RefusedError(404, f"Invalid URL ({request.method} {parts.path})")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        match request.method, [part for part in rest.split("/") if part]:
            case "POST", []:
                return await self._create(request, base, reader, writer)
            case "GET", [response_id]:
                return await self._get(self._known(response_id, base), query, request, reader, writer)
            case "POST", [response_id, "cancel"]:
                return await self._send_json(200, await self._cancel(self._known(response_id, base)), writer)
            case "DELETE", [response_id]:
                self.expire(self._known(response_id, base).id)
                return await self._send_json(200, {"id": response_id, "object": "response", "deleted": True}, writer)
            case _:
                raise RefusedError(405, f"Invalid method for URL ({request.method} {parts.path})")

    def _known(self, response_id: str, base: str) -> Stored:
        try:
            stored = self.responses[response_id]
        except KeyError:
            raise RefusedError(404, f"Response with id '{response_id}' not found.") from None
        self._check_route(stored.response.get("model"), base)
        return stored

    def _check_route(self, model: object, base: str) -> None:
        if self.served_under.get(str(model), base) != base:
            raise RefusedError(400, f"The model '{model}' isn't supported on this route.", "validation_error")

    async def _create(
        self, request: Received, base: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        body = request.json
        stored = self._begin(body, base)
        if not body.get("stream") or (stored.background and not self.streams):
            if stored.background:
                return await self._send_json(200, stored.response, writer)
            await self._until_over(stored)
            return await self._send_json(200, stored.response, writer)
        return await self._stream(stored, -1, request, reader, writer)

    def _begin(self, body: dict[str, Any], base: str) -> Stored:
        """The response that a request asks for, under way. Raises RefusedError where the API would refuse it."""
        self._check_fields(body, base)
        chain, new = self._chain(body), _new_items(body)
        if not chain and not new:
            raise RefusedError(400, "One of 'input', 'previous_response_id' or 'conversation' must be provided.")
        for item in new:
            if self.seal is not None and not item.get("encrypted_content", self.seal).startswith(self.seal):
                text = "The encrypted content gAAA... could not be verified."
                raise RefusedError(400, text, "invalid_encrypted_content")
        context = [*chain, *new]
        _check_context(context, len(chain))
        answer = self._answers.popleft() if self._answers else Answer()
        stored = Stored(
            f"resp_{next(self._numbers):032x}", context, body.get("store") is not False, bool(body.get("background"))
        )
        echoed = {name: body.get(name) for name in ("model", "instructions", "previous_response_id", "tools", "store")}
        events = stream_events(
            answer.items,
            response_id=stored.id,
            status=answer.status,
            background=stored.background,
            **{**echoed, **answer.fields},
        )
        self.asked.append(stored)
        stored.response = events[0]["response"]
        if stored.background:
            self.responses[stored.id] = stored
        stored.task = asyncio.create_task(self._run(stored, answer, events))
        return stored

    async def _run(self, stored: Stored, answer: Answer, events: list[Event]) -> None:
        """The model at work: one event after the other, whoever looks on."""
        for number, event in enumerate(events):
            if number == 0 and answer.named is not None:
                await answer.named.wait()
            if number == answer.hold_before and answer.hold is not None:
                await answer.hold.wait()
            if number == answer.cut_before:
                async with stored.news:
                    stored.events.append({"type": "cut"})
                    stored.news.notify_all()
                if not stored.background:
                    return
            async with stored.news:
                if stored.status == "cancelled":
                    return
                stored.events.append(event)
                if "response" in event:
                    stored.response = event["response"]
                if stored.status in ("completed", "incomplete"):
                    stored.context += stored.response["output"]
                    if stored.kept:
                        self.responses[stored.id] = stored
                stored.news.notify_all()
            await asyncio.sleep(0)

    def _check_fields(self, body: dict[str, Any], base: str) -> None:
        model = body.get("model")
        if not model and not body.get("previous_response_id"):
            raise RefusedError(400, "Missing required parameter: 'model'.", "missing_required_parameter", "model")
        self._check_route(model, base)
        if body.get("previous_response_id") and body.get("conversation"):
            raise RefusedError(400, "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.")
        if body.get("background") and body.get("store") is False:
            raise RefusedError(400, "Background responses require 'store' to be true.", param="store")
        if body.get("background") and not self.background_allowed:
            raise RefusedError(400, "background is not supported on this endpoint.", param="background")
        if "reasoning.encrypted_content" in (body.get("include") or ()) and not self.sealed_reasoning:
            raise RefusedError(400, "Encrypted content is not supported with this model.", param="include")
        for tool in body.get("tools") or ():
            if tool["type"] == "function" and not _ITEM_ID.fullmatch(tool["name"]):
                raise RefusedError(400, f"Invalid 'tools[0].name': {tool['name']!r}.", "invalid_value", "tools")

    def _chain(self, body: dict[str, Any]) -> list[Item]:
        """The items of the conversation that the request continues."""
        previous_id = body.get("previous_response_id")
        if previous_id is None:
            return []
        previous = self.responses.get(previous_id)
        if previous is None or previous.status not in ("completed", "incomplete"):
            code = "previous_response_not_found"
            message = f"Previous response with id '{previous_id}' not found."
            raise RefusedError(self.not_found_status, message, code, "previous_response_id")
        return previous.context

    # --- answers ----------------------------------------------------------------------------------------------------

    async def _get(
        self,
        stored: Stored,
        query: dict[str, str],
        request: Received,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        if query.get("stream") != "true":
            return await self._send_json(200, stored.response, writer)
        if not (stored.background and self.streams and self.streams_again):
            raise RefusedError(400, "Only background responses can be streamed again.", param="stream")
        return await self._stream(stored, int(query.get("starting_after", -1)), request, reader, writer)

    async def _cancel(self, stored: Stored) -> dict[str, Any]:
        if not stored.background:
            raise RefusedError(400, "Cannot cancel a synchronous response.")
        async with stored.news:
            if not stored.over:
                if stored.task is not None:
                    stored.task.cancel()
                output = stored.response.get("output", ())
                stored.response = response_object(stored.id, output, "cancelled", background=True)
                number = 1 + max((event.get("sequence_number", -1) for event in stored.events), default=-1)
                stored.events.append(
                    {"type": "response.cancelled", "response": stored.response, "sequence_number": number}
                )
                stored.news.notify_all()
        return stored.response

    async def _until_over(self, stored: Stored) -> None:
        async with stored.news:
            await stored.news.wait_for(lambda: stored.over)

    async def _stream(
        self, stored: Stored, after: int, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """The events after number `after`, as they come. Who leaves a response that is no background one ends it."""
        script = Script()
        writer.write(_head(script))
        stream = Stream(self.data_first)
        written = 0
        gone = asyncio.ensure_future(reader.read(1))
        try:
            while True:
                for event in stored.events[written:]:
                    written += 1
                    if event["type"] == "cut":  # it befell the connection that asked for the response
                        if request.method == "POST":
                            writer.transport.abort()
                            return False
                        continue
                    if event["sequence_number"] > after:
                        await _write(script, list(self._pieces(stream.record(event))), writer)
                if stored.over and written == len(stored.events):
                    break
                if not await _news_or_gone(stored, written, gone):
                    request.disconnected.set()
                    if not stored.background and stored.task is not None:
                        stored.task.cancel()
                    return False
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        writer.write(b"0\r\n\r\n")  # OpenAI ends without `[DONE]`
        await writer.drain()
        return True

    def _pieces(self, record: bytes) -> Iterator[bytes]:
        size = self.piece_bytes or len(record)
        for start in range(0, len(record), size):
            yield record[start : start + size]

    async def _send_json(self, status: int, body: object, writer: asyncio.StreamWriter) -> bool:
        script = Script(status, (json.dumps(body).encode(),), "application/json", framing="length")
        writer.write(_head(script))
        await _write(script, script.pieces, writer)
        return True


async def _news_or_gone(stored: Stored, written: int, gone: asyncio.Future[bytes]) -> bool:
    """Wait for more events; False where the client left first."""

    async def news() -> None:
        async with stored.news:
            await stored.news.wait_for(lambda: len(stored.events) > written or stored.over)

    waiting = asyncio.ensure_future(news())
    both: set[asyncio.Future[Any]] = {waiting, gone}
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return waiting.done()
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


# --- what the API refuses in a conversation --------------------------------------------------------------------------


def _new_items(body: dict[str, Any]) -> list[Item]:
    given = body.get("input")
    new = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or ())
    for item in new:
        item.setdefault("type", "message")
        if item["type"] == "item_reference":
            raise RefusedError(404, f"Item with id '{item['id']}' not found.")
    return new


def _check_context(context: Sequence[Item], first_new: int) -> None:
    """Raises RefusedError for a conversation that the API would not take up."""
    for place in range(first_new, len(context)):
        _check_item(context[place], f"input[{place - first_new}]", context[place + 1 : place + 2])
    called: list[str] = []
    answered: list[str] = []
    for item in context:
        if item["type"] == "function_call":
            called.append(item["call_id"])
        elif item["type"] == "function_call_output":
            if item["call_id"] not in called:
                raise RefusedError(400, f"No tool call found for function call output with call_id {item['call_id']}.")
            answered.append(item["call_id"])
    for call_id in called:
        if called.count(call_id) > answered.count(call_id):
            raise RefusedError(400, f"No tool output found for function call {call_id}.", param="input")


def _check_item(item: Item, name: str, following: Sequence[Item]) -> None:
    match item["type"]:
        case "message":
            if item["role"] not in ("user", "assistant", "system", "developer"):
                raise RefusedError(400, f"Invalid value: '{item['role']}'.", "invalid_value", f"{name}.role")
            _check_content(item["content"], name, assistant=item["role"] == "assistant")
        case "reasoning":
            if item.get("encrypted_content") is None and not item.get("content"):
                text = f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
                raise RefusedError(404, text, param="input")
            if not any(next_item["type"] in _FOLLOWING | {"message", "reasoning"} for next_item in following) or any(
                next_item.get("role") == "user" for next_item in following
            ):
                text = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
                raise RefusedError(400, text, param="input")
        case "function_call" | "function_call_output":
            if len(item["call_id"]) > 64:
                text = f"Invalid '{name}.call_id': string too long. Expected a string with maximum length 64."
                raise RefusedError(400, text, "string_above_max_length", f"{name}.call_id")
            if not isinstance(item.get("output", ""), str):
                _check_content(item["output"], name, assistant=False)
        case kind if kind in _FOLLOWING or kind in ("file_search_call", "mcp_list_tools", "compaction"):
            if not _ITEM_ID.fullmatch(item.get("id", "")):
                raise RefusedError(400, f"Invalid '{name}.id': {item.get('id')!r}.", "invalid_value", f"{name}.id")
        case kind:
            raise RefusedError(400, f"Invalid value: '{kind}'.", "invalid_value", f"{name}.type")


def _check_content(content: object, name: str, *, assistant: bool) -> None:
    if isinstance(content, str):
        return
    allowed = {"output_text", "refusal"} if assistant else {"input_text", "input_image", "input_file"}
    if not isinstance(content, list) or not content:
        raise RefusedError(400, f"Invalid '{name}.content': empty.", param=f"{name}.content")
    for part in content:
        if part["type"] not in allowed:
            raise RefusedError(400, f"Invalid value: '{part['type']}'.", "invalid_value", f"{name}.content")


@asynccontextmanager
async def responses_server(tls: ssl.SSLContext | None = None) -> AsyncGenerator[ResponsesServer]:
    """A server on a free port, gone with all of its connections and responses afterwards."""
    server = ResponsesServer()
    async with listening(server.serve, tls) as listener:
        server.port = port_of(listener)
        try:
            yield server
        finally:
            await server.close()
