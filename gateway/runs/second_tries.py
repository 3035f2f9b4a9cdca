"""Recognises a repeated request whose first run failed after the thread had taken in its results or answers.

Below: store, endings. Above: the run driver, the runner. The thread then has all that the client sent, and only the
model's response is missing: the next run asks the model and does nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.agent import AgentInput, SentMessages
from gateway.events import approval_id
from gateway.frozen import replace
from gateway.messages import Message, answered_calls
from gateway.runs.endings import input_digest
from gateway.store import RunRecord, RunStatus, Store, Thread


def may_be_second_try(given: AgentInput) -> bool:
    """Whether the input has a client's tool results or a person's answers; any other input begins its run anew."""
    return bool(given.answers) or "tool" in [message.role for message in given.sent.messages]


async def failed_before(store: Store, thread: Thread | None) -> RunRecord | None:
    """The thread's last run if it failed and nothing was added to the thread since; None otherwise."""
    if thread is None or thread.last_run_id is None or not thread.messages:
        return None
    if (end := thread.messages[-1]).role == "assistant" and not end.incomplete:  # spares a read for nearly all runs
        return None
    last = await store.load_run(thread.owner, thread.last_run_id)
    if last is None or last.status is not RunStatus.FAILED or last.thread_version != thread.version:
        return None
    return last if last.last_message_id == thread.messages[-1].id else None


async def is_second_try(
    store: Store, thread: Thread | None, agent_id: str, given: AgentInput, digest: str | None = None
) -> bool:
    """Whether the input repeats the input of the thread's last run, which failed. `digest`: the input's digest, if the
    caller has it (see endings.input_digest).
    """
    if thread is None or not may_be_second_try(given) or (last := await failed_before(store, thread)) is None:
        return False
    same = last.agent_id == agent_id and last.input_digest == (digest or input_digest(given))
    return same and _has_taken_in(thread, given)


def _has_taken_in(thread: Thread, given: AgentInput) -> bool:
    """Whether the thread has the input's results and answers: a run that failed while it waited did not add them."""
    answered = answered_calls(thread.messages)
    decided = {approval_id(call_id) for call_id in answered} if given.answers else set()
    return answered_calls(given.sent.messages) <= answered and {each.interrupt_id for each in given.answers} <= decided


def as_second_try(given: AgentInput, stored: Sequence[Message], *, is_whole: bool) -> AgentInput:
    """The second try's input, which only asks the model: the thread's messages without the response that was cut off.

    A client that sends its whole history (`is_whole`) with the thread's ids decides itself which part of that response
    stays.
    """
    if given.answers or given.sent.recognition is not None or not is_whole:
        given = replace(given, sent=SentMessages(tuple(_without_cut_off(stored)), "replace"))
    return replace(given, answers=(), terms=replace(given.terms, must_answer=False))


def _without_cut_off(messages: Sequence[Message]) -> Sequence[Message]:
    end = len(messages)
    if end and messages[-1].incomplete:
        turn_id = messages[-1].turn_id
        while end and messages[end - 1].turn_id == turn_id:
            end -= 1
    return messages[:end]
