"""Amazon Bedrock's ConverseStream.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html. `ConverseReader` turns
the frames into canonical events and is pure. The request is written by `bedrock/request.py`; the turn
rules, the families' peculiarities, the media, parameters and errors are in `bedrock/`, credentials and
signatures in `bedrock/signing.py`, media behind URLs in `providers/media_fetch.py`.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import orjson

from gateway.agent import ModelSettings
from gateway.bedrock.converse import NO_TOOL
from gateway.bedrock.converse import PROVIDER_NAME as NAME
from gateway.bedrock.errors import error_kind
from gateway.bedrock.event_stream import EventStreamDecoder, EventStreamError, Frame, HeaderValue
from gateway.bedrock.families import Family, family_of
from gateway.bedrock.guardrails import BLOCKED_INPUT, Finding, GuardrailMode, in_its_place, read_trace
from gateway.bedrock.media import MAX_BYTES
from gateway.bedrock.parameters import MODEL_FAMILY, request_fields
from gateway.bedrock.request import converse_request, encoded
from gateway.bedrock.signing import BEDROCK_API_KEY, CREDENTIAL_NAMES, AwsSigner, bedrock_signer
from gateway.errors import ConfigurationError, ModelError, ModelErrorKind
from gateway.events import Events, StopReason, Usage
from gateway.http_client.clients import HttpCall, HttpStream, StreamTimeouts
from gateway.messages import (
    JsonValue,
)
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest
from gateway.providers.access import checked_address
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import AnswerReader, AnswerStream
from gateway.providers.endpoints import address_below
from gateway.providers.error_bodies import retry_after_seconds
from gateway.providers.failures import with_address
from gateway.providers.media import MEDIA_KINDS
from gateway.providers.media_fetch import MediaFetcher
from gateway.providers.tagged_reasoning import TaggedReasoning
from gateway.providers.token_counts import token_count
from gateway.wire import strict_json

logger = logging.getLogger(__name__)

EVENT_STREAM = "application/vnd.amazon.eventstream"


# --- the response ------------------------------------------------------------------------------------------------

_STOP_REASONS: Mapping[str, StopReason] = MappingProxyType(
    {
        "end_turn": StopReason.END_TURN,
        "tool_use": StopReason.TOOL_CALLS,
        "max_tokens": StopReason.MAX_TOKENS,
        "stop_sequence": StopReason.STOP_SEQUENCE,
        "guardrail_intervened": StopReason.CONTENT_FILTER,
        "content_filtered": StopReason.CONTENT_FILTER,
        "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
        # Anthropic's own words, should they pass through
        "refusal": StopReason.REFUSAL,
        "pause_turn": StopReason.PAUSE,
    }
)
_MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})


class ConverseReader(AnswerReader):
    """One per response. Pure. It is done once the model has said so, and what it cost.

    `guardrail` is how one watches over the answer: `async` lets words out before it has looked at them.
    """

    def __init__(
        self,
        builder: AnswerBuilder,
        model_id: str,
        family: Family,
        names: Mapping[str, str],
        guardrail: GuardrailMode = "none",
    ) -> None:
        super().__init__(builder)
        self._model_id = model_id
        self._tags = family.thinking_tags
        self._names = names
        self._decoder = EventStreamDecoder()
        self._tagged: dict[int, TaggedReasoning] = {}
        self._sealed: dict[int, bytearray] = {}
        self._foreign: set[int] = set()  # blocks of the provider's own tools, and pictures: shown, never acted upon
        self._usage: Usage | None = None
        self._stop_reason: str | None = None
        self._guardrail = guardrail
        self._shown: list[str] = []  # its texts, where they may have to be taken back
        self._over: list[tuple[str, int]] = []  # texts that are over, where what they are is told at the end
        self._finding = Finding()
        self._text_index: int | None = None  # the block that text came for last, and the headers that came with it
        self._text_headers: Mapping[str, HeaderValue] | None = None

    @property
    def has_finish_reason(self) -> bool:
        """As AnswerReader says: then only what the answer cost is missing."""
        return self._stop_reason is not None

    def feed(self, data: bytes) -> Events:
        """As AnswerReader says."""
        try:
            if not self._is_over():
                self._read(data)
        except ModelError as error:
            self.failure = error
        return self._builder.take()

    def eof(self) -> Events:
        """As AnswerReader says."""
        try:
            if not self._is_over():
                self._end()
        except ModelError as error:
            self.failure = error
        return self._builder.take()

    def _read(self, data: bytes) -> None:
        texts: list[str] = []  # more of the block that text came for last: nearly every event is that
        try:
            for frame in self._decoder.feed(data):
                if frame.headers is self._text_headers and (text := self._more_text(frame.payload)) is not None:
                    texts.append(text)
                    continue
                if texts:
                    self._more_texts(texts)
                    texts = []
                if self.done:
                    return
                self._on_frame(frame)
        except EventStreamError as error:
            raise _protocol_error(str(error)) from error
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            # Frames are trusted to have their documented shape: checking each field would cost every delta.
            raise _protocol_error(f"an event of an unexpected shape: {error!r}") from error
        finally:
            if texts:
                self._more_texts(texts)

    def _more_texts(self, texts: list[str]) -> None:
        self._builder.texts(("text", self._text_index), texts)
        if self._guardrail == "async":
            self._shown += texts

    def _more_text(self, payload: bytes) -> str | None:
        """The text of a delta, if it is for the block that the last one was for."""
        try:
            event = orjson.loads(payload)
            text = event["delta"]["text"]
            return text if type(text) is str and event["contentBlockIndex"] == self._text_index else None
        except (ValueError, KeyError, TypeError):
            return None

    def _end(self) -> None:
        if self._stop_reason is None or self._decoder.inside_frame:
            raise ModelError(ModelErrorKind.TRUNCATED, "the model provider's answer broke off before its end")
        self._finish(self._stop_reason)

    def _on_frame(self, frame: Frame) -> None:
        headers = frame.headers
        if headers.get(":message-type") != "event":
            raise _frame_error(frame, self._model_id)
        kind = headers.get(":event-type")
        event = _loaded(frame.payload)
        if kind == "contentBlockDelta":
            self._delta(event["contentBlockIndex"], event["delta"])
            if self._text_index is not None and self._text_headers is None:
                self._text_headers = headers
        elif kind == "contentBlockStart":
            self._start(event["contentBlockIndex"], event.get("start") or {})
        elif kind == "contentBlockStop":
            self._stop(event["contentBlockIndex"])
        elif kind == "messageStop":
            self._stop_reason = str(event["stopReason"])
            if fields := event.get("additionalModelResponseFields"):
                self._builder.raw({"additionalModelResponseFields": fields})
        elif kind == "metadata":
            self._metadata(event)
        if self._usage is not None and self._stop_reason is not None and not self.done:
            self._finish(self._stop_reason)

    def _start(self, index: int, start: Mapping[str, JsonValue]) -> None:
        self._text_index = self._text_headers = None
        self._close_over()
        call = start.get("toolUse")
        if isinstance(call, dict) and call.get("type") != "server_tool_use" and call["name"] != NO_TOOL:
            name, call_id = str(call["name"]), call.get("toolUseId")
            self._builder.tool_started(("call", index), str(call_id or "") or None, self._names.get(name, name))
        elif start:
            self._foreign.add(index)
            self._builder.raw({"contentBlockStart": {"contentBlockIndex": index, "start": dict(start)}})

    def _delta(self, index: int, delta: Mapping[str, JsonValue]) -> None:
        if self._over:
            self._close_over()
        text = delta.get("text")
        if text is not None and index not in self._foreign:
            if self._tags is None:
                self._builder.text(("text", index), text)  # type: ignore[arg-type]  # see _read
                self._text_index = index
                if self._guardrail == "async":
                    self._shown.append(str(text))
            else:
                self._tagged_text(index, str(text))
        elif index in self._foreign:
            self._builder.raw({"contentBlockDelta": {"contentBlockIndex": index, "delta": dict(delta)}})
        elif isinstance(call := delta.get("toolUse"), dict):
            fragment = call.get("input", "")
            text = fragment if isinstance(fragment, str) else strict_json.dump(fragment).decode()
            self._builder.tool_arguments(("call", index), text)
        elif isinstance(reasoning := delta.get("reasoningContent"), dict):
            self._reasoning(index, reasoning)
        elif delta:
            self._builder.raw({"contentBlockDelta": {"contentBlockIndex": index, "delta": dict(delta)}})

    def _reasoning(self, index: int, reasoning: Mapping[str, JsonValue]) -> None:
        if text := reasoning.get("text"):
            self._builder.reasoning(("reasoning", index), str(text))
        if signature := reasoning.get("signature"):
            self._builder.opaque(("reasoning", index), "signature", str(signature))
        if sealed := reasoning.get("redactedContent"):
            # Each piece is base64 of its own: only the bytes can be joined.
            self._sealed.setdefault(index, bytearray()).extend(base64.b64decode(str(sealed), validate=True))

    def _tagged_text(self, index: int, text: str) -> None:
        if (tagged := self._tagged.get(index)) is None:
            assert self._tags is not None
            tagged = self._tagged[index] = TaggedReasoning(*self._tags)
        self._emit_tagged(index, tagged.feed(text))

    def _emit_tagged(self, index: int, pieces: Sequence[tuple[bool, str]]) -> None:
        for is_reasoning, words in pieces:
            if is_reasoning:
                self._builder.close(("text", index))
                self._builder.reasoning(("reasoning", index), words)
            else:
                self._builder.close(("reasoning", index))
                self._builder.text(("text", index), words)
                if self._guardrail == "async":
                    self._shown.append(words)

    def _stop(self, index: int) -> None:
        if index == self._text_index:
            self._text_index = self._text_headers = None
        if index in self._foreign:
            self._foreign.discard(index)
            self._builder.raw({"contentBlockStop": {"contentBlockIndex": index}})
        if (tagged := self._tagged.pop(index, None)) is not None:
            self._emit_tagged(index, tagged.flush())
        if (sealed := self._sealed.pop(index, None)) is not None:
            self._builder.opaque(("sealed", index), "redacted", base64.b64encode(sealed).decode("ascii"))
            self._builder.close(("sealed", index))
        for kind in ("reasoning", "text", "call"):
            if kind == "text" and self._guardrail != "none":
                self._over.append((kind, index))
            else:
                self._builder.close((kind, index))

    def _close_over(self) -> None:
        for key in self._over:
            self._builder.close(key)
        self._over = []

    def _metadata(self, event: Mapping[str, JsonValue]) -> None:
        usage = event.get("usage")
        self._usage = _usage(usage if isinstance(usage, dict) else {}, self._model_id)
        self._finding = read_trace(event.get("trace"))

    def _finish(self, stop_reason: str) -> None:
        for index in [*self._tagged, *self._sealed]:
            self._stop(index)
        if self._usage is not None:
            self._builder.usage(self._usage)
        if stop_reason in _MALFORMED:
            raise ModelError(
                ModelErrorKind.PROTOCOL, "the model wrote an answer that cannot be read", provider_message=stop_reason
            )
        reason = _STOP_REASONS.get(stop_reason)
        if reason is None:
            logger.warning("a stop reason that is not known", extra={"stop_reason": stop_reason[:64]})
        elif stop_reason == "guardrail_intervened":
            reason = self._intervened()
        self._builder.finish(reason or StopReason.END_TURN, stop_reason)
        self._text_headers = None
        self.done = True

    def _intervened(self) -> StopReason:
        finding = self._finding
        if finding.only_masked:
            return StopReason.END_TURN  # words were replaced, the answer is whole
        if self._shown and (instead := in_its_place(self._shown, finding)) is not None:
            self._builder.retract(instead)
        elif finding.blocked_input:
            for key in self._over:
                if self._builder.is_open(key):
                    self._builder.opaque(key, BLOCKED_INPUT, "blocked")
        return StopReason.CONTENT_FILTER


def _loaded(payload: bytes) -> dict[str, Any]:
    if not payload:
        return {}
    try:
        event = orjson.loads(payload)
    except orjson.JSONDecodeError:  # half a surrogate pair, which the builder can join with its other half
        event = json.loads(payload)
    if not isinstance(event, dict):
        raise TypeError("not an object")
    return event


def _usage(usage: Mapping[str, JsonValue], model_id: str) -> Usage:
    """Bedrock counts the cached input apart; here the input's total holds it."""
    fresh, output = token_count(usage, "inputTokens"), token_count(usage, "outputTokens")
    read, written = token_count(usage, "cacheReadInputTokens"), token_count(usage, "cacheWriteInputTokens")
    total = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(NAME, model_id, total, output, cached_input_tokens=read, cache_write_input_tokens=written)


