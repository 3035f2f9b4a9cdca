"""Applies the retention policies of containers: finds the memories that are due, and deletes them.

Below: retention, container_memories. Above: the protocol, which sweeps now and then, and when a client asks for it.
Pinned memories stay, and are not counted.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import AsyncGenerator
from typing import Any, Final

from gateway.access.callers import Caller
from gateway.documents.document import Document
from gateway.errors import ConflictError, ForbiddenError, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_commons.answers import hits_of, milliseconds
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_memory.container_memories import ContainerMemories
from gateway.ml_memory.memory_containers import retention_policy
from gateway.ml_memory.memory_kinds import CONTAINERS, MEMORIES, Memories
from gateway.protocol import ProtocolEnvironment, staying_here
from gateway.query_dsl.search_body import MAX_RESULT_WINDOW

logger = logging.getLogger(__name__)

_PAGE: Final = 100
_DAY_SECONDS: Final = 86_400
_UNPINNED: Final[JsonObject] = {"bool": {"must_not": [{"term": {"pinned": True}}]}}


async def sweep(environment: ProtocolEnvironment) -> None:
    """Apply the policies of all containers of all owners, unless the settings say otherwise."""
    try:
        environment.shared(ClusterSettings).check("memory.retention_enabled")
    except ForbiddenError:
        return
    for caller in await environment.keepers(CONTAINERS):
        async for container in _with_policy(environment, caller):
            extra: dict[str, object] = {"memory_container_id": container.document_id}
            try:
                counts = await apply_policy(ContainerMemories(environment, caller, container))
            except InvalidRequestError as error:
                extra["code"] = error.code
                logger.warning("a container's retention policy could not be applied; it is tried again", extra=extra)
                continue
            if any(counts.values()):
                extra["deleted"] = counts
                logger.info("deleted memories by their container's retention policy", extra=extra)


async def sweep_of(environment: ProtocolEnvironment, caller: Caller, *, dry: bool) -> list[JsonValue]:
    """Apply the policies of the caller's containers. Gives the result of each. `dry`: delete nothing, only count."""
    return [
        policy_result(container, await apply_policy(ContainerMemories(environment, caller, container), dry=dry))
        async for container in _with_policy(environment, caller)
    ]


async def apply_policy(
    memories: ContainerMemories, *, dry: bool = False, window: int = MAX_RESULT_WINDOW
) -> dict[str, int]:
    """Delete the memories that are due by the container's policy. Gives their number by the types that the policy
    names. `dry`: delete nothing, only count. `window`: how many memories are looked at together.
    """
    counts: dict[str, int] = {}
    policy: Any = retention_policy(memories.container.body)
    for name, limits in policy.items():
        counts[name] = 0
        while due := await _due(memories, MEMORIES[name], limits, window):
            deleted = len(due) if dry else await _delete(memories, MEMORIES[name], due)
            counts[name] += deleted
            if dry or not deleted:
                break
    return counts


def policy_result(container: Document, counts: dict[str, int]) -> JsonObject:
    """The result of a container's policy, as responses have it."""
    return {"memory_container_id": container.document_id, "memories": {**counts}}


async def _with_policy(environment: ProtocolEnvironment, caller: Caller) -> AsyncGenerator[Document]:
    documents, after = environment.documents(caller), ""
    while page := await documents.page(CONTAINERS, after=after, limit=_PAGE):
        for container in page:
            if retention_policy(container.body):
                yield container
        after = page[-1].document_id


async def _delete(memories: ContainerMemories, kind: Memories, due: list[str]) -> int:
    """Delete these memories, except for those on whose threads another gateway is at work. Gives their number."""
    deleted = 0
    for memory_id in due:
        try:
            with staying_here():
                await memories.delete(kind, memory_id, counted=False)
                deleted += 1
        except NotFoundError:  # it was deleted meanwhile
            continue
        except ConflictError as error:
            if error.code != "thread_busy":
                raise
    return deleted


async def _due(memories: ContainerMemories, kind: Memories, limits: dict[str, int], window: int) -> list[str]:
    """The ids of the memories that are due, the oldest first; of very many only the first ones."""
    rows, total = await _oldest(memories, kind, window)
    # beyond it, others that are not in the window may be older
    latest = rows[-1][0] if len(rows) < total else None
    surplus = total - limits.get("max_count", total)
    days = limits.get("retention_days")
    before = 0 if days is None else milliseconds(memories.environment.now() - days * _DAY_SECONDS)
    due: list[str] = []
    while rows and (rows[0][0] < before or len(due) < surplus) and (latest is None or rows[0][0] <= latest):
        known, memory_id = heapq.heappop(rows)
        last = known if kind.type != "sessions" else await _last_said(memories, memory_id, known)
        if last > known:
            heapq.heappush(rows, (last, memory_id))
        else:
            due.append(memory_id)
    return due


async def _oldest(memories: ContainerMemories, kind: Memories, window: int) -> tuple[list[tuple[int, str]], int]:
    """The times and ids of the oldest that are not pinned, in order, and how many there are of these."""
    time = "created_time" if kind.type == "history" else "last_updated_time"
    asked: JsonObject = {"query": _UNPINNED, "sort": [time], "size": window, "_source": False}
    found: Any = await memories.search(kind, asked)
    return [(hit["sort"][0], hit["_id"]) for hit in hits_of(found)], found["hits"]["total"]["value"]


async def _last_said(memories: ContainerMemories, session_id: str, known: int) -> int:
    """When the session's document or its thread was last written, in milliseconds."""
    try:
        thread = await memories.environment.thread(memories.caller, session_id)
    except NotFoundError:
        return known
    return max(known, milliseconds(thread.updated_at))
