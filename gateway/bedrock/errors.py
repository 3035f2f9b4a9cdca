"""What the refusals of Bedrock mean: its exceptions, statuses, and the phrases in their messages.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html#API_runtime_ConverseStream_Errors
and https://docs.aws.amazon.com/bedrock/latest/APIReference/CommonErrors.html; the phrases are the service's and the
models' own, which nothing documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from gateway.providers.aws_exceptions import EXCEPTION_KINDS, ErrorKind

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
    """What an exception of this name means; where the name is not known the status says it. Case does not matter."""
    kind = EXCEPTION_KINDS.get(name.lower()) or _STATUS_KINDS.get(status)
    if kind is None:
        kind = "server" if status >= 500 else "invalid"
    if kind in ("invalid", "server") and _OVERFLOW.search(text):
        return "context_overflow"
    if kind == "invalid" and _UNKNOWN_MODEL.search(text):
        return "not_found"
    return kind
