"""The transport's exceptions as the gateway's errors: one table for those of aiohttp, httpx and the system.

Above: clients, fetcher. Below: errors.
"""

from __future__ import annotations

import ssl

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError

from gateway.errors import ModelError, ModelErrorKind

TRANSPORT_ERRORS = (
    aiohttp.ClientError,
    HttpProcessingError,
    httpx.HTTPError,
    httpx.InvalidURL,
    OSError,
    TimeoutError,
    ValueError,
)

# The message of each exception, the special ones before the general.
_MEANINGS: tuple[tuple[type[Exception], ModelErrorKind, str, bool | None], ...] = (
    (aiohttp.ClientConnectorCertificateError, ModelErrorKind.NETWORK, "its certificate is not trusted", False),
    (aiohttp.ServerFingerprintMismatch, ModelErrorKind.NETWORK, "its certificate is not trusted", False),
    (aiohttp.ClientSSLError, ModelErrorKind.NETWORK, "no secure connection could be made", False),
    (ssl.SSLError, ModelErrorKind.NETWORK, "the secure connection broke", None),
    (aiohttp.InvalidURL, ModelErrorKind.INVALID, "its endpoint is not a URL", False),
    (aiohttp.NonHttpUrlClientError, ModelErrorKind.INVALID, "its endpoint is not an http URL", False),
    (httpx.InvalidURL, ModelErrorKind.INVALID, "its endpoint is not an http URL", False),
    (httpx.UnsupportedProtocol, ModelErrorKind.INVALID, "its endpoint is not an http URL", False),
    (ValueError, ModelErrorKind.INVALID, "its endpoint or a header cannot be sent", False),
    (aiohttp.ServerTimeoutError, ModelErrorKind.TIMEOUT, "it did not answer in time", None),
    (httpx.TimeoutException, ModelErrorKind.TIMEOUT, "it did not answer in time", None),
    (aiohttp.ClientProxyConnectionError, ModelErrorKind.NETWORK, "the proxy could not be reached", None),
    (aiohttp.ClientHttpProxyError, ModelErrorKind.NETWORK, "the proxy refused the connection", None),
    (aiohttp.ClientConnectorDNSError, ModelErrorKind.NETWORK, "its host name could not be resolved", None),
    (aiohttp.ClientConnectorError, ModelErrorKind.NETWORK, "it could not be reached", None),
    (aiohttp.ClientPayloadError, ModelErrorKind.NETWORK, "the connection broke in the middle of its answer", None),
    (aiohttp.ClientResponseError, ModelErrorKind.PROTOCOL, "its answer is not HTTP", None),
    (HttpProcessingError, ModelErrorKind.PROTOCOL, "its answer is not HTTP", None),
    (aiohttp.ClientError, ModelErrorKind.NETWORK, "the connection broke", None),
    (httpx.HTTPError, ModelErrorKind.NETWORK, "the connection broke", None),
    (TimeoutError, ModelErrorKind.TIMEOUT, "it did not answer in time", None),
    (Exception, ModelErrorKind.NETWORK, "the connection broke", None),
)


def model_error(error: Exception) -> ModelError:
    """The transport's failure as a ModelError. Hosts and addresses are only in `provider_message`, for the log."""
    _, kind, what, retryable = next(meaning for meaning in _MEANINGS if isinstance(error, meaning[0]))
    return ModelError(
        kind, f"the model provider failed: {what}", provider_message=str(error)[:500], retryable=retryable
    )
