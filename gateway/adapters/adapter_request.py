"""A request as an adapter's handlers get it.

Below: the web framework. Above: agent_function, adapter_app.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request


class AdapterRequest(Request):
    """A request as handlers get it. `data` is the JSON of its body, None if there is no body; `read` is the body."""

    data: Any = None
    read: bytes = b""

    async def json(self) -> Any:
        return self.data

    async def body(self) -> bytes:
        return self.read

    async def stream(self) -> AsyncGenerator[bytes]:
        yield self.read
