"""Requests to the cluster, by opensearch-py's transport: each with a deadline, tried again while that may help.

Below: address. Above: everything else in this room. A cluster that is busy (429), restarting (503) or cannot be reached
is asked again, after a random wait that grows, until the deadline. A lost answer looks like a lost request: callers
write so that a request may be done twice.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import re
import ssl
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import aiohttp
import orjson
from opensearchpy import AsyncHttpConnection, AsyncTransport, JSONSerializer
from opensearchpy.exceptions import ConnectionError as NoConnectionError
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException, TransportError

from gateway.errors import ConfigurationError, StoreError, StoreFullError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.address import Address

logger = logging.getLogger(__name__)

USUAL_SECONDS: Final = 5.0
"""How long a request may take with all its tries; new runs wait no longer."""

_FIRST_WAIT_SECONDS = 0.05
_LONGEST_WAIT_SECONDS = 1.0
_LEAST_TRY_SECONDS = 0.05
# A connection whose other end is gone without a word must not take the time of all tries.
_LONGEST_TRY_SECONDS = 10.0
_CONNECTIONS = 32
_CLOSED = 499
_BUSY = frozenset([429, 502, 503, 504])
# Blocks of an index that has no room, or that its operator has closed to writes: waiting for seconds does not help.
_BLOCKED = re.compile(r"/(5|7|8|12)/")
_BLOCK = "cluster_block_exception"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
# The client logs the bodies of requests, which have users' words.
_CLIENT_LOGS = ("opensearch", "opensearchpy.trace")


class UnknownError(StoreError):
    """Nobody knows whether a request was done, or still will be: an answer was lost, or the cluster failed over it."""


class AnswerTooLargeError(StoreError):
    """An answer has more bytes than it may have."""


class Answer(NamedTuple):
    """`body` is {} if the answer has no JSON object, `items` is empty if it is no list."""

    status: int
    body: JsonObject
    items: Sequence[JsonValue] = ()


class _Json(JSONSerializer):
    """orjson in place of json, which takes five times as long."""

    def loads(self, s: str) -> Any:
        try:
            return orjson.loads(s)
        except ValueError:
            return {}


class _Connection(AsyncHttpConnection):
    """opensearch-py's connection, with a bound on what is read of an answer."""

    def __init__(
        self, *, largest_answer: int | None, ssl_context: ssl.SSLContext | None = None, **options: Any
    ) -> None:
        super().__init__(ssl_context=ssl_context, **options)
        self._largest_answer = largest_answer
        self._tls = ssl_context

    async def perform_request(self, *arguments: Any, **options: Any) -> Any:
        if self._largest_answer is not None and self.session is None:
            self.session = self._bounded_session(self._largest_answer)
        return await super().perform_request(*arguments, **options)

    def _bounded_session(self, largest: int) -> aiohttp.ClientSession:
        class BoundedAnswer(aiohttp.ClientResponse):
            async def text(self, encoding: str | None = None, errors: str = "strict") -> str:
                content = bytearray()
                async for piece in self.content.iter_any():
                    content += piece
                    if len(content) > largest:
                        self.close()
                        raise AnswerTooLargeError(f"the answer has more than {largest} bytes")
                return content.decode("utf-8", "surrogatepass")

        return aiohttp.ClientSession(
            skip_auto_headers=("accept", "accept-encoding"),
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=BoundedAnswer,
            connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._tls or True),
        )


