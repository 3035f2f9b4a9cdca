"""Finds the stored run that a client means by a run id.

Below: store, live_run, replay. Above: the runner. A client's id is the run's own id, with one exception: a client may
answer a run's interrupts under that run's id (CopilotKit does, https://github.com/CopilotKit/CopilotKit/issues/6999).
The answers belong to another run, with an id and a log of its own; on the wire it has the client's id, which from then
on means the newest run of that id. A chain of interrupts may make many runs of one id. Only one of them is under way at
a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from gateway.agent import AgentInput
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.events import Interrupted, RunFinished
from gateway.runs.elsewhere import check_here, is_staying
from gateway.runs.endings import input_digest
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.runs.replay import end_of, produced_by
from gateway.runs.second_tries import is_second_try
from gateway.store import RunRecord, RunStatus, Store, Thread


class RunIds:
    """Finds runs by the ids that clients know. `live` are the running runs, by owner and such an id."""

    def __init__(self, store: Store, live: Mapping[tuple[str, str], LiveRun]) -> None:
        self._store = store
        self._live = live

    async def settled(self, owner: str, run_id: str) -> LiveRun | None:
        """The run of that id that is under way and cannot be refused any more; None if there is none."""
        while (live := self._live.get((owner, run_id))) is not None and live.phase is Phase.OPENED:
            await asyncio.wait((live.settled,))
        return live

    async def newest(self, owner: str, run_id: str) -> RunRecord:
        """The record of the run that the id means. Raises NotFoundError."""
        live = self._live.get((owner, run_id))
        if live is not None and self._store.gateways.is_shared:  # who hears of it may ask another gateway next
            live = await self.settled(owner, run_id)
        if live is not None:
            return live.record
        return (await self.known(owner, run_id))[0]

    async def known(self, owner: str, run_id: str) -> Sequence[RunRecord]:
        """The records of all runs of that id, the newest first.

        Raises:
            NotFoundError: no run has it.
            HeldElsewhereError: the newest is under way at another gateway.
            UnavailableError: it is under way at one that is gone.
        """
        if not (records := await self._as_it_is_now(owner, run_id, await self._all(owner, run_id))):
            raise _no_run(run_id)
        return records

    async def _as_it_is_now(self, owner: str, run_id: str, records: Sequence[RunRecord]) -> Sequence[RunRecord]:
        """The runs of that id, the newest of which has ended, or is under way here, unless the request stays here.
        Raises as `known`.
        """
        newest = next(iter(records), None)
        if newest is None or newest.status.ended or self.live(newest) is not None or is_staying():
            return records
        check_here(newest.thread_id, await self._store.holder(owner, newest.thread_id, newest.run_id))
        return await self._all(owner, run_id)  # it has ended meanwhile

    async def of_cursor(self, owner: str, run_id: str, log_id: str, after: int) -> RunRecord:
        """The record of the run that a cursor belongs to: without `log_id`, the first run of that id.

        Raises:
            NotFoundError: there is no run of that id.
            InvalidRequestError: no run of that id has such a log.
        """
        if not log_id and not after:
            return await self.newest(owner, run_id)
        live = self._live.get((owner, run_id))
        if live is not None and live.record.run_id == (log_id or run_id):
            return live.record
        for record in await self.known(owner, run_id):
            if record.run_id == (log_id or run_id):
                return record
        raise InvalidRequestError(
            f"run {run_id!r} has no events {log_id!r}; give the `id` of the last event that you have",
            code="invalid_cursor",
            status=400,
        )

    async def before(self, owner: str, given: AgentInput) -> Sequence[RunRecord]:
        """The earlier runs of the input's id, the newest first. Nearly always the id is new, and there are none.

        Raises:
            HeldElsewhereError: another gateway holds the input's thread.
            UnavailableError: the newest is under way at a gateway that is gone.
        """
        live = self._live.get((owner, given.run_id))
        if live is not None:
            live = await self.settled(owner, given.run_id)
        found = await self._store.load_start(owner, given.run_id, given.thread.id)
        check_here(given.thread.id, found.holder)
        runs = await self._as_it_is_now(owner, given.run_id, found.runs)
        return self._with_live(owner, given.run_id, runs) if runs or live is not None else ()

    async def goes_on(self, owner: str, agent_id: str, given: AgentInput, before: Sequence[RunRecord]) -> bool:
        """Whether the input begins another run under an id that was used: it answers interrupts of an earlier run of
        that id,
        or repeats such a request after its run failed.
        """
        if not given.answers:
            return False
        if before[0].reused_id and before[0].status is RunStatus.FAILED:
            thread = await self._store.load_thread(owner, given.thread.id)
            again = await is_second_try(self._store, thread, agent_id, given)
            return again and (owner, given.run_id) not in self._live
        named = {answer.interrupt_id for answer in given.answers}
        named &= await self._left_open(agent_id, given.thread.id, before)
        if not named:
            return False
        # Last, and usually without waiting: the same request may have arrived at the same moment.
        thread = await self._store.load_thread(owner, given.thread.id)
        is_under_way = (owner, given.run_id) in self._live
        return not is_under_way and thread is not None and any(each.interrupt.id in named for each in thread.interrupts)

    async def _left_open(self, agent_id: str, thread_id: str, runs: Sequence[RunRecord]) -> set[str]:
        """The ids of the interrupts that the runs ended with."""
        left: set[str] = set()
        wanted = (RunStatus.INTERRUPTED, thread_id, agent_id)
        for record in runs:
            if (record.status, record.thread_id, record.agent_id) == wanted:
                end = await end_of(self._store, record)
                if isinstance(end, RunFinished) and isinstance(end.outcome, Interrupted):
                    left |= {interrupt.id for interrupt in end.outcome.interrupts}
        return left

    async def are_all(self, owner: str, run_id: str, runs: Sequence[RunRecord]) -> bool:
        """Whether `runs` are still all runs of that id."""
        return [record.run_id for record in await self._all(owner, run_id)] == [record.run_id for record in runs]

    async def begun_by(
        self, owner: str, agent_id: str, given: AgentInput, before: Sequence[RunRecord]
    ) -> tuple[RunRecord, frozenset[str]] | None:
        """The run that an earlier copy of this request began, and the ids of the messages that the run produced."""
        for record in before:
            live = self.live(record)
            produced = await produced_by(self._store, record, live)
            same = record.agent_id == agent_id and record.thread_id == given.thread.id
            if same and input_digest(given, produced) == record.input_digest:
                return record, produced
        return None

    def live(self, record: RunRecord) -> LiveRun | None:
        """The live run of that record; None if it is not running."""
        live = self._live.get((record.owner, record.client_id))
        return live if live is not None and live.record.run_id == record.run_id else None

    async def newest_and_thread(self, owner: str, run_id: str) -> tuple[RunRecord, Thread | None]:
        """The record of the run that the id means, and its thread, in one read.

        Raises:
            NotFoundError: no run has it.
            HeldElsewhereError: another gateway holds the thread.
        """
        found = await self._store.load_start(owner, run_id)
        if not (records := self._with_live(owner, run_id, found.runs)):
            raise _no_run(run_id)
        check_here(records[0].thread_id, found.holder)
        return records[0], found.thread

    async def _all(self, owner: str, run_id: str) -> Sequence[RunRecord]:
        return self._with_live(owner, run_id, await self._store.runs_known_as(owner, run_id))

    def _with_live(self, owner: str, run_id: str, records: Sequence[RunRecord]) -> Sequence[RunRecord]:
        """The stored runs of that id, and the one that is under way, as it is now."""
        if (live := self._live.get((owner, run_id))) is None:
            return records
        newest = live.record
        return [newest, *(record for record in records if record.run_id != newest.run_id)]


def _no_run(run_id: str) -> NotFoundError:
    return NotFoundError(f"there is no run {run_id!r}", code="run_not_found")
