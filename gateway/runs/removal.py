"""Deletes threads: here, and at the providers whose servers keep responses of them.

Below: store, directory, model, providers.background_tasks. Above: the runner. A thread is deleted here at once, and its
responses at the provider afterwards, one after the other. The due deletions are stored in the same transaction, so they
are done even if the process ends or the provider is down: at the next start, or the next `go_on`. The log names the
responses that a provider refuses to delete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.clock import Clock
from gateway.errors import ModelError, ModelErrorKind, StoreError
from gateway.messages import new_id
from gateway.model import StatefulModel
from gateway.model_state import ModelState
from gateway.providers.background_tasks import BackgroundTasks
from gateway.store import MOST_VERSIONS, DueDeletion, HeldElsewhereError, Store

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 3.0
LONGEST_WAIT_SECONDS = 60.0
MOST_TRIES = 3
# Rounds of MOST_TRIES failed tries: a day if they are an hour apart.
MOST_ROUNDS = 24
# By then providers delete them themselves: https://platform.openai.com/docs/guides/your-data
LONGEST_SECONDS = 30 * 86_400.0
MOST_NAMED = 20  # in a log line

States: TypeAlias = Mapping[str, ModelState]
HeldStates: TypeAlias = Mapping[int, States]


class _Removed(NamedTuple):
    """The deletions of a deleted thread's responses at providers: all (`deletions`), and those that an agent can still
    ask for (`due`).
    """

    deletions: Sequence[DueDeletion]
    due: Sequence[DueDeletion]


class ThreadRemoval:
    """Deletes threads; one per process. Call `close` before the agents are closed."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._background_tasks = BackgroundTasks(clock)
        self._under_way: set[str] = set()
        self._reading = asyncio.Lock()  # held while the due deletions are read
        self._ended: set[str] = set()  # deletions that ended since the last reading began

    async def look(self, agents: AgentDirectory, owner: str, thread_id: str) -> HeldStates:
        """The states that providers may still hold of each version of the thread, for `delete`.

        Raises:
            StoreError: the store cannot be used now.
        """
        if agents.stored is not None or any(agent.model.capabilities.is_stateful for agent in agents.values()):
            return await self._store.version_states(owner, thread_id)
        return {}

    async def delete(
        self, agents: AgentDirectory, owner: str, thread_id: str, held: HeldStates, *, later: bool = False
    ) -> bool:
        """Delete a thread without runs, and the `held` states at providers. False: there is no such thread.

        `later`: leave the providers to the next `go_on`, for deleting many threads in a row. The caller holds the
        thread's line, so that no run begins meanwhile.

        Raises:
            StoreError: the store cannot be used now.
        """
        removed = await self._remove_stored(agents, owner, thread_id, held)
        if removed is None:
            return False
        self._begin_due(agents, *removed, later=later)
        return True

    async def delete_all(self, agents: AgentDirectory, threads: Sequence[tuple[str, str]]) -> int:
        """Delete several threads (owner and id) on which nothing runs; returns how many existed.

        Raises:
            StoreError: the store cannot be used now, or could not delete all of them.
        """

        async def remove(owner: str, thread_id: str) -> _Removed | None:
            return await self._remove_stored(agents, owner, thread_id, await self.look(agents, owner, thread_id))

        found = await asyncio.gather(*[remove(*thread) for thread in threads], return_exceptions=True)
        errors = [each for each in found if isinstance(each, BaseException)]
        errors = [each for each in errors if not isinstance(each, HeldElsewhereError)]  # they stay until it is over
        removed = [each for each in found if isinstance(each, _Removed)]
        self._begin_due(
            agents,
            [deletion for each in removed for deletion in each.deletions],
            [deletion for each in removed for deletion in each.due],
        )
        if errors:
            raise errors[0]
        return len(removed)

    async def _remove_stored(
        self, agents: AgentDirectory, owner: str, thread_id: str, held: HeldStates
    ) -> _Removed | None:
        """Delete a thread from the store; None if there is no such thread."""
        deletions = self._deletions_for(held.values())
        due = [deletion for deletion in deletions if await self._can_ask(agents, deletion)]
        if not await self._store.delete_thread(owner, thread_id, due):
            return None
        return _Removed(deletions, due)

    async def delete_version(self, agents: AgentDirectory, owner: str, thread_id: str, version: int) -> bool:
        """Delete one version of a thread, and the states at providers that no other version continues. False: there is
        no such version.

        Raises:
            ConflictError: it is the current one.
            StoreError: the store cannot be used now.
        """
        held = await self.look(agents, owner, thread_id)
        others = [states for number, states in held.items() if number != version]
        deletions = self._deletions_for([held.get(version, {})], others)
        due = [deletion for deletion in deletions if await self._can_ask(agents, deletion)]
        if not await self._store.delete_version(owner, thread_id, version, due):
            return False
        self._begin_due(agents, deletions, due)
        return True

    async def make_room_for_version(self, agents: AgentDirectory, owner: str, thread_id: str, most: int) -> None:
        """Delete a thread's oldest versions, so that with one more it has at most `most`. The current one stays.

        Raises:
            StoreError: the store cannot be used now.
        """
        versions = (await self._store.list_versions(owner, thread_id, limit=MOST_VERSIONS, cursor=None)).items
        spare = [version.number for version in versions if not version.is_current]
        for number in spare[: max(0, len(versions) + 1 - most)]:
            await self.delete_version(agents, owner, thread_id, number)

    async def go_on(self, agents: AgentDirectory) -> None:
        """Do the deletions that are still due, also those of earlier processes.

        Raises:
            StoreError: the store cannot be used now.
        """
        async with self._reading:
            self._ended.clear()
            self._start(agents, await self._store.due_deletions())

    async def close(self) -> None:
        """Let started deletions finish, for a short time."""
        await self._background_tasks.close()

    def _deletions_for(self, held: Iterable[States], kept: Iterable[States] = ()) -> list[DueDeletion]:
        """The deletions for the `held` states, without responses that the `kept` states also have."""
        kept_names = {place: frozenset(names) for place, names in _names_held(kept).items()}
        now = self._clock.now()
        return [
            DueDeletion(new_id("deletion"), agent_id, holder, left, now)
            for (agent_id, holder), names in _names_held(held).items()
            if (left := tuple(name for name in names if name not in kept_names.get((agent_id, holder), ())))
        ]

    def _begin_due(
        self,
        agents: AgentDirectory,
        deletions: Sequence[DueDeletion],
        due: Sequence[DueDeletion],
        *,
        later: bool = False,
    ) -> None:
        for deletion in deletions:
            if deletion not in due:
                _log_unasked(deletion)
        if not later:
            self._start(agents, due)

    def _start(self, agents: AgentDirectory, due: Sequence[DueDeletion]) -> None:
        """Do these deletions in the background, one after the other: providers limit requests."""
        begun = self._under_way | self._ended  # a round may begin a deletion before its own request does
        fresh = [deletion for deletion in due if deletion.deletion_id not in begun]
        if fresh:
            self._under_way.update(deletion.deletion_id for deletion in fresh)
            self._background_tasks.spawn(self._do(agents, fresh), "forget threads at their providers")

    async def _do(self, agents: AgentDirectory, due: Sequence[DueDeletion]) -> None:
        try:
            for deletion in due:
                async with agents.of_any_owner(deletion.agent_id) as agent:
                    model = _asking_model(agent, deletion)
                    if model is not None:
                        left = await self._forget(model, deletion)
                    else:
                        _log_unasked(deletion)
                        left = deletion.names
                await self._store.update_deletion(self._still_due(deletion, left))
        except StoreError as error:  # they stay due
            logger.warning("deletions that are due at providers could not be stored", extra={"code": error.code})
        finally:
            self._under_way.difference_update(deletion.deletion_id for deletion in due)
            self._ended.update(deletion.deletion_id for deletion in due)

    @staticmethod
    async def _can_ask(agents: AgentDirectory, deletion: DueDeletion) -> bool:
        async with agents.of_any_owner(deletion.agent_id) as agent:
            return _asking_model(agent, deletion) is not None

    def _still_due(self, deletion: DueDeletion, left: Sequence[str]) -> DueDeletion:
        tries = deletion.tries + 1
        is_late = tries >= MOST_ROUNDS or self._clock.now() - deletion.since > LONGEST_SECONDS
        if left and is_late:
            extra = {"agent_id": deletion.agent_id, "responses": len(left), "response_ids": list(left[:MOST_NAMED])}
            logger.warning("responses of a deleted thread stay at their provider: it is not asked again", extra=extra)
        return replace(deletion, names=() if is_late else tuple(left), tries=tries)

    async def _forget(self, model: StatefulModel, deletion: DueDeletion) -> Sequence[str]:
        """Delete a deletion's responses at the provider; returns the names to try again later."""
        left, refused = list(deletion.names), dict[str, ModelError]()
        error: ModelError | None = None
        tries = 0  # counted since the last successful deletion
        try:
            while tries < MOST_TRIES:
                if tries and error is not None:
                    await self._clock.sleep(min(error.retry_after_seconds or AGAIN_SECONDS, LONGEST_WAIT_SECONDS))
                before = len(left)
                error = await _forget_each(model, left, refused)
                if error is None or not error.retryable:
                    break
                tries = 1 if len(left) < before else tries + 1
        except asyncio.CancelledError:
            _log_later(model, left, "server_shutdown")
            raise
        if error is not None and error.retryable:
            _log_later(model, left, error.code)
            _log_refused(model, refused)
            return left
        if error is not None:
            refused |= dict.fromkeys(left, error)
        if refused:
            _log_refused(model, refused)
        else:
            logger.info(
                "a deleted thread's responses are deleted at their provider",
                extra={"provider": model.provider, "model": model.model_id, "responses": len(deletion.names)},
            )
        return ()