# --- errors ------------------------------------------------------------------------------------------------------

_WORDS: Mapping[ModelErrorKind, str] = MappingProxyType(
    {
        ModelErrorKind.AUTHENTICATION: "Bedrock refuses the credentials, or they may not use the model {model!r}",
        ModelErrorKind.NOT_FOUND: "Bedrock has no model {model!r} here",
        ModelErrorKind.QUOTA: "the AWS account's quota for Bedrock is used up",
        ModelErrorKind.THROTTLED: "Bedrock limits the requests at the moment",
        ModelErrorKind.OVERLOADED: "Bedrock is not ready to serve the model {model!r} at the moment",
        ModelErrorKind.TIMEOUT: "the model {model!r} took too long",
        ModelErrorKind.SERVER: "Bedrock failed while it ran the model {model!r}",
        ModelErrorKind.INVALID: "Bedrock does not accept the request for the model {model!r}",
        ModelErrorKind.CONTEXT_OVERFLOW: "the conversation is too long for the model {model!r}",
        ModelErrorKind.PROTOCOL: "Bedrock's endpoint gave an answer that cannot be read",
    }
)


def provider_error(
    name: str,
    text: str,
    model_id: str,
    *,
    status: int = 500,
    retry_after_seconds: float | None = None,
    address: str = "",
) -> ModelError:
    """The error of an exception's name, else of a status. `text` is the provider's own and never leaves the log."""
    kind = ModelErrorKind(error_kind(name, status, text))
    words = _WORDS[kind].format(model=model_id)
    said = ": ".join(filter(None, (name, text)))[:1000]
    said = with_address(kind, said, address)
    return ModelError(kind, words, retry_after_seconds=retry_after_seconds, provider_message=said)


