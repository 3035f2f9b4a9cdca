"""A model behind the Responses API: the part that all providers of that API share.

Above: the providers in `models/`, each of which says how its server is reached (`Access`). Below: the request writer
and the reader.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from gateway.agent import ModelSettings
from gateway.clock import Deadline, DeadlineError
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import Events, ModelCallAccepted, Raw, UsageReported
from gateway.http_client.clients import HttpCall, HttpStream, StreamTimeouts
from gateway.messages import DocumentBlock, ImageBlock, JsonObject, JsonValue, MediaBlock
from gateway.model import ModelCapabilities, ModelEnvironment, ModelRequest
from gateway.openai.responses import (
    CHAIN_STATUSES,
    SEALED_REASONING,
    Profile,
    is_chain_lost,
    refuses_encrypted_reasoning,
    refuses_replayed_reasoning,
)
from gateway.openai.responses_background import BackgroundResponse
from gateway.openai.responses_options import responses_options
from gateway.openai.responses_reader import LIKENESS, ResponsesReader
from gateway.openai.responses_request import ResponsesTarget, media_refusal, responses_request
from gateway.openai.responses_stored import ExistingAccess, StoredResponses
from gateway.providers.answer_reader import AnswerStream
from gateway.providers.error_bodies import ProviderError, parse_error_body
from gateway.providers.failures import failure
from gateway.providers.media_fetch import MediaFetcher
from gateway.providers.repeated_events import RepeatedEventsReader
from gateway.wire import strict_json

logger = logging.getLogger(__name__)

# How long to wait for the name of a response that was stopped before it had one.
NAMING_SECONDS = 30.0

HEADERS = {"accept": "text/event-stream, application/json", "content-type": "application/json"}
_INLINE_BYTES = 20_000_000
_MOST_CORRECTIONS = 3
_MOST_FORGOTTEN = 10_000
_UNSEEN = (UsageReported, Raw, ModelCallAccepted)
_OUR_FIELDS = ("store", "previous_response_id", "conversation", "background")


class Access(ExistingAccess, Protocol):
    """How a provider's responses are reached."""

    async def create(self, body: bytes) -> HttpCall:
        """The call that requests a response; it may be signed, so nothing of it may change.

        Raises:
            ModelError: there is no region, or no credentials.
        """


class _RefusedError(Exception):
    """The call was answered with an error status, or with nothing but an error (then `status` is 200).

    `mapped` is the error for callers.
    """

    def __init__(self, call: HttpCall, status: int, error: ProviderError, mapped: ModelError) -> None:
        super().__init__(mapped.message)
        self.call = call
        self.status = status
        self.error = error
        self.mapped = mapped


