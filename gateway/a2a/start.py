"""Begins the run that a message asks for: of a new task, or of one that waits for its caller.

Below: request, stored_tasks, the protocols' environment. Above: send, methods. A run is detached, whatever its agent's
setting for clients that leave, and waits in the queue while another run is at work in its context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import orjson

from gateway.a2a.errors import invalid_params, unsupported
from gateway.a2a.ids import later_run_id, new_context_id, new_task_id
from gateway.a2a.request import Decision, SendRequest, tools_of
from gateway.a2a.routes import Asked
from gateway.a2a.stored_tasks import StoredTask, StoredTasks
from gateway.a2a.tasks import ORIGIN
from gateway.agent import (
    WITHDRAWS,
    AgentInput,
    ClientApplication,
    InputNames,
    InputOrigin,
    InputTerms,
    InputThread,
    InterruptAnswer,
    SentAnswer,
    SentMessages,
)
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.events import Interrupt
from gateway.messages import ContentBlock, JsonObject, JsonValue, Message, TextBlock, ToolResult
from gateway.options.run_options import RunOptions
from gateway.protocol import ProtocolEnvironment, Viewer, staying_here
from gateway.protocol.begin import DIGEST, Plan, Plans, begin_planned, body_digest
from gateway.protocol.requests import request_id_of
from gateway.store import RunRecord

_NAMES: Final = InputNames(run_id="messageId", answers="message/parts")
_QUEUED: Final = RunOptions(on_concurrent_run="enqueue")
_CANCELED: Final = (TextBlock("The task was canceled."),)
_PARTS: Final = "/message/parts"
_UNBOUNDED: Final = frozenset({"parts", "metadata", "extensions", "referenceTaskIds"})
_MOST_BYTES: Final = 64 * 1024
"""The most bytes of a message in its run's record. Of a larger one the largest members are left out: the thread has its
parts.
"""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that is at work on a task, and is among the task's runs. Close the viewer, which begins at event 1."""

    viewer: Viewer
    task: StoredTask


