"""The HTTP transport to an MCP server that a caller named: every request goes through the checked HTTP client.

Above: transports. Below: http_client, whose endpoint policy decides. The `mcp` package asks for a transport of httpx2;
this one hands each request to the gateway's own client and passes the response on as it comes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx2

from gateway.errors import ModelError, ModelErrorKind
from gateway.http_client.clients import HttpCall, HttpClients, HttpStream, StreamTimeouts

# Headers that the client writes itself.
_LEFT_OUT = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Sends requests by `clients`, which have an endpoint policy."""

    def __init__(self, clients: HttpClients, timeouts: StreamTimeouts) -> None:
        self._clients = clients
        self._timeouts = timeouts

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _LEFT_OUT}
        call = HttpCall(request.method, str(request.url), headers, await request.aread())
        async with AsyncExitStack() as opened:
            try:
                response = await opened.enter_async_context(self._clients.stream(call, self._timeouts))
            except ModelError as error:
                raise _transport_error(error, request) from error
            return httpx2.Response(
                response.status,
                headers=list(response.headers.items()),
                stream=_Body(response, request, opened.pop_all()),
                request=request,
            )


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: HttpStream, request: httpx2.Request, opened: AsyncExitStack) -> None:
        self._response = response
        self._request = request
        self._opened = opened

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while data := await self._response.receive():
                yield data
        except ModelError as error:
            raise httpx2.ReadError("the connection broke", request=self._request) from error

    async def aclose(self) -> None:
        await self._opened.aclose()


def _transport_error(error: ModelError, request: httpx2.Request) -> httpx2.TransportError:
    if error.kind is ModelErrorKind.TIMEOUT:
        return httpx2.ConnectTimeout("no answer in time", request=request)
    if error.kind is ModelErrorKind.INVALID:  # the policy
        return httpx2.UnsupportedProtocol(error.message, request=request)
    return httpx2.ConnectError("no connection", request=request)