class ResponsesModel:
    """One model. Parameters that its server has refused once are not sent to it again.

    For a stateful model the server keeps the conversation, and each request continues it. If the server cannot
    continue, it gets the whole conversation, which begins a new one there.
    """

    def __init__(
        self,
        provider: str,
        settings: ModelSettings,
        access: Access,
        profile: Profile,
        environment: ModelEnvironment,
        *,
        holder: Sequence[str],
        wire_model_id: str | None = None,
        params: JsonObject | None = None,
    ) -> None:
        """`holder`: where this provider keeps responses, and for whom; `wire_model_id`: the model's name in requests,
        if not `model_id`; `params`: in place of the settings'.

        Raises:
            ConfigurationError: parameters that `stateful` or `background` decides.
        """
        self.provider = provider
        self.model_id = settings.model_id
        self._access = access
        self._profile = profile
        self._environment = environment
        self._forgotten: dict[str, None] = {}  # reasoning items that the server refused, the latest last
        params = settings.params if params is None else params
        self._target = ResponsesTarget(
            provider,
            settings.model_id,
            profile,
            wire_model_id or settings.model_id,
            sealed=profile.encrypted_reasoning,
            forgotten=self._forgotten,
            params=params,
            stored=settings.stateful or settings.background,
            background=settings.background,
        )
        self._stored = StoredResponses(access, environment.http, environment.clock, settings.model_id)
        if settings.stateful or settings.background:
            _check_ours({**settings.model_parameters, **params})
        named = (provider, *holder, self._target.wire_model_id, settings.compute_environment or "")
        self._holder = " ".join(named) if settings.stateful else ""
        self.capabilities = ModelCapabilities(
            reasoning=profile.reasons,
            image_input=profile.images,
            image_output=_makes_pictures({**settings.model_parameters, **params}.get("tools")),
            document_input=bool(profile.documents),
            state_holder=self._holder,
            background=settings.background,
            options=responses_options(profile).taken,
            media_refusal=media_refusal(self._target.provider, profile),
        )
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)
        if self._target.params:
            logger.info(
                "params go out last in every request", extra={"model": self.model_id, "params": self._target.params}
            )
        most: dict[type[MediaBlock], int] = {ImageBlock: _INLINE_BYTES, DocumentBlock: _INLINE_BYTES}
        self._media = MediaFetcher(environment.http, environment.clock, most)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As the contract says. A refusal that shows how to ask correctly is followed at once; all others are
        raised.
        """
        for corrections_left in range(_MOST_CORRECTIONS, -1, -1):
            # Requests after the first answer need no such retry.
            body = {} if request.accepted else responses_request(await self._with_media(request), self._target)
            reader = self._reader(request)
            try:
                answer = self._in_background if self._target.background else self._response
                async with aclosing(answer(request, body, reader)) as batches:
                    async for events in batches:
                        yield events
                return
            except _RefusedError as refused:
                if not corrections_left:
                    raise refused.mapped from None
                if self._learn(refused, body):
                    continue
                if request.continuation is not None and _may_be_the_chain(refused):
                    _log_lost_chain(self.model_id, request.continuation.response_id, refused)
                    request = replace(request, continuation=None)
                elif not self._forget_reasoning(refused, body):
                    raise refused.mapped from None
            finally:
                if reader.response_id is not None and self._target.stored:
                    self._note_kept(reader.response_id, request)

    def _note_kept(self, response_id: str, request: ModelRequest) -> None:
        """The provider keeps a response: the thread remembers it, or it is deleted once no request can use it."""
        if request.on_kept is not None:
            request.on_kept(response_id)
        elif not self._holder and not request.is_left():
            self._stored.outlive(response_id)

    async def forget(self, response_id: str) -> None:
        """As StatefulModel says."""
        await self._stored.forget(response_id)

    async def close(self) -> None:
        """Finish cancellations and deletions at the provider, if they do not take long."""
        await self._stored.close()

    def _reader(self, request: ModelRequest) -> ResponsesReader:
        target = self._target
        return ResponsesReader(
            request, self.provider, self.model_id, stored=target.stored, background=target.background
        )

    async def _response(
        self, request: ModelRequest, body: JsonObject, reader: ResponsesReader
    ) -> AsyncGenerator[Events]:
        call = (await self._access.create(strict_json.dump_to_keep(body))).part_of(request.trace)
        said = False
        async with self._environment.http.stream(call, self._timeouts) as response:
            if response.status != 200:
                raise await self._refusal(call, response)
            answer = AnswerStream(response, RepeatedEventsReader(reader, LIKENESS), self._environment.window)
            try:
                while not reader.done:
                    if events := await answer.next():
                        said = said or not all(isinstance(event, _UNSEEN) for event in events)
                        yield events
            except ModelError as error:
                if error is not reader.failure or reader.error is None or said:
                    raise
                raise _RefusedError(call, response.status, reader.error, error) from None
            await response.settle()

    async def _in_background(
        self, request: ModelRequest, body: JsonObject, reader: ResponsesReader
    ) -> AsyncGenerator[Events]:
        """As `_response`, but it outlives the connection. If the caller closes it, the provider's work is stopped."""
        environment = self._environment
        response = BackgroundResponse(reader, self._access, environment, self._timeouts)
        try:
            if request.accepted is not None:
                reader.take_up(request.accepted)
            else:
                try:
                    batches = self._response(request, body, reader)
                    named = await self._named(batches, response)
                    async with aclosing(batches):
                        if named:
                            yield named
                        async for events in batches:
                            yield events
                    return
                except ModelError as error:
                    if not response.outlives(error):
                        raise
            async with aclosing(response.follow()) as followed:
                async for events in followed:
                    yield events
        finally:
            if response.under_way and not request.is_left():
                self._stored.spawn(response.cancel())

    async def _named(self, batches: AsyncGenerator[Events], response: BackgroundResponse) -> Events | None:
        """The answer's first batch, which brings the response's id. If the caller closes it before that, the provider's
        work is stopped, too: the provider has the request, and nobody could fetch its answer later.
        """
        naming = asyncio.create_task(anext(batches, None), name="a response's name")
        try:
            return await asyncio.shield(naming)
        except asyncio.CancelledError:
            self._stored.spawn(self._cancel_once_named(naming, batches, None if naming.done() else response))
            raise

    async def _cancel_once_named(
        self, naming: asyncio.Task[Events | None], batches: AsyncGenerator[Events], response: BackgroundResponse | None
    ) -> None:
        """`response`: None if somebody else cancels it, since its name came at the same moment."""
        deadline = Deadline(self._environment.clock, NAMING_SECONDS)
        why = ""
        try:
            with deadline:
                await naming
        except _RefusedError:
            return
        except ModelError as error:
            why = error.code
        except DeadlineError:
            why = "it has no name yet"
        finally:
            deadline.close()
            await batches.aclose()
        if response is not None and response.under_way:
            await response.cancel()
            await self._stored.forget_quietly(response.response_id)
        elif why:
            extra = {"model": self.model_id, "why": why}
            logger.warning("a background response could not be cancelled", extra=extra)

    async def _with_media(self, request: ModelRequest) -> ModelRequest:
        """The request with media inline that the server does not fetch itself, except in messages that it has
        already.
        """
        if self._profile.media_urls:
            return request
        continuation = request.continuation
        if continuation is None:
            return replace(request, messages=await self._media.inline(request.messages))
        new = await self._media.inline(continuation.messages)
        return replace(request, continuation=replace(continuation, messages=new))

    def _learn(self, refusal: _RefusedError, body: JsonObject) -> bool:
        """Learn from a refusal. Gives whether the next request will differ from `body`.

        Requests run in parallel: another one may have been refused for the same reason before.
        """
        status, error = refusal.status, refusal.error
        if status in (400, 422) and _asks_for_seals(body) and refuses_encrypted_reasoning(error):
            logger.info("the model gives no encrypted reasoning", extra={"model": self.model_id})
            self._target = replace(self._target, sealed=False)
            return True
        return self._access.learn(refusal.call, status, error)

    def _forget_reasoning(self, refusal: _RefusedError, body: JsonObject) -> bool:
        """As `_learn`, for reasoning that was sent back."""
        if refusal.status not in (400, 404) or not refuses_replayed_reasoning(refusal.error):
            return False
        if not (refused := _reasoning_ids(body)):
            return False
        logger.warning("reasoning is refused and left out", extra={"model": self.model_id, "items": len(refused)})
        self._forgotten |= dict.fromkeys(refused)
        for oldest in list(self._forgotten)[:-_MOST_FORGOTTEN]:
            del self._forgotten[oldest]
        return True

    async def _refusal(self, call: HttpCall, response: HttpStream) -> _RefusedError:
        try:
            body = await response.read(65_536)
        except ModelError:
            body = b""
        error = parse_error_body(body)
        if not error.code and (aws := response.headers.get("x-amzn-errortype", "")):
            error = error._replace(code=aws.partition(":")[0].rpartition("#")[2].strip().lower())
        now = self._environment.clock.now()
        mapped = failure(error, response.status, response.headers, now, address=response.address, body=body)
        return _RefusedError(call, response.status, error, mapped)


