"""The meaning of Bedrock's errors in frames and responses: exceptions, statuses, phrases. Pure.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html#API_runtime_ConverseStream_Errors
and https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html; the phrases are the service's and the
models' own, which are not documented.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from gateway.bedrock.event_stream import Frame, load_object
from gateway.errors import ModelError, ModelErrorKind
from gateway.providers.aws_exceptions import EXCEPTION_KINDS, ErrorKind
from gateway.providers.failures import with_address

_STATUS_KINDS: Mapping[int, ErrorKind] = MappingProxyType(
    {
        401: "authentication",
        403: "authentication",
        404: "not_found",
        408: "timeout",
        424: "server",
        429: "throttled",
        503: "overloaded",
        504: "timeout",
        529: "overloaded",
    }
)
_OVERFLOW = re.compile(
    r"input is too long|prompt is too long|exceed context limit|too many total text bytes|maximum context length"
    r"|context (window|length).*exceed|exceed.*context (window|length)|input tokens exceeded|too many input tokens"
    r"|number of input tokens exceeds|input length.*exceed",
    re.IGNORECASE | re.DOTALL,
)
_UNKNOWN_MODEL = re.compile(r"model identifier is invalid|not a valid model|model .*not found", re.IGNORECASE)


def error_kind(name: str, status: int, text: str) -> ErrorKind:
    """The kind of an exception's name in any case of letters. If the name is unknown, the status decides."""
    kind = EXCEPTION_KINDS.get(name.lower()) or _STATUS_KINDS.get(status)
    if kind is None:
        kind = "server" if status >= 500 else "invalid"
    if kind in ("invalid", "server") and _OVERFLOW.search(text):
        return "context_overflow"
    if kind == "invalid" and _UNKNOWN_MODEL.search(text):
        return "not_found"
    return kind


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
    """The error for an exception's name, else for a status. `text` is the provider's own message, for the log only."""
    kind = ModelErrorKind(error_kind(name, status, text))
    words = _WORDS[kind].format(model=model_id)
    said = ": ".join(filter(None, (name, text)))[:1000]
    said = with_address(kind, said, address)
    return ModelError(kind, words, retry_after_seconds=retry_after_seconds, provider_message=said)


def frame_error(frame: Frame, model_id: str) -> ModelError:
    """The error in an `exception` frame (its message is in the payload) or an `error` frame (all is in headers)."""
    headers = frame.headers
    name = headers.get(":exception-type") or headers.get(":error-code") or ""
    try:
        said = load_object(frame.payload).get("message", "")
    except (TypeError, ValueError):
        said = ""
    return provider_error(str(name), str(said or headers.get(":error-message", "")), model_id)


def protocol_error(said: str) -> ModelError:
    return ModelError(ModelErrorKind.PROTOCOL, _WORDS[ModelErrorKind.PROTOCOL], provider_message=said[:1000])


def refusal(headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """The exception's name and message. The name may come with a namespace before `#` and an address after `:`."""
    try:
        fields = load_object(body)
    except (TypeError, ValueError):
        fields = {}
    name = headers.get("x-amzn-errortype") or str(fields.get("__type") or fields.get("code") or "")
    said = fields.get("message") or fields.get("Message") or body[:500].decode("utf-8", "replace")
    return name.partition(":")[0].rpartition("#")[2].strip(), str(said)
