"""ListTasks: a page of a caller's tasks with one agent, the one that changed last first.

Below: stored_tasks, the protocols' environment. Above: methods.
https://a2a-protocol.org/latest/specification/#314-list-tasks (1.0)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from gateway.a2a.dialects import written_task
from gateway.a2a.errors import Parameters, invalid_params
from gateway.a2a.ids import new_task_id
from gateway.a2a.request import read_history_length
from gateway.a2a.routes import Asked
from gateway.a2a.states import TaskState, state_named
from gateway.a2a.stored_tasks import StoredTasks, WholeRun
from gateway.a2a.tasks import ORIGIN, TaskFold, task_of
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.protocol import ProtocolEnvironment, staying_here
from gateway.protocol.pages import PageSize
from gateway.protocol.requests import whole_number
from gateway.store import Page, RunFilter, RunRecord, RunStatus

_USUAL_PAGE: Final = 50
_LONGEST_PAGE: Final = 100
_MOST_LOOKED_AT: Final = 100
"""Of the tasks that a page is looked for in. The next page goes on behind them."""
_MOST_COUNTED: Final = 100
"""Of those that are looked at for a number alone: each costs as much as one that is shown."""
_READ_AT_ONCE: Final = 25
"""So many tasks are read from the store together."""
_UNSPECIFIED: Final = ("", "TASK_STATE_UNSPECIFIED")
_STEM: Final = len(new_task_id("x"))
_STATUSES: Final[Mapping[TaskState, frozenset[RunStatus]]] = MappingProxyType(
    {
        TaskState.SUBMITTED: frozenset({RunStatus.QUEUED}),
        TaskState.WORKING: frozenset({RunStatus.RUNNING}),
        TaskState.COMPLETED: frozenset({RunStatus.COMPLETED}),
        TaskState.INPUT_REQUIRED: frozenset({RunStatus.COMPLETED, RunStatus.INTERRUPTED}),
        TaskState.CANCELED: frozenset({RunStatus.CANCELLED}),
        TaskState.FAILED: frozenset({RunStatus.FAILED}),
        TaskState.REJECTED: frozenset({RunStatus.FAILED}),
        TaskState.AUTH_REQUIRED: frozenset(),
    }
)
"""The runs that may have left their task in a state; what they said tells which of them did."""
_FOLLOWED: Final = frozenset({RunStatus.INTERRUPTED})
"""One that waited may have been answered by another protocol, whose run is not listed. That is behind it on its thread.
"""


@dataclass(frozen=True, slots=True)
class _Wanted:
    runs: RunFilter
    state: TaskState | None
    page_size: int
    cursor: str | None
    total: int | None
    history_length: int | None
    artifacts: bool


class TaskList:
    """The tasks of all callers; each sees its own."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._tasks = environment.shared(StoredTasks)

    async def page(self, asked: Asked, params: JsonObject) -> JsonObject:
        """The result of ListTasks. Raises InvalidRequestError (-32602)."""
        with staying_here():  # several gateways may have these tasks
            return await self._page(asked, _read(params, asked))

    async def _page(self, asked: Asked, wanted: _Wanted) -> JsonObject:
        tasks: list[JsonValue] = []
        cursor, looked_at, count = wanted.cursor, 0, wanted.total
        size = PageSize()
        while True:
            rows, count = await self._rows(asked, wanted, wanted.page_size - len(tasks), cursor, count)
            cursor = rows.next_cursor
            async with aclosing(self._folded(asked, wanted, rows.items)) as folded:
                async for number, fold in folded:
                    looked_at += 1
                    if fold is not None:
                        shown = fold.task(history_length=wanted.history_length, artifacts=wanted.artifacts)
                        tasks.append(written := written_task(asked.dialect, shown))
                        size.add(written)
                    if size.is_full and number + 1 < len(rows.items):
                        cursor = rows.cursors[number]
                        break
            if cursor is None or size.is_full or len(tasks) == wanted.page_size or looked_at >= _MOST_LOOKED_AT:
                break
        total = count
        if wanted.total is not None:
            total = wanted.total
        elif wanted.cursor is None and (cursor is None or wanted.state is not None):
            total = len(tasks) + await self._further(asked, wanted, cursor, looked_at, count)
        token = "" if cursor is None else f"{total}.{cursor}"
        return {"tasks": tasks, "nextPageToken": token, "pageSize": wanted.page_size, "totalSize": total}

    async def has_any(self, asked: Asked) -> bool:
        """Whether the caller has a task with the agent."""
        of_agent = RunFilter(ORIGIN, _STEM, agent_id=asked.agent_id)
        return bool((await self._environment.find_runs(asked.caller, of_agent, limit=1, total=0))[0].items)

    async def _further(self, asked: Asked, wanted: _Wanted, cursor: str | None, looked_at: int, count: int) -> int:
        """The number of tasks from `cursor` on. If `count`, the number of all runs, is too large to look at each of
        them, all after the `looked_at` first ones count, whatever their state.
        """
        if cursor is not None and count > _MOST_COUNTED:
            return count - looked_at
        found = 0
        while cursor is not None:
            rows, _ = await self._rows(asked, wanted, _MOST_COUNTED, cursor, count)
            found += len([fold async for _, fold in self._folded(asked, wanted, rows.items) if fold is not None])
            cursor = rows.next_cursor
        return found

    async def _rows(
        self, asked: Asked, wanted: _Wanted, left: int, cursor: str | None, count: int | None
    ) -> tuple[Page[RunRecord], int]:
        try:
            return await self._environment.find_runs(asked.caller, wanted.runs, limit=left, cursor=cursor, total=count)
        except InvalidRequestError as error:
            message = "pageToken is none of this list's; send a nextPageToken as it is, or none"
            raise invalid_params(message, "/pageToken") from error

    async def _folded(
        self, asked: Asked, wanted: _Wanted, records: Sequence[RunRecord]
    ) -> AsyncGenerator[tuple[int, TaskFold | None]]:
        """The tasks of these runs with their numbers, from 0; None: it is not in the wanted state."""
        whole: Mapping[str, WholeRun] = {}
        asked_for = 0
        for number, record in enumerate(records):
            if number == asked_for:
                some = records[number : number + _READ_AT_ONCE]
                whole = await self._tasks.whole_runs(asked.caller, some, artifacts=wanted.artifacts)
                asked_for = number + len(some)
            yield number, await self._fold(asked, wanted, record, whole.get(record.run_id))

    async def _fold(self, asked: Asked, wanted: _Wanted, record: RunRecord, whole: WholeRun | None) -> TaskFold | None:
        try:
            fold = await self._tasks.folded(asked.caller, task_of(record), whole)
        except NotFoundError:  # deleted meanwhile
            return None
        return fold if wanted.state is None or fold.state is wanted.state else None


