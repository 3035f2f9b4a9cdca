"""Tasks of callers that have begun: found by the runs that they consist of, and folded from the events of these.

Below: tasks, the protocols' environment. Above: start, send, methods, push_delivery. A task is its first run and the
runs that went on where one of its runs waited, also by another protocol. Only these runs are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.a2a.errors import task_not_found
from gateway.a2a.ids import later_run_id, task_of_run
from gateway.a2a.parts import data_part, parts_of
from gateway.a2a.settings import A2ASettings
from gateway.a2a.states import TaskState
from gateway.a2a.tasks import ORIGIN, TaskFold, task_of
from gateway.access.callers import Caller
from gateway.agent import WITHDRAWS
from gateway.events import Completed, Event, Interrupt, Interrupted, Outcome, RunFailed, RunFinished
from gateway.frozen import replace
from gateway.messages import JsonObject, JsonValue, Message, TextBlock, answered_calls
from gateway.protocol import ProtocolEnvironment, Viewer
from gateway.protocol.run_events import events_of
from gateway.store import RunRecord, RunStatus

_PAGE: Final = 50
_OVER: Final = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})


class WholeRun(NamedTuple):
    """A run that has ended, and those of its events of which its task is made."""

    record: RunRecord
    events: Sequence[Event]


@dataclass(slots=True)
class StoredTask:
    """A task as far as it has come. `runs` are its runs, the oldest first, all of which the fold has. `end` is the last
    one's, once it has ended.
    """

    fold: TaskFold
    runs: list[RunRecord] = field(default_factory=list)
    end: Event | None = None

    @property
    def waits(self) -> bool:
        """Whether the task goes on once its caller answers."""
        return self.fold.state is TaskState.INPUT_REQUIRED

    @property
    def pending_calls(self) -> list[str]:
        """The calls whose output it waits for."""
        outcome = self._outcome
        return [each.call_id for each in outcome.pending_calls] if isinstance(outcome, Completed | Interrupted) else []

    @property
    def interrupts(self) -> list[Interrupt]:
        """The questions that it waits for an answer to."""
        outcome = self._outcome
        return [*outcome.interrupts] if isinstance(outcome, Interrupted) else []

    @property
    def _outcome(self) -> Outcome | None:
        return self.end.outcome if isinstance(self.end, RunFinished) else None

    @property
    def last(self) -> RunRecord:
        return self.runs[-1]


@dataclass(frozen=True, slots=True)
class NextRun:
    """A wait for the next run of a context: `begins` is set once one begins, or once this gateway has lost the context:
    then `lost` is, too. Call `stop` at the end.
    """

    begins: asyncio.Event
    lost: asyncio.Event
    stop: Callable[[], None]


class StoredTasks:
    """The tasks of all callers; each sees its own. One for the process."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def runs(self, caller: Caller, task_id: str) -> list[RunRecord]:
        """The records of a task's runs, the oldest first. Raises NotFoundError (-32001)."""
        return (await self.task(caller, task_id)).runs

    async def folded(self, caller: Caller, task_id: str, whole: WholeRun | None = None) -> TaskFold:
        """A task as it is now. `whole`: its first run, if that was read. Raises NotFoundError (-32001)."""
        return (await self.task(caller, task_id, whole)).fold

    async def task(self, caller: Caller, task_id: str, whole: WholeRun | None = None) -> StoredTask:
        """As `folded`. Raises NotFoundError (-32001)."""
        task, viewer = await self._watch(caller, task_id, whole)
        if viewer is not None:
            viewer.close()
        return task

    async def is_of(self, caller: Caller, task_id: str, agent_id: str) -> bool:
        """Whether the caller has this task, and it began with that agent."""
        record = await self._environment.known_run(caller, task_of_run(task_id))
        return record is not None and record.agent_id == agent_id

    async def watch(
        self, caller: Caller, task_id: str, *, shows_activity: bool = False
    ) -> tuple[StoredTask, Viewer | None]:
        """A task as it is now, and a viewer of the run that is at work on it; None: no run is. Close the viewer.
        `shows_activity` as in TaskFold. Raises NotFoundError (-32001).
        """
        return await self._watch(caller, task_id, shows_activity=shows_activity)

    async def _watch(
        self, caller: Caller, task_id: str, whole: WholeRun | None = None, *, shows_activity: bool = False
    ) -> tuple[StoredTask, Viewer | None]:
        known = self._environment.known_run
        record = await known(caller, task_of_run(task_id)) if whole is None else whole.record
        if record is None:
            raise task_not_found(task_id)
        task = self.new_task(caller, record.client_id, record.thread_id, shows_activity=shows_activity)
        if whole is not None:
            await self.add(caller, task, whole.record)
            _fold(task, whole.events)
            record = await self.next_run(caller, task)
        while record is not None:
            if (viewer := await self.follow(caller, task, record)) is not None:
                return task, viewer
            record = await self.next_run(caller, task)
        return task, None

    async def whole_runs(
        self, caller: Caller, records: Sequence[RunRecord], *, artifacts: bool
    ) -> Mapping[str, WholeRun]:
        """The runs with their events, by their ids: of the first of these runs, those that have ended and are the first
        of their tasks. A run that waits for an answer is left out: another run may have its id by now.

        Without `artifacts` a task is made of its run's last event, which the record has; the log is read only where an
        agent may have answered with a message of its own.
        """
        found = {each.run_id: each for each in records if each.status in _OVER and task_of(each) == each.run_id}
        whole = (
            {} if artifacts else {run_id: each for run_id, record in found.items() if (each := _without_log(record))}
        )
        unread = [record for run_id, record in found.items() if run_id not in whole]
        logs = await self._environment.ended_logs(caller, unread) if unread else {}
        return whole | {
            run_id: WholeRun(found[run_id], events)
            for run_id, events in logs.items()
            if isinstance(events[-1], RunFinished | RunFailed)
        }

    def new_task(self, caller: Caller, task_id: str, context_id: str, *, shows_activity: bool = False) -> StoredTask:
        """A task without its runs."""
        to_operator = self._environment.is_operators(caller)
        fold = TaskFold(
            task_id,
            context_id,
            shows_activity=shows_activity,
            to_operator=to_operator,
            repeats_texts=self._environment.protocol_settings(caller, A2ASettings).last_chunk == "whole",
        )
        return StoredTask(fold)

    async def begin(self, caller: Caller, task: StoredTask, record: RunRecord) -> Viewer | None:
        """Add a run to the end of the task. Gives a viewer of its events, which are not in the task yet; None: the
        run's log is gone.
        """
        viewer = await self._environment.attach(caller, record.client_id)
        try:
            await self.add(caller, task, record)
        except BaseException:
            if viewer is not None:
                viewer.close()
            raise
        return viewer

    async def add(self, caller: Caller, task: StoredTask, record: RunRecord) -> None:
        """Add a run to the end of the task."""
        task.runs.append(record)
        task.fold.begin(await self._with_message(caller, record))
        task.end = None

    async def _with_message(self, caller: Caller, record: RunRecord) -> RunRecord:
        """The record with the message that began the run, where that is on the thread alone: it was too large, or came
        by another protocol.
        """
        request = record.request or {}
        message = request.get("message") if record.origin == ORIGIN else {}
        if not isinstance(message, dict) or "parts" in message:
            return record
        given = (await self._environment.kept_messages(caller, record.client_id)).given
        said = next((each for each in reversed(given) if each.role == "user"), None)
        if said is None and not message:
            return record
        own: JsonObject = {"parts": _outputs(given)}
        if said is not None:
            own = {"messageId": said.id, "role": "ROLE_USER", "parts": parts_of(said.content)}
        return replace(record, request={**request, "message": {**own, **message}})

    async def follow(self, caller: Caller, task: StoredTask, record: RunRecord) -> Viewer | None:
        """Fold a run into its task, as far as it has come. Gives a viewer of the rest; None: the run has ended."""
        if (viewer := await self.begin(caller, task, record)) is None:
            _fold(task, await self.lost_events(caller, record))
            return None
        try:
            while (batch := await viewer.next(0)) is not None:
                if not batch.events:
                    viewer.close()
                    return None
                _fold(task, batch.events)
        except BaseException:
            viewer.close()
            raise
        return viewer

    async def lost_events(self, caller: Caller, record: RunRecord) -> Sequence[Event]:
        """The events of an ended run without a log, as far as they follow from its thread."""
        return events_of(record, (await self._environment.kept_messages(caller, record.client_id)).produced)

    async def next_run(self, caller: Caller, task: StoredTask) -> RunRecord | None:
        """The run that went on where the task waited; None: none has, or the task does not wait."""
        if not task.waits:
            return None
        own = await self._environment.known_run(caller, later_run_id(task.fold.task_id, len(task.runs) + 1))
        return own or await self._foreign_run(caller, task)

    async def _foreign_run(self, caller: Caller, task: StoredTask) -> RunRecord | None:
        """The run of another protocol, or of another task, that went on with this task, if one did. It comes after the
        task's last run on the thread.
        """
        later: list[RunRecord] = []
        cursor: str | None = None
        while True:
            page = await self._environment.thread_runs(caller, task.fold.context_id, limit=_PAGE, cursor=cursor)
            for record in page.items:
                if record.run_id == task.last.run_id:
                    return await self._going_on(caller, task, later)
                later.append(record)
            if (cursor := page.next_cursor) is None:
                return None

    async def _going_on(self, caller: Caller, task: StoredTask, later: Sequence[RunRecord]) -> RunRecord | None:
        """The run that went on with the task, among those `later` on its thread, the newest first. Other tasks of the
        context ask the same questions, so one run goes on with all of them; but of A2A's runs only the task's own bring
        outputs of its client's tools.
        """
        questions = {each.id for each in task.interrupts}
        for record in reversed(later):
            if questions and record.agent_id != task.last.agent_id:
                if await self._answered(caller, record, task.interrupts):
                    return record
            elif record.origin != ORIGIN:
                if not await self._left_open(caller, record, questions):
                    return record
            elif not questions:
                return None
            elif record.status is RunStatus.COMPLETED or _names_any(record, questions):  # that leaves none open
                return record
        return None

    async def _answered(self, caller: Caller, record: RunRecord, questions: Sequence[Interrupt]) -> bool:
        """Whether a run of another agent brought the result of one of the calls: it denied a question of a removed
        agent.
        """
        asked = {each.call_id for each in questions}
        produced = (await self._environment.kept_messages(caller, record.client_id)).produced
        return not asked.isdisjoint(answered_calls(produced))

    async def _left_open(self, caller: Caller, record: RunRecord, questions: Collection[str]) -> bool:
        """Whether a run of another protocol ended before it took in its answers to these questions."""
        if not questions or record.status not in (RunStatus.CANCELLED, RunStatus.FAILED):
            return False
        still_open = await self._environment.interrupts(caller, record.thread_id)
        return any(each.id in questions for each in still_open)

    # --- waiting for a task to go on

    async def next_begins(self, caller: Caller, context_id: str) -> NextRun:
        """Wait for the next run of a context, which will begin at this gateway.

        Raises:
            HeldElsewhereError: another gateway holds the thread.
        """
        begins, lost = asyncio.Event(), asyncio.Event()

        def lose() -> None:
            lost.set()
            begins.set()

        stop = await self._environment.on_run_begun(caller, context_id, lambda _: begins.set(), lose)
        return NextRun(begins, lost, stop)


def _outputs(given: Sequence[Message]) -> list[JsonValue]:
    """The outputs of a client's tools as the parts that brought them."""
    parts: list[JsonValue] = []
    for message in given:
        if (result := message.tool_result) is not None:
            text = "".join(block.text for block in result.content if isinstance(block, TextBlock))
            parts.append(data_part({"tool_call_id": result.call_id, "output": text}))
    return parts


def _without_log(record: RunRecord) -> WholeRun | None:
    """A run whose task has nothing from its log but the last event; None: there may be more."""
    return None if record.terminal is None or record.has_custom else WholeRun(record, (record.terminal,))


def _fold(task: StoredTask, events: Sequence[Event]) -> None:
    task.fold.follow(events)
    task.end = events[-1] if events else None


def _names_any(record: RunRecord, questions: Collection[str]) -> bool:
    """Whether a run of another task goes on with one of these questions: it answers them, or they end with it."""
    named = (record.request or {}).get(WITHDRAWS)
    return isinstance(named, list) and any(each in questions for each in named)
