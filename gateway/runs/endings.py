"""The records that a run's begin and end store; and the end of a run that its process left unfinished.

Below: events, messages, store, transcript, event_order. Above: the run driver, the runner. Pure, except
`end_left_behind` and log lines.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

import orjson

from gateway.agent import WITHDRAWS, Absent, AgentDefinition, AgentInput
from gateway.clock import Clock
from gateway.errors import ConflictError, GatewayError, ModelError, NotFoundError
from gateway.event_order import Sealer
from gateway.events import (
    Cancelled,
    Completed,
    Event,
    Interrupted,
    OpenInterrupt,
    RemoteError,
    RunFailed,
    RunFinished,
    RunStarted,
)
from gateway.frozen import replace
from gateway.history.cache import HistoryCache, digest_rows, own_calls, turns_of
from gateway.history.merging import append_history
from gateway.messages import JsonValue, Message, ToolCall, ToolResult, new_id
from gateway.model import ModelCapabilities
from gateway.model_state import Conversation, marked
from gateway.records import encode_events
from gateway.runs.failure_words import operator_message
from gateway.runs.waiting_input import not_in_thread
from gateway.store import LEAST_LIFE_SECONDS, RunRecord, RunStatus, Store, Terminal, Thread
from gateway.tool import Tool
from gateway.transcript import RunFold
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)


_TITLE_CHARACTERS = 80
_PAGE = 5_000


def input_digest(given: AgentInput, produced: frozenset[str] = frozenset()) -> str:
    """The digest that recognises a repeated request: of its messages and answers, without messages that the run
    produced.

    Ids that the gateway minted do not count: a repeated request cannot repeat them.
    """
    minted = given.sent.minted_ids
    answers = [(answer.interrupt_id, answer.status, answer.payload) for answer in given.answers]
    anonymous = len(minted) == len(given.sent.messages)
    if given.sent.history_cache is not None and (anonymous or not minted) and not produced:
        with contextlib.suppress(TypeError):  # as below
            return given.sent.history_cache.digest(given.sent.messages, orjson.dumps(answers), anonymous=anonymous)
    messages = (
        [message for message in given.sent.messages if message.id not in produced] if produced else given.sent.messages
    )
    rows = digest_rows(messages)
    if minted:
        rows = [(None if message_id in minted else message_id, role, said) for message_id, role, said in rows]
    try:
        encoded = orjson.dumps((rows, answers))  # orjson encodes dataclasses directly: ten times faster than records
    except TypeError:
        encoded = repr((rows, answers)).encode(errors="surrogatepass")
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def title_of(messages: Sequence[Message]) -> str | None:
    """A thread's first title: the beginning of its first user message with text."""
    for message in messages:
        # no more words than a title has characters: all words of a text of 9 MB take 100 ms
        if message.role == "user" and (words := " ".join(message.text.split(maxsplit=_TITLE_CHARACTERS))):
            return words if len(words) <= _TITLE_CHARACTERS else words[: _TITLE_CHARACTERS - 1] + "…"
    return None


def claims(
    sent: tuple[Message, ...], thread: Thread, tools: Mapping[str, Tool], cache: HistoryCache | None = None
) -> list[ToolResult]:
    """The results in `sent` that a client may not give: they belong to backend calls of this server's models."""
    calls = own_calls(thread.messages) if cache is None else cache.own_calls(thread.messages)
    ours = {call_id for call_id, call in calls.items() if call.name in tools}
    ours |= {item.call.call_id for item in thread.interrupts}
    if not ours or (cache is not None and not cache.may_claim(thread.messages, sent, ours)):
        return []
    produced = {message.id for message in thread.messages if message.turn_id is not None}
    return [
        result
        for message in sent
        if (result := message.tool_result) is not None and result.call_id in ours and message.id not in produced
    ]


