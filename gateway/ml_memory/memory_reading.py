"""Reads a caller's memory: its thread's messages and runs, as turns.

Below: interactions, protocol. Above: the protocols of memories and their messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.access.callers import Caller
from gateway.errors import NotFoundError
from gateway.messages import JsonObject, Message
from gateway.ml_commons.errors import EXCEPTION
from gateway.ml_memory.interactions import Turn, trace_jsons, turn_with, turns_of
from gateway.protocol import WHOLE_THREAD, ProtocolEnvironment
from gateway.store import RunRecord, ThreadSummary


@dataclass(frozen=True, slots=True)
class ReadMemory:
    """A memory with all of its turns, the oldest first."""

    thread: ThreadSummary
    runs: tuple[RunRecord, ...]
    times: Mapping[str, float]
    turns: list[Turn]

    @property
    def memory_id(self) -> str:
        return self.thread.thread_id

    def traces(self, turn: Turn) -> list[JsonObject]:
        """The steps of the model and its tools before the answer."""
        return trace_jsons(self.memory_id, turn)

    def trace(self, message_id: str) -> JsonObject | None:
        """The trace of that id; None where an interaction has the message. Raises NotFoundError."""
        turn = self.turn(message_id)
        if message_id == turn.id:  # the first step of a turn without a question has the same id
            return None
        return next((trace for trace in self.traces(turn) if trace["message_id"] == message_id), None)

    def turns_in(self, messages: Iterable[Message]) -> list[Turn]:
        """The turns of messages that the thread has now."""
        return turns_of(messages, self.runs, self.times, self.thread.created_at)

    def turn(self, message_id: str) -> Turn:
        """The turn that has this message. Raises NotFoundError."""
        if (turn := turn_with(self.turns, message_id)) is None:
            raise no_message(message_id)
        return turn


async def read_memory(environment: ProtocolEnvironment, caller: Caller, memory_id: str) -> ReadMemory:
    """The caller's memory of that id. Raises NotFoundError."""
    with memory_named(memory_id):
        thread = await environment.thread(caller, memory_id)
        runs = (await environment.thread_runs(caller, memory_id, limit=WHOLE_THREAD)).items
        messages = (await environment.messages(caller, memory_id, limit=WHOLE_THREAD)).items
        came = await environment.message_times(caller, memory_id)
    # a message that was added meanwhile has a time and is not among the messages
    times = {message.id: at for message, at in zip(messages, came, strict=False) if at is not None}
    # in a thread: it takes 30 ms for 10,000 messages
    turns = await asyncio.to_thread(turns_of, messages, runs, times, thread.created_at)
    return ReadMemory(thread, runs, times, turns)


@contextmanager
def memory_named(memory_id: str) -> Generator[None]:
    """Tell of a thread that is not there in this surface's words."""
    try:
        yield
    except NotFoundError as error:
        if error.code != "thread_not_found":
            raise
        raise _missing(f"Memory [{memory_id}] not found", "memory_not_found") from None


def no_message(message_id: str) -> NotFoundError:
    """The error for an interaction, a trace or a message that is not there, or is another owner's."""
    return _missing(f"Message [{message_id}] not found", "message_not_found")


def _missing(message: str, code: str) -> NotFoundError:
    return NotFoundError(message, code=code, members={EXCEPTION: "resource_not_found_exception"})
