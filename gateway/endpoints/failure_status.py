"""The HTTP status of a run that failed, where a protocol answers with one body and has to give it a status.

Below: errors. Above: the protocols' renderers.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.errors import LIMIT_CODE, ModelErrorKind

_STATUS_OF_CODE: Mapping[str, int] = MappingProxyType(
    {
        f"model_{ModelErrorKind.THROTTLED}": 429,
        f"model_{ModelErrorKind.QUOTA}": 429,
        f"model_{ModelErrorKind.OVERLOADED}": 503,
        f"model_{ModelErrorKind.TIMEOUT}": 504,
        f"model_{ModelErrorKind.CONTEXT_OVERFLOW}": 400,
        f"model_{ModelErrorKind.CONTENT_FILTER}": 400,
        "server_shutdown": 503,
        "store_unavailable": 503,
        "store_full": 503,
        "unavailable": 503,
    }
)
_SERVER_ERROR: Final = 500
_BAD_GATEWAY: Final = 502
_CONFLICT: Final = 409


def failure_status(code: str) -> int:
    """The status for the code of a RunFailed."""
    if (status := _STATUS_OF_CODE.get(code)) is not None:
        return status
    if code.startswith("model_"):
        return _BAD_GATEWAY
    return _CONFLICT if code.startswith(LIMIT_CODE) else _SERVER_ERROR