class Starter:
    """Begins runs for the messages of all callers."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._tasks = environment.shared(StoredTasks)

    async def start(self, asked: Asked, sent: SendRequest) -> StartedRun:
        """Begin the run of a message. The same message again gets its run, as long as that is at work.

        Raises:
            GatewayError: as ProtocolEnvironment.start; -32001: no such task; -32004: the task does not wait for
                anything; -32602: the task is in another context, or does not wait for this answer.
        """
        while True:
            try:
                return await (self._go_on(asked, sent) if sent.task_id else self._begin(asked, sent))
            except ConflictError as error:
                if error.code != "run_exists":  # else two messages came at one moment, and the other one was first
                    raise

    # --- a new task

    async def _begin(self, asked: Asked, sent: SendRequest) -> StartedRun:
        digest = body_digest({"agent": asked.agent_id, "message": sent.message})
        await self._environment.turn_after(asked.caller, sent.items)
        task_id = new_task_id(f"message {sent.message_id}")
        with staying_here():  # only an earlier copy of the message leads to another gateway
            record = await self._environment.known_run(asked.caller, task_id)
        if record is not None:
            task = self._new_task(asked, task_id, record.thread_id)
            if (begun := await self._begun_before(asked, task, record, digest)) is not None:
                return begun
            task_id = new_task_id()
        context_id = sent.context_id or new_context_id()
        given = _input(asked, sent, task_id, task_id, context_id, digest)
        plan = Plan(given, self._new_task(asked, task_id, context_id))
        return await self._started(asked, asked.agent_id, Plans([plan]))

    def _new_task(self, asked: Asked, task_id: str, context_id: str) -> StoredTask:
        return self._tasks.new_task(asked.caller, task_id, context_id, shows_activity=asked.shows_activity)

    async def _begun_before(self, asked: Asked, task: StoredTask, record: RunRecord, digest: str) -> StartedRun | None:
        """The run of an earlier copy of the message, if it is at work, else None. `task` does not have the run yet."""
        if record.status.ended or (record.request or {}).get(DIGEST) != digest:
            return None
        viewer = await self._tasks.begin(asked.caller, task, record)
        return None if viewer is None else StartedRun(viewer, task)

    async def _started(self, asked: Asked, agent_id: str, plans: Plans[StoredTask]) -> StartedRun:
        begun = await begin_planned(self._environment, asked.caller, agent_id, plans)
        viewer, task = begun.viewer, begun.form
        try:
            record = await self._environment.run(asked.caller, begun.run_id)
            await self._tasks.add(asked.caller, task, record)
        except BaseException:
            viewer.close()
            raise
        return StartedRun(viewer, task)

    # --- a task that waits

    async def _go_on(self, asked: Asked, sent: SendRequest) -> StartedRun:
        digest = body_digest(sent.message)
        task, viewer = await self._tasks.watch(asked.caller, sent.task_id, shows_activity=asked.shows_activity)
        fold, at_work = task.fold, viewer is not None
        if viewer is not None:
            viewer.close()
        if sent.context_id and sent.context_id != fold.context_id:
            raise invalid_params(
                f"the task {fold.task_id!r} is in another context; leave contextId out, or send the task's own",
                "/message/contextId",
            )
        if at_work and (begun := await self._going_on(asked, task, digest)) is not None:
            return begun
        if at_work:
            raise _takes_no_message(task)
        if not task.waits:
            return await self._again(asked, sent, task, digest)
        run_id, sent = later_run_id(fold.task_id, len(task.runs) + 1), _said(task, _with_tools(task, sent))
        given = _input(
            asked,
            sent,
            fold.task_id,
            run_id,
            fold.context_id,
            digest,
            results=results_of(task, sent, run_id),
            answers=answers_of(task, sent),
            withdrawing=_withdrawing(task),
        )
        return await self._started(asked, task.last.agent_id, Plans([Plan(given, task)]))

    async def _going_on(self, asked: Asked, task: StoredTask, digest: str) -> StartedRun | None:
        """The run of an earlier copy of the message, which is at work on the task."""
        *earlier, record = task.runs
        again = self._new_task(asked, task.fold.task_id, task.fold.context_id)
        for each in earlier:
            await self._tasks.follow(asked.caller, again, each)
        return await self._begun_before(asked, again, record, digest)

    async def _again(self, asked: Asked, sent: SendRequest, task: StoredTask, digest: str) -> StartedRun:
        """Begin the context's next task, which goes on where the run of an earlier copy of the message failed: that
        run's messages are on the thread, and its task stays failed.
        """
        *earlier, last = task.runs
        if not earlier or (last.request or {}).get(DIGEST) != digest:
            raise _takes_no_message(task)
        before = self._new_task(asked, task.fold.task_id, task.fold.context_id)
        for each in earlier:
            await self._tasks.follow(asked.caller, before, each)
        task_id, sent = new_task_id(), _said(before, _with_tools(before, sent))
        given = _input(
            asked,
            sent,
            task_id,
            task_id,
            task.fold.context_id,
            digest,
            results=results_of(before, sent, task_id),
            answers=answers_of(before, sent),
        )
        plan = Plan(given, self._new_task(asked, task_id, given.thread.id), only_again=True)
        return await self._started(asked, last.agent_id, Plans([plan], _takes_no_message(task)))

    async def cancel_waiting(self, asked: Asked, task: StoredTask) -> None:
        """Cancel a task that waits: a run goes on with it, denies what it asked, and is cancelled before it asks its
        model. If another run is at work on the thread, this one is cancelled in the queue. Others cannot approve the
        denied calls any more: a run that does so now has a later place in the queue.

        Raises:
            GatewayError: as ProtocolEnvironment.start; ConflictError `run_exists`: the task goes on.
        """
        fold = task.fold
        run_id = later_run_id(fold.task_id, len(task.runs) + 1)
        results = [
            _result(run_id, place, call_id, _CANCELED, is_error=True)
            for place, call_id in enumerate(task.pending_calls)
        ]
        given = AgentInput(
            run_id,
            InputThread(fold.context_id),
            SentMessages(tuple(results), "append", frozenset(each.id for each in results)),
            tuple(InterruptAnswer(each.id, "cancelled") for each in task.interrupts),
            terms=InputTerms(_QUEUED, unattended=True),
            origin=_origin(asked, {"task": fold.task_id, **_withdrawing(task)}),
        )
        agent_id = await self._canceling_agent(asked, task.last.agent_id)
        with closing(await self._environment.start(asked.caller, agent_id, given, from_first=True)) as viewer:
            await self._environment.cancel(asked.caller, run_id)
            async for _ in viewer:
                pass

    async def _canceling_agent(self, asked: Asked, agent_id: str) -> str:
        """The task's agent. If it was removed, the default agent: any agent may deny the questions of a removed one."""
        try:
            await self._environment.check_agent(asked.caller, agent_id)
        except (NotFoundError, ConflictError):
            return self._environment.default_agent(asked.caller)
        return agent_id


def _withdrawing(task: StoredTask) -> JsonObject:
    """The note that a run leaves about its task's questions: if the run ends the task, they end with it."""
    return {WITHDRAWS: [each.id for each in task.interrupts]} if task.interrupts else {}


def _takes_no_message(task: StoredTask) -> InvalidRequestError:
    fold = task.fold
    instead = f"send the message without taskId: the context {fold.context_id!r} takes it as its next task"
    if fold.state.ended:
        return unsupported(f"the task {fold.task_id!r} has ended; {instead}")
    return unsupported(f"the task {fold.task_id!r} is at work; wait until it asks, or {instead}")


