"""Agents of the store: opened on use, kept in a bounded set, closed and forgotten on write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.agent import AgentDefinition, ModelSettings
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.agents.stored import StoredAgents
from gateway.documents.document import Document, DocumentStore
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject
from gateway.tool import Tool
from tests.runner_scene import SAYS_HELLO, agent_of
from tests.stored_samples import memory_store, within
from tests.waiting import until

ALICE, BOB = "alice", "bob"
BODY: JsonObject = {"model": {"model_provider": "scripted", "credential": {"key": "sealed-of-alice"}}}


@dataclass
class Openings:
    """Opens agents, and counts which are open."""

    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    bodies: list[JsonObject] = field(default_factory=list)
    refuses: bool = False

    def read(self, agent_id: str, body: JsonObject) -> AgentDefinition:
        if self.refuses:
            raise InvalidRequestError("the rules have changed")
        self.bodies.append(body)
        return AgentDefinition(agent_id, agent_id, "conversational", model=ModelSettings("scripted"))

    def open(self, definition: AgentDefinition, owner: str) -> OpenAgent:
        self.opened.append(definition.id)
        return replace(agent_of(definition.id, SAYS_HELLO, _Box(definition.id, self.closed)), owner=owner)


@dataclass
class _Box:
    agent_id: str
    closed: list[str]

    async def tools(self) -> tuple[Tool, ...]:
        return ()

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        self.closed.append(self.agent_id)


@asynccontextmanager
async def directory(
    directory: Path, *, most: int = 100, most_of_owner: int | None = None
) -> AsyncGenerator[tuple[AgentDirectory, Openings]]:
    store, openings = memory_store(directory), Openings()
    await within(store.open())
    agents = AgentDirectory(most_stored_open=most)
    agents.stored = StoredAgents(store.documents, openings.read, openings.open, most=most_of_owner)
    try:
        yield agents, openings
    finally:
        await within(agents.close())
        await within(store.close())


async def use(agents: AgentDirectory, owner: str, agent_id: str) -> OpenAgent:
    async with agents.leased(owner, agent_id) as agent:
        return agent


async def test_an_agent_is_opened_once_and_with_its_credentials(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        assert await agents.put(ALICE, "mine", BODY)
        assert await use(agents, ALICE, "mine") is await use(agents, ALICE, "mine")
        assert openings.opened == ["mine"]
        assert openings.bodies[-1] == {**BODY, "id": "mine"}


async def test_many_who_ask_at_once_get_the_same_open_agent(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        await agents.put(ALICE, "mine", BODY)
        asked = await asyncio.gather(*(use(agents, ALICE, "mine") for _ in range(5)))
        assert len(set(asked)) == 1
        assert openings.closed == openings.opened[1:], "what was opened in vain is closed again"


async def test_what_is_open_for_its_owner_is_not_there_for_others(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, _):
        await agents.put(ALICE, "mine", BODY)
        await use(agents, ALICE, "mine")
        with pytest.raises(NotFoundError):
            await use(agents, BOB, "mine")
        await agents.put(ALICE, "mine", BODY, public=True)
        await use(agents, BOB, "mine")


async def test_those_not_used_for_longest_are_closed_where_too_many_are_open(tmp_path: Path) -> None:
    async with directory(tmp_path, most=2) as (agents, openings):
        for name in ("a", "b", "c"):
            await agents.put(ALICE, name, BODY)
        await use(agents, ALICE, "a")
        await use(agents, ALICE, "b")
        await use(agents, ALICE, "a")
        await use(agents, ALICE, "c")
        await until(lambda: len(openings.closed) == 1)
        assert openings.closed == ["b"]


async def test_what_is_in_use_is_never_closed(tmp_path: Path) -> None:
    async with directory(tmp_path, most=1) as (agents, openings):
        for name in ("a", "b"):
            await agents.put(ALICE, name, BODY)
        async with agents.leased(ALICE, "a") as one, agents.leased(ALICE, "b"):
            assert openings.closed == []
            assert await use(agents, ALICE, "a") is one


async def test_a_write_closes_it_once_nobody_uses_it_and_the_next_use_has_what_was_written(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        await agents.put(ALICE, "mine", BODY)
        async with agents.leased(ALICE, "mine") as before:
            assert not await agents.put(ALICE, "mine", {**BODY, "name": "New"})
            assert openings.closed == []
            assert await use(agents, ALICE, "mine") is not before
        await until(lambda: len(openings.closed) == 1)
        await agents.delete(ALICE, "mine")
        await until(lambda: len(openings.closed) == 2)
        with pytest.raises(NotFoundError):
            await use(agents, ALICE, "mine")


async def test_an_agent_that_is_written_while_it_is_loaded_is_loaded_again(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        await agents.put(ALICE, "mine", BODY)
        using = asyncio.create_task(use(agents, ALICE, "mine"))
        await agents.put(ALICE, "mine", {**BODY, "name": "New"})
        await within(using)
        await use(agents, ALICE, "mine")
        assert openings.bodies[-1]["name"] == "New"


async def test_one_that_the_rules_do_not_allow_any_more_is_a_conflict(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        await agents.put(ALICE, "mine", BODY)
        openings.refuses = True
        with pytest.raises(ConflictError) as caught:
            await use(agents, ALICE, "mine")
        assert caught.value.code == "agent_unusable"
        async with agents.usable(ALICE, "mine") as agent:
            assert agent is None


async def test_an_agent_that_may_be_gone_stays_open_while_it_is_used(tmp_path: Path) -> None:
    async with directory(tmp_path, most=1) as (agents, openings):
        for name in ("a", "b"):
            await agents.put(ALICE, name, BODY)
        async with agents.usable(ALICE, "a"):
            await use(agents, ALICE, "b")
            await asyncio.sleep(0)
            assert openings.closed == []


async def test_an_owner_has_as_many_agents_as_one_may_have(tmp_path: Path) -> None:
    async with directory(tmp_path, most_of_owner=2) as (agents, _):
        await agents.put(ALICE, "a", BODY)
        await agents.put(ALICE, "b", BODY, public=True)
        with pytest.raises(ConflictError, match="you have 2 agents, and may have 2") as caught:
            await agents.put(ALICE, "c", BODY)
        assert caught.value.code == "too_many"
        assert not await agents.put(ALICE, "a", BODY, public=True), "one that is there is replaced"
        assert await agents.put(BOB, "c", BODY), "others have their own number"
        await agents.delete(ALICE, "b")
        assert await agents.put(ALICE, "d", BODY)


async def test_the_gateway_itself_finds_an_agent_whoever_owns_it(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, _):
        await agents.put(ALICE, "mine", BODY)
        async with agents.of_any_owner("mine") as agent:
            assert agent is not None
            assert agent.owner == ALICE
        async with agents.of_any_owner("nobodys") as nobody:
            assert nobody is None


class HeldDocuments:
    """The documents of a store, which are read once `go_on` says so."""

    def __init__(self, documents: DocumentStore) -> None:
        self._documents = documents
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def get(self, *whose: Any, **more: Any) -> Document | None:
        self.asked.set()
        await self.go_on.wait()
        return await self._documents.get(*whose, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._documents, name)


async def test_a_write_of_another_agent_makes_no_load_begin_again(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        await agents.put(ALICE, "mine", BODY)
        assert agents.stored is not None
        held = HeldDocuments(agents.stored._documents)
        agents.stored = StoredAgents(cast(DocumentStore, held), openings.read, openings.open)
        using = asyncio.create_task(use(agents, ALICE, "mine"))
        await within(held.asked.wait())
        agents.stored = StoredAgents(held._documents, openings.read, openings.open)
        await agents.put(ALICE, "other", BODY)
        held.go_on.set()
        await within(using)
        assert openings.opened == ["mine"]


@asynccontextmanager
async def two_directories(folder: Path) -> AsyncGenerator[tuple[AgentDirectory, AgentDirectory, Openings]]:
    """The agents of two gateways of one store; and what the second one opens."""
    async with directory(folder) as (one, first), directory(folder) as (two, openings):
        assert one.stored is not None
        documents = one.stored._documents
        one.stored = StoredAgents(documents, first.read, first.open, is_shared=True)
        two.stored = StoredAgents(documents, openings.read, openings.open, is_shared=True)
        yield one, two, openings


async def test_an_agent_that_another_gateway_changes_is_used_as_it_is_now(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as (one, two, openings):
        await one.put(ALICE, "mine", BODY)
        before = await use(two, ALICE, "mine")
        assert await use(two, ALICE, "mine") is before, "nobody has changed it"
        changed: JsonObject = {"model": {"model_provider": "scripted", "credential": {"key": "a-new-key-of-alice"}}}
        await one.put(ALICE, "mine", changed)
        assert await use(two, ALICE, "mine") is not before
        assert openings.bodies[-1] == {**changed, "id": "mine"}
        await until(lambda: openings.closed == ["mine"])


async def test_an_agent_that_another_gateway_makes_private_or_deletes_is_gone(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as (one, two, _):
        await one.put(ALICE, "mine", BODY, public=True)
        await use(two, BOB, "mine")
        await one.put(ALICE, "mine", BODY)
        with pytest.raises(NotFoundError):
            await use(two, BOB, "mine")
        await use(two, ALICE, "mine")
        await one.delete(ALICE, "mine")
        with pytest.raises(NotFoundError):
            await two.check(ALICE, "mine")


async def test_an_open_agent_of_a_store_that_nobody_else_uses_is_not_read_again(tmp_path: Path) -> None:
    async with directory(tmp_path) as (agents, openings):
        await agents.put(ALICE, "mine", BODY)
        assert agents.stored is not None
        held = HeldDocuments(agents.stored._documents)
        held.go_on.set()
        agents.stored = StoredAgents(cast(DocumentStore, held), openings.read, openings.open)
        await use(agents, ALICE, "mine")
        held.asked.clear()
        await use(agents, ALICE, "mine")
        assert not held.asked.is_set()
