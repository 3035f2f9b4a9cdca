"""Runs calls of backend tools: bounds their number and their time, and gives their results in call order.

Below: tool, tool_failures, tool_output, clock. Above: the loop. Whatever a tool does (raise, hang, exit, return
nonsense), its call and each other call get exactly one result.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType

from gateway.clock import TIMED_OUT, Clock, Deadline, DeadlineError, Timer
from gateway.errors import ToolError
from gateway.frozen import replace
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    JsonObject,
    TextBlock,
    ToolCall,
    ToolResult,
    VideoBlock,
)
from gateway.tool import Announcements, Tool, ToolContext
from gateway.tool_output import bounded, content_blocks, encodable
from gateway.turns.tool_failures import note_failure

logger = logging.getLogger(__name__)

# A cancelled tool has this long to end; after that nothing waits for it.
_CANCEL_SECONDS = 0.5
# Tools bound their own results; these are the final bounds of a result's text, and of its media as base64.
_LARGEST_TEXT_CHARACTERS = 1_000_000
_LARGEST_MEDIA_CHARACTERS = 7_000_000

_MEDIA_BLOCKS = (ImageBlock, AudioBlock, VideoBlock, DocumentBlock)


def error_result(call: ToolCall, message: str) -> ToolResult:
    """A result that tells the model the error."""
    return ToolResult(call.call_id, bounded((TextBlock(encodable(message)),)), is_error=True)


def denied_result(call: ToolCall, reason: str | None) -> ToolResult:
    """The result of a call that a person did not approve."""
    because = f": {reason}" if reason else ""
    return error_result(call, f"The user denied this call{because}. It was not run.")


@dataclass(slots=True)
class _Execution:
    call: ToolCall
    tool: Tool
    arguments: JsonObject
    context: ToolContext
    note: str
    result: asyncio.Future[ToolResult]
    task: asyncio.Task[ToolResult] | None = None
    timer: Timer | None = None


@dataclass(slots=True)
class ToolExecutions:
    """Calls that run together. Add them in call order, then `take` until it is `finished`. `before_call` as
    in LoopContext.

    Use it with `async with`: leaving it cancels running tools and waits for them (shortly: a tool may ignore it).
    """

    clock: Clock
    limit: int
    timeout_seconds: float
    before_call: Callable[[str], Awaitable[None]] | None = None
    announcements: Announcements = field(default_factory=Announcements)
    _results: deque[asyncio.Future[ToolResult]] = field(default_factory=deque)
    _waiting: deque[_Execution] = field(default_factory=deque)
    _running: dict[str, _Execution] = field(default_factory=dict)
    _tasks: set[asyncio.Task[ToolResult]] = field(default_factory=set)

    async def __aenter__(self) -> ToolExecutions:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def add(self, call: ToolCall, tool: Tool, arguments: JsonObject, context: ToolContext, *, note: str = "") -> None:
        """Run the tool as soon as a slot is free. `note` is put before its result."""
        result: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._results.append(result)
        self._waiting.append(_Execution(call, tool, arguments, context, note, result))
        self._start_waiting()

    def add_result(self, result: ToolResult) -> None:
        """Add the result of a call that is not run."""
        known: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        known.set_result(result)
        self._results.append(known)

    async def take(self) -> list[ToolResult]:
        """Wait for the next result in call order, or for an announcement; returns the results that are ready, up to the
        first that is not.
        """
        if self._results:
            await self.announcements.wait_beside(self._results[0])
        return self._take_ready()

    @property
    def finished(self) -> bool:
        """Whether every result was taken."""
        return not self._results

    def give_up(self, message: str) -> list[ToolResult]:
        """Stop all calls. Returns the results that are ready, and errors with `message` for all other calls, in call
        order.
        """
        unfinished = [*self._running.values(), *self._waiting]
        self._waiting.clear()
        for execution in unfinished:
            self._settle(execution, error_result(execution.call, message))
        return self._take_ready()

    async def close(self) -> None:
        """Cancel running tools and wait until they end."""
        self._waiting.clear()
        for execution in list(self._running.values()):
            self._release(execution)
        tasks = {task for task in self._tasks if not task.done()}
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        deadline = Deadline(self.clock, _CANCEL_SECONDS)
        try:
            with deadline:
                await asyncio.wait(tasks)
        except DeadlineError:
            logger.warning("tools go on although they were cancelled", extra={"count": len(tasks)})
        finally:
            deadline.close()

    def _take_ready(self) -> list[ToolResult]:
        ready: list[ToolResult] = []
        while self._results and self._results[0].done():
            ready.append(self._results.popleft().result())
        return ready

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < max(1, self.limit):
            self._start(self._waiting.popleft())

    def _start(self, execution: _Execution) -> None:
        self._running[execution.call.call_id] = execution
        work = _execute(execution, self.before_call)
        task = execution.task = asyncio.create_task(work, name=f"tool {execution.call.name}")
        self._tasks.add(task)
        execution.timer = self.clock.call_later(self.timeout_seconds, lambda: self._time_out(execution))
        task.add_done_callback(lambda task: self._task_done(execution, task))

    def _task_done(self, execution: _Execution, task: asyncio.Task[ToolResult]) -> None:
        self._tasks.discard(task)
        if execution.result.done():  # the call timed out, or was given up, before
            return
        if task.cancelled():
            self._settle(execution, error_result(execution.call, f"The tool {execution.call.name!r} was cancelled."))
        else:
            self._settle(execution, task.result())

    def _time_out(self, execution: _Execution) -> None:
        logger.warning(
            "a tool took too long", extra={"tool": execution.call.name, "timeout_seconds": self.timeout_seconds}
        )
        message = f"The tool {execution.call.name!r} gave no result within {self.timeout_seconds:g} seconds."
        self._settle(execution, error_result(execution.call, message), why=TIMED_OUT)

    def _settle(self, execution: _Execution, result: ToolResult, *, why: str | None = None) -> None:
        if not execution.result.done():
            execution.result.set_result(result)
        if execution.task is not None:
            execution.task.cancel(why)  # without effect where it is done
        self._release(execution)
        self._start_waiting()

    def _release(self, execution: _Execution) -> None:
        self._running.pop(execution.call.call_id, None)
        if execution.timer is not None:
            execution.timer.cancel()


async def _execute(execution: _Execution, before_call: Callable[[str], Awaitable[None]] | None) -> ToolResult:
    """The call's result, whatever the tool does. Raises CancelledError only if the task is cancelled."""
    call = execution.call
    try:
        if before_call is not None:
            await before_call(call.call_id)
        given = await execution.tool.call(execution.arguments, execution.context)
        return _as_result(call, execution.note, given)
    except ToolError as error:
        return error_result(call, execution.note + str(error))
    except BaseException as error:  # also SystemExit, which would end the server if a task raised it
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        return error_result(call, execution.note + note_failure(execution.tool, execution.context, error))


