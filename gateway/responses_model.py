"""A model behind the Responses API, wherever it stands: what its providers share.

Above: the providers in `models/`, which say how it is reached (`Access`). Below: responses_request, responses_reader.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Protocol

from gateway.agent import ModelSettings
from gateway.errors import ModelError
from gateway.events import Events
from gateway.http_client import HttpCall, HttpStream, StreamTimeouts
from gateway.media_fetch import MediaFetcher
from gateway.messages import DocumentBlock, ImageBlock, JsonObject
from gateway.model import ModelCapabilities, ModelEnvironment, ModelRequest
from gateway.model_failures import failure
from gateway.responses_reader import ResponsesReader
from gateway.responses_request import SEALED_REASONING, ResponsesTarget, responses_request
from gateway.wire import strict_json
from gateway.wire.openai_responses import Profile, refuses_encrypted_reasoning, refuses_replayed_reasoning
from gateway.wire.provider_errors import ProviderError, parse_error_body

logger = logging.getLogger(__name__)

HEADERS = {"accept": "text/event-stream, application/json", "content-type": "application/json"}
_INLINE_BYTES = 20_000_000
_MOST_CORRECTIONS = 3
_MOST_FORGOTTEN = 10_000


class Access(Protocol):
    """How a provider's responses are reached."""

    async def create(self, body: bytes) -> HttpCall:
        """The call that asks for a response; authenticated, so nothing of it may change.

        Raises:
            ModelError: there is no region, or no credentials.
        """

    def learn(self, call: HttpCall, status: int, error: ProviderError) -> bool:
        """Whether the next `create` goes another way than `call` did, which its refusal calls for."""


class _RefusedError(Exception):
    """The call was answered with a status that is no success. `mapped` is what callers are told."""

    def __init__(self, call: HttpCall, status: int, error: ProviderError, mapped: ModelError) -> None:
        super().__init__(mapped.message)
        self.call = call
        self.status = status
        self.error = error
        self.mapped = mapped


class ResponsesModel:
    """One model. What a server turns out not to take it is not sent again."""

    def __init__(
        self,
        provider: str,
        settings: ModelSettings,
        access: Access,
        profile: Profile,
        environment: ModelEnvironment,
        *,
        wire_model_id: str | None = None,
        params: JsonObject | None = None,
    ) -> None:
        """`wire_model_id`: what requests call the model, if not `model_id`; `params`: in place of the settings'."""
        self.provider = provider
        self.model_id = settings.model_id
        self._access = access
        self._profile = profile
        self._environment = environment
        self._forgotten: dict[str, None] = {}  # reasoning items that the server refused, the last ones last
        self._target = ResponsesTarget(
            provider,
            settings.model_id,
            profile,
            wire_model_id or settings.model_id,
            sealed=profile.encrypted_reasoning,
            forgotten=self._forgotten,
            params=settings.params if params is None else params,
        )
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)
        if self._target.params:
            logger.info(
                "params go out last in every request", extra={"model": self.model_id, "params": self._target.params}
            )
        most = {ImageBlock: _INLINE_BYTES, DocumentBlock: _INLINE_BYTES}
        self._media = MediaFetcher(environment.http, environment.clock, most)

    @property
    def capabilities(self) -> ModelCapabilities:
        profile = self._profile
        return ModelCapabilities(
            reasoning=profile.reasons, image_input=profile.images, document_input=bool(profile.documents)
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As the contract says. A refusal that says how to ask rightly is followed at once; all others go up."""
        if not self._profile.media_urls:
            request = replace(request, messages=await self._media.inline(request.messages))
        for corrections_left in range(_MOST_CORRECTIONS, -1, -1):
            body = responses_request(request, self._target)
            try:
                async with aclosing(self._response(request, body)) as batches:
                    async for events in batches:
                        yield events
                return
            except _RefusedError as refused:
                if not corrections_left or not self._learn(refused, body):
                    raise refused.mapped from None

    async def close(self) -> None:
        """Nothing is the model's own."""

    async def _response(self, request: ModelRequest, body: JsonObject) -> AsyncGenerator[Events]:
        call = await self._access.create(strict_json.dump(body))
        reader = ResponsesReader(request, self.provider, self.model_id)
        async with self._environment.http.stream(call, self._timeouts) as response:
            if response.status != 200:
                raise await self._refusal(call, response)
            while not reader.done:
                data = await response.receive()
                events = reader.feed(data) if data else reader.eof()
                if events:
                    yield events
                if reader.failure is not None:
                    raise reader.failure
            await response.settle()

    def _learn(self, refusal: _RefusedError, body: JsonObject) -> bool:
        """Whether the next request will be another one than `body`, which its refusal calls for.

        Requests go side by side: what this one was refused for another may have learnt already.
        """
        status, error = refusal.status, refusal.error
        if status in (400, 422) and _asks_for_seals(body) and refuses_encrypted_reasoning(error):
            logger.info("the model gives no sealed reasoning", extra={"model": self.model_id})
            self._target = replace(self._target, sealed=False)
            return True
        if status in (400, 404) and refuses_replayed_reasoning(error) and (refused := _reasoning_ids(body)):
            logger.warning("reasoning is refused and left out", extra={"model": self.model_id, "items": len(refused)})
            self._forgotten |= dict.fromkeys(refused)
            for oldest in list(self._forgotten)[:-_MOST_FORGOTTEN]:
                del self._forgotten[oldest]
            return True
        return self._access.learn(refusal.call, status, error)

    async def _refusal(self, call: HttpCall, response: HttpStream) -> _RefusedError:
        try:
            body = await response.read(65_536)
        except ModelError:
            body = b""
        error = parse_error_body(body)
        if not error.code and (aws := response.headers.get("x-amzn-errortype", "")):
            error = error._replace(code=aws.partition(":")[0].rpartition("#")[2].strip().lower())
        mapped = failure(error, response.status, response.headers, self._environment.clock.now())
        return _RefusedError(call, response.status, error, mapped)


def _asks_for_seals(body: JsonObject) -> bool:
    include = body.get("include")
    return isinstance(include, list) and SEALED_REASONING in include


def _reasoning_ids(body: JsonObject) -> list[str]:
    items = body.get("input")
    found = [item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    return [str(item["id"]) for item in found if item.get("type") == "reasoning"]
