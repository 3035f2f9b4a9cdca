"""A gateway whose callers make agents by ml-commons' REST API, and opensearch-py as their client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
from opensearchpy import AsyncOpenSearch

from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

CONFIGURED: Final = agent("configured", scripted([{"text": "from the file"}]))
LOOPBACK: Final[Mapping[str, Any]] = {"endpoints": [r"^http://127\.0\.0\.1:\d+/.*$"], "private_addresses": True}
P: Final = "/_plugins/_ml"


@dataclass(frozen=True, slots=True)
class MlGateway:
    """`http` has the gateway's address, and answers of any status; `opensearch` is the official client."""

    gateway: LocalGateway
    opensearch: AsyncOpenSearch

    @property
    def http(self) -> httpx.AsyncClient:
        return self.gateway.client.http

    async def call(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        """The status and the JSON of the answer; `path` is below `/_plugins/_ml`."""
        more = {**more} if body is None else {"json": body, **more}
        answer = await self.http.request(method, P + path, **more)
        return answer.status_code, answer.json()

    async def register(self, body: Mapping[str, Any], **more: Any) -> str:
        """The id of an agent that was registered with this body."""
        status, answer = await self.call("POST", "/agents/_register", body, **more)
        assert status == 200, answer
        agent_id: str = answer["agent_id"]
        return agent_id


@contextlib.asynccontextmanager
async def ml_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]] = (CONFIGURED,), **more: Any
) -> AsyncGenerator[MlGateway]:
    """A gateway in this process, whose callers may use servers on this machine. `more` as for `local_gateway`."""
    async with local_gateway(directory, agents, **{"callers": LOOPBACK, **more}) as gateway:
        client = AsyncOpenSearch(hosts=[str(gateway.client.http.base_url)], max_retries=0)
        try:
            yield MlGateway(gateway, client)
        finally:
            await client.close()
