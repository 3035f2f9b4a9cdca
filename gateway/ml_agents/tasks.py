"""The tasks of executions that nobody waits for: documents of their own, whose state is that of their run.

Below: the protocols' environment. Above: the protocols that begin such executions, and those that show tasks. A task is
kept when its run has begun. The end of the run is written into the task when somebody asks for it: the run's
record and its log have it, also after the process was killed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from types import MappingProxyType
from typing import Any, Final

from gateway.access.callers import Caller
from gateway.documents.document import Document, DocumentKind
from gateway.documents.owned import OwnedDocuments
from gateway.errors import (
    ConflictError,
    GatewayError,
    NotFoundError,
    StoreError,
    TooLargeError,
    UnavailableError,
)
from gateway.messages import JsonObject
from gateway.ml_commons.answers import hits_of, milliseconds, new_document_id
from gateway.protocol import ProtocolEnvironment, staying_here
from gateway.protocol.renderer import Renderer
from gateway.store import RunRecord, RunStatus

TASK_INDEX: Final = ".plugins-ml-task"
TASKS: Final = DocumentKind(
    "ml_task",
    {
        "task_id": {"type": "keyword"},
        "task_type": {"type": "keyword"},
        "function_name": {"type": "keyword"},
        "state": {"type": "keyword"},
        "agent_id": {"type": "keyword"},
        "run_id": {"type": "keyword"},
        "create_time": {"type": "date"},
        "last_update_time": {"type": "date"},
        "is_async": {"type": "boolean"},
        "error": {"type": "text"},
    },
)

AnswerOf = Callable[[RunRecord, bool], Renderer[JsonObject]]
"""The renderer of an execution's answer, from its run's record; and whether the caller may see why a model failed."""

_STATES: Mapping[RunStatus, str] = MappingProxyType(
    {
        RunStatus.QUEUED: "CREATED",
        RunStatus.RUNNING: "RUNNING",
        RunStatus.COMPLETED: "COMPLETED",
        RunStatus.INTERRUPTED: "COMPLETED",
        RunStatus.CANCELLED: "CANCELLED",
        RunStatus.FAILED: "FAILED",
    }
)
_UNDER_WAY: Final = ("CREATED", "RUNNING")
_AT_ONCE: Final = 1000
_NAMED: Final = ("memory_id", "parent_interaction_id")
_DELETED: Final = "its memory or its run was deleted"


async def begin_task(environment: ProtocolEnvironment, caller: Caller, run_id: str, response: JsonObject) -> JsonObject:
    """Keep the task of a run that has just begun. Gives the response to the caller. `response` is shown until the run
    has its own.
    """
    task_id = new_document_id()
    record = await environment.run(caller, run_id)
    now = milliseconds(record.created_at)
    task: JsonObject = {
        "task_id": task_id,
        "task_type": "AGENT_EXECUTION",
        "function_name": "AGENT",
        "state": "RUNNING",
        "agent_id": record.agent_id,
        "run_id": run_id,
        "worker_node": [],
        "create_time": now,
        "last_update_time": now,
        "is_async": True,
        "response": response,
    }
    await _documents(environment, caller).put(TASKS, task_id, task, if_version=0)
    return {"task_id": task_id, "status": "RUNNING", "response": response}


class Tasks:
    """The tasks of all callers; each sees its own."""

    def __init__(self, environment: ProtocolEnvironment, answer_of: AnswerOf) -> None:
        self._environment = environment
        self._answer_of = answer_of

    async def task(self, caller: Caller, task_id: str) -> JsonObject:
        """The task as it is now. Raises NotFoundError."""
        return await self._as_it_is(caller, await self._found(caller, task_id))

    async def search(self, caller: Caller, body: JsonObject) -> JsonObject:
        """The answer of a search over the caller's tasks as they are now.

        Raises:
            InvalidRequestError: the search is wrong.
        """
        documents = _documents(self._environment, caller)
        under_way: JsonObject = {"query": {"terms": {"state": [*_UNDER_WAY]}}, "size": _AT_ONCE}
        for hit in hits_of(await documents.search(TASKS, under_way)):
            with suppress(NotFoundError), staying_here():  # several gateways may have their runs
                await self.task(caller, hit["_id"])
        return await documents.search(TASKS, body)

    async def delete(self, caller: Caller, task_id: str) -> int:
        """Forget a task; its run goes on. Gives its version. Raises NotFoundError."""
        found = await self._found(caller, task_id)
        self._environment.count(caller)
        await _documents(self._environment, caller).delete(TASKS, task_id)
        return found.version

    async def cancel(self, caller: Caller, task_id: str) -> None:
        """Cancel the task's run.

        Raises:
            NotFoundError: no such task.
            ConflictError: it has ended otherwise.
        """
        task = await self.task(caller, task_id)
        state = task["state"]
        if state in _UNDER_WAY:
            await self._environment.cancel(caller, str(task["run_id"]))
        elif state != "CANCELLED":
            raise ConflictError(f"the task {task_id} has ended: {state}; only one that is under way can be cancelled")

    async def _found(self, caller: Caller, task_id: str) -> Document:
        if (found := await _documents(self._environment, caller).get(TASKS, task_id)) is None:
            raise NotFoundError(f"Failed to find task with the provided task id: {task_id}")
        return found

    async def _as_it_is(self, caller: Caller, found: Document) -> JsonObject:
        """The task with its run's end, which is kept."""
        before = found.body
        is_over = before["state"] not in _UNDER_WAY
        if is_over and "response" in before:
            return before
        try:
            record = await self._environment.run(caller, str(before["run_id"]))
        except NotFoundError:
            task, thread_id = {**before, **_failed(_DELETED, before)}, None
        else:
            task, thread_id = {**before, **await self._what_became(caller, record, before)}, record.thread_id
        if task != before and not is_over:
            await self._keep(caller, found, task, thread_id)
        return task

    async def _what_became(self, caller: Caller, record: RunRecord, before: JsonObject) -> JsonObject:
        changed_at = record.finished_at or record.started_at or record.created_at
        now: JsonObject = {"state": _STATES[record.status], "last_update_time": milliseconds(changed_at)}
        if not record.status.ended:
            return now
        try:
            answer = await self._answer(caller, record)
            return {**now, "response": {**answer, **_names_in(answer)}}
        except (StoreError, UnavailableError):  # it passes
            raise
        except GatewayError as error:
            return {**_failed(error.message, before), **now}

    async def _answer(self, caller: Caller, record: RunRecord) -> JsonObject:
        """The run's answer. Raises GatewayError, also if the run failed."""
        viewer = await self._environment.attach(caller, record.run_id)
        if viewer is None:  # its log is gone, or it was cancelled before it began
            raise NotFoundError(f"the run ended as {record.status.value}, and its log is not there")
        renderer = self._answer_of(record, self._environment.is_operators(caller))
        with closing(viewer):
            async for batch in viewer:
                renderer.render(batch.events, batch.first)
        return renderer.final()

    async def _keep(self, caller: Caller, found: Document, task: JsonObject, thread_id: str | None) -> None:
        """Write the task. Its answer is deleted with the memory; one that is too large is left to the run's log."""
        documents = _documents(self._environment, caller)
        ways: list[tuple[JsonObject, str | None]] = [(task, None)]
        if thread_id is not None and task["state"] not in _UNDER_WAY:
            bare = {name: value for name, value in task.items() if name != "response"}
            ways = [(task, thread_id), (bare, thread_id), (bare, None)]
        for body, thread in ways:
            with suppress(NotFoundError, TooLargeError):  # the memory is not there, or the answer is too large
                with suppress(ConflictError):  # another request wrote it, or deleted it
                    await documents.put(TASKS, found.document_id, body, found.version, thread_id=thread)
                return


def _documents(environment: ProtocolEnvironment, caller: Caller) -> OwnedDocuments:
    return environment.documents(caller, counted=False)  # its run was counted


def _names_in(answer: JsonObject) -> JsonObject:
    """The memory and the interaction that the parts of an answer name."""
    results: Any = answer.get("inference_results", [])
    return {part["name"]: part["result"] for each in results for part in each["output"] if part["name"] in _NAMED}


def _failed(message: str, before: JsonObject) -> JsonObject:
    """The members of a task that failed, with the memory that it named before."""
    said = before.get("response")
    named: JsonObject = {name: said[name] for name in _NAMED if name in said} if isinstance(said, dict) else {}
    return {"state": "FAILED", "response": {**named, "error_message": message}, "error": message}
