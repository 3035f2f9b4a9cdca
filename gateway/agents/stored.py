"""Agents that callers made: documents of the store, read by the rules of the day and opened on use.

Below: documents, open_agent. Above: the directory, which keeps those that are open. A document has the agent as it was
given, without its credentials, which are sealed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.agent import AgentDefinition
from gateway.agents.open_agent import OpenAgent
from gateway.documents.document import Document, DocumentKind, DocumentStore
from gateway.errors import ConflictError, InvalidRequestError
from gateway.messages import JsonObject

USUAL_TYPE = "conversational"

AGENTS = DocumentKind(
    "agent",
    {"id": {"type": "keyword"}, "name": {"type": "text"}, "description": {"type": "text"}},
    sealed=(
        "/model/credential",
        "/model/headers",
        "/model/fallback/*/credential",
        "/model/fallback/*/headers",
        "/tools/*/parameters/headers",
    ),
)


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """What a list tells of a stored agent. `own`: the caller who asks made it, and may change it."""

    agent_id: str
    name: str
    description: str
    type: str
    public: bool
    own: bool


@dataclass(frozen=True, slots=True)
class Loaded:
    """A stored agent that is open."""

    owner: str
    public: bool
    agent: OpenAgent

    def is_seen_by(self, owner: str) -> bool:
        return self.public or self.owner == owner


class StoredAgents:
    """The agents of the store.

    `read` makes a definition of an agent as it was given, and raises InvalidRequestError for one that cannot be used;
    `open_agent` opens it for its owner.
    """

    def __init__(
        self,
        documents: DocumentStore,
        read: Callable[[str, JsonObject], AgentDefinition],
        open_agent: Callable[[AgentDefinition, str], OpenAgent],
        *,
        most: int | None = None,
    ) -> None:
        """`most`: how many agents one owner may store."""
        self._documents = documents
        self._read = read
        self._open = open_agent
        self._most = most

    async def load(self, owner: str, agent_id: str) -> Loaded | None:
        """The agent, opened, if it is the owner's or public.

        Raises:
            ConflictError: it was stored under other rules, and cannot be used any more.
            StoreError, UnavailableError: the store cannot be used, or its credentials cannot be opened.
        """
        found = await self._documents.get(AGENTS, agent_id, owner, unsealed=True)
        if found is None:
            return None
        try:
            agent = self._open(self._read(agent_id, found.body), found.owner)
        except InvalidRequestError as error:
            problems = "; ".join(f"{each.pointer} {each.detail}" for each in error.problems)
            raise ConflictError(
                f"the agent {agent_id!r} cannot be used any more, as the gateway's rules for agents of callers have "
                f"changed: {problems or error.message}",
                code="agent_unusable",
            ) from error
        return Loaded(found.owner, found.public, agent)

    async def put(self, owner: str, agent_id: str, body: JsonObject, *, public: bool) -> bool:
        """Create the owner's agent, or replace it; gives whether it is new.

        Raises:
            InvalidRequestError: it has wrong fields.
            ConflictError: code `id_taken`: another owner has an agent of that id; `too_many`: the owner has as many as
                one may have.
        """
        self._read(agent_id, body)
        before = await self._documents.get(AGENTS, agent_id, owner)
        await self._documents.put(AGENTS, agent_id, owner, {**body, "id": agent_id}, public=public, most=self._most)
        return before is None or before.owner != owner

    async def delete(self, owner: str, agent_id: str) -> bool:
        """Delete the owner's agent. False: there is none."""
        return await self._documents.delete(AGENTS, agent_id, owner)

    async def owner_of(self, agent_id: str) -> str | None:
        """Who made the agent of that id; None: there is none."""
        return await self._documents.owner_of(AGENTS, agent_id)

    async def page(self, owner: str, *, after: str, limit: int) -> tuple[list[StoredAgent], bool]:
        """Agents that the owner may see, by id, behind that id; and whether there are more."""
        found = await self._documents.page(AGENTS, owner, after=after, limit=limit + 1)
        return [_listed(document, owner) for document in found[:limit]], len(found) > limit


def _listed(document: Document, owner: str) -> StoredAgent:
    body: Any = document.body
    return StoredAgent(
        document.document_id,
        body.get("name") or document.document_id,
        body.get("description") or "",
        body.get("type") or USUAL_TYPE,
        document.public,
        document.owner == owner,
    )