def _names_held(held: Iterable[States]) -> dict[tuple[str, str], dict[str, None]]:
    """The names of the held responses, the oldest first, by agent and holder."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for states in held:
        for agent_id, chains in states.items():
            for chain in chains.values():
                found.setdefault((agent_id, chain.holder), {}).update(dict.fromkeys(chain.names))
    return found


def _asking_model(agent: OpenAgent | None, deletion: DueDeletion) -> StatefulModel | None:
    for model in () if agent is None else agent.models:
        if isinstance(model, StatefulModel) and model.capabilities.state_holder == deletion.holder:
            return model
    return None


async def _forget_each(model: StatefulModel, left: list[str], refused: dict[str, ModelError]) -> ModelError | None:
    """Delete the last response of `left` until none is left; returns the error that all others would get, too."""
    while left:
        try:
            await model.forget(left[-1])
        except ModelError as error:
            if error.retryable or error.kind is ModelErrorKind.AUTHENTICATION:
                return error
            refused[left[-1]] = error
        left.pop()
    return None


def _log_refused(model: StatefulModel, refused: Mapping[str, ModelError]) -> None:
    if refused:
        extra = _named(model, list(refused)) | {"code": next(iter(refused.values())).code}
        logger.warning("responses of a deleted thread stay at their provider", extra=extra)


def _log_later(model: StatefulModel, left: Sequence[str], code: str) -> None:
    extra = _named(model, left) | {"code": code}
    logger.warning(
        "responses of a deleted thread are not deleted yet: their provider is asked again later", extra=extra
    )


def _named(model: StatefulModel, names: Sequence[str]) -> dict[str, object]:
    return {
        "provider": model.provider,
        "model": model.model_id,
        "responses": len(names),
        "response_ids": list(names[:MOST_NAMED]),
    }


def _log_unasked(deletion: DueDeletion) -> None:
    names = deletion.names
    logger.warning(
        "responses of a deleted thread stay at a server that no agent asks any more",
        extra={"agent_id": deletion.agent_id, "responses": len(names), "response_ids": list(names[:MOST_NAMED])},
    )
