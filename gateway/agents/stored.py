"""Agents that callers made: documents of the store, read by the rules of this gateway and opened on use.

Below: documents, open_agent. Above: the directory, which keeps those that are open.

A document has three parts. `definition` is the agent as in the configuration file, with its credentials sealed. `about`
is further data of the protocol by which it was made. All other members may be shown and searched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gateway.agent import AgentDefinition
from gateway.agents.open_agent import OpenAgent, no_agent
from gateway.clock import Clock, SystemClock
from gateway.documents.document import Document, DocumentKind, DocumentStore
from gateway.errors import ConflictError, InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.wire import strict_json

USUAL_TYPE = "conversational"
DEFINITION: Final = "definition"
ABOUT: Final = "about"

_FLAT: Final = {"type": "flat_object"}
_DATE: Final = {"type": "date"}

AGENTS = DocumentKind(
    "agent",
    {
        "id": {"type": "keyword"},
        "name": {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}},
        "description": {"type": "text"},
        "type": {"type": "keyword"},
        "app_type": {"type": "keyword"},
        "model": _FLAT,
        "tools": _FLAT,
        "memory": _FLAT,
        "parameters": _FLAT,
        "is_hidden": {"type": "boolean"},
        "created_time": _DATE,
        "last_updated_time": _DATE,
    },
    sealed=tuple(
        f"/{DEFINITION}{pointer}"
        for pointer in (
            "/model/credential",
            "/model/headers",
            "/model/fallback/*/credential",
            "/model/fallback/*/headers",
            "/tools/*/parameters/headers",
        )
    ),
)

MAX_VALUES: Final = 10_000
"""The most values of an agent, members and items of all levels together: checking them takes up to 0.1 s."""

_TRIES: Final = 20  # of an update, as long as others change the agent meanwhile


@dataclass(frozen=True, slots=True)
class AgentToStore:
    """An agent as it is to be stored. `definition` has the fields of one in the configuration file.

    `shown`: the members that may be shown and searched; None: they are made from the definition. `about`: see
    OpenAgent.
    """

    definition: JsonObject
    shown: JsonObject | None = None
    about: JsonObject = field(default_factory=dict)
    public: bool = False


@dataclass(frozen=True, slots=True)
class PartsForCallers:
    """The parts that agents of callers may have: model providers by name, each with the names of its credentials; and
    whether there is a search engine for their search tools.
    """

    providers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    searches: bool = True


@dataclass(frozen=True, slots=True)
class StoredAgent:
    """A stored agent in a list. `own`: the caller made it, and may change it. `created_at` is in Unix seconds."""

    agent_id: str
    name: str
    description: str
    type: str
    public: bool
    own: bool
    created_at: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A stored agent that is open. `version` is that of its document."""

    owner: str
    public: bool
    agent: OpenAgent
    version: int

    def is_seen_by(self, owner: str) -> bool:
        return self.public or self.owner == owner


