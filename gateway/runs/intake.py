"""Takes a request's input into its thread, and decides which of a person's answers count.

Below: endings, approvals, history. Above: the run driver, which stores the result. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gateway.agent import Absent, AgentDefinition, AgentInput, Approvers, InterruptAnswer
from gateway.errors import ConflictError
from gateway.frozen import quickly_made, replace
from gateway.history.cache import HistoryCache, own_calls
from gateway.history.merging import (
    StaleHistoryError,
    append_history,
    merge_history,
    merge_recognised,
    unseen_messages,
    with_first_results,
    with_unseen,
)
from gateway.history.model_view import open_calls
from gateway.history.versions import Rewrite, history_change
from gateway.loop import Decision
from gateway.messages import Message
from gateway.model_state import Conversation, branched, mark_of, marked
from gateway.runs.approvals import answers_any, approves_as, arguments_check, decide
from gateway.runs.endings import approval_answered, still_asked, title_of, without_claims
from gateway.store import Thread
from gateway.tool import Tool


@quickly_made
@dataclass(frozen=True, slots=True)
class Intake:
    """`thread` with the input in it, and the interrupts without an answer; `keep` and `rewrite` as in
    Store.begin_run.
    """

    thread: Thread
    keep: int
    rewrite: Rewrite | None
    decisions: tuple[Decision, ...]


def take_in(
    given: AgentInput,
    thread: Thread,
    definition: AgentDefinition,
    tools: Mapping[str, Tool],
    approvals: Mapping[str, Approvers | None],
    now: float,
    conversation: Conversation | None = None,
    *,
    waited: bool = False,
    gone: Collection[str] = (),
) -> Intake:
    """Add the input, which is `recognised`, to the thread.

    `tools` are the backend tools by name, `approvals` as in LoopContext; `conversation` is a stateful model's.
    `waited`: the run waited in its thread's line, so the thread may have messages that it did not have at the request.
    `gone`: the agents whose interrupts the input answers and which no longer exist.

    Raises:
        InvalidRequestError: an answer does not fit its interrupt.
        ForbiddenError: the sender may not approve the call.
        ConflictError: the input only answers interrupts, and none of them is open any more; or another agent opened
            them; or it only brings results of calls that already have one.
        StaleHistoryError: the thread has messages that the client has not seen.
    """
    messages = _merged(given, thread, definition, tools, waited=waited)
    if conversation is not None or thread.model_states:
        messages = marked(messages, thread.messages, None if conversation is None else conversation.mark)
    asked = still_asked(thread.interrupts, messages)
    if given.terms.must_answer and not answers_any(asked, given.answers):
        raise approval_answered()
    verdict = decide(
        asked,
        given.answers,
        now=now,
        check=arguments_check(tools),
        approves=approves_as(thread.owner, approvals),
        agent_id=definition.id,
        gone=gone,
    )
    becomes = replace(
        thread,
        agent_id=definition.id,
        updated_at=now,
        title=thread.title or title_of(messages),
        messages=messages,
        state=thread.state if isinstance(given.application.state, Absent) else given.application.state,
        interrupts=verdict.still_open,
        paused=bool(verdict.still_open) and not given.thread.forgets_pauses,
        last_run_id=given.run_id,
        # A thread whose runs all force a tool is not a person's conversation: CopilotKit asks for suggestions this way.
        listed=not thread.hidden
        and (given.terms.forced_tool is None or (thread.listed and thread.last_run_id is not None)),
    )
    change = history_change(thread.messages, messages, shortened=thread.shortened, minted=given.sent.minted_ids)
    if change.makes_version:
        becomes = next_version(becomes, shortened=change.shortened)
    return Intake(becomes, change.keep, change.rewrite, verdict.decisions)


def _merged(
    given: AgentInput, thread: Thread, definition: AgentDefinition, tools: Mapping[str, Tool], *, waited: bool
) -> tuple[Message, ...]:
    """The thread's messages with those of the input. Raises as `take_in`."""
    cache = given.sent.history_cache
    sent = without_claims(up_to_date(given, thread.messages, waited=waited), thread, tools, cache)
    sent, left_out = _first_results(sent, thread, cache)
    # Without any message there is no history to replace the stored one: the answers alone continue the thread.
    append = not sent or not is_whole_history(given, definition, thread.messages)
    messages = (append_history if append else _merge_of(given))(thread.messages, sent)
    if left_out and not given.answers and _is_nothing_new(messages, thread):
        raise _call_answered(left_out[0])
    if append:
        return messages
    messages = _with_waiting(messages, thread, definition.id)
    return (*messages, *_lost_by_client(given.answers, thread, messages)) if given.answers else messages


def _first_results(
    sent: tuple[Message, ...], thread: Thread, cache: HistoryCache | None
) -> tuple[tuple[Message, ...], list[str]]:
    """As with_first_results, for the calls of this server's models."""
    calls = own_calls(thread.messages) if cache is None else cache.own_calls(thread.messages)
    if not calls or not sent:
        return sent, []
    ids = {message.id for message in thread.messages} if cache is None else cache.ids(thread.messages)
    return with_first_results(thread.messages, sent, calls, ids)


