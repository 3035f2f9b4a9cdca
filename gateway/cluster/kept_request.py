"""A request that can be done again from its begin, until its answer begins.

Above: hops. Nothing below.
"""

from __future__ import annotations

from collections.abc import Awaitable

from starlette.types import Message, Receive, Scope, Send


class KeptRequest:
    """What the server gives for a request. What is read of its body is kept until `has_answer`; so is `body`, which is
    set once all of it was read to be sent on.
    """

    __slots__ = ("_before", "_kept", "_next", "_receive", "_send", "body", "has_answer", "scope")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope  # the first try has the very scope: the layers around read what the routes leave in it
        self.has_answer = False
        self.body = b""
        self._before = {**scope, "state": {**scope["state"]}}
        self._receive = receive
        self._send = send
        self._kept: list[Message] = []
        self._next = 0

    def begin_again(self) -> None:
        """The next try finds the scope without what the last one left there, and reads the body from its begin."""
        self.scope = {**self._before, "state": {**self._before["state"]}}
        self._next = 0

    async def receive(self) -> Message:
        if self._next < len(self._kept):
            message = self._kept[self._next]
        else:
            message = await self._receive()
            if not self.has_answer:
                self._kept.append(message)
        self._next += 1
        return message

    def send(self, message: Message) -> Awaitable[None]:
        # Not a coroutine: a stream's chunk costs this one comparison.
        if not self.has_answer and message["type"] == "http.response.start":
            self.has_answer = True
            self._kept, self._next, self.body = self._kept[self._next :], 0, b""
        return self._send(message)
