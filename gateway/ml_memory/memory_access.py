"""Finds a caller's memory containers, and to which of them its sessions belong.

Below: memory_kinds, documents. Above: the protocols.
"""

from __future__ import annotations

from gateway.documents.document import Document
from gateway.documents.owned import OwnedDocuments
from gateway.errors import ConflictError, NotFoundError
from gateway.ml_memory.memory_kinds import CONTAINERS, SESSIONS


async def container_of(documents: OwnedDocuments, container_id: str) -> Document:
    """The owner's container of that id. Raises NotFoundError."""
    if (found := await documents.get(CONTAINERS, container_id)) is None:
        raise NotFoundError(f"Failed to find memory container with the provided memory container id: {container_id}")
    return found


async def is_session(documents: OwnedDocuments, session_id: str, container_id: str) -> bool:
    """Whether the container has a session of that id.

    Raises:
        ConflictError: another container has it; or had it, and its thread is still there.
    """
    if (found := await documents.get(SESSIONS, session_id)) is None:
        return False
    other = str(found.body["memory_container_id"])
    if other == container_id:
        return True
    if other and await documents.get(CONTAINERS, other) is not None:
        raise ConflictError(f"the session '{session_id}' belongs to another memory container; use another id")
    raise ConflictError(
        f"the session '{session_id}' was in a memory container that was deleted, and its thread is still there; delete "
        f"the thread (DELETE /_plugins/_ml/memory/{session_id}), or use another id"
    )