def without_claims(
    sent: tuple[Message, ...], thread: Thread, tools: Mapping[str, Tool], cache: HistoryCache | None = None
) -> tuple[Message, ...]:
    """`sent` without results that a client may not give."""
    if not (claimed := claims(sent, thread, tools, cache)):
        return sent
    logger.warning("dropped a client's results for backend calls", extra=counted([each.call_id for each in claimed]))
    return tuple([message for message in sent if not any(message.tool_result is each for each in claimed)])


def still_asked(interrupts: Sequence[OpenInterrupt], messages: Sequence[Message]) -> tuple[OpenInterrupt, ...]:
    """The interrupts whose call is still in the history: an edit that removes the answer withdraws its interrupts."""
    if not interrupts:
        return ()
    calls = {call.call_id for message in messages for call in message.tool_calls}
    return tuple(item for item in interrupts if item.call.call_id in calls)


def ended_record(
    record: RunRecord,
    terminal: Terminal,
    now: float,
    thread: Thread | None = None,
    *,
    has_custom: bool = False,
) -> RunRecord:
    """The run's record after its terminal event, and after `thread` was changed by the run."""
    failure = terminal if isinstance(terminal, RunFailed) else None
    return replace(
        record,
        status=_status_after(terminal),
        started_at=record.started_at or now,
        finished_at=now,
        error_code=failure.code if failure is not None else None,
        error_message=failure.message if failure is not None else None,
        usage=terminal.usage,
        thread_version=record.thread_version if thread is None else thread.version,
        thread_length=None if thread is None else len(thread.messages),
        last_message_id=thread.messages[-1].id if thread is not None and thread.messages else None,
        terminal=terminal,
        has_custom=has_custom,
    )


def _status_after(terminal: Terminal) -> RunStatus:
    if isinstance(terminal, RunFailed):
        return RunStatus.FAILED
    match terminal.outcome:
        case Interrupted():
            return RunStatus.INTERRUPTED
        case Cancelled():
            return RunStatus.CANCELLED
        case _:
            return RunStatus.COMPLETED


def input_when_stopped(given: AgentInput) -> AgentInput:
    """The part of the input that is stored if its run is stopped before it begins: without answers and results, and
    without replacing the history.
    """
    words = tuple(message for message in given.sent.messages if message.tool_result is None)
    return replace(
        given,
        sent=replace(given.sent, messages=words, history="append"),
        answers=(),
        terms=replace(given.terms, must_answer=False),
    )


def withdrawn_by(record: RunRecord) -> frozenset[str]:
    """The ids of the interrupts that the run withdraws if it is cancelled or fails."""
    ids = (record.request or {}).get(WITHDRAWS)
    return frozenset(each for each in ids if isinstance(each, str)) if isinstance(ids, list) else frozenset()


def stopped(reason: str | None) -> Terminal:
    """The terminal event of a run that was stopped."""
    if reason == "server_shutdown":
        return RunFailed("server_shutdown", "the server is shutting down")
    return RunFinished(Cancelled(reason or "cancelled"))


def failed(
    record: RunRecord, error: Exception, redacted: Callable[[str], str], *, own_model: bool = False
) -> RunFailed:
    """The terminal event of a run that fails with `error`; the log has the details that viewers do not see. `redacted`
    removes secrets. `own_model`: the run's owner made the model, and may see its provider's message.
    """
    if isinstance(error, GatewayError):
        message, said, remote = error.message, {}, None
        if isinstance(error, ModelError):
            if own_model and error.provider_status is not None:
                remote = RemoteError(error.provider_status, redacted(error.provider_body))
            message, said = redacted(operator_message(error)), {"provider_message": error.provider_message[:200]}
        logger.warning("a run failed", extra={"run_id": record.run_id, "code": error.code, **said})
        return RunFailed(error.code, message, remote=remote)
    logger.error("a run failed unexpectedly", extra={"run_id": record.run_id}, exc_info=error)
    return RunFailed("internal_error", "the gateway failed; its log has the details")


