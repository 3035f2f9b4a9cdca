"""A local server that gives the answers of an OpenSearch cluster about itself, as they are or with one thing changed.

    async with answering_cluster({"GET /_cluster/health/p-*": (200, {"status": "red"})}) as cluster:
        ...
        assert cluster.asked[0] == "GET /"

It stores nothing: a request that would change something is noted, and answered as a cluster answers one that fails.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.local_listener import listening, port_of

Answers = Mapping[str, tuple[int, Any]]
"""Status and JSON, by method and path without the query."""

PREFIX = "p"
FORBIDDEN = {"error": {"type": "security_exception", "reason": "no permissions for [x] and User [name=g]"}}
NOT_THERE = {"error": {"type": "index_not_found_exception", "reason": "no such index [p-doctor-none]"}}


def root(number: str = "3.6.0", distribution: str | None = "opensearch") -> dict[str, Any]:
    """The first page."""
    version = {"number": number} | ({} if distribution is None else {"distribution": distribution})
    return {"name": "node-1", "cluster_name": "c", "version": version}


def index_settings(**changed: str) -> dict[str, Any]:
    """The settings of an index as the store makes it."""
    usual = {
        "index.translog.durability": "request",
        "index.refresh_interval": "1s",
        "index.number_of_shards": "1",
        "index.number_of_replicas": "1",
    }
    return {"settings": {**usual, **{f"index.{name.replace('__', '.')}": value for name, value in changed.items()}}}


def _well() -> dict[str, tuple[int, Any]]:
    """A cluster of two nodes in which no gateway has been."""
    disk = {"total": {"total_in_bytes": 1000, "available_in_bytes": 800}}
    health = {"status": "green", "number_of_data_nodes": 2, "active_shards": 10, "unassigned_shards": 0}
    now = int(time.time() * 1000)
    return {
        "GET /": (200, root()),
        "GET /_nodes/plugins": (200, {"nodes": {"a": {"plugins": [{"name": "opensearch-security"}]}}}),
        "GET /p-*/_settings": (200, {}),
        "GET /p-*/_mapping": (200, {}),
        "GET /_index_template": (200, {"index_templates": []}),
        "GET /_template": (200, {}),
        "GET /_cluster/health": (200, health),
        "GET /_cluster/health/p-*": (200, {"status": "green"}),
        "GET /_cluster/settings": (200, {"defaults": {"cluster.max_shards_per_node": "1000"}}),
        "GET /_nodes/stats/fs": (
            200,
            {"nodes": {name: {"name": name, "timestamp": now, "fs": disk} for name in ("node-1", "node-2")}},
        ),
        "PUT /p-doctor-none": (400, {"error": {"type": "illegal_argument_exception", "reason": "must be >= 1"}}),
        "POST /_bulk": (200, {"errors": True, "items": [{"index": {"status": 404, **NOT_THERE}}]}),
    }


@dataclass
class AnsweringCluster:
    """`asked`: the requests, with their queries. `heads`: what else was said, in lower case. `bodies`: what came with
    them.
    """

    port: int
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)


@asynccontextmanager
async def answering_cluster(
    changed: Answers | None = None, tls: ssl.SSLContext | None = None, *, without: Sequence[str] = ()
) -> AsyncGenerator[AnsweringCluster]:
    """`changed`: answers that are other than usual. To requests of `without` nothing is ever said."""
    answers = {**_well(), **(changed or {})}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\n")).decode("latin-1"):
                if " HTTP/1.1" not in head:
                    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    await writer.drain()
                    return
                head += (await reader.readuntil(b"\r\n\r\n")).decode()
                method, target, _ = head.split(" ", 2)
                cluster.asked.append(f"{method} {target}")
                cluster.heads.append(head.lower())
                sizes = [line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length:")]
                cluster.bodies.append(await reader.readexactly(int(sizes[0]) if sizes else 0))
                name = f"{method} {target.partition('?')[0]}"
                if name in without:
                    await asyncio.Event().wait()
                status, content = answers.get(name, (404, NOT_THERE))
                body = json.dumps(content).encode()
                said = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(said.encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    async with listening(serve, tls) as listener:
        cluster = AnsweringCluster(port_of(listener))
        yield cluster