def identity(secret: str) -> str:
    """A digest of the credentials for `holder`. It does not reveal them."""
    return hashlib.sha256(f"agui-gateway {secret}".encode()).hexdigest()[:16] if secret else "-"


def _makes_pictures(tools: JsonValue) -> bool:
    """Whether the server's own tool for that is among them."""
    listed = tools if isinstance(tools, list) else []
    return any(isinstance(tool, dict) and tool.get("type") == "image_generation" for tool in listed)


def _check_ours(parameters: Mapping[str, object]) -> None:
    for name in _OUR_FIELDS:
        if name in parameters:
            raise ConfigurationError(
                f"{name!r} cannot be among the model's parameters: `stateful` and `background` decide it; leave it out"
            )


_NO_MATTER_OF_CHAINS = frozenset(
    {
        ModelErrorKind.AUTHENTICATION,
        ModelErrorKind.CONTENT_FILTER,
        ModelErrorKind.CONTEXT_OVERFLOW,
        ModelErrorKind.QUOTA,
        ModelErrorKind.THROTTLED,
    }
)


def _may_be_the_chain(refused: _RefusedError) -> bool:
    """Whether the same request might be accepted as a new conversation: servers word such refusals differently."""
    kind = refused.mapped.kind
    if refused.status == 200:
        return is_chain_lost(refused.error) or kind in (ModelErrorKind.INVALID, ModelErrorKind.NOT_FOUND)
    return refused.status in CHAIN_STATUSES and kind not in _NO_MATTER_OF_CHAINS


def _log_lost_chain(model_id: str, response_id: str, refused: _RefusedError) -> None:
    extra = {
        "model": model_id,
        "response_id": response_id,
        "code": refused.error.code or refused.mapped.code,
        "provider_message": refused.mapped.provider_message[:200],
    }
    logger.warning("a stored conversation cannot be continued there: it is sent whole, and begins anew", extra=extra)


def _asks_for_seals(body: JsonObject) -> bool:
    include = body.get("include")
    return isinstance(include, list) and SEALED_REASONING in include


def _reasoning_ids(body: JsonObject) -> list[str]:
    items = body.get("input")
    found = [item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    return [str(item["id"]) for item in found if item.get("type") == "reasoning"]