def _as_result(call: ToolCall, note: str, given: object) -> ToolResult:
    """The result with content of bounded size and clean text; a foreign tool may have returned anything."""
    blocks = given if isinstance(given, tuple) and all(_is_content(item) for item in given) else content_blocks(given)
    cleaned = [_cleaned(block) for block in blocks]
    # Providers refuse blank results, and some clients take an empty one for "not answered yet".
    if all(isinstance(block, TextBlock) and not block.text.strip() for block in cleaned):
        cleaned = [TextBlock("(The tool gave no output.)")]
    if note:
        cleaned.insert(0, TextBlock(encodable(note)))
    return ToolResult(call.call_id, bounded(cleaned, _LARGEST_TEXT_CHARACTERS))


def _is_content(item: object) -> bool:
    return isinstance(item, TextBlock | ImageBlock | AudioBlock | VideoBlock | DocumentBlock)


def _cleaned(block: ContentBlock) -> ContentBlock:
    if isinstance(block, TextBlock):
        text = encodable(block.text)
        return block if text is block.text else replace(block, text=text)
    if isinstance(block, _MEDIA_BLOCKS) and isinstance(block.source, Base64Source):
        size = len(block.source.data)
        if size > _LARGEST_MEDIA_CHARACTERS:
            return TextBlock(f"[left out: {block.source.media_type} of {size * 3 // 4:,} bytes]")
    return block