def terminal_of(record: RunRecord) -> Terminal:
    """The run's terminal event as its record has it: without pending calls and interrupts in an older gateway's."""
    return record.terminal or record.plain_terminal


def conversation_of(
    agent: AgentDefinition, capabilities: ModelCapabilities, thread: Thread, name: str
) -> Conversation | None:
    """The conversation `name` at the server of the agent's model; None if the model is not stateful."""
    if not capabilities.is_stateful:
        return None
    return Conversation(thread.model_states.get(agent.id, {}), name, capabilities.state_holder)


def new_thread(owner: str, given: AgentInput, agent_id: str, now: float) -> Thread:
    """The thread that an input begins."""
    return with_life_of(Thread(owner, given.thread.id, agent_id, now, now, revision=""), given, now)


def forked(thread: Thread, thread_id: str, messages: tuple[Message, ...], now: float) -> Thread:
    """A new thread that begins with these messages of `thread`, and with its state.

    It has no open interrupts, and providers hold nothing for it: both stay with the thread that it was forked from.
    """
    return replace(
        thread,
        thread_id=thread_id,
        created_at=now,
        updated_at=now,
        messages=messages,
        interrupts=(),
        paused=False,
        last_run_id=None,
        model_states={},
        version=1,
        last_version=1,
        shortened=False,
        revision=None,
    )


def with_life_of(thread: Thread, given: AgentInput, now: float) -> Thread:
    """The thread, which lives as long as the input says, also if it was forked from a thread with another lifetime."""
    if given.thread.short_lived:
        return replace(thread, listed=False, hidden=True, expires_at=now + LEAST_LIFE_SECONDS)
    if thread.expires_at is not None:
        return replace(thread, listed=True, hidden=False, expires_at=None)
    return thread


def ended_thread(
    thread: Thread,
    produced: Sequence[Message],
    terminal: Terminal,
    now: float,
    state: JsonValue | Absent,
    conversation: Conversation | None = None,
    *,
    forgets_pauses: bool = False,
    withdrawn: Collection[str] = (),
) -> Thread:
    """The thread after its run: with the produced messages and the interrupts that the run left open.

    `forgets_pauses` as in InputThread; `withdrawn` as `withdrawn_by`. `conversation`: the conversation at the model's
    server; it has only complete responses, even if the run failed or was cancelled.
    """
    if conversation is not None:
        produced = marked(tuple(produced), (), conversation.mark)
    messages = (*thread.messages, *produced)
    # Interrupts without an answer stay open if the run could not ask again.
    interrupts, paused = thread.interrupts, thread.paused
    if isinstance(terminal, RunFinished) and not isinstance(terminal.outcome, Cancelled):
        others = tuple(item for item in thread.interrupts if not item.is_asked_by(thread.agent_id))
        interrupts = (*others, *_opened(terminal, messages, thread, now))
        paused = not forgets_pauses and (bool(interrupts) or _waits_for_client(terminal))
    elif withdrawn:
        interrupts = tuple(item for item in interrupts if item.interrupt.id not in withdrawn)
        paused = paused and bool(interrupts)
    model_states = thread.model_states
    if conversation is not None:
        model_states = {**model_states, thread.agent_id: conversation.state}
    return replace(
        thread,
        messages=messages,
        interrupts=interrupts,
        paused=paused,
        state=state,
        updated_at=now,
        model_states=model_states,
    )


def _waits_for_client(terminal: RunFinished) -> bool:
    return isinstance(terminal.outcome, Completed) and bool(terminal.outcome.pending_calls)


def _opened(
    terminal: RunFinished, messages: Sequence[Message], thread: Thread, now: float
) -> tuple[OpenInterrupt, ...]:
    if not isinstance(terminal.outcome, Interrupted):
        return ()
    known = {item.interrupt.id: item for item in thread.interrupts if item.is_asked_by(thread.agent_id)}
    calls: dict[str, ToolCall] = {call.call_id: call for message in messages for call in message.tool_calls}
    opened: list[OpenInterrupt] = []
    for interrupt in terminal.outcome.interrupts:
        if interrupt.id in known:
            opened.append(known[interrupt.id])
        elif interrupt.call_id in calls:
            call = calls[interrupt.call_id]
            opened.append(OpenInterrupt(interrupt, call, new_id("approval"), thread.agent_id, now))
    return tuple(opened)