class Cluster:
    """A connection to the cluster. It belongs to the event loop that uses it first. Deadlines are `patience` times as
    long as usual.
    """

    def __init__(
        self,
        address: Address,
        *,
        longest_try_seconds: float = _LONGEST_TRY_SECONDS,
        largest_answer: int | None = None,
    ) -> None:
        """`largest_answer`: how many bytes of an answer are read; None: all."""
        self.address = address
        self._longest_try_seconds = longest_try_seconds
        self._largest_answer = largest_answer
        self.patience = 1.0
        self._transport: AsyncTransport | None = None
        self._is_closed = False
        self._written: set[str] = set()
        self._refreshing: dict[str, asyncio.Task[None]] = {}

    def index(self, name: str) -> str:
        """The whole name of an index."""
        return f"{self.address.prefix}-{name}"

    def open(self) -> None:
        self._is_closed = False

    def check(self) -> None:
        """Raises StoreError if it is closed."""
        if self._is_closed:
            raise StoreError("the store is closed")

    async def close(self) -> None:
        self._is_closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    def deadline(self, seconds: float) -> float:
        """The time of the event loop in so many seconds, for work that should take no longer."""
        return asyncio.get_running_loop().time() + self.patience * seconds

    async def request(
        self,
        method: str,
        path: str,
        body: JsonValue | bytes = None,
        *,
        seconds: float = USUAL_SECONDS,
        allowed: Collection[int] = (),
    ) -> Answer:
        """Send a request, again after 429, 502 to 504 and broken connections until `seconds` have passed. `path` may
        have a query; a `body` of bytes is sent as it is.

        Raises:
            StoreError: the cluster could not be reached, or answered with a status of 400 or more that is not
                `allowed`; UnknownError if the request may have been done nevertheless.
            StoreFullError: its disk is full, or it is closed to writes.
        """
        return await self.request_until(self.deadline(seconds), method, path, body, allowed)

    async def request_until(
        self,
        until: float,
        method: str,
        path: str,
        body: JsonValue | bytes = None,
        allowed: Collection[int] = (),
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Answer:
        """As `request`, until a time of the event loop. `headers` are added to the usual ones.

        Raises:
            AnswerTooLargeError: the answer has more than `largest_answer` bytes.
        """
        loop = asyncio.get_running_loop()
        wait = _FIRST_WAIT_SECONDS
        is_unknown = False
        while True:
            seconds = min(max(until - loop.time(), _LEAST_TRY_SECONDS), self._longest_try_seconds)
            answer, error = await self._try(method, path, body, seconds, headers)
            if error is None and answer is not None and (answer.status < 400 or answer.status in allowed):
                return answer
            is_unknown = is_unknown or answer is None or answer.status >= 500
            error = error or error_of(answer)
            is_final = isinstance(error, StoreFullError) or not (answer is None or answer.status in _BUSY)
            if is_unknown:
                error = UnknownError(error.message, code=error.code)
            if is_final:
                raise error
            pause = random.uniform(wait / 2, wait)
            if loop.time() + pause >= until:
                raise error
            await asyncio.sleep(pause)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    async def _try(
        self, method: str, path: str, body: JsonValue | bytes, seconds: float, added: Mapping[str, str]
    ) -> tuple[Answer | None, StoreError | None]:
        if self._is_closed:
            return Answer(_CLOSED, {}), StoreError("the store is closed")
        transport, shown = self._transport or self._connect(), self.address.shown
        headers = {"content-type": "application/x-ndjson" if isinstance(body, bytes) else "application/json", **added}
        try:
            data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
            found = await transport.perform_request(method, path, body=data, timeout=seconds, headers=headers)
        except ConnectionTimeout:
            return None, StoreError(f"the OpenSearch cluster at {shown} did not answer in time")
        except NoConnectionError as error:
            if isinstance(error.info, AnswerTooLargeError):
                raise error.info from error
            if isinstance(error.info, ssl.SSLCertVerificationError):
                doubt = f"the certificate of the OpenSearch cluster at {shown} is not trusted"
                return None, StoreError(f"{doubt}; see 'agui-gateway doctor'")
            return None, StoreError(f"the OpenSearch cluster at {shown} cannot be reached")
        except TransportError as error:
            # the connection gives an error's body as text
            body = _Json().loads(str(error.error))
            return Answer(int(error.status_code), body if isinstance(body, dict) else {}), None
        except OpenSearchException:
            logger.exception("the OpenSearch client failed")
            return None, StoreError("the OpenSearch client failed")
        return Answer(200, found if isinstance(found, dict) else {}, found if isinstance(found, list) else ()), None

    def _connect(self) -> AsyncTransport:
        address = self.address
        for name in _CLIENT_LOGS:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        options: dict[str, Any] = {}
        if address.tls:
            options["ssl_context"] = trusted(address)
        if address.aws_region is not None:
            options["http_auth"] = _signer(address.aws_region)
        elif address.user:
            # as a header: the client's own way is deprecated below it, and refuses what is not Latin-1
            password = "" if address.password is None else address.password.reveal()
            options["headers"] = {"authorization": _basic(address.user, password)}
        transport = AsyncTransport(
            [{"host": address.host, "port": address.port, "use_ssl": address.tls}],
            connection_class=_Connection,
            largest_answer=self._largest_answer,
            max_retries=0,
            retry_on_status=(),
            serializer=_Json(),
            maxsize=_CONNECTIONS,
            **options,
        )
        self._transport = transport
        return transport

    # --- refreshes

    def wrote(self, name: str) -> None:
        """To be called when this process has written documents of that index."""
        self._written.add(name)

    async def refreshed(self, *names: str, seconds: float = USUAL_SECONDS) -> None:
        """Make what this process has written to these indices searchable. Whoever waits at the same time shares a
        refresh.
        """
        for name in names:
            while name in self._written or name in self._refreshing:
                under_way = self._refreshing.get(name)
                if under_way is None:
                    under_way = self._refreshing[name] = asyncio.ensure_future(self._refresh(name, seconds))
                    await asyncio.shield(under_way)
                    break
                # it may have begun before the last write
                await asyncio.wait([under_way])

    async def _refresh(self, name: str, seconds: float) -> None:
        self._written.discard(name)
        try:
            await self.request("POST", f"/{self.index(name)}/_refresh", seconds=seconds)
        except BaseException:
            self._written.add(name)
            raise
        finally:
            del self._refreshing[name]


def trusted(address: Address) -> ssl.SSLContext:
    """The authorities that a cluster's certificate may be from: those in the file of `ca`, else the system's.

    Raises:
        ConfigurationError: the file has none.
    """
    try:
        return ssl.create_default_context(cafile=address.ca)
    except OSError as error:
        text = f"the file {str(address.ca)!r} of 'ca' has no certificates ({reason_of(error)})"
        raise ConfigurationError(f"{text}; name a PEM file") from error


def reason_of(error: OSError) -> str:
    """Why a connection failed, or a file, in the system's words."""
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return (reason or "the connection broke").replace("_", " ").lower()


def error_of(answer: Answer | None) -> StoreError:
    """The error of an answer that is none of the expected ones."""
    if answer is None:
        return StoreError("the OpenSearch cluster does not answer")
    return failure(answer.status, answer.body.get("error"))


def failure(status: int, error: JsonValue) -> StoreError:
    """The error of a request, or of an item of a `_bulk` request."""
    kind, reason = ("", "")
    if isinstance(error, dict):
        kind, reason = str(error.get("type") or ""), str(error.get("reason") or "")
    if kind == _BLOCK and _BLOCKED.search(reason):
        return StoreFullError("the OpenSearch cluster takes no writes: its disk is full, or an index is read-only")
    if status in (401, 403):
        return StoreError("the OpenSearch cluster refuses the gateway's user; see 'agui-gateway doctor'")
    logger.debug("the cluster refused a request", extra={"status": status, "error": kind})
    return StoreError(f"the OpenSearch cluster failed ({status}{f', {kind}' if kind else ''})")


def is_busy(status: int, error: JsonValue) -> bool:
    """Whether the same request may succeed in a moment."""
    return status in _BUSY and not isinstance(failure(status, error), StoreFullError)


def _basic(user: str, password: str) -> str:
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _signer(region: str) -> Any:
    import boto3
    from opensearchpy import AWSV4SignerAsyncAuth

    return AWSV4SignerAsyncAuth(boto3.Session().get_credentials(), region, "es")