class StoredAgents:
    """The agents of the store.

    `read` makes a definition from an agent in a request's form, and raises InvalidRequestError if the agent cannot be
    used; `open_agent` opens it for its owner.
    """

    def __init__(
        self,
        documents: DocumentStore,
        read: Callable[[str, JsonObject], AgentDefinition],
        open_agent: Callable[[AgentDefinition, str], OpenAgent],
        *,
        most: int | None = None,
        parts: PartsForCallers = PartsForCallers(),
        clock: Clock | None = None,
        is_shared: bool = False,
    ) -> None:
        """`most`: how many agents one owner may store. `is_shared`: other gateways may write them too."""
        self._documents = documents
        self._read = read
        self._open = open_agent
        self._most = most
        self._clock = clock or SystemClock()
        self._is_shared = is_shared
        self.parts = parts

    async def load(self, owner: str, agent_id: str) -> Loaded | None:
        """The agent, opened, if it is the owner's or public.

        Raises:
            ConflictError: it was stored under other rules, and cannot be used any more.
            StoreError, UnavailableError: the store cannot be used, or its credentials cannot be opened.
        """
        found = await self._documents.get(AGENTS, agent_id, owner, unsealed=True)
        if found is None:
            return None
        body: Any = found.body
        try:
            agent = self._open(self._read(agent_id, body[DEFINITION]), found.owner)
        except InvalidRequestError as error:
            problems = "; ".join(f"{each.pointer} {each.detail}" for each in error.problems)
            raise ConflictError(
                f"the agent {agent_id!r} cannot be used any more, as the gateway's rules for agents of callers have "
                f"changed: {problems or error.message}",
                code="agent_unusable",
            ) from error
        return Loaded(found.owner, found.public, replace(agent, about=body[ABOUT]), found.version)

    async def is_current(self, agent_id: str, loaded: Loaded) -> bool:
        """Whether no other gateway has changed or deleted the agent since it was loaded. Raises StoreError."""
        if not self._is_shared:
            return True
        found = await self._documents.get(AGENTS, agent_id, loaded.owner)
        return found is not None and found.version == loaded.version

    async def put(self, owner: str, agent_id: str, agent: AgentToStore) -> bool:
        """Create the owner's agent, or replace it; returns whether it is new.

        Raises:
            InvalidRequestError: it has wrong fields.
            ConflictError: code `id_taken`: another owner has an agent of that id; `too_many`: the owner has as many as
                one may have.
        """
        definition = self._read(agent_id, agent.definition)
        before = await self._documents.get(AGENTS, agent_id, owner)
        await self._write(owner, agent_id, agent, definition, before)
        return before is None or before.owner != owner

    async def create(self, owner: str, agent_id: str, agent: AgentToStore) -> None:
        """Create an agent for the owner.

        Raises:
            InvalidRequestError: it has wrong fields.
            ConflictError: code `id_taken`: there is one of that id; `too_many`: as of `put`.
        """
        await self._write(owner, agent_id, agent, self._read(agent_id, agent.definition), None, if_version=0)

    async def update(self, owner: str, agent_id: str, change: Callable[[Document], AgentToStore]) -> int:
        """Replace the owner's agent by the result of `change`, which gets the current one with its credentials; returns
        the new version. `change` is called again if somebody else changed the agent meanwhile.

        Raises:
            NotFoundError: the owner has no such agent.
            InvalidRequestError: it would have wrong fields; or as `change`.
            ConflictError: others kept changing it at the same time.
            UnavailableError: its credentials cannot be opened.
        """
        for tries_left in reversed(range(_TRIES)):
            before = await self._documents.get(AGENTS, agent_id, owner, unsealed=True)
            if before is None or before.owner != owner:
                raise no_agent(agent_id)
            changed = change(before)
            definition = self._read(agent_id, changed.definition)
            try:
                return await self._write(owner, agent_id, changed, definition, before, if_version=before.version)
            except ConflictError as error:
                if error.code != "version_conflict" or not tries_left:
                    raise
        raise AssertionError("the last try returns or raises")

    async def _write(
        self,
        owner: str,
        agent_id: str,
        agent: AgentToStore,
        definition: AgentDefinition,
        before: Document | None,
        *,
        if_version: int | None = None,
    ) -> int:
        now = round(self._clock.now() * 1000)
        body: JsonObject = {
            **(shown_of(definition) if agent.shown is None else agent.shown),
            "id": agent_id,
            "created_time": now if before is None else before.body["created_time"],
            "last_updated_time": now,
            DEFINITION: {**agent.definition, "id": agent_id},
            ABOUT: agent.about,
        }
        return await self._documents.put(
            AGENTS, agent_id, owner, body, if_version, public=agent.public, most=self._most
        )

    async def document(self, owner: str, agent_id: str) -> Document | None:
        """The agent's document without its sealed members, if it is the owner's or public."""
        return await self._documents.get(AGENTS, agent_id, owner)

    async def delete(self, owner: str, agent_id: str) -> bool:
        """Delete the owner's agent. False: there is none."""
        return await self._documents.delete(AGENTS, agent_id, owner)

    async def owner_of(self, agent_id: str) -> str | None:
        """The owner of the agent of that id; None: there is none."""
        return await self._documents.owner_of(AGENTS, agent_id)

    async def page(self, owner: str, *, after: str, limit: int) -> tuple[list[StoredAgent], bool]:
        """The agents that the owner may see whose ids come after `after`, in the order of their ids; and whether there
        are more.
        """
        found = await self._documents.page(AGENTS, owner, after=after, limit=limit + 1)
        return [_listed(document, owner) for document in found[:limit]], len(found) > limit


def expect_few_values(agent: JsonObject, *, status: int = 422) -> None:
    """Refuse an agent of more than MAX_VALUES. Raises InvalidRequestError."""
    if strict_json.has_more_values(agent, MAX_VALUES):
        raise InvalidRequestError(
            f"the agent has more than {MAX_VALUES:,} values, members and items of all levels together; use fewer",
            code="invalid_agent",
            status=status,
        )


def _listed(document: Document, owner: str) -> StoredAgent:
    body: Any = document.body
    return StoredAgent(
        document.document_id,
        body.get("name") or document.document_id,
        body.get("description") or "",
        body[DEFINITION].get("type") or USUAL_TYPE,
        document.public,
        document.owner == owner,
        document.created_at,
    )


def shown_in(body: JsonObject) -> JsonObject:
    """The members of an agent's document that may be shown."""
    return {name: value for name, value in body.items() if name not in (DEFINITION, ABOUT)}


def shown_of(agent: AgentDefinition) -> JsonObject:
    """The members to show of an agent that only its definition describes."""
    tools: list[JsonValue] = [{"type": tool.type, **({"name": tool.name} if tool.name else {})} for tool in agent.tools]
    return {
        "name": agent.name,
        "type": agent.type,
        "description": agent.description,
        "model": {"model_id": agent.model.model_id, "model_provider": agent.model.model_provider},
        "tools": tools,
        "memory": {"type": "conversation_index"},
        "is_hidden": False,
    }