def _frame_error(frame: Frame, model_id: str) -> ModelError:
    """Of an `exception` frame (its type in a header, its message in the payload) or `error` frame (both in headers)."""
    headers = frame.headers
    name = headers.get(":exception-type") or headers.get(":error-code") or ""
    try:
        said = _loaded(frame.payload).get("message", "")
    except (TypeError, ValueError):
        said = ""
    return provider_error(str(name), str(said or headers.get(":error-message", "")), model_id)


def _protocol_error(said: str) -> ModelError:
    return ModelError(ModelErrorKind.PROTOCOL, _WORDS[ModelErrorKind.PROTOCOL], provider_message=said[:1000])


# --- the model ---------------------------------------------------------------------------------------------------


class BedrockConverseModel:
    """One Bedrock model in one region, or behind one private endpoint."""

    provider = NAME

    def __init__(self, settings: ModelSettings, environment: ModelEnvironment) -> None:
        self.model_id = settings.model_id
        family = settings.model_parameters.get(MODEL_FAMILY)
        self._family = family_of(family if isinstance(family, str) else settings.model_id)
        self._path = path = f"/model/{quote(settings.model_id, safe='')}/converse-stream"
        endpoint = settings.endpoint
        self._url = checked_address(endpoint, lambda base: address_below(base, path)) if endpoint else None
        self._signer = _open_signer(settings)
        self._environment = environment
        self._timeouts = StreamTimeouts.of_model(settings.timeouts)
        most = {block: MAX_BYTES[kind] for block, kind in MEDIA_KINDS.items()}
        self._media = MediaFetcher(environment.http, environment.clock, most)

    @property
    def capabilities(self) -> ModelCapabilities:
        media = self._family.input_media
        return ModelCapabilities(
            reasoning=self._family.reasons,
            image_input="image" in media,
            audio_input="audio" in media,
            video_input="video" in media,
            document_input="document" in media,
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As the contract says. One HTTP request; retrying is the loop's business."""
        inline = replace(request, messages=await self._media.inline(request.messages))
        try:
            asked = converse_request(inline, self.model_id, self._family)
        except ValueError as error:
            raise ModelError(ModelErrorKind.INVALID, str(error)) from None
        call = await self._signer.sign(await self._call(encoded(asked.body)))
        builder = AnswerBuilder(request, NAME, self.model_id)
        reader = ConverseReader(builder, self.model_id, self._family, asked.names, asked.guardrail)
        async with self._environment.http.stream(call, self._timeouts) as response:
            await self._expect_stream(response)
            answer = AnswerStream(response, reader, self._environment.window)
            while not reader.done:
                if events := await answer.next():
                    yield events
            await response.settle()

    async def close(self) -> None:
        """Nothing is held."""

    async def _call(self, content: bytes) -> HttpCall:
        url = self._url or _public_endpoint(await self._signer.region()) + self._path
        headers = {"content-type": "application/json", "accept": EVENT_STREAM}
        return HttpCall("POST", url, headers, content)

    async def _expect_stream(self, response: HttpStream) -> None:
        content_type = response.headers.get("content-type", EVENT_STREAM)
        if response.status == 200 and content_type.startswith(EVENT_STREAM):
            return
        body = await response.read(20_000)
        if response.status < 400:  # a redirect, or a page where the stream should be
            raise _protocol_error(f"status {response.status}, {content_type}: {body[:200]!r}")
        name, text = _refusal(response.headers, body)
        wait = retry_after_seconds(response.headers, self._environment.clock.now())
        raise provider_error(
            name,
            text,
            self.model_id,
            status=response.status,
            retry_after_seconds=wait,
            address=response.address,
        )


def _refusal(headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """The exception's name and message. The name may come with a namespace before `#` and an address after `:`."""
    try:
        fields = _loaded(body)
    except (TypeError, ValueError):
        fields = {}
    name = headers.get("x-amzn-errortype") or str(fields.get("__type") or fields.get("code") or "")
    said = fields.get("message") or fields.get("Message") or body[:500].decode("utf-8", "replace")
    return name.partition(":")[0].rpartition("#")[2].strip(), str(said)


def _open_signer(settings: ModelSettings) -> AwsSigner:
    region = settings.region or _region_of(settings.model_id, r"^arn:[^:]+:[a-z]+:([a-z0-9-]+):")
    if settings.endpoint:
        region = region or _region_of(settings.endpoint, r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
    return bedrock_signer("bedrock", settings.credential, region)


def _region_of(text: str, pattern: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None


def _public_endpoint(region: str) -> str:
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://bedrock-runtime.{region}.{domain}"


def open_bedrock_converse(settings: ModelSettings, environment: ModelEnvironment) -> BedrockConverseModel:
    """A model. Region and credentials that are not in the settings are looked for at the first call.

    Raises:
        ConfigurationError: an unknown name among the credentials, half a pair of keys, an endpoint that is no URL, a
            parameter that Bedrock can never accept.
    """
    if not settings.model_id:
        raise ConfigurationError(f"{NAME} needs a model_id, such as 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'")
    if unknown := sorted(set(settings.credential) - PROVIDER.credentials):
        known = ", ".join(sorted(PROVIDER.credentials))
        raise ConfigurationError(f"{NAME} knows no credential {unknown[0]!r}; there are: {known}")
    try:
        request_fields(settings.model_parameters)
    except ValueError as error:
        raise ConfigurationError(f"model_parameters: {error}") from None
    return BedrockConverseModel(settings, environment)


PROVIDER = ModelProvider(NAME, open_bedrock_converse, credentials=CREDENTIAL_NAMES | {BEDROCK_API_KEY})
