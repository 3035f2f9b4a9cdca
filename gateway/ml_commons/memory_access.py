"""Finds a caller's memory containers.

Below: memory_kinds, documents. Above: the protocols.
"""

from __future__ import annotations

from gateway.documents.document import Document
from gateway.documents.owned import OwnedDocuments
from gateway.errors import NotFoundError
from gateway.ml_commons.memory_kinds import CONTAINERS


async def container_of(documents: OwnedDocuments, container_id: str) -> Document:
    """The owner's container of that id. Raises NotFoundError."""
    if (found := await documents.get(CONTAINERS, container_id)) is None:
        raise NotFoundError(f"Failed to find memory container with the provided memory container id: {container_id}")
    return found