def _is_nothing_new(messages: Sequence[Message], thread: Thread) -> bool:
    """Whether the thread has all of these messages, and its model has responded to the last result."""
    known = {message.id: message for message in thread.messages}
    owes = thread.messages[-1].role == "tool" and not open_calls(thread.messages)
    return not owes and all(known.get(message.id) == message for message in messages)


def _call_answered(call_id: str) -> ConflictError:
    return ConflictError(
        f"the call {call_id[:64]!r} has a result already, and the first one counts; the request brings nothing else",
        code="call_answered",
    )


def _merge_of(given: AgentInput) -> Callable[[tuple[Message, ...], tuple[Message, ...]], tuple[Message, ...]]:
    """The function that merges the input's whole history into its thread."""
    if given.sent.recognition is not None:
        return merge_recognised
    return merge_history if given.sent.history_cache is None else given.sent.history_cache.merge


def recognised(given: AgentInput, stored: Sequence[Message]) -> AgentInput:
    """The input with the thread's own messages in place of the client's copies. The client's other messages are new,
    even if one has the same text as a message of the thread.
    """
    sent = given.sent
    if sent.recognition is None:
        return given
    messages = sent.recognition(stored, sent.messages)
    return replace(given, sent=replace(sent, messages=messages, minted_ids=frozenset()))


def waiting_messages(given: AgentInput, stored: Sequence[Message], *, is_stateful: bool) -> tuple[Message, ...]:
    """The messages that the store keeps while the input's run waits for its thread: user messages that are not
    `stored`. `is_stateful`: its model's server keeps conversations.
    """
    known = {message.id for message in stored}
    new = [each for each in recognised(given, stored).sent.messages if each.role == "user" and each.id not in known]
    return marked(tuple(new), (), mark_of(given.thread.conversation_id) if is_stateful else None)


def is_whole_history(given: AgentInput, definition: AgentDefinition, stored: Sequence[Message]) -> bool:
    """Whether the sent messages are the thread's whole history; if not, they are only its new messages."""
    match given.sent.history or definition.history:
        case "replace":
            return True
        case "append":
            return False
        case "by_id":
            return not stored or _first_id(given.sent.messages) == _first_id(stored)


def _first_id(messages: Sequence[Message]) -> str | None:
    """The id of a conversation's first message. System and developer messages before it do not count."""
    return next((message.id for message in messages if message.role not in ("system", "developer")), None)


def next_version(thread: Thread, *, shortened: bool) -> Thread:
    """The thread as a new version. If its history got shorter, it gives up the state that providers hold."""
    number = thread.last_version + 1
    states = {} if shortened else branched(thread.model_states, thread.messages)
    return replace(thread, version=number, last_version=number, shortened=shortened, model_states=states)


def up_to_date(given: AgentInput, stored: Sequence[Message], *, waited: bool = False) -> tuple[Message, ...]:
    """The sent messages; if the run `waited` for its thread, with those that the thread got meanwhile.

    Raises:
        StaleHistoryError: the thread has messages that the client has not seen.
    """
    if isinstance(given.sent.seen, Absent):
        return given.sent.messages
    unseen = unseen_messages(stored, given.sent.seen, given.sent.messages)
    if unseen is None:
        return given.sent.messages
    if not waited:
        raise StaleHistoryError(unseen)
    return with_unseen(stored, given.sent.messages, unseen)


def _with_waiting(messages: tuple[Message, ...], thread: Thread, agent_id: str) -> tuple[Message, ...]:
    """The messages, with the thread's messages whose calls wait for answers at other agents, in their places: a run of
    this agent withdraws none of these calls.
    """
    waiting = {item.call.call_id for item in thread.interrupts if not item.is_asked_by(agent_id)}
    if not waiting or waiting <= {call.call_id for message in messages for call in message.tool_calls}:
        return messages
    turns = {m.turn_id for m in thread.messages if any(call.call_id in waiting for call in m.tool_calls)}
    places = {message.id: place for place, message in enumerate(messages)}
    whole, after, added = [*messages], 0, 0
    for message in thread.messages:
        if (place := places.get(message.id)) is not None:
            if messages[place] == message:
                after = max(after, place + added + 1)
        elif message.turn_id is not None and message.turn_id in turns:
            whole.insert(after, message)
            after, added = after + 1, added + 1
    return tuple(whole)


def _lost_by_client(answers: Sequence[InterruptAnswer], thread: Thread, messages: Sequence[Message]) -> list[Message]:
    """The thread's messages with the answered calls that the client's history lacks.

    Clients lose calls (a reload, a history of their own making). The person's answer still counts: it names the
    interrupt, so nobody meant to withdraw it.
    """
    if not thread.interrupts:
        return []
    named = {answer.interrupt_id for answer in answers}
    asked = {item.call.call_id for item in thread.interrupts if item.interrupt.id in named}
    missing = asked - {call.call_id for message in messages for call in message.tool_calls}
    if not missing:
        return []
    turns = {m.turn_id for m in thread.messages if any(call.call_id in missing for call in m.tool_calls)}
    there = {message.id for message in messages}
    return [m for m in thread.messages if m.turn_id is not None and m.turn_id in turns and m.id not in there]
