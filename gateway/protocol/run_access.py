"""The access of protocols to runs and approvals.

Below: agent_access. Above: the environment.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import AgentInput, InterruptAnswer
from gateway.errors import ForbiddenError, NotFoundError
from gateway.events import Event
from gateway.protocol.agent_access import AgentAccess
from gateway.runs.approvals import AnsweredApproval
from gateway.runs.thread_points import RunMessages, ThreadHead
from gateway.runs.viewer import Viewer
from gateway.store import (
    Approval,
    Page,
    RunFilter,
    RunRecord,
)

_RUN_MISSING: Final = frozenset({"run_not_found", "thread_not_found"})


@contextmanager
def run_named(missing: NotFoundError) -> Generator[None]:
    """Tell of a run that is not there by this error, in a protocol's own words."""
    try:
        yield
    except NotFoundError as error:
        if error.code not in _RUN_MISSING:
            raise
        raise missing from None


class RunAccess(AgentAccess):
    """Runs: begun, watched, cancelled; and the approvals that they wait for."""

    __slots__ = ()

    async def start(self, caller: Caller, agent_id: str, given: AgentInput, *, from_first: bool = False) -> Viewer:
        """Begin a run and watch it; a repeated request watches its earlier run again. Close the viewer at the end.

        `from_first`: the viewer of a repeated request has all events of its run, as a renderer.Renderer needs; without,
        it has a prelude of what was said so far, and what follows.

        `async for batch in viewer` gives all of the run. A visitor's system and developer messages are left out, and
        the options of its run.

        Raises:
            NotFoundError: no such agent for this caller.
            ConflictError: the thread is busy, or the run id belongs to another request.
            TooManyRequestsError: too many runs wait for the thread, or a limit of the caller's is reached.
            TooLargeError: more of the input is new than the caller may send.
            InvalidRequestError: an answer does not fit its interrupt, or an option cannot be met.
            StoreError, UnavailableError: the store or the gateway cannot be used now.
        """
        self._check_agent(caller, agent_id)
        await self.turn_after(caller, len(given.sent.messages) + len(given.application.tools) + len(given.answers))
        admission = self._admission(caller)
        limits = caller.run_limits()
        return await self._runner.start(
            caller.owner, agent_id, caller.admitted(given), admission, limits, from_first=from_first
        )

    async def is_second_try(self, caller: Caller, agent_id: str, given: AgentInput) -> bool:
        """Whether the input comes again after a run that took in its results or answers, and then failed: `start` asks
        the model then, and takes nothing in again.
        """
        return await self._runner.is_second_try(caller.owner, agent_id, caller.admitted(given))

    async def connect(self, caller: Caller, agent_id: str, given: AgentInput) -> Viewer:
        """Watch a thread: its history, then its live run's events, or how its last run ended.

        Raises:
            NotFoundError: no such agent for this caller.
        """
        self._check_agent(caller, agent_id)
        return await self._runner.connect(caller.owner, agent_id, given)

    async def attach(
        self,
        caller: Caller,
        run_id: str,
        *,
        after: int = 0,
        log_id: str = "",
        pace: float | None = None,
        needs_log: bool = False,
    ) -> Viewer | None:
        """Watch a run's events after that number; None if the run is over and has no more.

        `log_id` is the prefix of the event id that had the number (RunRecord.log_id). `pace`: logged events come with
        the pauses between them, divided by it. `needs_log`: a log that was deleted is an error, and not one without
        events.

        Raises:
            NotFoundError: no such run; or `log_expired`.
            InvalidRequestError: the run's log does not reach that number.
        """
        return await self._runner.attach(
            caller.owner, run_id, after=after, log_id=log_id, pace=pace, needs_log=needs_log
        )

    async def cancel(self, caller: Caller, run_id: str) -> RunRecord:
        """Cancel a run; gives its record as it is now: one that has not ended will end within a second. Raises
        NotFoundError.
        """
        return await self._runner.cancel(caller.owner, run_id)

    async def stop(self, caller: Caller, run_id: str) -> None:
        """Cancel a run, and wait for its end. Raises NotFoundError."""
        await self.cancel(caller, run_id)
        if (viewer := await self.attach(caller, run_id)) is not None:
            with closing(viewer):
                async for _ in viewer:
                    pass

    async def run(self, caller: Caller, run_id: str) -> RunRecord:
        """A run's record. Raises NotFoundError."""
        return await self._runner.run(caller.owner, run_id)

    async def known_run(self, caller: Caller, run_id: str) -> RunRecord | None:
        """A run's record; None: there is no such run."""
        try:
            return await self.run(caller, run_id)
        except NotFoundError:
            return None

    async def find_runs(
        self,
        caller: Caller,
        wanted: RunFilter,
        *,
        limit: int,
        cursor: str | None = None,
        total: int | None = None,
    ) -> tuple[Page[RunRecord], int]:
        """A page of the caller's runs that fit, as Store.find_runs."""
        return await self._runner.find_runs(caller.owner, wanted, limit=limit, cursor=cursor, total=total)

    async def ended_logs(self, caller: Caller, runs: Sequence[RunRecord]) -> Mapping[str, Sequence[Event]]:
        """The events of the first of these ended runs, by run id: of runs whose log is there and short."""
        return await self._runner.ended_logs(caller.owner, runs)

    async def run_messages(self, caller: Caller, run_id: str) -> RunMessages:
        """A run's messages, as its thread has them, with or without its log; of a run under way, those so far. There
        are none if the run has not begun, or its messages were deleted.

        Raises:
            NotFoundError: no such run; or the version of the thread is gone on which it was at work.
        """
        return await self._runner.run_messages(caller.owner, run_id)

    async def kept_messages(self, caller: Caller, run_id: str) -> RunMessages:
        """As `run_messages`; nothing where the run, or the version of the thread on which it was at work, is gone."""
        try:
            return await self.run_messages(caller, run_id)
        except NotFoundError:
            return RunMessages()

    async def thread_head(self, caller: Caller, thread_id: str) -> ThreadHead | None:
        """Where a thread's current version stands; None: there is no such thread."""
        return await self._runner.thread_head(caller.owner, thread_id)

    async def run_and_head(self, caller: Caller, run_id: str) -> tuple[RunRecord, ThreadHead | None]:
        """A run's record and its thread, in one read; None: the run has not begun it yet. Raises NotFoundError."""
        return await self._runner.run_and_head(caller.owner, run_id)

    async def delete_run(self, caller: Caller, run_id: str) -> None:
        """Delete a run's record and events; its messages stay on its thread.

        Raises:
            NotFoundError: no such run.
            ConflictError: it is under way.
            TooManyRequestsError: a limit of the caller's is reached.
        """
        with self.counted_change(caller):
            await self._runner.delete_run(caller.owner, run_id)

    # --- approvals

    def check_approver(self, caller: Caller) -> None:
        """Refuse callers that may not approve; all methods below do so, too. Raises ForbiddenError."""
        if not caller.may_approve:
            raise ForbiddenError(
                "this is for keys that may approve; add 'approvals: true' to the key in server.api_keys",
                code="approvals_not_allowed",
            )

    async def approvals(self, caller: Caller, *, limit: int, cursor: str | None = None) -> Page[Approval]:
        """A page of all open approvals, of every owner, the oldest first. Raises ForbiddenError."""
        self.check_approver(caller)
        return await self._runner.approvals(limit=limit, cursor=cursor)

    async def answer(self, caller: Caller, approval_id: str, answer: InterruptAnswer) -> AnsweredApproval:
        """Answer an approval for the owner of its thread; the run that continues with it counts for the caller.
        `answer` needs no ids.

        Raises:
            ForbiddenError: the caller may not approve.
            NotFoundError: there is no such approval.
            ConflictError: it was answered, or has expired; its agent is gone, so it can only be denied; or the thread
                is busy.
            InvalidRequestError: the arguments do not fit the tool.
            StoreError, TooManyRequestsError, UnavailableError: as `start`.
        """
        self.check_approver(caller)
        return await self._runner.answer(approval_id, answer, self._admission(caller))
