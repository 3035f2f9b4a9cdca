"""Threads that are deleted: here, and at the providers whose servers keep responses of them.

Below: store, open_agent, model, errands. Above: the runner. A thread is gone at once; its provider is told afterwards,
one response after the other, and what it does not let go of is in the log. A process that ends meanwhile leaves the
rest to the day on which the provider forgets it by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

from gateway.clock import Clock
from gateway.errands import Errands
from gateway.errors import ModelError, ModelErrorKind
from gateway.model import StatefulModel
from gateway.open_agent import OpenAgent
from gateway.store import Store, Thread

logger = logging.getLogger(__name__)

AGAIN_SECONDS = 3.0
LONGEST_WAIT_SECONDS = 60.0
MOST_TRIES = 3
MOST_NAMED = 20  # in a line of the log


class ThreadRemoval:
    """One for the process. `close` before the agents are."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._errands = Errands()

    async def look(self, agents: Mapping[str, OpenAgent], owner: str, thread_id: str) -> Thread | None:
        """The thread, where a provider's server may hold something of it: for `delete`.

        Raises:
            StoreError: not now.
        """
        if any(agent.model.capabilities.is_stateful for agent in agents.values()):
            return await self._store.load_thread(owner, thread_id)
        return None

    async def delete(self, agents: Mapping[str, OpenAgent], owner: str, thread_id: str, thread: Thread | None) -> bool:
        """Delete a thread on which nothing runs, and which looked like `thread`. False: there is none.

        It is the store's before anything else can happen: no run begins meanwhile.

        Raises:
            StoreError: not now.
        """
        if not await self._store.delete_thread(owner, thread_id):
            return False
        for model, names in () if thread is None else _held(agents, thread):
            self._errands.spawn(self._forget(model, names), "forget a thread at its provider")
        return True

    async def close(self) -> None:
        """Let what is being deleted go, if that does not take long."""
        await self._errands.close()

    async def _forget(self, model: StatefulModel, names: Sequence[str]) -> None:
        left, refused = list(names), dict[str, ModelError]()
        error: ModelError | None = None
        tries = 0  # since the last one that it let go of
        try:
            while tries < MOST_TRIES:
                if tries and error is not None:
                    await self._clock.sleep(min(error.retry_after_seconds or AGAIN_SECONDS, LONGEST_WAIT_SECONDS))
                before = len(left)
                error = await _forget_each(model, left, refused)
                if error is None or not error.retryable:
                    break
                tries = 1 if len(left) < before else tries + 1
        finally:
            _tell(model, len(names), [*left, *refused], error or next(iter(refused.values()), None))


def _held(agents: Mapping[str, OpenAgent], thread: Thread) -> Iterator[tuple[StatefulModel, Sequence[str]]]:
    """Whom to ask to forget what."""
    for agent_id, chains in thread.model_states.items():
        model = agents[agent_id].model if agent_id in agents else None
        holder = model.capabilities.state_holder if isinstance(model, StatefulModel) else ""
        names = [name for chain in chains.values() if chain.holder == holder for name in chain.names]
        if isinstance(model, StatefulModel) and names:
            yield model, names
        if elsewhere := [name for chain in chains.values() if chain.holder != holder for name in chain.names]:
            logger.warning(
                "responses of a deleted thread stay where no agent asks any more",
                extra={"agent_id": agent_id, "responses": len(elsewhere), "response_ids": elsewhere[:MOST_NAMED]},
            )


async def _forget_each(model: StatefulModel, left: list[str], refused: dict[str, ModelError]) -> ModelError | None:
    """Forget the last one of `left` until there is none; the error that others would have, too."""
    while left:
        try:
            await model.forget(left[-1])
        except ModelError as error:
            if error.retryable or error.kind is ModelErrorKind.AUTHENTICATION:
                return error
            refused[left[-1]] = error
        left.pop()
    return None


def _tell(model: StatefulModel, count: int, left: Sequence[str], error: ModelError | None) -> None:
    extra: dict[str, object] = {"provider": model.provider, "model": model.model_id, "responses": count}
    if not left:
        logger.info("a deleted thread's responses are deleted at their provider", extra=extra)
        return
    extra |= {"left": len(left), "response_ids": left[:MOST_NAMED], "code": error.code if error else "server_shutdown"}
    logger.warning("responses of a deleted thread stay at their provider", extra=extra)
