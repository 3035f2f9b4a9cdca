"""Applications for tests of connections, and what their answers are taken apart with."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

HEAD = {"type": "http.response.start", "status": 200, "headers": []}
CHUNKED_HEAD = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


class Stream:
    """An application: all that is asked for at `/stream` begins, and comes to its end when it may `go_on`; the rest is
    answered at once, with its path.
    """

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/stream":
            body = scope["path"].encode()
            await send({**HEAD, "headers": [(b"content-length", b"%d" % len(body))]})
            await send({"type": "http.response.body", "body": body, "more_body": False})
            return
        await send(dict(HEAD))
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        watching = asyncio.create_task(self._watch(receive))
        await self.go_on.wait()
        await send({"type": "http.response.body", "body": b"last", "more_body": False})
        await watching

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left.set()
        self.go_on.set()


async def answer_nothing(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def keeping(bodies: list[bytes]) -> ASGIApp:
    """An application that answers nothing, and keeps the bodies that came whole."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                bodies.append(body)
                await answer_nothing(scope, receive, send)
                return

    return application


def parted(answer: bytes) -> tuple[list[str], bytes]:
    """The lines of an answer's head, in lower case, and its body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return head.decode().lower().split("\r\n"), body
