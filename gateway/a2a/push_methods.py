"""The methods on push notification configs, and the config that comes with a message.

Below: push_delivery, stored_tasks. Above: methods. Parameters and results are JSON in the form of the asked version.
"""

from __future__ import annotations

from gateway.a2a.dialects import Dialect
from gateway.a2a.errors import Parameters
from gateway.a2a.push_configs import PushConfig
from gateway.a2a.push_delivery import PushDelivery
from gateway.a2a.request import SendRequest
from gateway.a2a.routes import Asked
from gateway.a2a.start import StartedRun
from gateway.a2a.stored_tasks import StoredTasks
from gateway.messages import JsonObject, JsonValue
from gateway.protocol import ProtocolEnvironment


class PushMethods:
    """The push notification configs of all callers. Each method raises NotFoundError (-32001) without its task."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._push = environment.shared(PushDelivery)
        self._tasks = environment.shared(StoredTasks)

    async def create(self, asked: Asked, params: JsonObject) -> JsonValue:
        """Keep a config of a task."""
        fields = Parameters(params)
        task_id = fields.required("taskId", filled=True)
        fields.check()
        if asked.dialect is Dialect.V03:
            config = self._push.read(params.get("pushNotificationConfig"), "/pushNotificationConfig", asked.dialect)
        else:
            config = self._push.read(params, "", asked.dialect)
        return await self._push.put(asked.caller, task_id, config)

    async def get(self, asked: Asked, params: JsonObject) -> JsonValue:
        """One config of a task; in 0.3 without its id the first one."""
        task_id, config_id = await self._named(asked, params)
        return await self._push.get(asked.caller, task_id, config_id, asked.dialect)

    async def list(self, asked: Asked, params: JsonObject) -> JsonValue:
        """All configs of a task: there are never many."""
        fields = Parameters(params)
        task_id = fields.required("id" if asked.dialect is Dialect.V03 else "taskId", filled=True)
        fields.check()
        task = await self._tasks.folded(asked.caller, task_id)
        configs: JsonValue = [*await self._push.all(asked.caller, task.task_id, asked.dialect)]
        return configs if asked.dialect is Dialect.V03 else {"configs": configs, "nextPageToken": ""}

    async def delete(self, asked: Asked, params: JsonObject) -> JsonValue:
        """Delete a config, if it is there."""
        task_id, config_id = await self._named(asked, params, is_needed=True)
        with self._environment.counted_change(asked.caller):
            await self._push.delete(asked.caller, task_id, config_id)
        return None if asked.dialect is Dialect.V03 else {}

    async def _named(self, asked: Asked, params: JsonObject, *, is_needed: bool = False) -> tuple[str, str]:
        """The ids of the task and of the config. The request may name the task by any of its runs."""
        fields, is_03 = Parameters(params), asked.dialect is Dialect.V03
        task_id = fields.required("id" if is_03 else "taskId", filled=True)
        name = "pushNotificationConfigId" if is_03 else "id"
        config_id = fields.required(name, filled=True) if is_needed or not is_03 else fields.text(name) or ""
        fields.check()
        return (await self._tasks.folded(asked.caller, task_id)).task_id, config_id

    # --- the config that comes with a message

    def read_with(self, asked: Asked, sent: SendRequest) -> PushConfig | None:
        """The config of a message. Raises InvalidRequestError."""
        if sent.push_config is None:
            return None
        return self._push.read(sent.push_config, sent.push_pointer, asked.dialect)

    async def put_with(self, asked: Asked, config: PushConfig | None, started: StartedRun) -> None:
        """Keep the config that came with the message of a run, which has begun, and post to those that its task had.
        Raises GatewayError.
        """
        if len(started.task.runs) > 1:
            await self._push.go_on(asked.caller, started.task)
        if config is not None:
            record = started.task.last
            await self._push.put(asked.caller, started.task.fold.task_id, config, first_run=record.run_id)
