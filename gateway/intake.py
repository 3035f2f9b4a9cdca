"""How a request is taken in: what its thread becomes, and which of a person's answers count.

Below: bookkeeping, approvals, history. Above: the run driver, which keeps what this gives. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.agent import Absent, AgentDefinition, AgentInput
from gateway.approvals import arguments_check, decide
from gateway.bookkeeping import still_asked, title_of, without_claims
from gateway.frozen import quickly_made, replace
from gateway.history import append_history, merge_history, unchanged_prefix
from gateway.loop import Decision
from gateway.messages import Message
from gateway.model_state import Conversation, marked
from gateway.store import Thread
from gateway.tool import Tool


@quickly_made
@dataclass(frozen=True, slots=True)
class Intake:
    """`thread` with the input in it, and the interrupts that nobody has answered; `keep` as in Store.begin_run.

    `own` are the messages that the run is about: all, or those of its conversation; the others are `elsewhere`.
    """

    thread: Thread
    own: tuple[Message, ...]
    elsewhere: tuple[Message, ...]
    keep: int
    decisions: tuple[Decision, ...]


def take_in(
    given: AgentInput,
    thread: Thread,
    definition: AgentDefinition,
    tools: Mapping[str, Tool],
    now: float,
    conversation: Conversation | None = None,
) -> Intake:
    """What the thread becomes; `tools` are the backend's, by name; `conversation` is a stateful model's.

    Raises:
        InvalidRequestError: an answer that does not fit its interrupt.
    """
    known = given.known
    sent = without_claims(given.messages, thread, tools, known)
    # No message at all is no history to replace one with: the answers alone carry the thread on.
    append = not sent or (given.history or definition.history) == "append"
    merge = merge_history if known is None else known.merge
    messages = append_history(thread.messages, sent) if append else merge(thread.messages, sent)
    if conversation is not None or thread.model_states:
        messages = marked(messages, thread.messages, None if conversation is None else conversation.mark)
    asked = still_asked(thread.interrupts, messages)
    verdict = decide(asked, given.answers, now=now, check=arguments_check(tools))
    becomes = replace(
        thread,
        agent_id=definition.id,
        updated_at=now,
        title=thread.title or title_of(messages),
        messages=messages,
        state=thread.state if isinstance(given.state, Absent) else given.state,
        interrupts=verdict.still_open,
        last_run_id=given.run_id,
    )
    own, elsewhere = (messages, ()) if conversation is None else conversation.split(messages)
    return Intake(becomes, own, elsewhere, unchanged_prefix(thread.messages, messages), verdict.decisions)
