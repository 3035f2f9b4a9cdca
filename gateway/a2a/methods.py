"""A2A's methods, for both bindings.

Below: send, stored_tasks, push_methods, cards. Above: the protocol. Parameters and results are JSON in the form of the
asked version.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Final, TypeAlias

from gateway.a2a.dialects import Method, written_task
from gateway.a2a.errors import Parameters, not_cancelable
from gateway.a2a.push_methods import PushMethods
from gateway.a2a.request import SendRequest, read_history_length, read_send_request
from gateway.a2a.routes import Asked
from gateway.a2a.send import Sender
from gateway.a2a.shown_cards import ShownCards
from gateway.a2a.start import StartedRun, Starter
from gateway.a2a.stored_tasks import StoredTask, StoredTasks
from gateway.a2a.task_list import TaskList
from gateway.errors import ConflictError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.protocol import ProtocolEnvironment, Viewer
from gateway.sse import EventStreamResponse

Answer: TypeAlias = JsonValue | EventStreamResponse
"""A method's result, or a stream."""

READING: Final = frozenset({Method.GET, Method.LIST, Method.SUBSCRIBE, Method.PUSH_GET, Method.PUSH_LIST, Method.CARD})
"""The methods that change nothing."""
_CHANGING: Final = (Method.CANCEL, Method.PUSH_CREATE, Method.PUSH_DELETE)


class Methods:
    """The methods of all callers."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._tasks = environment.shared(StoredTasks)
        self._sender = Sender(environment)
        self._starter = Starter(environment)
        self._list = TaskList(environment)
        self._cards = ShownCards(environment)
        self._push = PushMethods(environment)
        self._methods: Mapping[Method, Callable[[Asked, JsonObject], Awaitable[Answer]]] = {
            Method.SEND: self._send,
            Method.STREAM: self._stream,
            Method.GET: self._get,
            Method.CANCEL: self._cancel,
            Method.SUBSCRIBE: self._subscribe,
            Method.LIST: self._list.page,
            Method.PUSH_CREATE: self._push.create,
            Method.PUSH_GET: self._push.get,
            Method.PUSH_LIST: self._push.list,
            Method.PUSH_DELETE: self._push.delete,
            Method.CARD: self._card,
        }

    async def notify(self, method: Method, asked: Asked, params: JsonObject) -> None:
        """Carry out a method whose result nobody gets; one that only reads does nothing. Raises GatewayError."""
        if method in (Method.SEND, Method.STREAM):
            (await self._started(asked, read_send_request(params, asked.dialect))).viewer.close()
        elif method in _CHANGING:
            await self.call(method, asked, params)

    async def call(self, method: Method, asked: Asked, params: JsonObject) -> Answer:
        """Carry out a method. Raises GatewayError."""
        if method not in (Method.SEND, Method.STREAM):  # the start of a run looks for its agent
            await self._check_agent(method, asked, params)
        return await self._methods[method](asked, params)

    async def _check_agent(self, method: Method, asked: Asked, params: JsonObject) -> None:
        """Refuse an agent that is not there; one that was removed still has its tasks. Raises GatewayError."""
        try:
            await self._environment.check_agent(asked.caller, asked.agent_id)
        except (NotFoundError, ConflictError) as error:
            if method is Method.CARD or not await self._has_left(method, asked, params):
                raise error

    async def _has_left(self, method: Method, asked: Asked, params: JsonObject) -> bool:
        """Whether an agent that is not there had the named task, or any that could be listed."""
        if not asked.caller.may_use(asked.agent_id):
            return False
        if method is Method.LIST:
            return await self._list.has_any(asked)
        fields = Parameters(params)
        task_id = fields.text("taskId") or fields.text("id")
        return task_id is not None and await self._tasks.is_of(asked.caller, task_id, asked.agent_id)

    # --- messages

    async def _send(self, asked: Asked, params: JsonObject) -> Answer:
        sent = read_send_request(params, asked.dialect)
        return await self._sender.answer(asked, sent, await self._started(asked, sent))

    async def _stream(self, asked: Asked, params: JsonObject) -> Answer:
        sent = read_send_request(params, asked.dialect)
        return self._sender.stream(asked, sent, await self._started(asked, sent))

    async def _started(self, asked: Asked, sent: SendRequest) -> StartedRun:
        """The run of a message. Raises GatewayError."""
        await self._environment.turn_after(asked.caller, sent.items)
        config = self._push.read_with(asked, sent)
        started = await self._starter.start(asked, sent)
        try:
            await self._push.put_with(asked, config, started)
        except BaseException:
            started.viewer.close()
            raise
        return started

    # --- tasks

    async def _get(self, asked: Asked, params: JsonObject) -> Answer:
        fields = Parameters(params)
        task_id, history_length = fields.required("id", filled=True), read_history_length(fields, asked.dialect)
        fields.check()
        fold = await self._tasks.folded(asked.caller, task_id)
        return written_task(asked.dialect, fold.task(history_length=history_length))

    async def _cancel(self, asked: Asked, params: JsonObject) -> Answer:
        task_id = _task_id(params)
        while not await self._canceled(asked, task_id):
            pass
        return written_task(asked.dialect, (await self._tasks.folded(asked.caller, task_id)).task())

    async def _canceled(self, asked: Asked, task_id: str) -> bool:
        """Cancel a task. Gives whether it was canceled: an answer may have come first. Raises GatewayError."""
        task, viewer = await self._tasks.watch(asked.caller, task_id)
        if viewer is not None:
            await self._stop(asked, task, viewer)
            return True
        if not task.waits:
            raise not_cancelable(task.fold.task_id, task.fold.state.word)
        try:
            await self._starter.cancel_waiting(asked, task)
        except ConflictError as error:
            if error.code != "run_exists":
                raise
            return False
        return True

    async def _stop(self, asked: Asked, task: StoredTask, viewer: Viewer) -> None:
        """Cancel the run that is at work on a task, and wait for its end."""
        with closing(viewer):
            await self._environment.cancel(asked.caller, task.last.client_id)
            async for _ in viewer:
                pass

    async def _subscribe(self, asked: Asked, params: JsonObject) -> Answer:
        return await self._sender.subscribe(asked, _task_id(params))

    async def _card(self, asked: Asked, params: JsonObject) -> Answer:
        return await self._cards.extended(asked)


def _task_id(params: JsonObject) -> str:
    fields = Parameters(params)
    task_id = fields.required("id", filled=True)
    fields.check()
    return task_id