async def end_left_behind(
    store: Store,
    clock: Clock,
    record: RunRecord,
    terminal: Terminal,
    waited: Sequence[Message] = (),
    begins: Thread | None = None,
) -> None:
    """End a run whose task is gone, from its log: close open events, keep its messages, repeat no work.

    `waited`: the messages that waited with a run that has not begun (see Store.queue_run); they are added after the
    thread's messages. `begins`: the thread to store if there is none yet. If the run's end was shown before, `record`
    has its time and `terminal` its usage.

    Raises:
        StoreError: the store cannot be used now.
    """
    sealer = Sealer()
    now = clock.now()
    ended_at = record.finished_at or now
    thread = await store.load_thread(record.owner, record.thread_id)
    if thread is None:
        thread = begins or Thread(record.owner, record.thread_id, record.agent_id, now, now)
    fold = RunFold(turns_of(own_calls(thread.messages)), thread.state)
    last = 0
    while page := await store.read_events(record.owner, record.run_id, after=last, limit=_PAGE):
        events = sealer.follow([row.event for row in page])
        fold.follow(events)
        last = page[-1].last
    first_events: list[Event] = [] if last else [RunStarted(record.thread_id, record.run_id)]
    if not last:
        record = replace(record, started_at=now)
    terminal = replace(terminal, usage=terminal.usage or fold.usage.total)
    closing = sealer.follow([*first_events, terminal])
    fold.follow(closing)
    mark = thread.messages[-1].conversation if thread.messages else None  # the input's, which was taken in last
    keep = len(thread.messages)
    if waited:
        thread = with_waited(thread, record, waited)
    produced = marked(fold.messages, (), mark)
    at = ended_at if last else now  # a run that has not begun has messages of its input alone
    thread = ended_thread(thread, produced, terminal, at, fold.state, withdrawn=withdrawn_by(record))
    await store.end_run(
        ended_record(record, terminal, ended_at, thread, has_custom=fold.has_custom),
        thread,
        keep=keep,
        first=last + 1,
        records=encode_events(closing, ended_at),
        erase=fold.retracted,
    )


def with_waited(thread: Thread, record: RunRecord, waited: Sequence[Message]) -> Thread:
    """The thread with the messages that waited with the run, as if the run had begun."""
    messages = append_history(thread.messages, not_in_thread(record, waited, thread.messages))
    title = thread.title or title_of(messages)
    return replace(thread, agent_id=record.agent_id, title=title, messages=messages, last_run_id=record.run_id)


def no_message(thread_id: str, message_id: str) -> NotFoundError:
    return NotFoundError(f"thread {thread_id!r} has no message {message_id!r}", code="message_not_found")


def no_thread(thread_id: str) -> NotFoundError:
    """The error for a thread that does not exist, or belongs to another owner."""
    return NotFoundError(f"there is no thread {thread_id!r}", code="thread_not_found")


def no_version(thread_id: str, version: int) -> NotFoundError:
    """The error for a version that does not exist."""
    return NotFoundError(f"thread {thread_id!r} has no version {version}", code="version_not_found")


def approval_answered() -> ConflictError:
    """The error for an answer to an interrupt that is no longer open."""
    return ConflictError("the question was answered or withdrawn meanwhile", code="approval_answered")


def run_exists(given: AgentInput) -> ConflictError:
    """The error for a request that reuses the id of another request's run."""
    return ConflictError(
        f"run {given.run_id!r} exists and was begun with another agent, thread or messages; use a new"
        f" {given.origin.names.run_id}",
        code="run_exists",
    )