def _read(params: JsonObject, asked: Asked) -> _Wanted:
    fields = Parameters(params)
    page_size = fields.number("pageSize", least=1) or _USUAL_PAGE
    if page_size > _LONGEST_PAGE:
        fields.wrong("pageSize", f"pageSize must be a whole number from 1 to {_LONGEST_PAGE}")
    state = _state(fields)
    total, _, cursor = (fields.text("pageToken") or "").rpartition(".")
    since = _time(fields, "statusTimestampAfter")
    wanted = _Wanted(
        RunFilter(
            ORIGIN,
            _STEM,
            fields.text("contextId") or None,
            None if state is None else _STATUSES[state],
            since,
            asked.agent_id,
            frozenset() if state in (None, TaskState.AUTH_REQUIRED) else _FOLLOWED,
        ),
        state,
        page_size,
        cursor or None,
        whole_number(total),
        read_history_length(fields, asked.dialect),
        fields.boolean("includeArtifacts") is True,
    )
    fields.check()
    return wanted


def _state(fields: Parameters) -> TaskState | None:
    name = fields.text("status") or ""
    if name in _UNSPECIFIED:
        return None
    if (state := state_named(name)) is None:
        fields.wrong("status", f"status must be one of {', '.join(TaskState)}, not {name[:64]!r}")
    return state


def _time(fields: Parameters, name: str) -> float | None:
    """A time as ISO 8601 writes it, in Unix seconds."""
    if not (text := fields.text(name)):
        return None
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        fields.wrong(name, f"{name} must be a time as 2026-11-23T10:00:00Z, not {text[:64]!r}")
        return None