def _input(
    asked: Asked,
    sent: SendRequest,
    task_id: str,
    run_id: str,
    context_id: str,
    digest: str,
    *,
    results: Sequence[Message] = (),
    answers: tuple[InterruptAnswer, ...] = (),
    withdrawing: Mapping[str, JsonValue] = MappingProxyType({}),
) -> AgentInput:
    said = (Message(f"msg_{run_id}_in", "user", sent.blocks),) if sent.blocks else ()
    messages = (*results, *said)
    kept: JsonObject = {"message": _kept({**sent.message, "taskId": task_id, "contextId": context_id})}
    if sent.metadata is not None and len(orjson.dumps(sent.metadata)) <= _MOST_BYTES:
        kept["metadata"] = sent.metadata
    return AgentInput(
        run_id,
        InputThread(context_id),
        SentMessages(messages, "append", frozenset(each.id for each in messages)),
        answers,
        ClientApplication(sent.tools or ()),
        InputTerms(_QUEUED, unattended=True, must_answer=bool(answers) and not messages, names_calls=True),
        _origin(asked, {"task": task_id, DIGEST: digest, **withdrawing, **kept}),
    )


def _origin(asked: Asked, kept: JsonObject) -> InputOrigin:
    return InputOrigin(ORIGIN, kept, request_id_of(asked.request), _NAMES)


def _kept(message: JsonObject) -> JsonObject:
    """The part of a message that the run's record keeps: nothing large, as its parts are on the thread."""
    while len(orjson.dumps(message)) > _MOST_BYTES:
        del message[max(_UNBOUNDED & message.keys(), key=lambda name: len(orjson.dumps(message[name])))]
    return message


def results_of(task: StoredTask, sent: SendRequest, run_id: str) -> list[Message]:
    """The outputs of calls that the task waits for. Raises InvalidRequestError (-32602): it does not wait for one."""
    pending = dict.fromkeys(task.pending_calls)
    for output in sent.outputs:
        if output.call_id not in pending:
            waits = ", ".join(map(repr, pending)) or "no call's output"
            raise invalid_params(f"the task does not wait for call {output.call_id!r}; it waits for {waits}", _PARTS)
    return [
        _result(run_id, place, output.call_id, output.content, is_error=output.is_error)
        for place, output in enumerate(sent.outputs)
    ]


def _result(
    run_id: str, place: int, call_id: str, content: Sequence[ContentBlock], *, is_error: bool = False
) -> Message:
    return Message(f"msg_{run_id}_out_{place}", "tool", (ToolResult(call_id, tuple(content), is_error),))


def answers_of(task: StoredTask, sent: SendRequest) -> tuple[InterruptAnswer, ...]:
    """The answers to questions that the task asked. Raises InvalidRequestError (-32602): it did not ask that."""
    asked = task.interrupts
    by_name: dict[str, list[Interrupt]] = {}
    for each in asked:
        for name in {each.call_id or each.id, each.id}:
            by_name.setdefault(name, []).append(each)
    answers: dict[str, InterruptAnswer] = {}
    for decision in sent.decisions:
        for each in _decided(asked, by_name, decision):
            if each.id in answers:
                raise invalid_params("the message decides one call twice", _PARTS)
            answers[each.id] = _answer(each, decision)
    return tuple(answers.values())


def _decided(
    asked: Sequence[Interrupt], by_name: Mapping[str, Sequence[Interrupt]], decision: Decision
) -> Sequence[Interrupt]:
    """The questions that a decision answers: those about the call that it names; if it names none, all."""
    named = by_name.get(decision.call_id, ()) if decision.call_id else asked
    if not named:
        waits = _names(asked) or "no decision"
        raise invalid_params(
            f"the task does not ask about {decision.call_id!r}; it waits for {waits}", decision.pointer
        )
    if len(named) > 1 and decision.arguments is not None:
        raise invalid_params(f"name the tool_call_id that the arguments are for, of {_names(asked)}", decision.pointer)
    return named


def _names(asked: Sequence[Interrupt]) -> str:
    return ", ".join(repr(each.call_id or each.id) for each in asked)


def _answer(asked: Interrupt, decision: Decision) -> InterruptAnswer:
    return InterruptAnswer(
        asked.id,
        "resolved",
        decision.approved,
        decision.arguments if decision.approved else None,
        decision.reason,
        sent=SentAnswer(arguments_pointer=f"{decision.pointer}/data/arguments"),
    )


def _with_tools(task: StoredTask, sent: SendRequest) -> SendRequest:
    """The message with the tools of the task's earlier ones, where it says nothing of tools."""
    if sent.tools is not None:
        return sent
    kept = (tools_of(record.request or {}) for record in reversed(task.runs) if record.origin == ORIGIN)
    return replace(sent, tools=next((tools for tools in kept if tools is not None), None))


def _said(task: StoredTask, sent: SendRequest) -> SendRequest:
    """The message, in which the word `approve` or `deny` is only a word where the task asks nobody."""
    if task.interrupts or not any(not each.call_id for each in sent.decisions):
        return sent
    words = tuple(TextBlock("approve" if each.approved else "deny") for each in sent.decisions if not each.call_id)
    named = tuple(each for each in sent.decisions if each.call_id)
    return replace(sent, blocks=(*words, *sent.blocks), decisions=named)
